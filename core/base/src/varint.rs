//! Unsigned LEB128, the numbers of the native protocol, of deltas, of positions and of the store: seven
//! bits a byte, the lowest first, `0x80` set on all but the last (`docs/protocol.md`, section 2).
//!
//! Relies on nothing. Invariant: reading takes at most [`VARINT_BYTES_MAX`] bytes, never passes the end
//! of the slice and never panics.

/// Bytes of the longest number: 64 bits, seven at a time.
pub const VARINT_BYTES_MAX: usize = 10;

/// Appends a number in as few bytes as it needs.
#[inline]
pub fn write_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Takes a number from the front; `None` if it is not whole or has more than 64 bits. Padding is allowed
/// up to ten bytes.
#[inline]
pub fn read_varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        let bits = u64::from(byte & 0x7f);
        // The tenth byte has room for one bit.
        if shift == 63 && bits > 1 {
            return None;
        }
        value |= bits << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn numbers_come_back(value: u64, rest in proptest::collection::vec(any::<u8>(), 0..3)) {
            let mut bytes = Vec::new();
            write_varint(&mut bytes, value);
            prop_assert!(bytes.len() <= VARINT_BYTES_MAX);
            bytes.extend_from_slice(&rest);
            let mut left = &bytes[..];
            prop_assert_eq!(read_varint(&mut left), Some(value));
            prop_assert_eq!(left, &rest[..]);
        }
    }

    #[test]
    fn numbers_that_are_cut_or_too_long_are_refused() {
        for number in [0, 1, 127, 128, 16_383, 16_384, u64::from(u32::MAX), u64::MAX] {
            let mut bytes = Vec::new();
            write_varint(&mut bytes, number);
            assert_eq!(read_varint(&mut &bytes[..]), Some(number));
            assert_eq!(read_varint(&mut &bytes[..bytes.len() - 1]), None);
        }
        assert_eq!(read_varint(&mut &[0xff; 9][..]), None);
        assert_eq!(read_varint(&mut &[0xff; 10][..]), None);
        let with_last = |last: u8| [&[0xff; 9][..], &[last]].concat();
        assert_eq!(read_varint(&mut &with_last(1)[..]), Some(u64::MAX));
        assert_eq!(read_varint(&mut &with_last(2)[..]), None);
    }

    #[test]
    fn padding_is_read_up_to_ten_bytes() {
        let padded = |bytes: usize| [&[0x84][..], &vec![0x80; bytes - 2], &[0]].concat();
        assert_eq!(read_varint(&mut &padded(3)[..]), Some(4));
        assert_eq!(read_varint(&mut &padded(VARINT_BYTES_MAX)[..]), Some(4));
        assert_eq!(read_varint(&mut &padded(VARINT_BYTES_MAX + 1)[..]), None);
    }
}
