//! A paged slab with generations: stable small keys, no doubling.
//!
//! Pages have a fixed size, so a million records never cost the copy or the idle half of a
//! doubling `Vec`. A key of a removed record never finds its successor.

use crate::prefetch;

const PAGE: usize = 256;

/// Finds one record; stale after the record is removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// The record's place.
    pub slot: u32,
    /// Which of the place's successive records is meant.
    pub generation: u32,
}

#[derive(Debug)]
struct Entry<T> {
    generation: u32,
    content: Content<T>,
}

#[derive(Debug)]
enum Content<T> {
    Free { next: u32 },
    Used(T),
}

/// Owns records of one type under [`Key`]s.
#[derive(Debug)]
pub struct Slab<T> {
    pages: Vec<Vec<Entry<T>>>,
    free: u32,
    len: usize,
}

const NONE: u32 = u32::MAX;

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Slab { pages: Vec::new(), free: NONE, len: 0 }
    }
}

impl<T> Slab<T> {
    /// An empty slab; holds no memory.
    pub fn new() -> Self {
        Self::default()
    }

    /// Records held.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Slots that hold a record or have held one: all keys' slots are below.
    pub fn slots(&self) -> u32 {
        let last = self.pages.last().map_or(0, |page| page.len());
        (self.pages.len().saturating_sub(1) * PAGE + last) as u32
    }

    /// Takes a record in and names it.
    pub fn insert(&mut self, value: T) -> Key {
        self.len += 1;
        let slot = self.free;
        if let Some(entry) = self.entry_mut(slot) {
            let generation = entry.generation;
            if let Content::Free { next } = entry.content {
                entry.content = Content::Used(value);
                self.free = next;
            }
            return Key { slot, generation };
        }
        if self.pages.last().is_none_or(|page| page.len() == PAGE) {
            self.pages.push(Vec::with_capacity(PAGE));
        }
        let base = (self.pages.len() - 1) * PAGE;
        let mut slot = 0;
        if let Some(page) = self.pages.last_mut() {
            slot = (base + page.len()) as u32;
            page.push(Entry { generation: 0, content: Content::Used(value) });
        }
        Key { slot, generation: 0 }
    }

    /// Gives a record back; `None` if the key is stale.
    pub fn remove(&mut self, key: Key) -> Option<T> {
        let free = self.free;
        let entry = self.entry_mut(key.slot)?;
        if entry.generation != key.generation || matches!(entry.content, Content::Free { .. }) {
            return None;
        }
        entry.generation = entry.generation.wrapping_add(1);
        let content = std::mem::replace(&mut entry.content, Content::Free { next: free });
        self.free = key.slot;
        self.len -= 1;
        match content {
            Content::Used(value) => Some(value),
            Content::Free { .. } => None,
        }
    }

    /// The record, unless the key is stale.
    pub fn get(&self, key: Key) -> Option<&T> {
        match self.entry(key.slot)? {
            Entry { generation, content: Content::Used(value) }
                if *generation == key.generation =>
            {
                Some(value)
            }
            _ => None,
        }
    }

    /// The record, unless the key is stale.
    pub fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        match self.entry_mut(key.slot)? {
            Entry { generation, content: Content::Used(value) }
                if *generation == key.generation =>
            {
                Some(value)
            }
            _ => None,
        }
    }

    /// The record in this slot is wanted soon.
    pub fn prefetch(&self, slot: u32) {
        if let Some(entry) = self.entry(slot) {
            prefetch(entry);
        }
    }

    /// The slot's present tenant.
    pub fn at(&self, slot: u32) -> Option<&T> {
        match &self.entry(slot)?.content {
            Content::Used(value) => Some(value),
            Content::Free { .. } => None,
        }
    }

    /// The key of the slot's present tenant.
    pub fn key_of(&self, slot: u32) -> Option<Key> {
        match self.entry(slot)? {
            Entry { generation, content: Content::Used(_) } => {
                Some(Key { slot, generation: *generation })
            }
            _ => None,
        }
    }

    /// Every record with its key, in slot order.
    pub fn iter(&self) -> impl Iterator<Item = (Key, &T)> {
        self.pages.iter().flatten().zip(0u32..).filter_map(|(entry, slot)| match &entry.content {
            Content::Used(value) => Some((Key { slot, generation: entry.generation }, value)),
            Content::Free { .. } => None,
        })
    }

    fn entry(&self, slot: u32) -> Option<&Entry<T>> {
        self.pages.get(slot as usize / PAGE)?.get(slot as usize % PAGE)
    }

    fn entry_mut(&mut self, slot: u32) -> Option<&mut Entry<T>> {
        self.pages.get_mut(slot as usize / PAGE)?.get_mut(slot as usize % PAGE)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    #[test]
    fn a_stale_key_finds_nothing() {
        let mut slab = Slab::new();
        let first = slab.insert("a");
        assert_eq!(slab.remove(first), Some("a"));
        let second = slab.insert("b");
        assert_eq!(second.slot, first.slot);
        assert_eq!(slab.get(first), None);
        assert_eq!(slab.remove(first), None);
        assert_eq!(slab.get(second), Some(&"b"));
    }

    proptest! {
        #[test]
        fn agrees_with_a_map(ops in proptest::collection::vec(any::<(bool, u16)>(), 0..1000)) {
            let mut slab = Slab::new();
            let mut model: HashMap<Key, u16> = HashMap::new();
            for (insert, value) in ops {
                if insert || model.is_empty() {
                    let key = slab.insert(value);
                    prop_assert!(model.insert(key, value).is_none());
                } else {
                    let key = *model.keys().nth(usize::from(value) % model.len()).unwrap();
                    prop_assert_eq!(slab.remove(key), model.remove(&key));
                }
                prop_assert_eq!(slab.len(), model.len());
                for slot in 0..slab.slots() {
                    let tenant = slab.key_of(slot).and_then(|key| model.get(&key));
                    prop_assert_eq!(slab.at(slot), tenant);
                }
            }
            prop_assert_eq!(slab.iter().map(|(k, v)| (k, *v)).collect::<HashMap<_, _>>(), model);
        }
    }
}
