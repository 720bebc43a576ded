//! Where blocks of the old value lie, for stretches that moved.
//!
//! Relies on nothing. Invariant: the table has one size whatever the values, and a lookup is one
//! comparison; what collides is forgotten, which costs length and never correctness.

use crate::common::{Found, common_prefix, common_suffix};

/// Filled when first asked. One place per hash.
#[derive(Default)]
pub(crate) struct Blocks {
    places: Option<[u32; PLACES]>,
}

impl Blocks {
    /// Whether a block has been looked up, so that another look costs little.
    pub(crate) fn is_filled(&self) -> bool {
        self.places.is_some()
    }

    /// A stretch of the old value that comes again at `at`, reaching back at most to `literal`.
    pub(crate) fn find(
        &mut self,
        old: &[u8],
        new: &[u8],
        at: usize,
        literal: usize,
    ) -> Option<Found> {
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

/// Bytes of a block that is looked up.
pub(crate) const BLOCK: usize = 8;
/// Places for blocks; four kilobytes of stack.
const PLACES: usize = 1024;
/// The least distance between two blocks.
const STEP_MIN: usize = 1;
