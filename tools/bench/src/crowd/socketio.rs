//! Socket.IO as a client that counts sees it: text packets of the main namespace.
//!
//! Servers answer `subscribe` with an acknowledgement and then emit events whose text holds the time in
//! 16 hexadecimal digits at the beginning of a string, as the server's `timed-text` feed does.

use std::io;

use crate::crowd::tally::{Tally, broken};

/// One client's conversation.
#[derive(Debug, Default)]
pub struct SocketIo {
    /// Whether the namespace has been connected.
    pub is_connected: bool,
    /// Acknowledgements.
    pub confirmed: u64,
}

impl SocketIo {
    /// Takes a packet in.
    ///
    /// # Errors
    /// When it refuses something or ends the conversation.
    pub fn take(&mut self, packet: &[u8], tally: &mut Tally) -> io::Result<()> {
        match packet.first() {
            Some(b'0') => self.is_connected = true,
            Some(b'2') => {
                tally.batches += 1;
                tally.message(stamp(packet).unwrap_or(0), packet.len());
            }
            Some(b'3') if memchr::memmem::find(packet, b"\"ok\":false").is_none() => {
                self.confirmed += 1;
            }
            Some(b'1' | b'3' | b'4') => {
                return Err(broken(&format!("the server says {}", packet.escape_ascii())));
            }
            _ => {}
        }
        Ok(())
    }
}

/// Appends a request to subscribe, to be acknowledged.
pub fn subscribe(out: &mut Vec<u8>, id: usize, path: &str) {
    out.extend_from_slice(format!("2{id}[\"subscribe\",\"{path}\"]").as_bytes());
}

/// Appends the event by which the peers in `tools/bench/peers` are told their rate.
pub fn control(out: &mut Vec<u8>, word: &[u8]) {
    let word = String::from_utf8_lossy(word);
    out.extend_from_slice(format!("2[\"control\",\"{word}\"]").as_bytes());
}

/// The first 16 hexadecimal digits that follow a quotation mark.
pub(crate) fn stamp(text: &[u8]) -> Option<u64> {
    let head = text.get(..text.len().min(HEAD_BYTES)).unwrap_or_default();
    memchr::memchr_iter(b'"', head).find_map(|at| {
        let digits = text.get(at + 1..at + 17)?;
        u64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
    })
}

/// Within which the time is looked for.
const HEAD_BYTES: usize = 512;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_conversation() {
        let (mut socket, mut tally) = (SocketIo::default(), Tally::idle());
        socket.take(b"0{\"sid\":\"x\"}", &mut tally).unwrap();
        socket.take(b"30[{\"ok\":true}]", &mut tally).unwrap();
        socket.take(b"2[\"message\",\"bench/1\",\"18e9b6b7a0c0de00....\"]", &mut tally).unwrap();
        assert!(socket.is_connected);
        assert_eq!((socket.confirmed, tally.received), (1, 1));
        assert_eq!(stamp(b"2[\"a\",\"18e9b6b7a0c0de00.\"]"), Some(0x18e9_b6b7_a0c0_de00));
        assert!(socket.take(b"31[{\"ok\":false}]", &mut tally).is_err());
    }
}
