//! Where rooms are, and sets of such places.
//!
//! Relies on nothing. Invariant: a set holds places of this node, of which there is one for each shard; places of
//! several nodes need another form than [`PlaceSet`] has, and nothing but this file knows its form.

use tiderace_base::limits::SHARDS_MAX;
use tiderace_base::{Key, SessionId, ShardId};

const _: () = assert!(SHARDS_MAX <= 64, "a set of places has a bit for each shard");
const _: () = assert!(size_of::<Place>() == 4, "every message between rooms has two");

/// The shard that keeps the list of views.
pub(crate) const REGISTRAR: Place = Place::here(ShardId(0));

/// A node of those that serve together; this one has the number zero, and there is no other today.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub u16);

/// Where rooms are: a shard of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    /// Which node.
    pub node: NodeId,
    /// Which of its shards.
    pub shard: ShardId,
}

impl Place {
    /// A shard of this node.
    #[inline]
    pub const fn here(shard: ShardId) -> Place {
        Place { node: NodeId(0), shard }
    }

    /// Where a session is.
    #[inline]
    pub const fn of(session: SessionId) -> Place {
        Place::here(session.shard)
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "shard {} of node {}", self.shard.0, self.node.0)
    }
}

/// A set of places.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PlaceSet(u64);

impl PlaceSet {
    /// No place.
    pub(crate) const EMPTY: PlaceSet = PlaceSet(0);

    /// One place.
    #[inline]
    pub(crate) const fn of(place: Place) -> PlaceSet {
        PlaceSet(1 << (place.shard.0 % 64))
    }

    /// All places of a node with so many shards.
    pub(crate) fn all(shards: usize) -> PlaceSet {
        PlaceSet(u64::MAX >> (64 - shards.clamp(1, 64)))
    }

    #[inline]
    pub(crate) const fn contains(self, place: Place) -> bool {
        self.0 & PlaceSet::of(place).0 != 0
    }

    #[inline]
    pub(crate) const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// How many places there are.
    #[inline]
    pub(crate) const fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// The places of both.
    #[inline]
    pub(crate) const fn union(self, other: PlaceSet) -> PlaceSet {
        PlaceSet(self.0 | other.0)
    }

    /// The places of this set that are not in the other.
    pub(crate) const fn minus(self, other: PlaceSet) -> PlaceSet {
        PlaceSet(self.0 & !other.0)
    }

    #[inline]
    pub(crate) const fn without(self, place: Place) -> PlaceSet {
        PlaceSet(self.0 & !PlaceSet::of(place).0)
    }

    /// Adds a place; whether it was not there.
    #[inline]
    pub(crate) fn insert(&mut self, place: Place) -> bool {
        let is_new = !self.contains(place);
        self.0 |= PlaceSet::of(place).0;
        is_new
    }

    /// Takes a place out; whether it was there.
    #[inline]
    pub(crate) fn remove(&mut self, place: Place) -> bool {
        let was_there = self.contains(place);
        *self = self.without(place);
        was_there
    }

    /// Adds a place or takes it out; whether that changes anything.
    #[inline]
    pub(crate) fn set(&mut self, place: Place, on: bool) -> bool {
        if on { self.insert(place) } else { self.remove(place) }
    }

    /// The places, rising.
    #[inline]
    pub(crate) fn iter(self) -> impl Iterator<Item = Place> {
        let PlaceSet(mut set) = self;
        std::iter::from_fn(move || {
            let shard = ShardId(set.trailing_zeros() as u16);
            let some = set != 0;
            set &= set.wrapping_sub(1);
            some.then_some(Place::here(shard))
        })
    }
}

/// Where a session of this shard is kept.
pub(crate) fn key_of(session: SessionId) -> Key {
    Key { slot: session.slot, generation: session.generation }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn sets_of_places_agree_with_a_tree(ops in proptest::collection::vec((0u16..64, any::<bool>()), 1..200)) {
            let (mut set, mut model) = (PlaceSet::EMPTY, BTreeSet::new());
            for (shard, on) in ops {
                let place = Place::here(ShardId(shard));
                let changes = if on { model.insert(place) } else { model.remove(&place) };
                prop_assert_eq!(set.set(place, on), changes);
                prop_assert_eq!(set.iter().collect::<Vec<_>>(), model.iter().copied().collect::<Vec<_>>());
                prop_assert_eq!((set.len(), set.is_empty()), (model.len(), model.is_empty()));
                prop_assert_eq!(set.contains(place), on);
            }
        }
    }

    #[test]
    fn all_places_are_as_many_as_shards() {
        for shards in 1..=64 {
            assert_eq!(PlaceSet::all(shards).len(), shards);
        }
    }
}
