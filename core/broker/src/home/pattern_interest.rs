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
    /// Of these, the recoverable ones.
    recorded: Map<(Pattern, Place), u32>,
    places: PatternIndex<Place>,
    generation: u64,
    memory: Rc<Memory>,
}

impl PatternInterest {
    pub(crate) fn new(memory: Rc<Memory>) -> PatternInterest {
        PatternInterest {
            uses: Map::default(),
            recorded: Map::default(),
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

    /// The places with a pattern that names a topic.
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

    /// A recoverable subscription of a place begins or ends.
    pub(crate) fn count_recorded(&mut self, from: Place, pattern: &Pattern, on: bool) {
        let of = (pattern.clone(), from);
        if on {
            *self.recorded.entry(of).or_default() += 1;
        } else if let Some(count) = self.recorded.get_mut(&of) {
            *count -= 1;
            if *count == 0 {
                self.recorded.remove(&of);
            }
        }
    }

    /// The patterns of a place: how many subscriptions each has, and how many recoverable ones.
    pub(crate) fn of(&self, place: Place) -> Vec<(Pattern, u32, u32)> {
        let uses = self.uses.iter().filter(|((_, of), _)| *of == place);
        let rows = uses.map(|(of, uses)| {
            let recorded = self.recorded.get(of).copied().unwrap_or(0);
            (of.0.clone(), *uses, recorded)
        });
        rows.collect()
    }
}
