//! Unsigned LEB128, the numbers of deltas: seven bits a byte, the lowest first.

/// Appends a number.
pub(super) fn write(out: &mut Vec<u8>, mut value: usize) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Takes a number of at most 63 bits from the front.
pub(super) fn read(bytes: &mut &[u8]) -> Option<usize> {
    let mut value = 0usize;
    for shift in (0..63).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= usize::from(byte & 0x7f).checked_shl(shift)?;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}
