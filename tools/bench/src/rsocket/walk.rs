//! Finds RSocket's frames in what a carrier delivers, whatever the pieces are.
//!
//! Bytes are looked at where they were read: of a payload the six bytes of its header, the rest is counted and
//! passed over. What is kept between pieces is the beginning of a header, a few bytes. Invariant: the same
//! bytes give the same frames however they are cut.

use std::io;

use super::frame::{self, HEADER_BYTES, LENGTH_BYTES};
use crate::clients::counters::broken;
use crate::clients::websocket;

/// Hears frames.
pub(super) trait Hear {
    /// A frame: as much of it as [`frame::wanted`] says, and its length.
    ///
    /// # Errors
    /// When it ends the connection.
    fn frame(&mut self, bytes: &[u8], length: usize) -> io::Result<()>;
}

/// How frames are told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Framing {
    /// By a length of 24 bits in front of each.
    Lengths,
    /// By WebSocket's messages.
    Messages,
}

/// Where a connection is.
#[derive(Debug)]
pub(super) struct Walker {
    framing: Framing,
    /// Bytes to pass over.
    skip: usize,
    /// In a message of several WebSocket frames.
    is_continued: bool,
    /// The beginning of something.
    kept: Vec<u8>,
    /// Answers to pings.
    pub replies: Vec<u8>,
}

impl Walker {
    pub(super) fn new(framing: Framing) -> Walker {
        Walker { framing, skip: 0, is_continued: false, kept: Vec::new(), replies: Vec::new() }
    }

    /// Goes on with the next piece.
    pub(super) fn feed<H: Hear>(&mut self, mut piece: &[u8], hear: &mut H) -> io::Result<()> {
        while !self.kept.is_empty() && !piece.is_empty() {
            let mut kept = std::mem::take(&mut self.kept);
            let before = kept.len();
            let (more, rest) = piece.split_at(piece.len().min(STITCH_BYTES));
            kept.extend_from_slice(more);
            let taken = self.walk(&kept, hear)?;
            if taken >= before {
                piece = piece.get(taken - before..).unwrap_or_default();
                kept.clear();
            } else {
                kept.drain(..taken);
                piece = rest;
            }
            self.kept = kept;
        }
        let taken = self.walk(piece, hear)?;
        self.kept.extend_from_slice(piece.get(taken..).unwrap_or_default());
        Ok(())
    }

    /// Takes what is complete; says how many bytes that were.
    fn walk<H: Hear>(&mut self, bytes: &[u8], hear: &mut H) -> io::Result<usize> {
        let mut at = 0;
        loop {
            let rest = bytes.get(at..).unwrap_or_default();
            if self.skip > 0 {
                let passed = self.skip.min(rest.len());
                self.skip -= passed;
                at += passed;
                if self.skip > 0 {
                    return Ok(at);
                }
                continue;
            }
            let taken = match self.framing {
                Framing::Lengths => self.length(rest, hear)?,
                Framing::Messages => self.message(rest, hear)?,
            };
            if taken == 0 {
                return Ok(at);
            }
            at += taken;
        }
    }

    /// A frame behind its length.
    #[inline]
    fn length<H: Hear>(&mut self, rest: &[u8], hear: &mut H) -> io::Result<usize> {
        let Some([a, b, c, ..]) = rest.first_chunk::<{ LENGTH_BYTES + HEADER_BYTES }>() else {
            return Ok(0);
        };
        let length = usize::from(*a) << 16 | usize::from(*b) << 8 | usize::from(*c);
        let heard = self.frame(rest.get(LENGTH_BYTES..).unwrap_or_default(), length, hear)?;
        Ok(if heard == 0 { 0 } else { LENGTH_BYTES + heard })
    }

    /// A frame that is a message.
    fn message<H: Hear>(&mut self, rest: &[u8], hear: &mut H) -> io::Result<usize> {
        let Some(head) = websocket::head(rest)? else { return Ok(0) };
        let payload = rest.get(head.bytes..).unwrap_or_default();
        match head.opcode {
            websocket::BINARY => {
                let heard = self.frame(payload, head.payload, hear)?;
                if heard == 0 {
                    return Ok(0);
                }
                self.is_continued = !head.is_last;
                Ok(head.bytes + heard)
            }
            0 if self.is_continued => {
                self.is_continued = !head.is_last;
                self.skip = head.payload;
                Ok(head.bytes)
            }
            websocket::PING | websocket::PONG | websocket::CLOSE => {
                let Some(payload) = payload.get(..head.payload) else { return Ok(0) };
                match head.opcode {
                    websocket::PING => {
                        websocket::frame(&mut self.replies, websocket::PONG, payload);
                    }
                    websocket::CLOSE => {
                        let code =
                            payload.first_chunk().map_or(1005, |two| u16::from_be_bytes(*two));
                        let reason = String::from_utf8_lossy(payload.get(2..).unwrap_or_default());
                        let text = format!("the server closed the WebSocket: {code} {reason}");
                        return Err(broken(&text));
                    }
                    _ => {}
                }
                Ok(head.bytes + head.payload)
            }
            _ => Err(broken("the server sent a WebSocket message that is not binary")),
        }
    }

