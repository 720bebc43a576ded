//! The client side of RFC 6455's framing, as much as a load generator needs.
//!
//! Written apart from the server's codec on purpose: a generator that shared it would share its
//! faults, and would pay for checks a load test does not need. Invariant: STOMP bytes reach the
//! walker in order, however messages are fragmented, packed or cut by reads.

use std::io;

use crate::stomp::frames::{FrameError, Sink, Walker};

/// Bytes before the payload of a client's message.
pub fn client_header_bytes(payload_bytes: usize) -> usize {
    match payload_bytes {
        0..=125 => 6,
        126..=65_535 => 8,
        _ => 14,
    }
}

/// A mask that changes from message to message; unpredictability protects proxies, not benchmarks.
pub fn mask_for(sequence: u64) -> [u8; 4] {
    let [a, b, c, d, ..] =
        (sequence.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15)).to_be_bytes();
    [a, b, c, d]
}

/// Appends one masked text message.
pub fn append_text(out: &mut Vec<u8>, payload: &[u8], mask: [u8; 4]) {
    append(out, OPCODE_TEXT, payload, mask);
}

/// Appends one masked message.
pub(crate) fn append(out: &mut Vec<u8>, opcode: u8, payload: &[u8], mask: [u8; 4]) {
    out.push(FIN | opcode);
    let length = payload.len();
    match (u8::try_from(length), u16::try_from(length)) {
        (Ok(short @ 0..=125), _) => out.push(MASKED | short),
        (_, Ok(medium)) => {
            out.push(MASKED | 126);
            out.extend_from_slice(&medium.to_be_bytes());
        }
        _ => {
            out.push(MASKED | 127);
            out.extend_from_slice(&u64::try_from(length).unwrap_or(u64::MAX).to_be_bytes());
        }
    }
    out.extend_from_slice(&mask);
    let at = out.len();
    out.extend_from_slice(payload);
    // Eight bytes at a time: the compiler turns this into vector code.
    let [a, b, c, d] = mask;
    let wide = u64::from_ne_bytes([a, b, c, d, a, b, c, d]);
    let mut words = out.get_mut(at..).unwrap_or_default().chunks_exact_mut(8);
    for word in &mut words {
        let masked = <[u8; 8]>::try_from(&*word).map_or(0, u64::from_ne_bytes) ^ wide;
        word.copy_from_slice(&masked.to_ne_bytes());
    }
    for (byte, key) in words.into_remainder().iter_mut().zip(mask.iter().cycle()) {
        *byte ^= key;
    }
}

/// Takes server frames apart and shows their payload to a [`Walker`].
#[derive(Debug, Clone, Default)]
pub struct Deframer {
    /// Payload bytes of the current data frame still to come.
    payload_remaining: usize,
    /// STOMP bytes of a frame that spans WebSocket messages.
    carry: Vec<u8>,
    /// Answers to pings, to be sent.
    pub replies: Vec<u8>,
}

impl Deframer {
    /// Handles `input` and returns how many bytes are done with.
    ///
    /// # Errors
    /// `ConnectionAborted` when the server closed, `InvalidData` for anything malformed.
    pub fn walk<S: Sink>(
        &mut self,
        input: &[u8],
        walker: &mut Walker,
        sink: &mut S,
    ) -> io::Result<usize> {
        let mut at = 0;
        loop {
            let rest = input.get(at..).unwrap_or_default();
            if self.payload_remaining > 0 {
                let available = self.payload_remaining.min(rest.len());
                // A small payload is worth waiting for: whole, it needs no copy.
                if available < self.payload_remaining && self.payload_remaining < STREAM_BYTES_MIN {
                    return Ok(at);
                }
                self.payload(rest.get(..available).unwrap_or_default(), walker, sink)?;
                self.payload_remaining -= available;
                at += available;
                if self.payload_remaining > 0 {
                    return Ok(at);
                }
                continue;
            }
            let Some((opcode, payload_bytes, header_bytes)) = server_header(rest)? else {
                return Ok(at);
            };
            if opcode & OPCODE_CONTROL == 0 {
                self.payload_remaining = payload_bytes;
                at += header_bytes;
                continue;
            }
            let end = header_bytes + payload_bytes;
            let Some(payload) = rest.get(header_bytes..end) else {
                return Ok(at);
            };
            self.control(opcode, payload)?;
            at += end;
        }
    }

    fn payload<S: Sink>(
        &mut self,
        piece: &[u8],
        walker: &mut Walker,
        sink: &mut S,
    ) -> io::Result<()> {
        if self.carry.is_empty() {
            let done = walker.walk(piece, sink).map_err(invalid)?;
            self.carry.extend_from_slice(piece.get(done..).unwrap_or_default());
            return Ok(());
        }
        self.carry.extend_from_slice(piece);
        let done = walker.walk(&self.carry, sink).map_err(invalid)?;
        self.carry.drain(..done);
        Ok(())
    }

