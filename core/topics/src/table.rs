//! Entries in the order they came, found by their keys; removal takes the last into the gap.
//!
//! Few entries are searched one by one, more by hash, so that finding and removing one does not depend
//! on how many there are. Invariant: once there is a table of hashes, it has each place once.

use std::hash::{BuildHasher, Hash};

use hashbrown::HashTable;

/// Entries up to which a search one by one is as fast as a hash.
const LISTED_MAX: usize = 8;

/// Entries by key. The same key may be pushed several times.
#[derive(Debug)]
pub(crate) struct Table<K, V> {
    entries: Vec<(K, V)>,
    places: Option<Box<Places>>,
}

#[derive(Debug, Default)]
struct Places {
    table: HashTable<u32>,
    state: foldhash::fast::RandomState,
}

impl<K, V> Default for Table<K, V> {
    fn default() -> Self {
        Table { entries: Vec::new(), places: None }
    }
}

impl<K: Eq + Hash, V> Table<K, V> {
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(crate) fn iter(&self) -> std::slice::Iter<'_, (K, V)> {
        self.entries.iter()
    }

    /// The place of an entry with that key.
    pub(crate) fn find<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> Option<usize>
    where
        K: std::borrow::Borrow<Q>,
    {
        let Some(places) = &self.places else {
            return self.entries.iter().position(|(known, _)| known.borrow() == key);
        };
        let is_key = |place: &u32| {
            self.entries.get(*place as usize).is_some_and(|(known, _)| known.borrow() == key)
        };
        places.table.find(places.state.hash_one(key), is_key).map(|place| *place as usize)
    }

    pub(crate) fn get<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: std::borrow::Borrow<Q>,
    {
        self.entries.get(self.find(key)?).map(|(_, value)| value)
    }

    pub(crate) fn at_mut(&mut self, place: usize) -> Option<&mut V> {
        self.entries.get_mut(place).map(|(_, value)| value)
    }

    /// Adds an entry; its place.
    pub(crate) fn push(&mut self, key: K, value: V) -> usize {
        let place = self.entries.len();
        self.entries.push((key, value));
        if self.places.is_some() {
            self.note(place);
        } else if self.entries.len() > LISTED_MAX {
            self.places = Some(Box::default());
            (0..=place).for_each(|place| self.note(place));
        }
        place
    }

    /// Takes an entry out; the last one is in its place then.
    pub(crate) fn swap_remove(&mut self, place: usize) -> Option<(K, V)> {
        let last = self.entries.len().checked_sub(1)?;
        let (key, _) = self.entries.get(place)?;
        if let Some(places) = &mut self.places {
            let at = |sought: usize| move |known: &u32| *known as usize == sought;
            if let Ok(found) = places.table.find_entry(places.state.hash_one(key), at(place)) {
                found.remove();
            }
            let moved = self.entries.get(last).filter(|_| place != last);
            if let Some((key, _)) = moved
                && let Some(moved) = places.table.find_mut(places.state.hash_one(key), at(last))
            {
                *moved = place as u32;
            }
        }
        let removed = self.entries.swap_remove(place);
        if self.entries.len() <= LISTED_MAX / 2 {
            self.places = None;
        }
        if self.entries.len() <= self.entries.capacity() / 4 {
            self.entries.shrink_to(self.entries.len() * 2);
        }
        Some(removed)
    }

    fn note(&mut self, place: usize) {
        let (Some(places), Some((key, _))) = (&mut self.places, self.entries.get(place)) else {
            return;
        };
        let (state, entries) = (&places.state, &self.entries);
        let hash = |place: &u32| match entries.get(*place as usize) {
            Some((key, _)) => state.hash_one(key),
            None => 0,
        };
        places.table.insert_unique(state.hash_one(key), place as u32, hash);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn agrees_with_a_list(ops in proptest::collection::vec((any::<bool>(), 0u8..24), 0..200)) {
            let mut table = Table::default();
            let mut model: Vec<(u8, usize)> = Vec::new();
            for (number, (push, key)) in ops.into_iter().enumerate() {
                if push {
                    prop_assert_eq!(table.push(key, number), model.len());
                    model.push((key, number));
                } else if let Some(place) = table.find(&key) {
                    prop_assert_eq!(table.swap_remove(place), Some(model.swap_remove(place)));
                } else {
                    prop_assert!(model.iter().all(|(known, _)| *known != key));
                }
                prop_assert_eq!(&table.entries, &model);
                for key in 0..24u8 {
                    let known = model.iter().any(|(known, _)| *known == key);
                    prop_assert_eq!(table.find(&key).is_some(), known);
                }
            }
        }
    }
}
