//! The topics of a shard: found by their names, and made known.
//!
//! Relies on [`tiderace_base::Memory`] for room. Invariant: a topic is made known for a client only if there is
//! memory for it.

use tiderace_base::{Close, Key, MemoryUse, Now};
use tiderace_topics::Path;
use tiderace_wire::is_temporary;

use crate::broker::Broker;
use crate::topic::{Topic, price_of_topic};

impl Broker {
    /// The topic of that name, if this shard knows it.
    pub(crate) fn find_topic(&self, path: &Path) -> Option<Key> {
        self.directory.find(path.as_str())
    }

    /// The topic of that name on this shard, made known if need be.
    pub(crate) fn ensure_topic(&mut self, now: Now, path: &Path) -> Key {
        if let Some(key) = self.find_topic(path) {
            return key;
        }
        let usual = if is_temporary(path) {
            self.directory.specs().temporary()
        } else {
            self.options.topic(path)
        };
        let topic = Topic::new(path.clone(), usual.clone(), now.time);
        self.memory.charge(MemoryUse::Names, price_of_topic(path));
        let is_home = self.home(path) == self.shard;
        self.directory.insert(topic, is_home)
    }

    /// The topic of that name on this shard, made known for a client if need be and if there is memory.
    pub(crate) fn admit_topic(&mut self, now: Now, path: &Path) -> Result<Key, Close> {
        if let Some(key) = self.find_topic(path) {
            return Ok(key);
        }
        self.check_topic_room(path)?;
        Ok(self.ensure_topic(now, path))
    }

    /// Whether there is memory for a topic of that name that nobody knows yet.
    pub(crate) fn check_topic_room(&self, path: &Path) -> Result<(), Close> {
        self.check_room(MemoryUse::Names, price_of_topic(path))
    }
}
