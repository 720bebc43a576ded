//! What is refused when the shard's memory is used up.
//!
//! Relies on [`tiderace_base::Memory`], which decides. Invariant: what is refused here has changed nothing.

use tiderace_base::{Close, CloseCode, Key, Memory, MemoryUse, Now};
use tiderace_topics::Path;
use tiderace_wire::{Run, Subscribe, Target};

use crate::broker::Broker;
use crate::session::{Listening, Rare};
use crate::subscriptions::{SUBSCRIPTION_BYTES, TEXT_BYTES, pattern_bytes, target_bytes};
use crate::topic::price_of_topic;

impl Broker {
    /// What is kept on this shard, for whoever keeps something beside the broker: unfinished input.
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// Bytes above which a session counts as slow.
    #[inline]
    pub(crate) fn mark(&self) -> usize {
        if self.memory.is_full() { self.mark_of_little() } else { self.options.backlog_bytes_high }
    }

    /// The same while memory is short.
    #[cold]
    fn mark_of_little(&self) -> usize {
        if self.memory.is_exhausted() { 0 } else { self.options.backlog_bytes_low }
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

    /// Whether there is memory for a subscription.
    pub(crate) fn check_subscription_room(&self, subscribe: &Subscribe) -> Result<(), Close> {
        let targets = subscribe.targets.iter();
        let texts: usize = targets
            .map(|it| {
                let pattern = match it {
                    Target::Exact(_) => 0,
                    Target::Pattern(_, pattern) => pattern_bytes(pattern),
                };
                size_of::<Listening>() + target_bytes(it) + pattern
            })
            .sum();
        let selector = subscribe.selector.as_ref().map_or(0, |it| TEXT_BYTES * it.text().len());
        self.check_room(MemoryUse::Names, SUBSCRIPTION_BYTES + texts + selector)
    }

    /// Whether there is memory for so many bytes more.
    pub(crate) fn check_room(&self, what: MemoryUse, bytes: usize) -> Result<(), Close> {
        if self.memory.has_room(what, bytes) { Ok(()) } else { Err(CloseCode::MemoryFull.into()) }
    }
}

impl Rare {
    /// Replaces the session's will; the caller has asked for room.
    pub(crate) fn set_will(&mut self, will: Option<Box<Run>>, memory: &Memory) {
        let bytes = |will: &Option<Box<Run>>| will.as_ref().map_or(0, |run| run.bytes());
        memory.change(MemoryUse::Wills, bytes(&self.will), bytes(&will));
        self.will = will;
    }

    /// Takes the will out, to be published.
    pub(crate) fn take_will(&mut self, memory: &Memory) -> Option<Box<Run>> {
        let will = self.will.take()?;
        memory.refund(MemoryUse::Wills, will.bytes());
        Some(will)
    }
}
