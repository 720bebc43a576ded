//! WebSocket frames as a client reads and writes them.

use std::io;

use crate::clients::counters::broken;

/// The head of a frame from the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// Whether the message ends with it.
    pub is_last: bool,
    /// What it is.
    pub opcode: u8,
    /// Bytes of the head.
    pub bytes: usize,
    /// Bytes of the payload.
    pub payload: usize,
}

/// The head at the beginning of these bytes, if it is whole.
///
/// # Errors
/// When it is masked or compressed.
pub fn head(bytes: &[u8]) -> io::Result<Option<Head>> {
    let Some(([first, second], rest)) = bytes.split_first_chunk::<2>() else { return Ok(None) };
    if first & 0x70 != 0 || second & 0x80 != 0 {
        return Err(broken("the server sent a masked or compressed frame"));
    }
    let (extra, payload) = match second & 0x7f {
        126 => match rest.first_chunk::<2>() {
            Some(length) => (2, usize::from(u16::from_be_bytes(*length))),
            None => return Ok(None),
        },
        127 => match rest.first_chunk::<8>() {
            Some(length) => (8, usize::try_from(u64::from_be_bytes(*length)).unwrap_or(usize::MAX)),
            None => return Ok(None),
        },
        short => (0, usize::from(short)),
    };
    let (is_last, opcode) = (first & 0x80 != 0, first & 0x0f);
    Ok(Some(Head { is_last, opcode, bytes: 2 + extra, payload }))
}

/// Appends a masked frame.
pub fn frame(out: &mut Vec<u8>, opcode: u8, payload: &[u8]) {
    out.push(0x80 | opcode);
    match payload.len() {
        short @ 0..=125 => out.push(0x80 | short as u8),
        medium @ 126..=0xffff => {
            out.push(0x80 | 126);
            out.extend_from_slice(&(medium as u16).to_be_bytes());
        }
        long => {
            out.push(0x80 | 127);
            out.extend_from_slice(&(long as u64).to_be_bytes());
        }
    }
    // A mask keeps proxies from being fooled by chosen bytes; between a load test and its server
    // there is none, and any mask costs the server the same.
    let mask = [0x2f, 0x91, 0x4d, 0xe3];
    out.extend_from_slice(&mask);
    let start = out.len();
    out.extend_from_slice(payload);
    for (at, byte) in out.iter_mut().skip(start).enumerate() {
        *byte ^= mask.get(at % 4).copied().unwrap_or(0);
    }
}

/// The opcodes.
pub const TEXT: u8 = 1;
/// See [`TEXT`].
pub const BINARY: u8 = 2;
/// See [`TEXT`].
pub const CLOSE: u8 = 8;
/// See [`TEXT`].
pub const PING: u8 = 9;
/// See [`TEXT`].
pub const PONG: u8 = 10;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn heads_of_all_lengths() {
        for (length, bytes) in [(5, 2), (125, 2), (126, 4), (65_535, 4), (70_000, 10)] {
            let mut wire = Vec::new();
            frame(&mut wire, BINARY, &vec![0; length]);
            wire[1] &= 0x7f;
            let found = head(&wire).unwrap().unwrap();
            let expected = Head { is_last: true, opcode: BINARY, bytes, payload: length };
            assert_eq!(found, expected);
            assert_eq!(head(&wire[..bytes - 1]).unwrap(), None);
        }
        assert!(head(&[0xc2, 1]).is_err());
    }
}
