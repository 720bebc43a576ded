//! What a server would send, as a client sends it: every frame masked with a key of its own (RFC 6455 section 5.3).
//!
//! A client writes its frames as a server does, in whatever place, and passes the stream of them through a [`Masker`] on
//! the way out. So one rule in one place says what is masked, and encoded messages may be shared with connections that
//! are not masked. Relies on its input to be unmasked frames, cut anywhere. Invariants: each header is masked with a fresh
//! key; the frames are otherwise what they were, fragments and lengths included.

use crate::limits::HEADER_BYTES_MAX;
use crate::mask::mask;

/// The longest header of an unmasked frame.
const UNMASKED_BYTES_MAX: usize = HEADER_BYTES_MAX - 4;

/// Masks the frames of one connection.
#[derive(Debug, Default)]
pub struct Masker {
    /// The beginning of a header, and how many bytes of it are there.
    header: [u8; UNMASKED_BYTES_MAX],
    header_len: usize,
    /// Bytes of payload that are yet to come of the present frame.
    left: u64,
    /// The key for the next of them, turned so that it begins with the byte for that one.
    key: [u8; 4],
}

impl Masker {
    /// A masker that waits for the first frame.
    #[must_use]
    pub fn new() -> Masker {
        Masker::default()
    }

    /// Whether what has been masked ends where a frame ends.
    #[must_use]
    pub fn is_between_frames(&self) -> bool {
        self.left == 0 && self.header_len == 0
    }

    /// Masks the next bytes of a stream of unmasked frames and appends them to `out`: four bytes more for each header. Asks
    /// `key` for four bytes that nobody can foresee for each of them.
    pub fn mask(&mut self, frames: &[u8], out: &mut Vec<u8>, mut key: impl FnMut() -> [u8; 4]) {
        let mut rest = frames;
        while !rest.is_empty() {
            if self.left > 0 {
                let count = usize::try_from(self.left).unwrap_or(usize::MAX).min(rest.len());
                let (payload, behind) = rest.split_at(count);
                self.payload(payload, out);
                rest = behind;
            } else {
                rest = self.take_header(rest);
                if let Some(payload_len) = self.payload_len() {
                    self.begin(payload_len, key(), out);
                }
            }
        }
    }

    fn payload(&mut self, payload: &[u8], out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(payload);
        mask(out.get_mut(start..).unwrap_or_default(), self.key);
        self.key.rotate_left(payload.len() % 4);
        self.left -= payload.len() as u64;
    }

    /// Keeps what belongs to the header and returns the rest.
    fn take_header<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        // Its second byte says how long it is.
        let wanted = if self.header_len < 2 { 2 } else { self.whole_len() };
        let count = wanted.saturating_sub(self.header_len).min(bytes.len());
        let (header, behind) = bytes.split_at(count);
        for (slot, byte) in self.header.iter_mut().skip(self.header_len).zip(header) {
            *slot = *byte;
        }
        self.header_len += count;
        behind
    }

    fn whole_len(&self) -> usize {
        let [_, second, ..] = self.header;
        match second {
            126 => 4,
            127 => 10,
            _ => 2,
        }
    }

    /// The length of the payload, once the header is whole.
    fn payload_len(&self) -> Option<u64> {
        if self.header_len < 2 || self.header_len < self.whole_len() {
            return None;
        }
        let [_, second, a, b, c, d, e, f, g, h] = self.header;
        debug_assert!(second & 0x80 == 0, "the frame is masked already");
        Some(match second {
            126 => u64::from(u16::from_be_bytes([a, b])),
            127 => u64::from_be_bytes([a, b, c, d, e, f, g, h]),
            short => u64::from(short),
        })
    }

    fn begin(&mut self, payload_len: u64, key: [u8; 4], out: &mut Vec<u8>) {
        let [_, second, ..] = &mut self.header;
        *second |= 0x80;
        out.extend_from_slice(self.header.get(..self.header_len).unwrap_or_default());
        out.extend_from_slice(&key);
        (self.header_len, self.left, self.key) = (0, payload_len, key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MessageKind, encode_close, encode_message};

    /// Section 5.7: the masked "Hello" of the specification, and a frame without payload behind it.
    #[test]
    fn example_of_section_5_7() {
        let mut frames = Vec::new();
        encode_message(&mut frames, MessageKind::Text, b"Hello", None);
        encode_close(&mut frames, None, "", None);
        let mut keys = [[0x37, 0xFA, 0x21, 0x3D], [1, 2, 3, 4]].into_iter();
        let (mut masker, mut out) = (Masker::new(), Vec::new());
        for byte in frames {
            masker.mask(&[byte], &mut out, || keys.next().unwrap_or_default());
        }
        let hello = [0x81, 0x85, 0x37, 0xFA, 0x21, 0x3D, 0x7F, 0x9F, 0x4D, 0x51, 0x58];
        assert_eq!(out, [&hello[..], &[0x88, 0x80, 1, 2, 3, 4]].concat());
        assert!(masker.is_between_frames() && keys.next().is_none());
    }
}
