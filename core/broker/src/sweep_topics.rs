//! As a home: what topics keep no longer, and topics that are forgotten.
//!
//! Looked at a part at a time, every few seconds. Invariant: what is forgotten is in use by nobody.

use std::ops::Range;

use tiderace_base::{Key, MemoryUse, Now};
use tiderace_wire::LeaveReason;

use crate::effects::Effects;
use crate::home_side::HomeSide;
use crate::topic::Topic;

impl HomeSide<'_> {
    /// The slots of topics that are to be looked at now.
    pub(crate) fn begin_sweep(&mut self, now: Now) -> Option<Range<u32>> {
        let slots = self.home.next_swept(now.time, self.directory.topics().slots())?;
        if slots.start == 0 {
            self.home.sweep_history(now.time, self.options.history_age, self.directory);
        }
        Some(slots)
    }

    /// Gives up what a topic has kept for long enough, and removes the topic if its time has come.
    pub(crate) fn sweep_kept(&mut self, now: Now, key: Key, effects: &mut Effects) {
        if let Some(topic) = self.directory.get(key) {
            self.home.sweep_recording(now.time, self.options.history_age, topic);
        }
        self.sweep_series(now, key);
        self.sweep_retirement(now, key, effects);
    }

    /// Gives up a value whose time is over: whether there was one.
    pub(crate) fn sweep_value(&mut self, now: Now, key: Key) -> bool {
        let topic = self.directory.get(key);
        let is_over = |topic: &&Topic| self.home.at(topic).retained_expired(now.wall_ms);
        let Some(topic) = topic.filter(is_over) else { return false };
        let Some(home) = self.home.topic_mut(topic) else { return false };
        let first = home.first_kept();
        let bytes = self.home.end_value(topic);
        self.memory.refund(MemoryUse::Values, bytes);
        self.metrics.retained -= 1;
        if let Some(home) = self.home.topic_mut(topic) {
            self.journal.append_trim(key, home, first);
        }
        true
    }

    /// Whether nobody has used a topic for so long that its home may forget it.
    pub(crate) fn is_forgettable(&self, now: Now, key: Key) -> bool {
        let Some(topic) = self.directory.get(key) else { return false };
        let known = self.home.at(topic);
        let (idle, age) = (self.options.topic_idle, self.options.history_age);
        let idle = if known.is_recorded() { idle.max(age) } else { idle };
        known.is_idle() && topic.unused(now.time) >= idle
    }

    /// A topic is about to be forgotten: the store and those who are told of topics are told.
    pub(crate) fn end_topic(&mut self, key: Key, effects: &mut Effects) {
        let Some(topic) = self.directory.get(key) else { return };
        if let Some(home) = self.home.topic_mut(topic) {
            self.journal.end_stream(home);
        }
        if self.home.at(topic).is_known() {
            let path = topic.path.clone();
            self.announce_as(&path, Err(LeaveReason::Removed), effects);
        }
    }
}
