//! The names of a shard's topics: by hash for messages, in order for walks.
//!
//! Neither table has the texts: those stand in the topics, which are found by their slots. So a name
//! costs a dozen bytes here. Invariant: every topic of the slab is in the table, and those whose
//! home this shard is are in the tree.

use std::hash::BuildHasher;

use hashbrown::HashTable;
use tiderace_base::{Key, Slab};
use tiderace_topics::{Pattern, Tree, is_at_or_below, order};

use crate::topic::Topic;

/// Finds topics by name.
#[derive(Debug, Default)]
pub(crate) struct Names {
    table: HashTable<Place>,
    hasher: foldhash::fast::RandomState,
    tree: Tree<u32>,
}

/// A topic's slot, and enough of its name's hash to find it and to move it when the table grows.
#[derive(Clone, Copy, Debug)]
struct Place {
    hash: u32,
    slot: u32,
}

impl Place {
    /// Spread over all bits: the table takes its tags from the upper ones and its places from the
    /// lower ones.
    fn spread(hash: u32) -> u64 {
        u64::from(hash).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
}

impl Names {
    pub(crate) fn find(&self, path: &str, topics: &Slab<Topic>) -> Option<Key> {
        let hash = self.hash(path);
        let place = self.table.find(Place::spread(hash), |place| {
            place.hash == hash && text(topics, place.slot) == path
        })?;
        topics.key_of(place.slot)
    }

    /// The slot of the topic that most likely has this name, without a look at any topic.
    pub(crate) fn guess(&self, path: &str) -> Option<u32> {
        let hash = self.hash(path);
        let place = self.table.find(Place::spread(hash), |place| place.hash == hash)?;
        Some(place.slot)
    }

    /// Takes in the name of a topic that is in the slab and has none here; `home` says whether this
    /// shard is its home.
    pub(crate) fn insert(&mut self, key: Key, home: bool, topics: &Slab<Topic>) {
        let hash = self.hash(text(topics, key.slot));
        let place = Place { hash, slot: key.slot };
        self.table.insert_unique(Place::spread(hash), place, |place| Place::spread(place.hash));
        if home {
            self.tree.insert(key.slot, |slot| text(topics, slot));
        }
    }

    /// Takes out the name of a topic that is still in the slab.
    pub(crate) fn remove(&mut self, key: Key, topics: &Slab<Topic>) {
        let path = text(topics, key.slot);
        let hash = self.hash(path);
        let found = self.table.find_entry(Place::spread(hash), |place| place.slot == key.slot);
        if let Ok(entry) = found {
            entry.remove();
        }
        self.tree.remove(path, |slot| text(topics, slot));
    }

    /// The topics of a path and all below it whose home this is, in order; of them those behind the
    /// path `after`. Finding the first is quick, so long walks are made in slices.
    pub(crate) fn walk<'a>(
        &'a self,
        below: &str,
        after: Option<&str>,
        topics: &'a Slab<Topic>,
    ) -> impl Iterator<Item = (Key, &'a Topic)> + use<'a> {
        let walk = self.tree.walk(below, after, |slot| text(topics, slot));
        walk.filter_map(|slot| Some((topics.key_of(slot)?, topics.at(slot)?)))
    }

    /// The topics among which those that the patterns name are, each once and in order.
    pub(crate) fn walk_some<'a>(
        &'a self,
        selector: &[Pattern],
        after: Option<&str>,
        topics: &'a Slab<Topic>,
    ) -> impl Iterator<Item = (Key, &'a Topic)> + use<'a> {
        let mut trees: Vec<String> = selector.iter().map(Pattern::literal_prefix).collect();
        trees.sort_by(|left, right| order(left, right));
        trees.dedup_by(|later, kept| is_at_or_below(later, kept));
        let after: Option<Box<str>> = after.map(Into::into);
        trees.into_iter().flat_map(move |below| self.walk(&below, after.as_deref(), topics))
    }

    /// A hash of bytes that strangers cannot aim at.
    pub(crate) fn hash_of(&self, bytes: &[u8]) -> u64 {
        self.hasher.hash_one(bytes)
    }

    fn hash(&self, path: &str) -> u32 {
        (self.hasher.hash_one(path) >> 32) as u32
    }
}

fn text(topics: &Slab<Topic>, slot: u32) -> &str {
    topics.at(slot).map_or("", |topic| topic.path.as_str())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;
    use std::sync::Arc;
    use tiderace_base::Time;
    use tiderace_topics::Path;

    proptest! {
        #[test]
        fn every_topic_is_found_by_its_name_and_in_order(
            ops in proptest::collection::vec(("[ab]{1,3}(/[ab]{1,2}){0,2}", any::<bool>()), 1..200),
            below in "([ab](/[ab])?)?",
        ) {
            let mut names = Names::default();
            let mut topics: Slab<Topic> = Slab::new();
            let mut model: BTreeMap<String, (Key, bool)> = BTreeMap::new();
            for (text, home) in ops {
                let found = names.find(&text, &topics);
                prop_assert_eq!(found, model.get(&text).map(|known| known.0));
                let guess = names.guess(&text);
                prop_assert!(found.is_none_or(|key| guess == Some(key.slot)));
                match found {
                    Some(key) => {
                        names.remove(key, &topics);
                        topics.remove(key);
                        model.remove(&text);
                    }
                    None => {
                        let path = Path::parse(&text).unwrap();
                        let key = topics.insert(Topic::new(path, Arc::default(), Time::ZERO));
                        names.insert(key, home, &topics);
                        model.insert(text, (key, home));
                    }
                }
            }
            let walked: Vec<&str> =
                names.walk(&below, None, &topics).map(|(_, topic)| topic.path.as_str()).collect();
            // Without spaces and the like, the order is that of the bytes.
            let expected = model.iter().filter(|(path, known)| known.1 && is_at_or_below(path, &below));
            prop_assert_eq!(walked, expected.map(|(path, _)| path.as_str()).collect::<Vec<_>>());
        }
    }
}
