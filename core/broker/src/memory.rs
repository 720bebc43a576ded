//! What is refused when the shard's memory is used up.
//!
//! Relies on [`tiderace_base::Memory`], which decides. Invariant: what is refused here has changed nothing.

use tiderace_base::{Close, Key, Memory, MemoryUse};
use tiderace_wire::{Run, Subscribe, Target};

use crate::price::TEXT_BYTES;
use crate::price::pattern_bytes;
use crate::room::check_room;
use crate::session::Rare;
use crate::session_side::SessionSide;
use crate::subscription::Listening;
use crate::subscriptions::{SUBSCRIPTION_BYTES, target_bytes};

impl SessionSide<'_> {
    /// Bytes up to which no session counts as slow: above, it depends on whose it is.
    #[inline]
    pub(crate) fn mark(&self) -> usize {
        if self.memory.is_full() { self.mark_of_little() } else { self.delivery.mark() }
    }

    /// Bytes above which a session counts as slow.
    pub(crate) fn mark_of(&self, session: Key) -> usize {
        let usual = self.options.backlog_bytes_high;
        let usual = if self.memory.is_full() { self.mark_of_little() } else { usual };
        self.sessions.get(session).map_or(usual, |record| record.own_mark(usual))
    }

    /// The same while memory is short.
    #[cold]
    fn mark_of_little(&self) -> usize {
        if self.memory.is_exhausted() { 0 } else { self.options.backlog_bytes_low }
    }
}

/// Whether there is memory for a subscription.
pub(crate) fn check_subscription_room(memory: &Memory, subscribe: &Subscribe) -> Result<(), Close> {
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
    check_room(memory, MemoryUse::Names, SUBSCRIPTION_BYTES + texts + selector)
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
