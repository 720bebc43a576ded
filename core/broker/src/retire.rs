//! At a topic's home: removing it when its specification says so.
//!
//! Looked at by the sweep of topics, every few seconds, so a policy takes effect that much later.
//! Relies on interest being known by shard. Invariant: a topic without a policy costs nothing here.

use tiderace_base::{Key, Now, SessionId};
use tiderace_topics::Path;

use crate::effects::Effects;
use crate::home::retirement::Retirement;
use crate::home_side::HomeSide;

impl HomeSide<'_> {
    /// A session has created the topic, which has a policy.
    pub(crate) fn begin_retirement(&mut self, now: Now, key: Key, creator: SessionId) {
        let Some(home) = self.topic_mut(key) else { return };
        home.set_retirement(Retirement::of(creator, now.time));
    }

    /// The session that created the topic has ended.
    pub(crate) fn abandon(&mut self, path: &Path, creator: SessionId) {
        let key = self.directory.find(path);
        let home = key.and_then(|key| self.topic_mut(key));
        if let Some(retirement) = home.and_then(|home| home.retirement_mut()) {
            retirement.abandon(creator);
        }
    }

    /// Removes the topic if its time has come.
    pub(crate) fn sweep_retirement(&mut self, now: Now, key: Key, effects: &mut Effects) {
        let Some(topic) = self.topic(key).filter(|topic| topic.is_known()) else { return };
        let Some(removal) = topic.spec().removal.clone() else { return };
        let Some(home) = topic.home() else { return };
        let heard = !home.interested().is_empty() || self.home.is_named(topic.path());
        let home = self.topic_mut(key);
        let Some(retirement) = home.and_then(|home| home.retirement_mut()) else { return };
        if retirement.is_due(&removal, heard, now.time) {
            self.metrics.topics_retired += 1;
            self.remove_topic(now, key, effects);
        }
    }
}
