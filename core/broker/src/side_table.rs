//! What one side of a shard keeps of each topic, beside the directory: a table with the same slots.
//!
//! Invariants: an entry is reached only by who has its topic at hand, so that a key that has become stale reaches none;
//! the wiring takes the entry of a topic out with the topic, so that the next topic of a slot begins with an empty one;
//! there is no memory for topics of which nothing was ever kept, but for those beside others.

use tiderace_base::prefetch;

use crate::topic::Topic;

/// Entries that get their memory together.
const PAGE: usize = 64;

/// Entries by the slots of their topics; what is not there yet is empty.
#[derive(Debug)]
pub(crate) struct SideTable<T> {
    pages: Vec<Option<Box<[T; PAGE]>>>,
}

impl<T> Default for SideTable<T> {
    fn default() -> SideTable<T> {
        SideTable { pages: Vec::new() }
    }
}

impl<T: Default> SideTable<T> {
    /// The entry of a topic, if there is memory for it already.
    #[inline]
    pub(crate) fn get(&self, topic: &Topic) -> Option<&T> {
        self.at(topic.slot())
    }

    /// The same, to be changed.
    #[inline]
    pub(crate) fn get_mut(&mut self, topic: &Topic) -> Option<&mut T> {
        let slot = topic.slot() as usize;
        self.pages.get_mut(slot / PAGE)?.as_mut()?.get_mut(slot % PAGE)
    }

    /// The entry of a topic, with memory for it from now on.
    #[inline]
    pub(crate) fn entry(&mut self, topic: &Topic) -> &mut T {
        debug_assert!(topic.slot() != u32::MAX, "the topic is not in the directory");
        let slot = topic.slot() as usize;
        let page = slot / PAGE;
        if self.pages.get(page).is_none_or(|page| page.is_none()) {
            self.add_page(page);
        }
        #[allow(clippy::indexing_slicing, reason = "the page was found or made just before")]
        let page = &mut self.pages[page];
        #[allow(clippy::indexing_slicing, reason = "a remainder is less than what it is of")]
        &mut page.get_or_insert_with(empty)[slot % PAGE]
    }

    #[cold]
    fn add_page(&mut self, page: usize) {
        if self.pages.len() <= page {
            self.pages.resize_with(page + 1, || None);
        }
        if let Some(page) = self.pages.get_mut(page) {
            *page = Some(empty());
        }
    }

    /// What was kept of a topic that is there no longer.
    pub(crate) fn take(&mut self, topic: &Topic) -> T {
        self.get_mut(topic).map(std::mem::take).unwrap_or_default()
    }

    /// The entry in this slot is wanted soon.
    #[inline]
    pub(crate) fn prefetch(&self, slot: u32) {
        if let Some(entry) = self.at(slot) {
            prefetch(entry);
        }
    }

    #[inline]
    fn at(&self, slot: u32) -> Option<&T> {
        let slot = slot as usize;
        self.pages.get(slot / PAGE)?.as_ref()?.get(slot % PAGE)
    }
}

fn empty<T: Default>() -> Box<[T; PAGE]> {
    Box::new(std::array::from_fn(|_| T::default()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;
    use std::sync::Arc;
    use tiderace_base::Time;
    use tiderace_topics::Path;

    fn topic_at(slot: u32) -> Topic {
        let mut topic = Topic::new(Path::parse("a").unwrap(), Arc::default(), Time::ZERO);
        topic.set_slot(slot);
        topic
    }

    proptest! {
        #[test]
        fn agrees_with_a_map(
            ops in proptest::collection::vec((0u8..4, 0u32..300, 1u8..), 0..300),
        ) {
            let mut table: SideTable<u8> = SideTable::default();
            let mut model: BTreeMap<u32, u8> = BTreeMap::new();
            for (what, slot, value) in ops {
                let topic = topic_at(slot);
                match what {
                    0 => prop_assert_eq!(table.take(&topic), model.remove(&slot).unwrap_or(0)),
                    1 => {
                        if let Some(known) = table.get_mut(&topic) {
                            *known = value;
                            model.insert(slot, value);
                        }
                    }
                    _ => {
                        *table.entry(&topic) = value;
                        model.insert(slot, value);
                    }
                }
                for slot in 0..300 {
                    let known = table.get(&topic_at(slot)).copied();
                    prop_assert_eq!(known.unwrap_or(0), model.get(&slot).copied().unwrap_or(0));
                }
            }
        }
    }

    #[test]
    fn only_pages_in_use_have_memory() {
        let mut table: SideTable<u64> = SideTable::default();
        *table.entry(&topic_at(10 * PAGE as u32)) = 7;
        assert!(table.get(&topic_at(9 * PAGE as u32)).is_none());
        assert!(table.get(&topic_at(11 * PAGE as u32)).is_none());
        assert_eq!(table.pages.iter().flatten().count(), 1);
    }
}
