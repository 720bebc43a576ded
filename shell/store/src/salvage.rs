//! What can still be read of a stretch of a segment in which something cannot.
//!
//! Relies on `frame`, `record` and `summary`. Each record has a checksum of its own, which covers its place, so those
//! before and behind a damaged one are known to be whole. Where the next one begins says the segment's summary, or the
//! damaged record's own length, or the search for the next checksum that fits. Invariants: what is given is what was written
//! there; every byte of the stretch is in a record that is given or in a part that is said to be lost; the work is
//! bounded, whatever the bytes.
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

use std::ops::Range;

use crate::frame::{FRAME_HEADER_BYTES, Frame, FrameError, Seed, read};
use crate::lost::LostRecord;
use crate::record::Record;
use crate::sealed::summary_start;
use crate::summary;

/// Bytes that the search for the next record goes through in one stretch: a publisher may have written what looks like
/// the beginning of a record millions of times.
const SEARCH_BYTES_MAX: u64 = 4 << 30;

/// A part of a segment that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lost {
    pub(crate) offset: u32,
    pub(crate) bytes: u32,
    pub(crate) error: FrameError,
    /// What it was, if that is known.
    pub(crate) record: Option<LostRecord>,
}

/// Records of a segment by their offsets, as its summary has them; none if that cannot be read.
pub(crate) fn known_records(segment: &[u8], seed: Seed) -> Vec<(u32, LostRecord)> {
    let mut known = Vec::new();
    let Ok(bytes) = u32::try_from(segment.len()) else { return known };
    let record = summary_start(segment, bytes, seed).and_then(|start| {
        let frame = read(segment.get(start as usize..)?, start, seed).ok()?;
        Record::decode(frame.payload)
    });
    if let Some(Record::Summary { entries }) = record {
        let each = |offset, _, record: &Record<'_>| known.push((offset, LostRecord::of(record)));
        if summary::read(entries, bytes, each).is_none() {
            known.clear();
        }
    }
    known
}

/// Goes through a stretch that begins and ends between records: `each` is given what can be read, and the parts that
/// cannot come back.
pub(crate) fn salvage<'a>(
    segment: &'a [u8],
    stretch: Range<u32>,
    seed: Seed,
    known: &[(u32, LostRecord)],
    mut each: impl FnMut(u32, Frame<'a>, Record<'a>),
) -> Vec<Lost> {
    let mut lost = Vec::new();
    let bytes = segment.get(..stretch.end as usize).unwrap_or_default();
    let mut at = stretch.start;
    while at < stretch.end {
        let error = match whole_record(bytes, at, seed) {
            Ok((frame, record)) => {
                each(at, frame, record);
                at += frame.bytes() as u32;
                continue;
            }
            Err(error) => error,
        };
        let next = next_record(bytes, at, seed, known).unwrap_or(stretch.end);
        let record = match known.binary_search_by_key(&at, |(offset, _)| *offset) {
            Ok(found) => known.get(found).map(|(_, record)| record.clone()),
            Err(_) => bytes.get(at as usize + FRAME_HEADER_BYTES..next as usize).and_then(|it| {
                let record = Record::decode(it)?;
                Some(LostRecord::Perhaps(Box::new(LostRecord::of(&record))))
            }),
        };
        lost.push(Lost { offset: at, bytes: next - at, error, record });
        at = next;
    }
    lost
}

fn whole_record(bytes: &[u8], at: u32, seed: Seed) -> Result<(Frame<'_>, Record<'_>), FrameError> {
    let frame = read(bytes.get(at as usize..).unwrap_or_default(), at, seed)?;
    let record = Record::decode(frame.payload).ok_or(FrameError::Unknown)?;
    Ok((frame, record))
}

