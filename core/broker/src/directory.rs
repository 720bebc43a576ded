//! The directory of a shard: its topics, their names and what they are.
//!
//! Relies on [`Names`] to find topics and on [`Specs`] to share what they are. Invariant: a topic is here exactly as
//! long as its name is.

use std::rc::Rc;

use tiderace_base::{Key, Memory, Slab};
use tiderace_topics::Pattern;
use tiderace_wire::TopicSpec;

use crate::specs::Specs;
use crate::topic::Topic;
use crate::topic_directory::Names;

/// Topics by slot and by name.
#[derive(Debug)]
pub(crate) struct Directory {
    topics: Slab<Topic>,
    names: Names,
    specs: Specs,
}

impl Directory {
    pub(crate) fn new(temporary: TopicSpec, memory: Rc<Memory>) -> Directory {
        Directory {
            topics: Slab::new(),
            names: Names::default(),
            specs: Specs::new(temporary, memory),
        }
    }

    /// The topic of that name.
    #[inline]
    pub(crate) fn find(&self, path: &str) -> Option<Key> {
        self.names.find(path, &self.topics)
    }

    /// The slot of the topic that most likely has this name, without a look at any topic.
    #[inline]
    pub(crate) fn guess(&self, path: &str) -> Option<u32> {
        self.names.guess(path)
    }

    /// A hash of bytes that strangers cannot aim at.
    pub(crate) fn hash_of(&self, bytes: &[u8]) -> u64 {
        self.names.hash_of(bytes)
    }

    /// The topics of a path and all below it whose home this is, in order; see [`Names::walk`].
    pub(crate) fn walk<'a>(
        &'a self,
        below: &str,
        after: Option<&str>,
    ) -> impl Iterator<Item = (Key, &'a Topic)> + use<'a> {
        self.names.walk(below, after, &self.topics)
    }

    /// The topics among which those that the patterns name are, each once and in order.
    pub(crate) fn walk_some<'a>(
        &'a self,
        selector: &[Pattern],
        after: Option<&str>,
    ) -> impl Iterator<Item = (Key, &'a Topic)> + use<'a> {
        self.names.walk_some(selector, after, &self.topics)
    }

    /// Takes in a topic whose name is not here; `is_home` says whether this shard is its home.
    pub(crate) fn insert(&mut self, topic: Topic, is_home: bool) -> Key {
        let key = self.topics.insert(topic);
        self.names.insert(key, is_home, &self.topics);
        key
    }

    /// Takes a topic out, with its name.
    pub(crate) fn remove(&mut self, key: Key) -> Option<Topic> {
        self.names.remove(key, &self.topics);
        self.topics.remove(key)
    }

    #[inline]
    pub(crate) fn get(&self, key: Key) -> Option<&Topic> {
        self.topics.get(key)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, key: Key) -> Option<&mut Topic> {
        self.topics.get_mut(key)
    }

    /// All topics by slot, for a room that has keys of them.
    #[inline]
    pub(crate) fn topics(&self) -> &Slab<Topic> {
        &self.topics
    }

    /// The same, to be changed; none may be added or taken out.
    #[inline]
    pub(crate) fn topics_mut(&mut self) -> &mut Slab<Topic> {
        &mut self.topics
    }

    /// What topics are.
    pub(crate) fn specs(&self) -> &Specs {
        &self.specs
    }

    pub(crate) fn specs_mut(&mut self) -> &mut Specs {
        &mut self.specs
    }
}
