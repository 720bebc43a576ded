//! Who of a shard listens to one topic, and what fan-out keeps for them.
//!
//! Bookkeeping only. Invariant: the counts are those of the subscribers in the list.

use std::sync::Arc;

use tiderace_base::prefetch;
use tiderace_wire::{Run, TopicSpec};

use crate::subscriber_list::{Subscriber, SubscriberList};

/// What fan-out keeps of one topic: one line of the cache, for each publication looks at most of it.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(crate) struct TopicSubscribers {
    /// Those of exactly this topic.
    exact: SubscriberList,
    /// Those by pattern, found at generation `patterns_at` of the shard's patterns.
    by_pattern: SubscriberList,
    patterns_at: u64,
    /// How many of the exact ones are recoverable.
    recoverable: u32,
    /// How many of the exact ones want deltas.
    deltas: u32,
    /// The run that was fanned out last, or the value that a subscription began with, if somebody wants
    /// deltas; or its last message.
    previous: Option<Arc<Run>>,
    /// Sessions here for which its publishers are to wait.
    pressing: u32,
}

const _: () = assert!(size_of::<TopicSubscribers>() <= 64, "there may be millions of them");

impl TopicSubscribers {
    /// The subscribers of exactly this topic, by place.
    #[inline]
    pub(crate) fn exact(&self) -> &[Subscriber] {
        self.exact.as_slice()
    }

    /// The subscribers by pattern, as found last.
    pub(crate) fn by_pattern(&self) -> &[Subscriber] {
        self.by_pattern.as_slice()
    }

    /// How many subscriptions here get its messages, as far as is known.
    pub(crate) fn len(&self) -> usize {
        self.exact.len() + self.by_pattern.len()
    }

    /// Whether forgetting it would change nothing: who listens by a pattern is found again.
    pub(crate) fn is_idle(&self) -> bool {
        self.exact.is_empty() && self.pressing == 0
    }

    /// Whether some exact subscriber is recoverable.
    pub(crate) fn is_recorded(&self) -> bool {
        self.recoverable > 0
    }

    /// Takes a subscriber in at the end of the list: its place.
    pub(crate) fn list(&mut self, subscriber: Subscriber) -> usize {
        self.exact.push(subscriber);
        self.recoverable += u32::from(subscriber.flags.recoverable());
        self.deltas += u32::from(subscriber.flags.deltas());
        self.exact.len() - 1
    }

    /// Takes the subscriber out of that place; the one that is there now has moved.
    pub(crate) fn unlist(&mut self, place: usize, spec: &TopicSpec) -> Option<Subscriber> {
        if let Some(Subscriber { flags, .. }) = self.exact.swap_remove(place) {
            self.recoverable -= u32::from(flags.recoverable());
            self.deltas -= u32::from(flags.deltas());
        }
        if !self.wants_deltas(spec) {
            self.previous = None;
        }
        self.exact.get(place).copied()
    }

    /// Deliveries to the subscriber in that place may take the short way: whether there is one.
    pub(crate) fn make_plain(&mut self, place: usize) -> bool {
        let subscriber = self.exact.get_mut(place);
        subscriber.map(|subscriber| subscriber.plain = true).is_some()
    }

    /// Whether the subscribers by pattern were found at a generation of the patterns.
    #[inline]
    pub(crate) fn is_found_at(&self, generation: u64) -> bool {
        self.patterns_at == generation
    }

    /// The subscribers by pattern, found at a generation of the patterns.
    pub(crate) fn set_by_pattern(&mut self, generation: u64, found: SubscriberList) {
        self.patterns_at = generation;
        self.by_pattern = found;
    }

    /// Takes the lists out, so that sessions can be touched meanwhile: the exact ones, and those by pattern.
    #[inline]
    pub(crate) fn take_lists(&mut self) -> (SubscriberList, SubscriberList) {
        (std::mem::take(&mut self.exact), std::mem::take(&mut self.by_pattern))
    }

    /// Puts the lists back.
    #[inline]
    pub(crate) fn put_lists(&mut self, (exact, by_pattern): (SubscriberList, SubscriberList)) {
        self.exact = exact;
        self.by_pattern = by_pattern;
    }

    /// Whether a subscriber wants deltas, of a topic that is that.
    #[inline]
    pub(crate) fn wants_deltas(&self, spec: &TopicSpec) -> bool {
        spec.deltas
            && (self.deltas > 0
                || self.by_pattern.iter().any(|subscriber| subscriber.flags.deltas()))
    }

    /// What the next run is a change of, or nothing if nobody wants to know: the one before.
    #[inline]
    pub(crate) fn replace_previous(&mut self, run: Option<Arc<Run>>) -> Option<Arc<Run>> {
        std::mem::replace(&mut self.previous, run)
    }

    /// The value that a subscriber begins with, by a pattern that wants deltas or not: where somebody does, the next run is
    /// a change of it. Of two with one version this is the one that the subscriber gets: the other may be of a former life.
    pub(crate) fn follow(&mut self, value: &Arc<Run>, wants_deltas: bool) {
        let end = |run: &Arc<Run>| run.version() + run.len() as u64;
        if (self.deltas > 0 || wants_deltas)
            && self.previous.as_ref().is_none_or(|known| end(known) <= end(value))
        {
            self.previous = Some(value.clone());
        }
    }

    /// Publishers are to wait for one more session: whether it is the first.
    pub(crate) fn apply_backpressure(&mut self) -> bool {
        self.pressing += 1;
        self.pressing == 1
    }

    /// Publishers need not wait for one of the sessions any more: whether it was the last.
    pub(crate) fn release_backpressure(&mut self) -> bool {
        self.pressing -= 1;
        self.pressing == 0
    }

    /// Asks memory for what a run to fan out meets first.
    pub(crate) fn expect(&self) {
        if let Some(previous) = &self.previous {
            prefetch(&**previous);
        }
        self.exact.expect();
    }
}
