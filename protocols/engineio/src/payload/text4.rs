//! Revision 4: packets joined by a record separator, binary data in base64.
//!
//! ```text
//!   4hello<1E>2<1E>bAQID
//! ```
//! Each packet is written with a separator before it; the one before a payload's first packet is
//! left out by the code that begins the payload.

use base64::Engine;

use super::part::Part;
use crate::packet::{BASE64, PacketType};

/// Stands between packets.
pub const SEPARATOR: u8 = 0x1e;

/// Turns the message that stands at the end of the block into a packet.
pub fn armour(out: &mut Vec<u8>, start: usize, text: bool) {
    if text {
        out.splice(start..start, [SEPARATOR, PacketType::Message.digit()]);
    } else {
        armour_base64(out, start, &[SEPARATOR, b'b']);
    }
}

/// Replaces the bytes at the end of the block by a prefix and their base64, in place.
pub(super) fn armour_base64(out: &mut Vec<u8>, start: usize, prefix: &[u8]) {
    let mut from = out.len().saturating_sub(start);
    let begin = start + prefix.len();
    out.resize(begin + encoded_len(from), 0);
    // Backwards, so that what is written never covers what is still to be read: with `from` bytes
    // left their base64 ends at or behind them.
    let mut chunk = [0; CHUNK_BYTES];
    while from > 0 {
        let len = match from % CHUNK_BYTES {
            0 => CHUNK_BYTES,
            rest => rest,
        };
        from -= len;
        let (Some(held), Some(source)) =
            (chunk.get_mut(..len), out.get(start + from..start + from + len))
        else {
            return;
        };
        held.copy_from_slice(source);
        let at = begin + encoded_len(from);
        if let Some(target) = out.get_mut(at..at + encoded_len(len)) {
            // It has just the room that is needed.
            let _ = BASE64.encode_slice(held, target);
        }
    }
    if let Some(target) = out.get_mut(start..begin) {
        target.copy_from_slice(prefix);
    }
}

/// How long base64 of so many bytes is, padding included.
pub(super) fn encoded_len(len: usize) -> usize {
    len.div_ceil(3) * 4
}

/// Bytes encoded at a time; no padding falls between two chunks.
const CHUNK_BYTES: usize = 768;
const _: () = assert!(CHUNK_BYTES.is_multiple_of(3), "padding stands at the end only");

/// The packet that a payload begins with.
pub(super) fn part(bytes: &[u8]) -> Part<'_> {
    let (packet, rest) = match memchr::memchr(SEPARATOR, bytes) {
        Some(at) => (bytes.get(..at).unwrap_or_default(), bytes.get(at + 1..)),
        None => (bytes, None),
    };
    Part { packet, text: true, rest }
}
