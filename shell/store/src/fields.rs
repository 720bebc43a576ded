//! Fields of records: numbers, and bytes and texts with their length in front.
//!
//! Relies on the varints that the whole house has. Invariant: reading never passes the end of the slice and never panics.

use tiderace_base::{read_varint, write_varint};

/// Appends bytes with their length in front.
pub(crate) fn write_bytes(to: &mut Vec<u8>, bytes: &[u8]) {
    write_varint(to, bytes.len() as u64);
    to.extend_from_slice(bytes);
}

/// A difference that may be below zero as a number that is small if it is.
pub(crate) fn fold(difference: u64) -> u64 {
    (difference << 1) ^ ((difference as i64 >> 63) as u64)
}

/// The difference that it is.
pub(crate) fn unfold(folded: u64) -> u64 {
    (folded >> 1) ^ (folded & 1).wrapping_neg()
}

/// Reads fields from the front of a slice; `None` when it ends too early or says nonsense.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Fields<'a> {
        Fields(bytes)
    }

    pub(crate) fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    pub(crate) fn number(&mut self) -> Option<u64> {
        read_varint(&mut self.0)
    }

    /// So many bytes.
    pub(crate) fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes)
    }

    /// Bytes with their length in front.
    pub(crate) fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.number()?).ok()?;
        self.take(length)
    }

    /// Text with its length in front.
    pub(crate) fn text(&mut self) -> Option<&'a str> {
        std::str::from_utf8(self.bytes()?).ok()
    }

    /// Everything that is left.
    pub(crate) fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_beyond_the_end_are_refused() {
        assert_eq!(Fields::new(&[3, b'a', b'b']).bytes(), None);
        assert_eq!(Fields::new(&[2, b'a', b'b']).text(), Some("ab"));
        assert_eq!(Fields::new(&[1, 0xff]).text(), None);
    }
}
