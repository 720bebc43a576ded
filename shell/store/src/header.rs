//! The first bytes of a segment: which file this is, of which store, and which segments it needs.
//!
//! Relies on CRC-32C. Invariant: reading never panics; a header that reads is one that was written whole.
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

/// Bytes of a header: magic, version, salt, number, oldest, checksum.
pub(crate) const HEADER_BYTES: usize = 32;

const MAGIC: [u8; 8] = *b"tiderace";

/// The form of segments that this program writes. Those of lower forms are read, and not written to. What each form
/// has added stands in `docs/decisions/0017-queues-in-the-store.md`.
pub(crate) const FORM: u32 = 3;
/// From this form on segments end with summaries.
pub(crate) const SUMMARIES_FORM: u32 = 2;

/// What a segment says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The form of what follows.
    pub form: u32,
    /// Made up when the store was; the same in all its segments.
    pub salt: u64,
    /// The segment's number, also in its name.
    pub number: u32,
    /// The oldest segment that was needed when this one began.
    pub oldest: u32,
}

/// Why bytes are no header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    /// The file is too short, or begins with something else.
    #[error("the file does not begin as a segment of the store does")]
    Foreign,
    /// Another version of the program wrote it.
    #[error("the segment has form {0}, and this version of tiderace reads forms 1 to {FORM}")]
    Version(u32),
    /// The bytes are not those that were written.
    #[error("the checksum of the segment's header does not fit its bytes")]
    Checksum,
}

impl Header {
    /// The header's bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEADER_BYTES);
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&self.form.to_le_bytes());
        bytes.extend_from_slice(&self.salt.to_le_bytes());
        bytes.extend_from_slice(&self.number.to_le_bytes());
        bytes.extend_from_slice(&self.oldest.to_le_bytes());
        let checksum = crc32c::crc32c(&bytes);
        bytes.extend_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Reads the header at the front of a segment.
    ///
    /// # Errors
    /// When there is none.
    pub fn decode(bytes: &[u8]) -> Result<Header, HeaderError> {
        let (header, _) = bytes.split_first_chunk::<HEADER_BYTES>().ok_or(HeaderError::Foreign)?;
        let (covered, checksum) = header.split_last_chunk::<4>().ok_or(HeaderError::Foreign)?;
        let rest = covered.strip_prefix(&MAGIC).ok_or(HeaderError::Foreign)?;
        if crc32c::crc32c(covered) != u32::from_le_bytes(*checksum) {
            return Err(HeaderError::Checksum);
        }
        let (version, rest) = rest.split_first_chunk::<4>().ok_or(HeaderError::Foreign)?;
        let (salt, rest) = rest.split_first_chunk::<8>().ok_or(HeaderError::Foreign)?;
        let (number, rest) = rest.split_first_chunk::<4>().ok_or(HeaderError::Foreign)?;
        let (oldest, _) = rest.split_first_chunk::<4>().ok_or(HeaderError::Foreign)?;
        match u32::from_le_bytes(*version) {
            form @ 1..=FORM => Ok(Header {
                form,
                salt: u64::from_le_bytes(*salt),
                number: u32::from_le_bytes(*number),
                oldest: u32::from_le_bytes(*oldest),
            }),
            version => Err(HeaderError::Version(version)),
        }
    }
}

/// The name of a segment's file. Numbers have ten digits, so names sort as numbers do.
pub(crate) fn segment_name(number: u32) -> String {
    format!("{number:010}.log")
}

/// The number in a segment's name; `None` for other files.
pub(crate) fn segment_number(name: &str) -> Option<u32> {
    let digits = name.strip_suffix(".log")?;
    let number = digits.parse().ok()?;
    (segment_name(number) == name).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_come_back_and_no_flipped_bit_passes() {
        let header = Header { form: 1, salt: 0x1234_5678_9abc_def0, number: 9, oldest: 3 };
        let bytes = header.encode();
        assert_eq!(bytes.len(), HEADER_BYTES);
        assert_eq!(Header::decode(&bytes), Ok(header));
        for bit in 0..HEADER_BYTES * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(Header::decode(&flipped).is_err(), "bit {bit}");
        }
        assert_eq!(Header::decode(&bytes[..31]), Err(HeaderError::Foreign));
    }

    #[test]
    fn names_are_numbers_and_sort_like_them() {
        assert_eq!(segment_number(&segment_name(7)), Some(7));
        assert!(segment_name(9) < segment_name(10));
        for name in ["7.log", "0000000007.log.new", "+000000007.log", "lock", "4294967296.log"] {
            assert_eq!(segment_number(name), None, "{name}");
        }
    }
}
