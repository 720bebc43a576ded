//! The integers of RFC 3284, section 2: seven bits a byte, the highest first.
//!
//! Relies on nothing. Invariant: reading takes at most nine bytes.

/// Appends a number.
#[inline]
pub(super) fn write(out: &mut Vec<u8>, value: usize) {
    let mut shift = (len(value) - 1) * 7;
    while shift > 0 {
        out.push((value >> shift) as u8 | 0x80);
        shift -= 7;
    }
    out.push(value as u8 & 0x7f);
}

/// Bytes that a number takes.
#[inline]
pub(super) fn len(value: usize) -> usize {
    (usize::BITS - value.leading_zeros()).max(1).div_ceil(7) as usize
}

/// Takes a number of at most 63 bits from the front.
#[inline]
pub(super) fn read(bytes: &mut &[u8]) -> Option<usize> {
    let mut value = 0usize;
    for _ in 0..9 {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value = value.checked_mul(128)? | usize::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn numbers_are_those_of_the_standard() {
        let mut out = Vec::new();
        // The example of section 2.
        write(&mut out, 123_456_789);
        assert_eq!(out, [0b1011_1010, 0b1110_1111, 0b1001_1010, 0b0001_0101]);
        for value in [0, 1, 127, 128, 16_383, 16_384, (1 << 63) - 1] {
            let mut out = Vec::new();
            write(&mut out, value);
            assert_eq!(out.len(), len(value));
            assert_eq!(read(&mut out.as_slice()), Some(value));
            assert_eq!(read(&mut out.split_last().unwrap().1), None);
        }
        assert_eq!(read(&mut [0xff; 20].as_slice()), None);
    }
}
