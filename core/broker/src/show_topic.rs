//! One topic for who looks after the node: what its home keeps of it, and how many subscriptions get its messages.
//!
//! ```text
//!   asking session ─▶ each shard: its home's part ─▶ its sessions' part ─▶ asking session puts them together
//! ```
//! Relies on homes for what is kept and on fan-out for who subscribes. Invariant: the value is not shown: who may browse a topic
//! need not be allowed to subscribe to it.

use tiderace_base::Now;
use tiderace_topics::Path;
use tiderace_wire::{OperationResult, TopicDetails, TopicEntry};

use crate::fetch::entry;
use crate::home_side::HomeSide;
use crate::price::DELIVERY;
use crate::session_side::SessionSide;

impl HomeSide<'_> {
    /// What the home here keeps of a topic, if it is there.
    pub(crate) fn topic_entry(&self, now: Now, path: &Path) -> Option<TopicEntry> {
        let topic = self.topic(self.directory.find(path)?)?;
        topic.is_known().then(|| entry(topic, now, (true, true)))
    }
}

impl SessionSide<'_> {
    /// What this shard knows of a topic.
    pub(crate) fn show_topic(
        &mut self,
        now: Now,
        path: Path,
        entry: Option<TopicEntry>,
    ) -> OperationResult {
        let topic = self.directory.find(&path).and_then(|key| self.directory.get(key));
        let exact = topic.map_or(0, |topic| self.fanout.exact(topic).len() as u64);
        let mut by_pattern = 0;
        let asked = self.with_pattern_subscribers(&path, |_| by_pattern += 1);
        self.work.charge_at(now, DELIVERY * asked as u64);
        let upstream = self.options.upstream_of(&path).map(|upstream| upstream.name.clone());
        OperationResult::Topic(Box::new(TopicDetails { path, entry, upstream, exact, by_pattern }))
    }
}
