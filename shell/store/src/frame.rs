//! How records lie in a segment: `length and flag, checksum, kind and body`.
//!
//! Relies on CRC-32C. The checksum covers the place too (store, segment, offset), so neither a block that
//! the file system put elsewhere nor one left from an earlier file passes for a record. A record with the
//! flag *more* takes effect only together with the next one, so a batch is in the log whole or not at all.
//! Invariant: reading never panics and never looks beyond the slice, whatever the bytes.
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

use crate::header::Header;

/// Length and checksum in front of each record.
pub(crate) const FRAME_HEADER_BYTES: usize = 8;

/// In the length: the next record belongs to the same batch.
const MORE: u32 = 1 << 31;

/// A record of this length fits for certain: the largest message (1 GiB), the others of its run, and what describes them.
pub(crate) const PAYLOAD_BYTES_MAX: usize = (1 << 30) + (64 << 20);

/// What the checksums of one segment begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seed(u32);

impl Seed {
    /// The seed of a segment of the store with that salt.
    pub fn new(salt: u64, segment: u32) -> Seed {
        Seed(crc32c::crc32c_append(crc32c::crc32c(&salt.to_le_bytes()), &segment.to_le_bytes()))
    }

    /// Appends one whole frame to the bytes of a segment.
    pub fn frame(self, payload: &[u8], more: bool, segment: &mut Vec<u8>) {
        let offset = segment.len();
        append(segment, |to| to.extend_from_slice(payload));
        if more {
            join(segment, offset);
        }
        seal(segment.get_mut(offset..).unwrap_or_default(), offset as u32, self);
    }

    pub(crate) fn of(header: &Header) -> Seed {
        Seed::new(header.salt, header.number)
    }

    fn checksum(self, offset: u32, length: u32, payload: &[u8]) -> u32 {
        let place = u64::from(offset) | u64::from(length) << 32;
        crc32c::crc32c_append(crc32c::crc32c_append(self.0, &place.to_le_bytes()), payload)
    }
}

/// A record's bytes in a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Kind and body.
    pub payload: &'a [u8],
    /// The next record belongs to the same batch.
    pub more: bool,
}

impl Frame<'_> {
    /// Bytes it takes in the segment.
    pub fn bytes(&self) -> usize {
        FRAME_HEADER_BYTES + self.payload.len()
    }
}

/// Why there is no whole record at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The bytes end before the record does, which then has at least so many.
    #[error("a record of {needed} bytes does not fit before the end of the file")]
    Ends {
        /// Bytes from the record's start.
        needed: usize,
    },
    /// No record has this length.
    #[error("the length of a record is {0}, which no record has")]
    Length(u32),
    /// The bytes are not those that were written here.
    #[error("the checksum of a record does not fit its bytes")]
    Checksum,
    /// The checksum fits, but this version cannot read it.
    #[error("a record is of a kind or form that this version does not know")]
    Unknown,
}

/// The record at the front of `bytes`, which lie at `offset` of their segment.
///
/// # Errors
/// When there is none.
pub(crate) fn read(bytes: &[u8], offset: u32, seed: Seed) -> Result<Frame<'_>, FrameError> {
    let ends = FrameError::Ends { needed: FRAME_HEADER_BYTES };
    let (header, rest) = bytes.split_at_checked(FRAME_HEADER_BYTES).ok_or(ends)?;
    let (length, checksum) = words(header).ok_or(ends)?;
    let size = (length & !MORE) as usize;
    if size == 0 || size > PAYLOAD_BYTES_MAX {
        return Err(FrameError::Length(length & !MORE));
    }
    let needed = FRAME_HEADER_BYTES + size;
    let payload = rest.get(..size).ok_or(FrameError::Ends { needed })?;
    if seed.checksum(offset, length, payload) != checksum {
        return Err(FrameError::Checksum);
    }
    Ok(Frame { payload, more: length & MORE != 0 })
}

