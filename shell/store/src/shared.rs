//! Messages that several streams have in common: one record with one body, and where it stands in each of them.
//!
//! Relies on `fields`. Streams and numbers are written as differences to those before, some three bytes for each
//! stream, so the body is what costs. Invariants: decoding never panics, whatever the bytes; what decodes has at least
//! one stream, each once, rising; all of them survive, or none.
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

use std::fmt;

use tiderace_base::write_varint;

use crate::fields::{Fields, fold, unfold, write_bytes};
use crate::put::{Put, StreamId};

/// Streams that have the same messages, by rising number, each with the number of the first message there.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Owners<'a>(&'a [u8]);

impl<'a> Owners<'a> {
    /// Reads them back from what [`encode_owners`] has written.
    pub(crate) fn of(bytes: &'a [u8]) -> Owners<'a> {
        Owners(bytes)
    }

    /// Each stream, with the number of its first message.
    pub fn iter(&self) -> impl Iterator<Item = (StreamId, u64)> + use<'a> {
        let mut fields = Fields::new(self.0);
        let (mut stream, mut sequence) = (0u64, 0u64);
        std::iter::from_fn(move || {
            if fields.is_empty() {
                return None;
            }
            stream = stream.checked_add(fields.number()?)?;
            sequence = sequence.wrapping_add(unfold(fields.number()?));
            Some((StreamId(stream), sequence))
        })
    }

    /// How many bytes they take in the record.
    pub(crate) fn bytes(&self) -> usize {
        self.0.len()
    }

    /// Whether they are consistent for records of so many messages.
    fn are_consistent(&self, count: u32) -> bool {
        let mut fields = Fields::new(self.0);
        let (mut stream, mut sequence, mut before) = (0u64, 0u64, None::<StreamId>);
        while !fields.is_empty() {
            let (Some(step), Some(difference)) = (fields.number(), fields.number()) else {
                return false;
            };
            let Some(next) = stream.checked_add(step) else { return false };
            (stream, sequence) = (next, sequence.wrapping_add(unfold(difference)));
            let id = StreamId(stream);
            let is_alike = before.is_none_or(|it| it.is_volatile() == id.is_volatile());
            let is_behind = before.is_none_or(|before| before < id);
            let last = sequence.checked_add(u64::from(count.saturating_sub(1)));
            if !is_alike || !is_behind || last.is_none() {
                return false;
            }
            before = Some(id);
        }
        before.is_some()
    }
}

impl fmt::Debug for Owners<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// Consecutive messages that several streams have, in one encoded run. The version of the last is its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PutShared<'a> {
    /// Whose messages.
    pub owners: Owners<'a>,
    /// How many messages; at least 1.
    pub count: u32,
    /// The messages, encoded.
    pub bytes: &'a [u8],
}

impl<'a> PutShared<'a> {
    /// What it says of one stream whose first message has that number.
    pub fn of(&self, stream: StreamId, sequence: u64) -> Put<'a> {
        let PutShared { count, bytes, .. } = *self;
        let version = sequence.saturating_add(u64::from(count).saturating_sub(1));
        Put { stream, sequence, count, version, keep_from: 0, bytes, body: None }
    }

    /// Whether its streams end with the life of the server.
    pub(crate) fn is_volatile(&self) -> bool {
        self.owners.iter().next().is_some_and(|(stream, _)| stream.is_volatile())
    }

    /// Appends the body of the record, behind its kind.
    pub(crate) fn encode(&self, to: &mut Vec<u8>) {
        write_varint(to, u64::from(self.count));
        write_bytes(to, self.owners.0);
        to.extend_from_slice(self.bytes);
    }

    /// Reads the body of the record.
    pub(crate) fn decode(fields: &mut Fields<'a>) -> Option<PutShared<'a>> {
        let count = u32::try_from(fields.number()?).ok().filter(|count| *count > 0)?;
        let owners = Owners(fields.bytes()?);
        owners.are_consistent(count).then(|| PutShared { owners, count, bytes: fields.rest() })
    }
}

/// Appends streams in the form of [`Owners`]. They must rise.
pub(crate) fn encode_owners(owners: impl IntoIterator<Item = (StreamId, u64)>, to: &mut Vec<u8>) {
    let (mut stream, mut sequence) = (0u64, 0u64);
    for (StreamId(next), first) in owners {
        write_varint(to, next.saturating_sub(stream));
        write_varint(to, fold(first.wrapping_sub(sequence)));
        (stream, sequence) = (next, first);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::record::Record;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn streams_and_their_numbers_come_back(
            owners in proptest::collection::btree_map(0u64..1 << 63, 0u64..=u64::MAX - 9, 1..50),
            count in 1u32..10,
            are_volatile: bool,
        ) {
            let id = |stream| if are_volatile { StreamId::volatile(stream) } else { StreamId(stream) };
            let expected: Vec<_> = owners.into_iter().map(|(it, first)| (id(it), first)).collect();
            let mut list = Vec::new();
            encode_owners(expected.iter().copied(), &mut list);
            let record = Record::PutShared(PutShared { owners: Owners(&list), count, bytes: b"body" });
            let mut bytes = Vec::new();
            record.encode(&mut bytes);
            let read = Record::decode(&bytes).unwrap();
            prop_assert_eq!(read, record);
            let Record::PutShared(shared) = read else { panic!() };
            prop_assert_eq!(shared.owners.iter().collect::<Vec<_>>(), expected.clone());
            prop_assert_eq!(shared.is_volatile(), are_volatile);
            for (stream, first) in expected {
                let put = read.put_of(stream, first).unwrap();
                prop_assert_eq!((put.stream, put.sequence, put.count), (stream, first, count));
                prop_assert_eq!((put.last(), put.bytes), (put.version, &b"body"[..]));
                prop_assert_eq!(read.put_of(stream, first ^ 1), None);
            }
        }
    }

    #[test]
    fn neighbours_take_two_bytes_each() {
        let mut list = Vec::new();
        encode_owners(
            (0..1000).map(|it| (StreamId(4_000_000 + 2 * it), 77_000_000 + it)),
            &mut list,
        );
        assert!(list.len() < 2010, "{}", list.len());
    }

    #[test]
    fn inconsistent_records_are_refused() {
        let decodes = |owners: &[(u64, u64)], count: u32| {
            let mut list = Vec::new();
            for (step, difference) in owners {
                write_varint(&mut list, *step);
                write_varint(&mut list, *difference);
            }
            let mut bytes = Vec::new();
            let owners = Owners(&list);
            Record::PutShared(PutShared { owners, count, bytes: b"b" }).encode(&mut bytes);
            Record::decode(&bytes).is_some()
        };
        assert!(decodes(&[(1, 2), (1, 0)], 1));
        assert!(!decodes(&[], 1), "nobody's");
        assert!(!decodes(&[(1, 2)], 0), "no messages");
        assert!(!decodes(&[(1, 2), (0, 2)], 1), "one stream twice");
        assert!(!decodes(&[(1, 1)], 2), "numbers beyond the last");
        assert!(!decodes(&[(u64::MAX, 2), (1, 2)], 1), "streams beyond the last");
        assert!(!decodes(&[(1, 2), (1 << 63, 2)], 1), "some survive and some do not");
        assert_eq!(Record::decode(&[12, 1, 3, 1, 2, 1, b'x']), None, "a list that is cut");
    }
}