/// Where the record behind a damaged one begins; `None` if there is none.
fn next_record(bytes: &[u8], at: u32, seed: Seed, known: &[(u32, LostRecord)]) -> Option<u32> {
    let behind = known.partition_point(|(offset, _)| *offset <= at);
    let known = known.get(behind).map(|(offset, _)| *offset);
    let known = known.filter(|offset| (*offset as usize) < bytes.len());
    let own = own_end(bytes, at)
        .filter(|end| *end as usize == bytes.len() || whole_record(bytes, *end, seed).is_ok());
    let end = match (own, known) {
        (Some(own), Some(known)) => Some(own.min(known)),
        (own, known) => own.or(known),
    };
    // Its own length may be what is damaged, and a summary does not have all records.
    search(bytes, at + 1..end.unwrap_or(bytes.len() as u32), seed).or(end)
}

/// Where a record ends, says its length, which may be damaged.
fn own_end(bytes: &[u8], at: u32) -> Option<u32> {
    let length = length_at(bytes, at)?;
    let end = at.checked_add(FRAME_HEADER_BYTES as u32)?.checked_add(length)?;
    (length > 0 && end as usize <= bytes.len()).then_some(end)
}

fn length_at(bytes: &[u8], at: u32) -> Option<u32> {
    let word = bytes.get(at as usize..)?.first_chunk::<4>()?;
    // The highest bit says that the next record belongs to the same batch.
    Some(u32::from_le_bytes(*word) & !(1 << 31))
}

/// The first of these places at which a record can be read.
fn search(bytes: &[u8], places: Range<u32>, seed: Seed) -> Option<u32> {
    let mut left = SEARCH_BYTES_MAX;
    for at in places {
        let Some(end) = own_end(bytes, at) else { continue };
        left = left.checked_sub(u64::from(end - at))?;
        if whole_record(bytes, at, seed).is_ok() {
            return Some(at);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use super::*;
    use crate::record::{Put, StreamId};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_byte_is_in_a_record_or_said_to_be_lost(
            bodies in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..60), 1..12),
            flips in proptest::collection::vec((any::<prop::sample::Index>(), 0u8..8), 1..4),
        ) {
            let seed = Seed::new(1, 1);
            let mut segment = vec![0; 32];
            let mut whole = Vec::new();
            for (sequence, bytes) in bodies.iter().enumerate() {
                let (stream, count, version, keep_from) = (StreamId(1), 1, 0, 0);
                let sequence = sequence as u64;
                let mut payload = Vec::new();
                Record::Put(Put { stream, sequence, count, version, keep_from, bytes, body: None }).encode(&mut payload);
                whole.push((segment.len(), segment.len() + 8 + payload.len()));
                seed.frame(&payload, false, &mut segment);
            }
            let mut damaged = segment.clone();
            let mut hit = std::collections::BTreeSet::new();
            for (at, bit) in flips {
                let at = 32 + at.index(segment.len() - 32);
                damaged[at] ^= 1 << bit;
            }
            for (index, (from, to)) in whole.iter().enumerate() {
                if damaged[*from..*to] != segment[*from..*to] {
                    hit.insert(index as u64);
                }
            }
            let end = segment.len() as u32;
            let mut found = std::collections::BTreeSet::new();
            let mut covered = 0;
            let lost = salvage(&damaged, 32..end, seed, &[], |offset, frame, record| {
                let Record::Put(put) = record else { panic!() };
                assert_eq!(whole[put.sequence as usize].0, offset as usize);
                found.insert(put.sequence);
                covered += frame.bytes() as u32;
            });
            covered += lost.iter().map(|lost| lost.bytes).sum::<u32>();
            prop_assert_eq!(covered, end - 32);
            let expected = (0..bodies.len() as u64).filter(|index| !hit.contains(index));
            prop_assert!(found.iter().copied().eq(expected), "{:?} {:?}", found, hit);
        }
    }

    #[test]
    fn a_search_that_would_take_for_ever_ends() {
        // What looks like the beginning of a long record, at every fourth byte.
        let length = 8u32 << 20;
        let bytes: Vec<u8> = (0..length / 4).flat_map(|_| (length / 2).to_le_bytes()).collect();
        let lost = salvage(&bytes, 0..length, Seed::new(1, 1), &[], |_, _, _| {});
        assert_eq!(lost.iter().map(|lost| lost.bytes).sum::<u32>(), length);
    }
}
