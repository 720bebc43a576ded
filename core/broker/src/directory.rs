//! The directory of a shard: its topics, their names and what they are.
//!
//! Relies on [`Names`] to find topics, on [`Specs`] to share what they are, and on [`Memory`] for room. Invariants: a
//! topic is here exactly as long as its name is; it is made known for a client only if there is memory for it.

use std::rc::Rc;
use std::sync::Arc;

use tiderace_base::{Close, Key, Memory, MemoryUse, Now, ShardId, Slab};
use tiderace_topics::{Path, Pattern};
use tiderace_wire::{TopicSpec, is_temporary};

use crate::BrokerOptions;
use crate::places::Place;
use crate::room::check_room;
use crate::specs::Specs;
use crate::topic::{Topic, price_of_topic};
use crate::topic_directory::Names;

/// Topics by slot and by name.
#[derive(Debug)]
pub(crate) struct Directory {
    topics: Slab<Topic>,
    names: Names,
    specs: Specs,
    shard: ShardId,
    options: Arc<BrokerOptions>,
    memory: Rc<Memory>,
}

/// What is different of a topic that has got another specification.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SpecChange {
    /// Its messages have another priority.
    pub(crate) moves: bool,
    /// It has no interval any more between two updates.
    pub(crate) ends: bool,
    /// Its subscribers are to show, or no longer.
    pub(crate) presence: bool,
    /// It has an owner that it did not have.
    pub(crate) owner: bool,
}

impl Directory {
    pub(crate) fn new(
        shard: ShardId,
        options: Arc<BrokerOptions>,
        memory: Rc<Memory>,
    ) -> Directory {
        Directory {
            topics: Slab::new(),
            names: Names::default(),
            specs: Specs::new(options.temporary_spec(), memory.clone()),
            shard,
            options,
            memory,
        }
    }

    /// Other options hold from now on.
    pub(crate) fn set_options(&mut self, options: Arc<BrokerOptions>) {
        self.options = options;
    }

    /// The topic of that name, if this shard knows it.
    #[inline]
    pub(crate) fn find(&self, path: &Path) -> Option<Key> {
        self.names.find(path.as_str(), &self.topics)
    }

    /// The topic of that name on this shard, made known if need be.
    pub(crate) fn ensure(&mut self, now: Now, path: &Path) -> Key {
        self.find(path).unwrap_or_else(|| self.insert(now, path))
    }

    /// A topic of a name that is not there.
    fn insert(&mut self, now: Now, path: &Path) -> Key {
        let usual =
            if is_temporary(path) { self.specs.temporary() } else { self.options.topic(path) };
        let topic = Topic::new(path.clone(), usual.clone(), now.time);
        self.memory.charge(MemoryUse::Names, price_of_topic(path));
        let key = self.topics.insert(topic);
        if let Some(topic) = self.topics.get_mut(key) {
            topic.set_slot(key.slot);
        }
        let is_home = self.options.home_of(path) == Place::here(self.shard);
        self.names.insert(key, is_home, &self.topics);
        key
    }

    /// The topic of that name on this shard, made known for a client if need be and if there is memory.
    pub(crate) fn admit(&mut self, now: Now, path: &Path) -> Result<Key, Close> {
        if let Some(key) = self.find(path) {
            return Ok(key);
        }
        self.check_room(path)?;
        Ok(self.insert(now, path))
    }

    /// Whether there is memory for a topic of that name that nobody knows yet.
    pub(crate) fn check_room(&self, path: &Path) -> Result<(), Close> {
        check_room(&self.memory, MemoryUse::Names, price_of_topic(path))
    }

    /// A topic is something else from now on: what is different.
    pub(crate) fn set_spec(&mut self, key: Key, spec: Arc<TopicSpec>) -> Option<SpecChange> {
        let topic = self.topics.get_mut(key)?;
        let before = std::mem::replace(&mut topic.spec, spec);
        let spec = &topic.spec;
        Some(SpecChange {
            moves: before.priority != spec.priority,
            ends: !before.conflation.interval.is_zero() && spec.conflation.interval.is_zero(),
            presence: before.presence != spec.presence,
            owner: spec.owner.is_some() && spec.owner != before.owner,
        })
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

    /// Takes a topic out, with its name.
    pub(crate) fn remove(&mut self, key: Key) -> Option<Topic> {
        self.names.remove(key, &self.topics);
        let topic = self.topics.remove(key)?;
        self.memory.refund(MemoryUse::Names, price_of_topic(&topic.path));
        Some(topic)
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

    /// What topics are.
    pub(crate) fn specs(&self) -> &Specs {
        &self.specs
    }

    pub(crate) fn specs_mut(&mut self) -> &mut Specs {
        &mut self.specs
    }
}
