//! Decoding: operations are followed one by one, each checked against what is there.
//!
//! Relies on nothing. Invariant: what is made never has more bytes than the caller accepts.

use tiderace_base::read_varint;

use super::{COPY, MOVE_AND_COPY, REPLACE};
use crate::DeltaError;

/// The value that a difference makes of `old`.
///
/// # Errors
/// When the bytes are no difference to that value, or what they make has more than `max` bytes.
pub fn decode(old: &[u8], mut delta: &[u8], max: usize) -> Result<Vec<u8>, DeltaError> {
    let delta = &mut delta;
    let prefix = number(delta)?;
    let suffix = number(delta)?;
    let ends = prefix.checked_add(suffix).filter(|ends| *ends <= old.len());
    let ends = ends.ok_or(DeltaError::OutOfRange)?;
    // What the bytes at hand justify; long copies let it grow as they come.
    let mut new = Vec::with_capacity(max.min(ends + delta.len()));
    take(old, 0, prefix, max, &mut new)?;
    let mut cursor = prefix;
    while !delta.is_empty() {
        let operation = number(delta)?;
        let len = operation >> 2;
        if len == 0 {
            return Err(DeltaError::UnknownOperation);
        }
        match operation & 3 {
            REPLACE => {
                let (bytes, rest) = delta.split_at_checked(len).ok_or(DeltaError::Cut)?;
                *delta = rest;
                take(bytes, 0, len, max, &mut new)?;
                cursor = (cursor + len).min(old.len());
                continue;
            }
            COPY => {}
            MOVE_AND_COPY => {
                let distance = unzigzag(number(delta)?);
                cursor = cursor.checked_add_signed(distance).ok_or(DeltaError::OutOfRange)?;
            }
            _ => return Err(DeltaError::UnknownOperation),
        }
        take(old, cursor, len, max, &mut new)?;
        cursor += len;
    }
    take(old, old.len() - suffix, suffix, max, &mut new)?;
    Ok(new)
}

/// Takes a number from the front.
#[inline]
fn number(delta: &mut &[u8]) -> Result<usize, DeltaError> {
    let number = read_varint(delta).ok_or(DeltaError::Cut)?;
    usize::try_from(number).map_err(|_| DeltaError::OutOfRange)
}

/// Appends `len` bytes of `from`, beginning at `at`, as long as no more than `max` come together.
fn take(
    from: &[u8],
    at: usize,
    len: usize,
    max: usize,
    new: &mut Vec<u8>,
) -> Result<(), DeltaError> {
    let end = at.checked_add(len).ok_or(DeltaError::OutOfRange)?;
    let bytes = from.get(at..end).ok_or(DeltaError::OutOfRange)?;
    if bytes.len() > max - new.len() {
        return Err(DeltaError::TooLarge);
    }
    new.extend_from_slice(bytes);
    Ok(())
}

fn unzigzag(number: usize) -> isize {
    (number >> 1) as isize ^ -((number & 1) as isize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_deltas_are_refused() {
        for (delta, error) in [
            (&b""[..], DeltaError::Cut),
            (b"\x00", DeltaError::Cut),
            (b"\x80", DeltaError::Cut),
            (b"\x03\x02", DeltaError::OutOfRange),
            (
                b"\xff\xff\xff\xff\xff\xff\xff\xff\x7f\xff\xff\xff\xff\xff\xff\xff\xff\x7f",
                DeltaError::OutOfRange,
            ),
            (
                b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
                DeltaError::OutOfRange,
            ),
            (b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02\x00", DeltaError::Cut),
            (b"\x00\x00\xfd\xff\xff\xff\xff\xff\xff\xff\xff\x01", DeltaError::Cut),
            (b"\x00\x00\xfc\xff\xff\xff\xff\xff\xff\xff\xff\x01", DeltaError::OutOfRange),
            (b"\x00\x00\x00", DeltaError::UnknownOperation),
            (b"\x00\x00\x07", DeltaError::UnknownOperation),
            (b"\x00\x00\x14", DeltaError::OutOfRange),
            (b"\x00\x00\x09a", DeltaError::Cut),
            (b"\x00\x00\x06\x01", DeltaError::OutOfRange),
            (b"\x00\x00\x06", DeltaError::Cut),
            (b"\x00\x00\x10\x12\x07", DeltaError::TooLarge),
        ] {
            assert_eq!(decode(b"abcd", delta, 6), Err(error), "{delta:02x?}");
        }
    }

    /// `docs/protocol.md`, section 2: padding is allowed, up to ten bytes.
    #[test]
    fn padded_numbers_are_read() {
        let whole = b"\x84\x80\x80\x80\x80\x80\x80\x80\x80\x00\x80\x00";
        assert_eq!(decode(b"abcd", whole, 6).as_deref(), Ok(&b"abcd"[..]));
    }
}