    /// What begins with a frame's header; none taken if too little is there.
    #[inline]
    fn frame<H: Hear>(&mut self, rest: &[u8], length: usize, hear: &mut H) -> io::Result<usize> {
        if length < HEADER_BYTES {
            return Err(broken("the server sent a frame of less than six bytes"));
        }
        let Some(header) = frame::header(rest) else { return Ok(0) };
        let wanted = frame::wanted(header.kind, length);
        let Some(head) = rest.get(..wanted) else { return Ok(0) };
        hear.frame(head, length)?;
        self.skip = length - wanted;
        Ok(wanted)
    }
}

/// Bytes that are copied behind what was kept, at a time.
const STITCH_BYTES: usize = 64;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[derive(Default, PartialEq, Debug)]
    struct Heard(Vec<(u8, u32, usize)>);

    impl Hear for Heard {
        fn frame(&mut self, bytes: &[u8], length: usize) -> io::Result<()> {
            let header = frame::header(bytes).unwrap();
            assert_eq!(bytes.len(), frame::wanted(header.kind, length));
            self.0.push((header.kind, header.stream, length));
            Ok(())
        }
    }

    fn sample() -> Vec<u8> {
        let mut out = Vec::new();
        frame::append(&mut out, 5, (frame::PAYLOAD, frame::NEXT), |out| out.extend([7; 1024]));
        frame::append(&mut out, 7, (frame::PAYLOAD, frame::NEXT), |_| ());
        frame::keepalive(&mut out, frame::RESPOND, b"hello");
        frame::append(&mut out, 9, (frame::ERROR, 0), |out| out.extend([b'x'; 900]));
        frame::append(&mut out, 11, (frame::PAYLOAD, frame::NEXT), |out| out.extend([7; 70_000]));
        frame::request_n(&mut out, 5, 1);
        out
    }

    const EXPECTED: [(u8, u32, usize); 6] = [
        (frame::PAYLOAD, 5, 1030),
        (frame::PAYLOAD, 7, 6),
        (frame::KEEPALIVE, 0, 19),
        (frame::ERROR, 9, 906),
        (frame::PAYLOAD, 11, 70_006),
        (frame::REQUEST_N, 5, 10),
    ];

    /// The same frames as messages of a server, with a ping and a message in two parts.
    fn messages() -> Vec<u8> {
        let (wire, mut out) = (sample(), Vec::new());
        let mut rest = wire.as_slice();
        while let [a, b, c, tail @ ..] = rest {
            let length = u32::from_be_bytes([0, *a, *b, *c]) as usize;
            let (frame, next) = tail.split_at(length);
            let (first, second) = frame.split_at(if length == 1030 { 500 } else { length });
            server_frame(&mut out, second.is_empty(), websocket::BINARY, first);
            server_frame(&mut out, true, websocket::PING, b"pi");
            if !second.is_empty() {
                server_frame(&mut out, true, 0, second);
            }
            rest = next;
        }
        out
    }

    fn server_frame(out: &mut Vec<u8>, is_last: bool, opcode: u8, payload: &[u8]) {
        let mut masked = Vec::new();
        websocket::frame(&mut masked, opcode, payload);
        let head = masked.len() - payload.len() - 4;
        masked[1] &= 0x7f;
        masked[0] = u8::from(is_last) << 7 | opcode;
        out.extend_from_slice(&masked[..head]);
        out.extend_from_slice(payload);
    }

    #[test]
    fn frames_are_found_however_they_are_cut() {
        for (framing, wire) in [(Framing::Lengths, sample()), (Framing::Messages, messages())] {
            for size in [1, 2, 3, 7, 10, 63, 64, 65, 1000, 1033, 4096, wire.len()] {
                let (mut walker, mut heard) = (Walker::new(framing), Heard::default());
                for piece in wire.chunks(size) {
                    walker.feed(piece, &mut heard).unwrap();
                    assert!(walker.kept.len() <= 600, "{}", walker.kept.len());
                }
                let mut expected = EXPECTED.to_vec();
                if framing == Framing::Messages {
                    expected[0].2 = 500;
                    assert_eq!(walker.replies.len(), EXPECTED.len() * (6 + 2));
                }
                assert_eq!(heard.0, expected, "{framing:?} in pieces of {size}");
            }
        }
    }

    #[test]
    fn nonsense_is_an_error() {
        let mut heard = Heard::default();
        let short = [0, 0, 2, 0, 0, 0, 0, 0, 0];
        assert!(Walker::new(Framing::Lengths).feed(&short, &mut heard).is_err());
        let mut close = Vec::new();
        server_frame(&mut close, true, websocket::CLOSE, &1013_u16.to_be_bytes());
        let error = Walker::new(Framing::Messages).feed(&close, &mut heard).unwrap_err();
        assert!(error.to_string().contains("1013"));
        let mut text = Vec::new();
        server_frame(&mut text, true, websocket::TEXT, b"hello you");
        assert!(Walker::new(Framing::Messages).feed(&text, &mut heard).is_err());
    }
}
