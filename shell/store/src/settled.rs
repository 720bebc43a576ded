//! Messages of several streams that have been consumed, in one record: what is settled of very many queues in one turn.
//!
//! Relies on `fields`. Streams and numbers are written as differences to those before, some six bytes for each stretch,
//! where a record of its own takes seventeen. Invariants: decoding never panics, whatever the bytes; what decodes has at
//! least one stretch; the streams of all of them survive, or none.
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

use std::fmt;

use tiderace_base::write_varint;

use crate::fields::{Fields, fold, unfold};
use crate::put::StreamId;

/// Stretches of messages, each of a stream: the first and the last.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Stretches<'a>(&'a [u8]);

impl<'a> Stretches<'a> {
    /// Each stretch.
    pub fn iter(&self) -> impl Iterator<Item = (StreamId, u64, u64)> + use<'a> {
        let mut fields = Fields::new(self.0);
        let mut before = (StreamId(0), 0);
        std::iter::from_fn(move || {
            let stretch = next(&mut fields, before)?;
            before = (stretch.0, stretch.1);
            Some(stretch)
        })
    }

    /// Their bytes in the record.
    pub(crate) fn bytes(&self) -> &'a [u8] {
        self.0
    }

    /// Whether their streams end with the life of the server.
    pub(crate) fn are_volatile(&self) -> bool {
        self.iter().next().is_some_and(|(stream, ..)| stream.is_volatile())
    }

    /// Reads all that is left.
    pub(crate) fn decode(fields: &mut Fields<'a>) -> Option<Stretches<'a>> {
        let stretches = Stretches(fields.rest());
        let mut left = Fields::new(stretches.0);
        let mut before = None;
        while !left.is_empty() {
            let (stream, first) = before.unwrap_or((StreamId(0), 0));
            let (next, first, _) = next(&mut left, (stream, first))?;
            if before.is_some_and(|(it, _): (StreamId, u64)| it.is_volatile() != next.is_volatile())
            {
                return None;
            }
            before = Some((next, first));
        }
        before.map(|_| stretches)
    }
}

impl fmt::Debug for Stretches<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

fn next(fields: &mut Fields<'_>, (stream, first): (StreamId, u64)) -> Option<(StreamId, u64, u64)> {
    let stream = StreamId(stream.0.wrapping_add(unfold(fields.number()?)));
    let first = first.wrapping_add(unfold(fields.number()?));
    Some((stream, first, first.checked_add(fields.number()?)?))
}

/// Appends stretches in the form of [`Stretches`], behind one of that stream with that first number. Gives the last
/// for what is appended next.
pub(crate) fn append_stretches(
    mut before: (StreamId, u64),
    stretches: impl IntoIterator<Item = (StreamId, u64, u64)>,
    to: &mut Vec<u8>,
) -> (StreamId, u64) {
    for (stream, first, last) in stretches {
        write_varint(to, fold(stream.0.wrapping_sub(before.0.0)));
        write_varint(to, fold(first.wrapping_sub(before.1)));
        write_varint(to, last.saturating_sub(first));
        before = (stream, first);
    }
    before
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::record::Record;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn stretches_come_back(
            stretches in proptest::collection::vec((0u64..1 << 63, any::<u64>(), any::<u64>()), 1..50),
            are_volatile: bool,
        ) {
            let id = |stream| if are_volatile { StreamId::volatile(stream) } else { StreamId(stream) };
            let stretches: Vec<_> =
                stretches.into_iter().map(|(it, one, other)| (id(it), one.min(other), one.max(other))).collect();
            let mut bytes = Vec::new();
            append_stretches((StreamId(0), 0), stretches.iter().copied(), &mut bytes);
            let record = Record::SettleMany { stretches: Stretches(&bytes) };
            let mut encoded = Vec::new();
            record.encode(&mut encoded);
            prop_assert_eq!(Record::decode(&encoded), Some(record));
            let found: Vec<_> = Stretches(&bytes).iter().collect();
            prop_assert_eq!(found, stretches);
            prop_assert_eq!(record.is_volatile(), are_volatile);
        }
    }

    #[test]
    fn inconsistent_records_are_refused() {
        let decodes = |numbers: &[u64]| {
            let mut bytes = Vec::new();
            numbers.iter().for_each(|number| write_varint(&mut bytes, *number));
            let mut encoded = Vec::new();
            Record::SettleMany { stretches: Stretches(&bytes) }.encode(&mut encoded);
            Record::decode(&encoded).is_some()
        };
        assert!(decodes(&[2, 4, 0]) && decodes(&[2, 4, 0, 1, 1, 7]));
        assert!(!decodes(&[]), "nothing");
        assert!(!decodes(&[2, 4]), "cut");
        assert!(!decodes(&[2, 1, 1]), "numbers beyond the last");
        assert!(!decodes(&[2, 4, 0, u64::MAX, 0, 0]), "some survive and some do not");
    }
}
