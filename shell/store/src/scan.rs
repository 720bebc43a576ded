//! Reads a segment from its start: whole batches, where they end, and what that end means.
//!
//! Relies on `frame` and `record`. Invariant: a batch is reported whole or not at all, in the order of the
//! log; and what comes after the end is told apart: bytes that a crash tore before they were synced, or
//! damage to bytes that were.
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

use memchr::memmem;

use crate::frame::{FRAME_HEADER_BYTES, Frame, FrameError, Seed, read};
use crate::record::{MARK_MAGIC, Record};

/// How the reading of a segment ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScanEnd {
    /// Where the last whole batch ends.
    pub whole: u32,
    /// Up to here the segment was synced before it was written on.
    pub synced: u32,
    /// The segment was ended on purpose.
    pub ended: bool,
    /// The record that could not be read, and why; `None` at the very end of the bytes.
    pub error: Option<(u32, FrameError)>,
}

/// Reads batches from `start` on; `each` is given the records of each whole batch, with their offsets and frames.
pub fn scan<'a>(
    segment: &'a [u8],
    start: u32,
    seed: Seed,
    mut each: impl FnMut(u32, Frame<'a>, Record<'a>),
) -> ScanEnd {
    let mut end = ScanEnd { whole: start, synced: start, ended: false, error: None };
    let mut at = start;
    let mut batch = Vec::new();
    while let Some(rest) = segment.get(at as usize..).filter(|rest| !rest.is_empty()) {
        let read = read(rest, at, seed).and_then(|frame| {
            let record = Record::decode(frame.payload).ok_or(FrameError::Unknown)?;
            Ok((frame, record))
        });
        let (frame, record) = match read {
            Ok(read) => read,
            Err(error) => {
                end.error = Some((at, error));
                return end;
            }
        };
        batch.push((at, frame, record));
        at = at.saturating_add(frame.bytes() as u32);
        if !frame.more {
            end.whole = at;
            for (offset, frame, record) in batch.drain(..) {
                match record {
                    Record::Mark { synced } => end.synced = end.synced.max(synced.min(offset)),
                    Record::End { .. } => end.ended = true,
                    _ => {}
                }
                each(offset, frame, record);
            }
        }
        if end.ended {
            break;
        }
    }
    if end.ended && (at as usize) < segment.len() {
        end.error = Some((at, FrameError::Unknown));
    }
    end
}

/// The first mark behind `from` that can be read, and how much it says was synced.
pub(crate) fn next_mark(segment: &[u8], from: u32, seed: Seed) -> Option<(u32, u32)> {
    const BEFORE: usize = FRAME_HEADER_BYTES + 1;
    let start = from as usize + BEFORE;
    let bytes = segment.get(start..)?;
    memmem::find_iter(bytes, &MARK_MAGIC).find_map(|found| {
        let at = start + found - BEFORE;
        let frame = read(segment.get(at..)?, u32::try_from(at).ok()?, seed).ok()?;
        match Record::decode(frame.payload)? {
            Record::Mark { synced } => Some((at as u32, synced)),
            _ => None,
        }
    })
}

/// Whether some later mark says that the bytes at `whole` were on disk already: then what follows there is
/// damaged, not torn.
pub(crate) fn was_synced(segment: &[u8], whole: u32, seed: Seed) -> bool {
    let mut from = whole;
    while let Some((at, synced)) = next_mark(segment, from, seed) {
        if synced > whole {
            return true;
        }
        from = at + 1;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::Batch;
    use crate::frame::seal;
    use crate::record::StreamId;

    fn seed() -> Seed {
        Seed::new(1, 1)
    }

    /// Two commits of one batch with two records each, behind 32 bytes.
    fn segment() -> (Vec<u8>, Vec<u32>) {
        let mut bytes = vec![0; 32];
        let mut bounds = Vec::new();
        for _ in 0..2 {
            let mut batch = Batch::new();
            batch.add_lone(&Record::Mark { synced: bytes.len() as u32 });
            let mut two = Batch::new();
            two.trim(StreamId(1), 1).unwrap();
            two.trim(StreamId(2), 2).unwrap();
            for mut part in [batch, two] {
                seal(part.frames_mut(), bytes.len() as u32, seed());
                bytes.extend_from_slice(part.frames());
                bounds.push(bytes.len() as u32);
            }
        }
        (bytes, bounds)
    }

    #[test]
    fn batches_are_read_whole_or_not_at_all() {
        let (bytes, bounds) = segment();
        for length in 32..=bytes.len() {
            let mut trims = 0;
            let end = scan(&bytes[..length], 32, seed(), |_, _, record| {
                trims += u32::from(matches!(record, Record::Trim { .. }));
            });
            let whole = bounds.iter().copied().filter(|bound| *bound as usize <= length).max();
            assert_eq!(end.whole, whole.unwrap_or(32));
            assert_eq!(trims % 2, 0);
            assert!(
                !was_synced(&bytes[..length], end.whole, seed()),
                "{length}: torn, not damaged"
            );
        }
    }

    #[test]
    fn damage_before_a_later_mark_is_no_torn_end() {
        let (bytes, bounds) = segment();
        for at in 32..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x10;
            let end = scan(&damaged, 32, seed(), |_, _, _| {});
            assert!(end.error.is_some() && end.whole as usize <= at);
            // What the second mark covers is the first commit.
            assert_eq!(was_synced(&damaged, end.whole, seed()), at < bounds[1] as usize, "{at}");
        }
    }

    #[test]
    fn nothing_follows_the_end() {
        let mut batch = Batch::new();
        batch.add_lone(&Record::End { summary: 0 });
        batch.add_lone(&Record::End { summary: 0 });
        seal(batch.frames_mut(), 0, seed());
        let end = scan(batch.frames(), 0, seed(), |_, _, _| {});
        assert!(end.ended && end.error.is_some());
    }
}
