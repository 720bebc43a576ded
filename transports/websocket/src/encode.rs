//! Frames written to a buffer (RFC 6455 sections 5.2 and 5.5).
//!
//! Relies on the caller to append the payload after a header and, as a client, to supply a fresh
//! random mask per frame (section 5.3). Invariant: what is written here, the decoder of the other
//! role accepts.

use crate::close::close_code_valid;
use crate::frame::{MessageKind, Opcode};
use crate::limits::{CONTROL_PAYLOAD_BYTES_MAX, HEADER_BYTES_MAX};
use crate::mask::mask;

/// Length in bytes of an unmasked header for a payload of `payload_len` bytes: 2, 4 or 10.
#[must_use]
pub const fn header_len(payload_len: usize) -> usize {
    match payload_len {
        0..=125 => 2,
        126..=0xFFFF => 4,
        _ => 10,
    }
}

/// A header on the stack, for scattered writes that share one payload.
#[derive(Clone, Copy, Debug)]
pub struct HeaderBytes {
    bytes: [u8; HEADER_BYTES_MAX],
    len: u8,
}

impl AsRef<[u8]> for HeaderBytes {
    fn as_ref(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.len)).unwrap_or_default()
    }
}

/// The header of an unfragmented, unmasked frame.
#[must_use]
pub fn header_bytes(opcode: Opcode, payload_len: usize) -> HeaderBytes {
    build(true, opcode, payload_len, None)
}

/// Appends the header of an unfragmented frame; the payload, masked with the same key if one is
/// given, is the caller's to append.
#[inline]
pub fn write_header(out: &mut Vec<u8>, opcode: Opcode, payload_len: usize, mask: Option<[u8; 4]>) {
    out.extend_from_slice(build(true, opcode, payload_len, mask).as_ref());
}

/// Appends the header of any frame; `fin` is false for all fragments but the last (section 5.4).
#[inline]
pub fn write_frame_header(
    out: &mut Vec<u8>,
    fin: bool,
    opcode: Opcode,
    payload_len: usize,
    mask: Option<[u8; 4]>,
) {
    out.extend_from_slice(build(fin, opcode, payload_len, mask).as_ref());
}

/// Appends a whole message in one frame.
#[inline]
pub fn encode_message(out: &mut Vec<u8>, kind: MessageKind, payload: &[u8], key: Option<[u8; 4]>) {
    encode_frame(out, kind.into(), payload, key);
}

/// Appends a ping; a payload beyond 125 bytes is cut (section 5.5).
pub fn encode_ping(out: &mut Vec<u8>, payload: &[u8], key: Option<[u8; 4]>) {
    encode_frame(out, Opcode::Ping, cut(payload, CONTROL_PAYLOAD_BYTES_MAX), key);
}

/// Appends a pong; a payload beyond 125 bytes is cut (section 5.5).
pub fn encode_pong(out: &mut Vec<u8>, payload: &[u8], key: Option<[u8; 4]>) {
    encode_frame(out, Opcode::Pong, cut(payload, CONTROL_PAYLOAD_BYTES_MAX), key);
}

/// Appends a close frame.
///
/// Without a code, or with one that must not be sent (section 7.4), the frame has no body. The
/// reason is cut at a character boundary to the 123 bytes that fit.
pub fn encode_close(out: &mut Vec<u8>, code: Option<u16>, reason: &str, key: Option<[u8; 4]>) {
    let Some(code) = code.filter(|code| close_code_valid(*code)) else {
        return encode_frame(out, Opcode::Close, &[], key);
    };
    let reason = cut_text(reason, CONTROL_PAYLOAD_BYTES_MAX - 2);
    write_header(out, Opcode::Close, 2 + reason.len(), key);
    let start = out.len();
    out.extend_from_slice(&code.to_be_bytes());
    out.extend_from_slice(reason.as_bytes());
    mask_from(out, start, key);
}

fn encode_frame(out: &mut Vec<u8>, opcode: Opcode, payload: &[u8], key: Option<[u8; 4]>) {
    write_header(out, opcode, payload.len(), key);
    let start = out.len();
    out.extend_from_slice(payload);
    mask_from(out, start, key);
}

fn mask_from(out: &mut [u8], start: usize, key: Option<[u8; 4]>) {
    if let (Some(key), Some(payload)) = (key, out.get_mut(start..)) {
        mask(payload, key);
    }
}