/// Appends a record without its checksum, which [`seal`] fills in when its place is known.
pub(crate) fn append(to: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) -> usize {
    let start = to.len();
    to.extend_from_slice(&[0; FRAME_HEADER_BYTES]);
    write(to);
    let size = to.len().saturating_sub(start + FRAME_HEADER_BYTES);
    if let Some(length) = to.get_mut(start..start + 4) {
        length.copy_from_slice(&(size as u32).to_le_bytes());
    }
    start
}

/// More was written behind the payload of the record that starts there, which is the last: it is longer by that.
pub(crate) fn lengthen(frames: &mut [u8], start: usize) {
    let size = frames.len().saturating_sub(start + FRAME_HEADER_BYTES);
    if let Some(length) = frames.get_mut(start..start + 4) {
        length.copy_from_slice(&(size as u32).to_le_bytes());
    }
}

/// The first of whole frames, and the others.
pub(crate) fn split(frames: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, _) = words(frames.get(..FRAME_HEADER_BYTES)?)?;
    frames.split_at_checked(FRAME_HEADER_BYTES + (length & !MORE) as usize)
}

/// Makes the record that starts there one with the next record.
pub(crate) fn join(frames: &mut [u8], start: usize) {
    // The highest bit of a little-endian word is in its last byte.
    if let Some(byte) = frames.get_mut(start + 3) {
        *byte |= (MORE >> 24) as u8;
    }
}

/// Fills in the checksums of records that will lie at `offset`.
pub(crate) fn seal(mut frames: &mut [u8], mut offset: u32, seed: Seed) {
    while let Some((header, rest)) = frames.split_at_mut_checked(FRAME_HEADER_BYTES) {
        let Some((length, _)) = words(header) else { return };
        let size = (length & !MORE) as usize;
        let Some((payload, next)) = rest.split_at_mut_checked(size) else { return };
        let checksum = seed.checksum(offset, length, payload);
        if let Some(place) = header.get_mut(4..) {
            place.copy_from_slice(&checksum.to_le_bytes());
        }
        offset = offset.wrapping_add((FRAME_HEADER_BYTES + size) as u32);
        frames = next;
    }
}

fn words(header: &[u8]) -> Option<(u32, u32)> {
    let (length, checksum) = header.split_first_chunk::<4>()?;
    Some((u32::from_le_bytes(*length), u32::from_le_bytes(checksum.try_into().ok()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEED: fn() -> Seed = || Seed::new(7, 1);

    fn two() -> Vec<u8> {
        let mut bytes = Vec::new();
        let first = append(&mut bytes, |to| to.extend_from_slice(b"one"));
        join(&mut bytes, first);
        append(&mut bytes, |to| to.extend_from_slice(b"second"));
        seal(&mut bytes, 100, SEED());
        bytes
    }

    #[test]
    fn records_come_back_at_their_place_only() {
        let bytes = two();
        let first = read(&bytes, 100, SEED()).unwrap();
        assert_eq!(first, Frame { payload: b"one", more: true });
        let second = read(&bytes[first.bytes()..], 111, SEED()).unwrap();
        assert_eq!(second, Frame { payload: b"second", more: false });
        assert_eq!(read(&bytes, 101, SEED()), Err(FrameError::Checksum));
        assert_eq!(read(&bytes, 100, Seed::new(7, 2)), Err(FrameError::Checksum));
        assert_eq!(read(&bytes, 100, Seed::new(8, 1)), Err(FrameError::Checksum));
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_noticed() {
        let bytes = two();
        for bit in 0..11 * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(read(&flipped, 100, SEED()).is_err(), "bit {bit}");
        }
        for length in 0..11 {
            let error = read(&bytes[..length], 100, SEED()).unwrap_err();
            assert!(matches!(error, FrameError::Ends { .. }), "{length}: {error}");
        }
        assert_eq!(read(&[0; 64], 100, SEED()), Err(FrameError::Length(0)));
    }
}
