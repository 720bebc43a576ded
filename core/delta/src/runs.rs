//! Codec 1, `tiderace`: what two values have in common at both ends is left out, what lies between is
//! told as stretches that are copied from the old value or replaced.
//!
//! Made for values of which a few digits change: there the old and the new value mostly run side by
//! side, so after a difference the same distance is tried first, and only then are blocks of the
//! old value looked up. The format stands in `docs/protocol.md`, section 8.

use crate::{DeltaError, varint};

const COPY: usize = 0;
const REPLACE: usize = 1;
const MOVE_AND_COPY: usize = 2;

/// Appends the difference that makes `new` of `old`. `false`, and nothing appended, when it would have
/// `limit` bytes or more.
pub fn encode(old: &[u8], new: &[u8], out: &mut Vec<u8>, limit: usize) -> bool {
    let start = out.len();
    let prefix = common_prefix(old, new);
    let most = old.len().min(new.len()) - prefix;
    let suffix = common_suffix(old, new, most);
    varint::write(out, prefix);
    varint::write(out, suffix);
    let new = new.get(..new.len() - suffix).unwrap_or_default();
    let mut blocks = Blocks::default();
    let (mut at, mut cursor) = (prefix, prefix);
    while at < new.len() && out.len() - start < limit {
        let found = resume(old, new, at, cursor, &mut blocks);
        let literal = found.as_ref().map_or(new.len(), |found| found.at);
        if literal > at {
            varint::write(out, (literal - at) << 2 | REPLACE);
            out.extend_from_slice(new.get(at..literal).unwrap_or_default());
            cursor = (cursor + literal - at).min(old.len());
        }
        at = literal;
        let Some(found) = found else { break };
        if found.source == cursor {
            varint::write(out, found.len << 2 | COPY);
        } else {
            varint::write(out, found.len << 2 | MOVE_AND_COPY);
            varint::write(out, zigzag(found.source as isize - cursor as isize));
        }
        at += found.len;
        cursor = found.source + found.len;
    }
    if out.len() - start < limit {
        return true;
    }
    out.truncate(start);
    false
}

/// The value that a difference makes of `old`.
///
/// # Errors
/// When the bytes are no difference to that value, or what they make has more than `max` bytes.
pub fn decode(old: &[u8], mut delta: &[u8], max: usize) -> Result<Vec<u8>, DeltaError> {
    let delta = &mut delta;
    let prefix = varint::read(delta).ok_or(DeltaError::Cut)?;
    let suffix = varint::read(delta).ok_or(DeltaError::Cut)?;
    let ends = prefix.checked_add(suffix).filter(|ends| *ends <= old.len());
    let ends = ends.ok_or(DeltaError::OutOfRange)?;
    // What the bytes at hand justify; long copies let it grow as they come.
    let mut new = Vec::with_capacity(max.min(ends + delta.len()));
    take(old, 0, prefix, max, &mut new)?;
    let mut cursor = prefix;
    while !delta.is_empty() {
        let operation = varint::read(delta).ok_or(DeltaError::Cut)?;
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
                let distance = unzigzag(varint::read(delta).ok_or(DeltaError::Cut)?);
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

/// Where both values run together again.
struct Found {
    /// In the new value.
    at: usize,
    /// In the old value.
    source: usize,
    len: usize,
}

/// Looks for the next stretch worth copying. Whatever it passes over becomes a literal, so all
/// searches together pass over each byte at most once by either way.
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
fn beside(old: &[u8], new: &[u8], at: usize, source: usize) -> Option<Found> {
    let (ours, theirs) = (new.get(at..)?, old.get(source..)?);
    if ours.first_chunk::<4>()? != theirs.first_chunk::<4>()? {
        return None;
    }
    Some(Found { at, source, len: common_prefix(theirs, ours) })
}

/// Where blocks of the old value lie; filled when first asked. One place per hash: what collides is
/// forgotten, which costs length and never correctness.
#[derive(Default)]
struct Blocks {
    places: Option<[u32; PLACES]>,
}

impl Blocks {
    fn find(&mut self, old: &[u8], new: &[u8], at: usize, literal: usize) -> Option<Found> {
        let ours = new.get(at..)?;
        let block = ours.first_chunk::<BLOCK>()?;
        let places = self.places.get_or_insert_with(|| places_of(old));
        let source = places.get(hash(block))?.checked_sub(1)? as usize;
        let theirs = old.get(source..)?;
        if theirs.first_chunk::<BLOCK>()? != block {
            return None;
        }
        // What was passed over may belong to the stretch as well.
        let most = (at - literal).min(source);
        let before = common_suffix(old.get(..source)?, new.get(..at)?, most);
        let len = before + common_prefix(theirs, ours);
        Some(Found { at: at - before, source: source - before, len })
    }
}

fn places_of(old: &[u8]) -> [u32; PLACES] {
    let mut places = [0; PLACES];
    let step = old.len().div_ceil(PLACES).max(STEP_MIN);
    for source in (0..old.len().min(u32::MAX as usize)).step_by(step) {
        let block = old.get(source..).and_then(|rest| rest.first_chunk::<BLOCK>());
        if let Some(block) = block
            && let Some(place) = places.get_mut(hash(block))
        {
            *place = source as u32 + 1;
        }
    }
    places
}

fn hash(block: &[u8; BLOCK]) -> usize {
    (u64::from_le_bytes(*block).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - PLACES.ilog2()))
        as usize
}

fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    let words = a.as_chunks::<8>().0.iter().zip(b.as_chunks::<8>().0);
    let whole = words.take_while(|(a, b)| a == b).count() * 8;
    let rest = |bytes| <[u8]>::get(bytes, whole..).unwrap_or_default().iter();
    whole + rest(a).zip(rest(b)).take_while(|(a, b)| a == b).count()
}

