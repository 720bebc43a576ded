//! Whole numbers in one to ten bytes, seven bits each, lowest first, and a reader over a slice.
//!
//! Relies on nothing. Invariant: reading never passes the end of the slice and never panics.

/// Appends a number.
pub(crate) fn write(to: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        to.push(number as u8 | 0x80);
        number >>= 7;
    }
    to.push(number as u8);
}

/// Appends bytes with their length in front.
pub(crate) fn write_bytes(to: &mut Vec<u8>, bytes: &[u8]) {
    write(to, bytes.len() as u64);
    to.extend_from_slice(bytes);
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
        let mut number = 0u64;
        for shift in (0..u64::BITS).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            // The tenth byte has room for one bit.
            if shift == 63 && bits > 1 {
                return None;
            }
            number |= bits << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    /// Bytes with their length in front.
    pub(crate) fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.number()?).ok()?;
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes)
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
    fn numbers_come_back_and_too_long_ones_are_refused() {
        for number in [0, 1, 127, 128, 16_383, 16_384, u64::from(u32::MAX), u64::MAX] {
            let mut bytes = Vec::new();
            write(&mut bytes, number);
            let mut fields = Fields::new(&bytes);
            assert_eq!(fields.number(), Some(number));
            assert!(fields.is_empty());
            assert_eq!(Fields::new(&bytes[..bytes.len() - 1]).number(), None);
        }
        assert_eq!(Fields::new(&[0xff; 9]).number(), None);
        assert_eq!(Fields::new(&[0xff; 10]).number(), None);
        assert_eq!(
            Fields::new(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2]).number(),
            None
        );
    }

    #[test]
    fn lengths_beyond_the_end_are_refused() {
        assert_eq!(Fields::new(&[3, b'a', b'b']).bytes(), None);
        assert_eq!(Fields::new(&[2, b'a', b'b']).text(), Some("ab"));
        assert_eq!(Fields::new(&[1, 0xff]).text(), None);
    }
}
