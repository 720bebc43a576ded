//! One topic for who looks after the node: what its home keeps of it, and how many subscriptions get its messages.
//!
//! ```text
//!   asking session ─▶ each shard: its home's part ─▶ its sessions' part ─▶ asking session puts them together
//! ```
//! Relies on homes for what is kept and on fan-out for who subscribes. Invariant: the value is not shown: who may browse a topic
//! need not be allowed to subscribe to it.

use tiderace_base::Now;
use tiderace_topics::Path;
use tiderace_wire::TopicDetails;

use crate::fetch::entry;
use crate::home_side::HomeSide;
use crate::price::DELIVERY;
use crate::session_side::SessionSide;

impl HomeSide<'_> {
    /// What the home here keeps of a topic, if it is there.
    pub(crate) fn topic_at_home(&self, now: Now, path: Path) -> TopicDetails {
        let topic = self.directory.find(&path).and_then(|key| self.topic(key));
        let topic = topic.filter(|topic| topic.is_known());
        let upstream = self.options.upstream_of(&path).map(|upstream| upstream.name.clone());
        let entry = topic.map(|topic| entry(topic, now, (true, true)));
        TopicDetails { path, entry, upstream, exact: 0, by_pattern: 0 }
    }
}

impl SessionSide<'_> {
    /// The same with the subscriptions of this shard.
    pub(crate) fn show_topic(&mut self, now: Now, topic: &mut TopicDetails) {
        let known = self.directory.find(&topic.path).and_then(|key| self.directory.get(key));
        let (exact, found) = known.map_or((0, None), |topic| self.fanout.counts(topic));
        let (mut by_pattern, mut asked) = (found.unwrap_or(0), 0);
        if found.is_none() {
            asked = self.with_pattern_subscribers(&topic.path, |_| by_pattern += 1);
        }
        self.work.charge_at(now, DELIVERY * asked as u64);
        (topic.exact, topic.by_pattern) = (exact, by_pattern);
    }
}
