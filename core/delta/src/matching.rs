//! What two values have in common: stretches to copy and bytes to tell, in the order of the new value.
//!
//! Made for values of which a few digits change: there the old and the new value mostly run side by
//! side, so after a difference the same distance is tried first, and only then are blocks of the
//! old value looked up. Invariant: each byte of the new value is passed over a bounded number of
//! times, whatever the values.

use crate::blocks::Blocks;
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
    let mut blocks = Blocks::default();
    let (mut at, mut cursor) = (from, from);
    while at < new.len() && !sink.is_full() {
        let found = resume(old, new, at, cursor, &mut blocks);
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

/// Looks for the next stretch worth copying. Whatever it passes over becomes a literal, so all
/// searches together pass over each byte at most once by either way.
#[inline]
fn resume(old: &[u8], new: &[u8], at: usize, cursor: usize, blocks: &mut Blocks) -> Option<Found> {
    let near = (at + 1..=at + NEAR).find_map(|place| beside(old, new, place, cursor + place - at));
    if near.is_some() {
        return near;
    }
    for place in at..new.len() {
        let found = beside(old, new, place, cursor + place - at)
            .or_else(|| blocks.find(old, new, place, at));
        if found.is_some() {
            return found;
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