/// At most `most` bytes, which both have.
fn common_suffix(a: &[u8], b: &[u8], most: usize) -> usize {
    let tail = |bytes: &[u8]| bytes.len() - most;
    let (a, b) = (a.get(tail(a)..).unwrap_or_default(), b.get(tail(b)..).unwrap_or_default());
    let words = a.as_rchunks::<8>().1.iter().rev().zip(b.as_rchunks::<8>().1.iter().rev());
    let whole = words.take_while(|(a, b)| a == b).count() * 8;
    let rest = |bytes: &'_ [u8]| bytes.len() - whole;
    let rests = (a.get(..rest(a)).unwrap_or_default(), b.get(..rest(b)).unwrap_or_default());
    whole + rests.0.iter().rev().zip(rests.1.iter().rev()).take_while(|(a, b)| a == b).count()
}

fn zigzag(distance: isize) -> usize {
    (distance << 1 ^ distance >> (isize::BITS - 1)) as usize
}

fn unzigzag(number: usize) -> isize {
    (number >> 1) as isize ^ -((number & 1) as isize)
}

/// Bytes after a difference within which only the same distance is tried.
const NEAR: usize = 16;
/// Bytes of a block that is looked up.
const BLOCK: usize = 8;
/// Places for blocks; two kilobytes of stack.
const PLACES: usize = 512;
/// The least distance between two blocks.
const STEP_MIN: usize = 4;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use super::*;

    fn delta(old: &str, new: &str) -> Vec<u8> {
        let mut out = b"before".to_vec();
        assert!(encode(old.as_bytes(), new.as_bytes(), &mut out, 1 << 20));
        let delta = out.strip_prefix(b"before").unwrap().to_vec();
        assert_eq!(decode(old.as_bytes(), &delta, new.len()).unwrap(), new.as_bytes());
        delta
    }

    #[test]
    fn a_changed_digit_costs_its_byte_and_a_few_more() {
        assert_eq!(delta("price 1.0845!", "price 1.0846!"), b"\x0b\x01\x056");
        assert_eq!(delta("same", "same"), b"\x04\x00");
        assert_eq!(delta("", ""), b"\x00\x00");
        assert_eq!(delta("ab", "abcd"), b"\x02\x00\x09cd");
        assert_eq!(delta("abcd", "ad"), b"\x01\x01");
    }

    #[test]
    fn a_longer_number_and_a_moved_block_are_found() {
        let filler = "\"some\":\"field that stays\",\"other\":[1,2,3]";
        let old = format!("{{\"bid\":9.99,{filler},\"ask\":10.0,\"x\":1}}");
        let new = format!("{{\"bid\":10.01,{filler},\"ask\":9.98,\"x\":2}}");
        assert!(delta(&old, &new).len() < 30);
        let other: String = ('a'..='z').chain('A'..='Z').collect();
        assert!(delta(&format!("{filler}{other}"), &format!("{other}{filler}")).len() < 16);
    }

    #[test]
    fn what_is_not_smaller_is_not_made() {
        let mut out = b"x".to_vec();
        assert!(!encode(b"abcdefgh", b"ijklmnop", &mut out, 8));
        assert_eq!(out, b"x");
        assert!(!encode(b"abc", b"abd", &mut out, 4));
        assert!(encode(b"abc", b"abd", &mut out, 5));
    }

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
}
