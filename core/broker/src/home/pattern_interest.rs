//! As a home: which shards have subscriptions with which patterns.
//!
//! Relies on each shard telling every home of each of its subscriptions. Invariant: the generation rises
//! whenever another set of shards may be found for some topic.

use std::rc::Rc;

use tiderace_base::{Memory, MemoryUse};
use tiderace_topics::{Path, Pattern, PatternIndex};

use crate::collections::Map;
use crate::places::{Place, PlaceSet};
use crate::price::pattern_bytes;

/// The patterns of all shards' subscriptions.
#[derive(Debug)]
pub(crate) struct PatternInterest {
    /// How many subscriptions of each shard use each pattern.
    uses: Map<(Pattern, Place), u32>,
    places: PatternIndex<Place>,
    generation: u64,
    memory: Rc<Memory>,
}

impl PatternInterest {
    pub(crate) fn new(memory: Rc<Memory>) -> PatternInterest {
        PatternInterest {
            uses: Map::default(),
            places: PatternIndex::default(),
            generation: 1,
            memory,
        }
    }

    /// A subscription of a shard begins or ends. Only the first and the last of a shard with a pattern
    /// change what is found: whether the pattern is one more or one less.
    pub(crate) fn count(&mut self, from: Place, pattern: &Pattern, on: bool) -> Option<bool> {
        let uses = self.uses.entry((pattern.clone(), from)).or_default();
        let before = *uses;
        *uses = if on { before + 1 } else { before.saturating_sub(1) };
        let changed = match *uses {
            1 if on => {
                self.places.insert(pattern, from);
                self.memory.charge(MemoryUse::Names, pattern_bytes(pattern));
                Some(true)
            }
            0 => {
                self.uses.remove(&(pattern.clone(), from));
                if before > 0 {
                    self.memory.refund(MemoryUse::Names, pattern_bytes(pattern));
                }
                self.places.remove(pattern, &from).then_some(false)
            }
            _ => return None,
        };
        self.generation += 1;
        changed
    }

    /// What is found for a topic is to be found again.
    pub(crate) fn renew(&mut self) {
        self.generation += 1;
    }

    /// Rises with each change.
    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    /// Calls for each shard with a pattern that names a topic, perhaps more than once.
    pub(crate) fn places_of(&self, path: &Path) -> PlaceSet {
        let mut places = PlaceSet::EMPTY;
        self.places.matches(path, &mut |place| {
            places.insert(*place);
        });
        places
    }

    /// Whether a pattern of any shard names a topic.
    pub(crate) fn has(&self, path: &Path) -> bool {
        !self.places_of(path).is_empty()
    }
}
