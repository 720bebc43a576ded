//! Revision 3 as text: each packet behind its length, binary data in base64.
//!
//! ```text
//!   6:4hello2:2x6:b4AQID
//! ```
//! Lengths count UTF-16 code units, as JavaScript does: one for most characters, two for those
//! beyond the basic plane, whatever their length in UTF-8.

use super::part::Part;
use super::text4::{armour_base64, encoded_len};
use crate::limits::DIGITS_MAX;
use crate::packet::{PacketError, PacketType};

/// Turns the message that stands at the end of the block into a packet.
pub fn armour(out: &mut Vec<u8>, start: usize, text: bool) {
    let frame = out.get(start..).unwrap_or_default();
    // The longest: 20 digits, a colon, two letters.
    let mut prefix = Vec::with_capacity(24);
    if text {
        write_length(1 + units(frame), &mut prefix);
        prefix.push(PacketType::Message.digit());
        out.splice(start..start, prefix);
    } else {
        write_length(2 + encoded_len(frame.len()), &mut prefix);
        prefix.extend_from_slice(&[b'b', PacketType::Message.digit()]);
        armour_base64(out, start, &prefix);
    }
}

/// Appends a length and the colon behind it.
pub(super) fn write_length(length: usize, out: &mut Vec<u8>) {
    out.extend_from_slice(itoa::Buffer::new().format(length).as_bytes());
    out.push(b':');
}

/// UTF-16 code units of UTF-8 text.
pub(super) fn units(text: &[u8]) -> usize {
    text.iter().map(|byte| width(*byte)).sum()
}

/// The code units that a byte of UTF-8 brings: those of a character are its first byte's.
fn width(byte: u8) -> usize {
    match byte {
        0x80..0xc0 => 0,
        0xf0.. => 2,
        _ => 1,
    }
}

/// The packet that a payload begins with; its bytes are UTF-8.
pub(super) fn part(bytes: &[u8]) -> Result<Part<'_>, PacketError> {
    let digits = bytes.iter().take(DIGITS_MAX + 1).position(|byte| *byte == b':');
    let digits = digits.ok_or(PacketError::BadLength)?;
    let length = bytes.get(..digits).unwrap_or_default();
    if length.is_empty() || !length.iter().all(u8::is_ascii_digit) {
        return Err(PacketError::BadLength);
    }
    let length =
        length.iter().fold(0usize, |number, digit| number * 10 + usize::from(digit - b'0'));
    let behind = bytes.get(digits + 1..).unwrap_or_default();
    let end = end_of(behind, length).ok_or(PacketError::BadLength)?;
    let (packet, rest) = behind.split_at_checked(end).ok_or(PacketError::BadLength)?;
    Ok(Part { packet, text: true, rest: (!rest.is_empty()).then_some(rest) })
}

/// Where text of so many code units ends.
fn end_of(text: &[u8], length: usize) -> Option<usize> {
    let mut left = length;
    for (at, byte) in text.iter().enumerate() {
        let width = width(*byte);
        if left == 0 && width > 0 {
            return Some(at);
        }
        left = left.checked_sub(width)?;
    }
    (left == 0).then_some(text.len())
}
