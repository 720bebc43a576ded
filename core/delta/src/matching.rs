//! What two values have in common: stretches to copy and bytes to tell, in the order of the new value.
//!
//! Made for values of which a few digits change: there the old and the new value mostly run side by
//! side, so after a difference the same distance is tried first, then distances a few bytes away, for a number
//! that has become longer or shorter, and only then are blocks of the old value looked up: their table
//! takes as long to make as all the rest. Invariant: each byte of the new value is passed over a bounded
//! number of times, whatever the values.

use crate::blocks::{BLOCK, Blocks};
use crate::common::{Found, common_prefix};

/// Takes what was found.
pub(crate) trait Sink {
    /// Bytes that are to be told.
    fn literal(&mut self, bytes: &[u8]);
    /// Bytes of the old value that come again.
    fn copy(&mut self, source: usize, len: usize);
    /// Whether it has grown so large that the rest is not worth looking for.
    fn is_full(&self) -> bool;
}

/// Tells a sink how `new` is made of `old`, from the place on where both begin to differ.
#[inline]
pub(crate) fn walk(old: &[u8], new: &[u8], from: usize, sink: &mut impl Sink) {
    let mut search = Search { blocks: Blocks::default(), shifts: SHIFTS_MAX };
    let (mut at, mut cursor) = (from, from);
    while at < new.len() && !sink.is_full() {
        let found = search.resume(old, new, at, cursor);
        let literal = found.as_ref().map_or(new.len(), |found| found.at);
        if literal > at {
            sink.literal(new.get(at..literal).unwrap_or_default());
        }
        at = literal;
        let Some(found) = found else { break };
        sink.copy(found.source, found.len);
        at += found.len;
        cursor = found.source + found.len;
    }
}

/// How the next stretch is looked for.
struct Search {
    blocks: Blocks,
    /// How often other distances may still be tried.
    shifts: usize,
}

impl Search {
    /// Looks for the next stretch worth copying. Whatever it passes over becomes a literal, so all
    /// searches together pass over each byte at most once by either way.
    #[inline]
    fn resume(&mut self, old: &[u8], new: &[u8], at: usize, cursor: usize) -> Option<Found> {
        let mut near = at + 1..=at + NEAR;
        let found = near.find_map(|place| beside(old, new, place, cursor + place - at));
        if found.is_some() {
            return found;
        }
        if self.shifts > 0 && !self.blocks.is_filled() {
            self.shifts -= 1;
            let found = shifted(old, new, at, cursor);
            if found.is_some() {
                return found;
            }
        }
        for place in at..new.len() {
            let found = beside(old, new, place, cursor + place - at)
                .or_else(|| self.blocks.find(old, new, place, at));
            if found.is_some() {
                return found;
            }
        }
        None
    }
}

/// A stretch that a number before it has moved by a few digits. Shorter ones are left to the table: values
/// that repeat themselves have those at every distance, and another place may go on for longer.
fn shifted(old: &[u8], new: &[u8], at: usize, cursor: usize) -> Option<Found> {
    for place in at..at + NEAR {
        let ours = new.get(place..)?;
        let block = ours.first_chunk::<BLOCK>()?;
        let beside = cursor + place - at;
        for shift in 1..=SHIFT_MAX {
            for source in [beside.checked_sub(shift), Some(beside + shift)] {
                let theirs = source.and_then(|source| old.get(source..)).unwrap_or_default();
                if let (Some(source), Some(known)) = (source, theirs.first_chunk::<BLOCK>())
                    && known == block
                    && let len = common_prefix(theirs, ours)
                    && len >= SHIFTED_BYTES_MIN
                {
                    return Some(Found { at: place, source, len });
                }
            }
        }
    }
    None
}

/// Whether both values are the same there, for long enough to pay.
#[inline]
fn beside(old: &[u8], new: &[u8], at: usize, source: usize) -> Option<Found> {
    let (ours, theirs) = (new.get(at..)?, old.get(source..)?);
    if ours.first_chunk::<4>()? != theirs.first_chunk::<4>()? {
        return None;
    }
    Some(Found { at, source, len: common_prefix(theirs, ours) })
}

/// Bytes after a difference within which only the same distance is tried.
const NEAR: usize = 16;
/// The most bytes that a number is taken to have grown or shrunk by.
const SHIFT_MAX: usize = 4;
/// The least bytes that such a number is taken to have moved.
const SHIFTED_BYTES_MIN: usize = 32;
/// How often that is tried in one value: enough for values with a few numbers that change, and little work if
/// it is in vain.
const SHIFTS_MAX: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_grew_or_shrank_needs_no_table_of_blocks() {
        let rest = b",\"size\":7,\"name\":\"a field that stays\"}";
        for (old, new) in [("99", "100"), ("100", "99"), ("1", "12345"), ("12345", "1")] {
            let [old, new] = [old, new].map(|number| [number.as_bytes(), rest].concat());
            let mut search = Search { blocks: Blocks::default(), shifts: SHIFTS_MAX };
            let from = common_prefix(&old, &new);
            let found = search.resume(&old, &new, from, from);
            assert!(!search.blocks.is_filled());
            assert_eq!(found.map(|found| found.len), Some(rest.len()));
        }
    }

    #[test]
    fn distances_are_tried_a_bounded_number_of_times() {
        let (old, new) = ([b'a'; 400], [b'b'; 400]);
        let mut search = Search { blocks: Blocks::default(), shifts: 1 };
        assert!(search.resume(&old, &new, 0, 0).is_none());
        assert!(search.shifts == 0 && search.blocks.is_filled());
    }
}
