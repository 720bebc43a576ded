//! What two values have in common: stretches to copy and bytes to tell, in the order of the new value.
//!
//! Made for values of which a few digits change: there the old and the new value mostly run side by
//! side, so after a difference the same distance is tried first, and only then are blocks of the
//! old value looked up. Invariant: each byte of the new value is passed over a bounded number of
//! times, whatever the values.

use crate::blocks::Blocks;

/// Takes what was found.
pub(crate) trait Sink {
    /// Bytes that are to be told.
    fn literal(&mut self, bytes: &[u8]);
    /// Bytes of the old value that come again.
    fn copy(&mut self, source: usize, len: usize);
    /// Whether it has grown so large that the rest is not worth looking for.
    fn is_full(&self) -> bool;
}

/// How many bytes both values begin and end with; the ends do not overlap in either.
pub(crate) fn common_ends(old: &[u8], new: &[u8]) -> (usize, usize) {
    let prefix = common_prefix(old, new);
    let most = old.len().min(new.len()) - prefix;
    (prefix, common_suffix(old, new, most))
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

/// Where both values run together again.
pub(crate) struct Found {
    /// In the new value.
    pub(crate) at: usize,
    /// In the old value.
    pub(crate) source: usize,
    pub(crate) len: usize,
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

#[inline]
pub(crate) fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    let words = a.as_chunks::<8>().0.iter().zip(b.as_chunks::<8>().0);
    let whole = words.take_while(|(a, b)| a == b).count() * 8;
    let rest = |bytes| <[u8]>::get(bytes, whole..).unwrap_or_default().iter();
    whole + rest(a).zip(rest(b)).take_while(|(a, b)| a == b).count()
}

/// At most `most` bytes, which both have.
#[inline]
pub(crate) fn common_suffix(a: &[u8], b: &[u8], most: usize) -> usize {
    let tail = |bytes: &[u8]| bytes.len() - most;
    let (a, b) = (a.get(tail(a)..).unwrap_or_default(), b.get(tail(b)..).unwrap_or_default());
    let words = a.as_rchunks::<8>().1.iter().rev().zip(b.as_rchunks::<8>().1.iter().rev());
    let whole = words.take_while(|(a, b)| a == b).count() * 8;
    let rest = |bytes: &'_ [u8]| bytes.len() - whole;
    let rests = (a.get(..rest(a)).unwrap_or_default(), b.get(..rest(b)).unwrap_or_default());
    whole + rests.0.iter().rev().zip(rests.1.iter().rev()).take_while(|(a, b)| a == b).count()
}

/// Bytes after a difference within which only the same distance is tried.
const NEAR: usize = 16;