/// The longest prefix of whole characters within `len_max` bytes.
fn cut_text(text: &str, len_max: usize) -> &str {
    // A character has at most four bytes, so one of the last four positions is a boundary.
    (0..=len_max.min(text.len())).rev().find_map(|end| text.get(..end)).unwrap_or_default()
}

fn cut(payload: &[u8], len_max: usize) -> &[u8] {
    payload.get(..len_max).unwrap_or(payload)
}

// Constant positions in a fixed array: the compiler rejects one out of bounds, and a slice-based
// formulation would hide the wire layout.
#[allow(clippy::indexing_slicing)]
#[inline]
fn build(fin: bool, opcode: Opcode, payload_len: usize, key: Option<[u8; 4]>) -> HeaderBytes {
    let mut bytes = [0; HEADER_BYTES_MAX];
    bytes[0] = opcode as u8 | if fin { 0x80 } else { 0 };
    // The casts keep every bit: each arm bounds the value.
    let len = match payload_len {
        0..=125 => {
            bytes[1] = payload_len as u8;
            2
        }
        126..=0xFFFF => {
            bytes[1] = 126;
            bytes[2..4].copy_from_slice(&(payload_len as u16).to_be_bytes());
            4
        }
        _ => {
            bytes[1] = 127;
            bytes[2..10].copy_from_slice(&(payload_len as u64).to_be_bytes());
            10
        }
    };
    let Some(key) = key else {
        return HeaderBytes { bytes, len: len as u8 };
    };
    bytes[1] |= 0x80;
    bytes[len..len + 4].copy_from_slice(&key);
    HeaderBytes { bytes, len: (len + 4) as u8 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_lengths_change_where_section_5_2_says() {
        for (payload_len, expected) in
            [(0, 2), (125, 2), (126, 4), (65_535, 4), (65_536, 10), (1 << 40, 10)]
        {
            assert_eq!(header_len(payload_len), expected, "{payload_len}");
            assert_eq!(header_bytes(Opcode::Binary, payload_len).as_ref().len(), expected);
            let mut out = Vec::new();
            write_header(&mut out, Opcode::Binary, payload_len, Some([9; 4]));
            assert_eq!(out.len(), expected + 4);
        }
    }

    /// Section 5.7: the examples of the specification.
    #[test]
    fn examples_of_section_5_7() {
        let mut out = Vec::new();
        encode_message(&mut out, MessageKind::Text, b"Hello", None);
        assert_eq!(out, [0x81, 0x05, 0x48, 0x65, 0x6C, 0x6C, 0x6F]);
        out.clear();
        encode_message(&mut out, MessageKind::Text, b"Hello", Some([0x37, 0xFA, 0x21, 0x3D]));
        assert_eq!(out, [0x81, 0x85, 0x37, 0xFA, 0x21, 0x3D, 0x7F, 0x9F, 0x4D, 0x51, 0x58]);
        out.clear();
        encode_ping(&mut out, b"Hello", None);
        assert_eq!(out, [0x89, 0x05, 0x48, 0x65, 0x6C, 0x6C, 0x6F]);
        assert_eq!(header_bytes(Opcode::Binary, 256).as_ref(), [0x82, 0x7E, 0x01, 0x00]);
        assert_eq!(
            header_bytes(Opcode::Binary, 65_536).as_ref(),
            [0x82, 0x7F, 0, 0, 0, 0, 0, 1, 0, 0]
        );
    }

    #[test]
    fn close_reasons_are_cut_between_characters() {
        let mut out = Vec::new();
        encode_close(&mut out, Some(1000), &"€".repeat(50), None);
        assert_eq!(out[1], 125, "41 characters of three bytes and the code");
        assert!(std::str::from_utf8(&out[4..]).is_ok());
        out.clear();
        encode_close(&mut out, Some(1000), &format!("x{}", "€".repeat(50)), None);
        assert_eq!(out[1], 2 + 1 + 40 * 3);
    }

    #[test]
    fn codes_that_must_not_be_sent_are_left_out() {
        for code in [None, Some(1005), Some(1006), Some(1015), Some(0)] {
            let mut out = Vec::new();
            encode_close(&mut out, code, "lost", None);
            assert_eq!(out, [0x88, 0]);
        }
    }
}
