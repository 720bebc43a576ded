//! Revision 3 in binary, for clients that can: no base64, and lengths in bytes.
//!
//! ```text
//!   00 06 FF '4' 'h' 'e' 'l' 'l' 'o'     text: the packet's type is a digit
//!   01 04 FF  4   1   2   3              binary: the packet's type is a number
//! ```
//! The length stands in decimal, one byte from 0 to 9 for each digit.

use super::part::Part;
use crate::limits::DIGITS_MAX;
use crate::packet::{PacketError, PacketType};

/// Appends what precedes a message of so many bytes.
pub fn write_prefix(text: bool, length: usize, out: &mut Vec<u8>) {
    write_header(text, 1 + length, out);
    let kind = PacketType::Message;
    out.push(if text { kind.digit() } else { kind as u8 });
}

/// Appends what precedes a packet of so many bytes.
pub(super) fn write_header(text: bool, length: usize, out: &mut Vec<u8>) {
    out.push(u8::from(!text));
    let mut buffer = itoa::Buffer::new();
    out.extend(buffer.format(length).bytes().map(|digit| digit - b'0'));
    out.push(END);
}

/// The packet that a payload begins with.
pub(super) fn part(bytes: &[u8]) -> Result<Part<'_>, PacketError> {
    let (kind, behind) = bytes.split_first().ok_or(PacketError::Empty)?;
    if *kind > 1 {
        return Err(PacketError::BadLength);
    }
    let digits = behind.iter().take(DIGITS_MAX + 1).position(|byte| *byte == END);
    let digits = digits.ok_or(PacketError::BadLength)?;
    let length = behind.get(..digits).unwrap_or_default();
    if length.is_empty() || !length.iter().all(|digit| *digit <= 9) {
        return Err(PacketError::BadLength);
    }
    let length = length.iter().fold(0usize, |number, digit| number * 10 + usize::from(*digit));
    let behind = behind.get(digits + 1..).unwrap_or_default();
    let (packet, rest) = behind.split_at_checked(length).ok_or(PacketError::BadLength)?;
    Ok(Part { packet, text: *kind == 0, rest: (!rest.is_empty()).then_some(rest) })
}

/// Ends a length.
const END: u8 = 0xff;