    fn control(&mut self, opcode: u8, payload: &[u8]) -> io::Result<()> {
        match opcode {
            OPCODE_CLOSE => {
                let code = payload.first_chunk().map_or(1005, |code| u16::from_be_bytes(*code));
                let reason = String::from_utf8_lossy(payload.get(2..).unwrap_or_default());
                Err(io::Error::new(
                    io::ErrorKind::ConnectionAborted,
                    format!("the server closed the WebSocket with code {code} {reason}"),
                ))
            }
            OPCODE_PING => {
                append(&mut self.replies, OPCODE_PONG, payload, mask_for(1));
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

/// Opcode, payload bytes and header bytes of a server's frame, once its header is whole.
pub(crate) fn server_header(rest: &[u8]) -> io::Result<Option<(u8, usize, usize)>> {
    let Some((&[first, second], _)) = rest.split_first_chunk::<2>() else {
        return Ok(None);
    };
    if second & MASKED != 0 || first & 0x70 != 0 {
        return Err(invalid("a masked frame or a reserved bit"));
    }
    let (payload_bytes, header_bytes) = match second {
        126 => match rest.get(2..).and_then(<[u8]>::first_chunk) {
            Some(length) => (u64::from(u16::from_be_bytes(*length)), 4),
            None => return Ok(None),
        },
        127 => match rest.get(2..).and_then(<[u8]>::first_chunk) {
            Some(length) => (u64::from_be_bytes(*length), 10),
            None => return Ok(None),
        },
        short => (u64::from(short), 2),
    };
    let payload_bytes = usize::try_from(payload_bytes)
        .ok()
        .filter(|bytes| *bytes <= PAYLOAD_BYTES_MAX)
        .ok_or_else(|| invalid("a frame of more than 16 GiB"))?;
    Ok(Some((first & 0x0F, payload_bytes, header_bytes)))
}

fn invalid(error: impl Into<InvalidReason>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error.into().0)
}

struct InvalidReason(String);

impl From<FrameError> for InvalidReason {
    fn from(error: FrameError) -> Self {
        Self(error.to_string())
    }
}

impl From<&str> for InvalidReason {
    fn from(what: &str) -> Self {
        Self(format!("the server sent {what} over WebSocket"))
    }
}

const FIN: u8 = 0x80;
const MASKED: u8 = 0x80;
const OPCODE_TEXT: u8 = 1;
const OPCODE_CONTROL: u8 = 8;
const OPCODE_CLOSE: u8 = 8;
const OPCODE_PING: u8 = 9;
const OPCODE_PONG: u8 = 10;
/// Payloads from this size on are handled as they arrive.
const STREAM_BYTES_MIN: usize = 16 * 1024;
const PAYLOAD_BYTES_MAX: usize = 1 << 34;

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::body::HEAD_BYTES;

    #[derive(Default)]
    struct Count(usize, usize);

    impl Sink for Count {
        fn message(&mut self, _: &[u8; HEAD_BYTES], _: &[u8]) {
            self.0 += 1;
        }
        fn foreign(&mut self) {}
        fn receipt(&mut self, _: &[u8]) {
            self.1 += 1;
        }
        fn error(&mut self, _: &[u8]) {}
    }

    fn server_frame(opcode: u8, payload: &[u8]) -> Vec<u8> {
        let mut frame = vec![FIN | opcode];
        match payload.len() {
            short @ 0..=125 => frame.push(u8::try_from(short).unwrap()),
            medium @ 126..=65_535 => {
                frame.push(126);
                frame.extend_from_slice(&u16::try_from(medium).unwrap().to_be_bytes());
            }
            long => {
                frame.push(127);
                frame.extend_from_slice(&(long as u64).to_be_bytes());
            }
        }
        frame.extend_from_slice(payload);
        frame
    }

    #[test]
    fn split_at_every_byte_with_packed_and_cut_frames() {
        let message = format!("MESSAGE\nmessage-id:1\ncontent-length:20\n\n{}\0", "a".repeat(20));
        let large =
            format!("MESSAGE\nmessage-id:1\ncontent-length:20000\n\n{}\0", "b".repeat(20_000));
        let stomp = [&message, &message, "RECEIPT\nreceipt-id:1\n\n\0", &large, &message].concat();
        let (front, back) = stomp.as_bytes().split_at(100);
        let bytes = [
            server_frame(OPCODE_TEXT, front),
            server_frame(OPCODE_PING, b"hello"),
            server_frame(0, back),
        ]
        .concat();
        for at in 0..=bytes.len() {
            let (mut walker, mut sink) = (Walker::default(), Count::default());
            let (mut deframer, mut held) = (Deframer::default(), Vec::new());
            for piece in [bytes.get(..at).unwrap(), bytes.get(at..).unwrap()] {
                held.extend_from_slice(piece);
                let done = deframer.walk(&held, &mut walker, &mut sink).unwrap();
                held.drain(..done);
            }
            assert_eq!((sink.0, sink.1, held.len()), (4, 1, 0), "split at {at}");
            assert_eq!(deframer.replies.len(), 6 + 5);
        }
    }

    #[test]
    fn every_length_is_masked_to_its_last_byte() {
        let limits = tiderace_websocket::Limits::default();
        for length in (0..300).chain([65_535, 65_536, 65_543]) {
            let payload = vec![b'x'; length];
            let mut message = Vec::new();
            append_text(&mut message, &payload, [1, 2, 3, 4]);
            assert_eq!(message.len(), client_header_bytes(length) + length);
            let mut decoder = tiderace_websocket::Decoder::new(tiderace_websocket::Role::Server);
            let decoded = decoder.decode(&limits, &mut message).unwrap();
            let kind = tiderace_websocket::MessageKind::Text;
            let payload = payload.as_slice();
            assert_eq!(decoded.event, tiderace_websocket::Event::Message { kind, payload });
        }
    }

    #[test]
    fn close_and_masked_frames_are_errors() {
        let (mut walker, mut sink) = (Walker::default(), Count::default());
        let close = server_frame(OPCODE_CLOSE, &1002_u16.to_be_bytes());
        let error = Deframer::default().walk(&close, &mut walker, &mut sink).unwrap_err();
        assert!(error.to_string().contains("1002"));
        assert!(Deframer::default().walk(&[0x81, 0x81], &mut walker, &mut sink).is_err());
    }
}
