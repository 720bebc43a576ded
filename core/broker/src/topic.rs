//! A topic as one shard sees it: who listens here, and, at its home, what it remembers.

use std::sync::Arc;

use tiderace_base::{Now, Span, Time};
use tiderace_topics::{Path, Pattern};
use tiderace_wire::{Run, TopicSpec};

use crate::home::guard::Guard;
use crate::home::topic::HomeTopic;
use crate::runs::fresh;
use crate::subscriber_list::Subscriber;
use crate::subscriber_list::SubscriberList;

/// One topic on one shard.
#[derive(Debug)]
pub(crate) struct Topic {
    pub(crate) path: Path,
    pub(crate) spec: Arc<TopicSpec>,
    pub(crate) subscribers: SubscriberList,
    /// Subscribers by pattern, found at generation `patterns_at` of the shard's patterns.
    pub(crate) by_pattern: SubscriberList,
    pub(crate) patterns_at: u64,
    /// How many of the subscribers are recoverable.
    pub(crate) recoverable: u32,
    /// How many of the subscribers want deltas.
    pub(crate) deltas: u32,
    /// The run that was fanned out last, or the value that a subscription began with, if somebody wants
    /// deltas; or its last message.
    pub(crate) previous: Option<Arc<Run>>,
    /// Sessions here for which its publishers are to wait.
    pub(crate) pressing: u32,
    /// When it was last used, in whole seconds since the node began.
    used_seconds: u32,
    /// Present at its home only.
    pub(crate) home: Option<Box<HomeTopic>>,
}

const _: () = assert!(size_of::<Topic>() <= 96, "there may be millions of them");
/// What a topic costs besides its value and the text of its name: its records, and its places in the tables,
/// which are half empty after they have grown.
const TOPIC_BYTES: usize = size_of::<Topic>() + size_of::<HomeTopic>() + 128;

/// Bytes that a topic of that name takes on a shard, whatever is kept of it.
pub(crate) fn price_of_topic(path: &Path) -> usize {
    TOPIC_BYTES + path.as_str().len()
}

impl Topic {
    /// How many subscriptions here get its messages, as far as is known.
    pub(crate) fn listeners(&self) -> usize {
        self.subscribers.len() + self.by_pattern.len()
    }

    pub(crate) fn new(path: Path, spec: Arc<TopicSpec>, now: Time) -> Topic {
        Topic {
            path,
            spec,
            subscribers: SubscriberList::None,
            by_pattern: SubscriberList::None,
            patterns_at: 0,
            recoverable: 0,
            deltas: 0,
            previous: None,
            pressing: 0,
            used_seconds: seconds(now),
            home: None,
        }
    }

    /// Its specification, and what it remembers as a home.
    pub(crate) fn with_home(&mut self) -> Option<(&Arc<TopicSpec>, &mut HomeTopic)> {
        Some((&self.spec, self.home.as_deref_mut()?))
    }

    /// It is used now.
    pub(crate) fn touch(&mut self, now: Time) {
        self.used_seconds = seconds(now);
    }

    /// How long it has not been used, to about a second.
    pub(crate) fn unused(&self, now: Time) -> Span {
        Span::from_secs(u64::from(seconds(now).saturating_sub(self.used_seconds)))
    }

    /// Whether a subscriber wants deltas.
    pub(crate) fn wants_deltas(&self) -> bool {
        self.spec.deltas
            && (self.deltas > 0
                || self.by_pattern.iter().any(|subscriber| subscriber.flags.deltas()))
    }

    /// Takes a subscriber in at the end of the list.
    pub(crate) fn list(&mut self, subscriber: Subscriber) {
        self.subscribers.push(subscriber);
        self.recoverable += u32::from(subscriber.flags.recoverable());
        self.deltas += u32::from(subscriber.flags.deltas());
    }

    /// The value that a subscriber begins with: for one that wants deltas the next run is a change of it.
    pub(crate) fn follow(&mut self, value: &Arc<Run>) {
        let end = |run: &Arc<Run>| run.version() + run.len() as u64;
        if self.deltas > 0 && self.previous.as_ref().is_none_or(|known| end(known) < end(value)) {
            self.previous = Some(value.clone());
        }
    }

    /// Takes the subscriber out of that place; the one that is there now has moved.
    pub(crate) fn unlist(&mut self, place: usize) -> Option<Subscriber> {
        if let Some(Subscriber { flags, .. }) = self.subscribers.swap_remove(place) {
            self.recoverable -= u32::from(flags.recoverable());
            self.deltas -= u32::from(flags.deltas());
        }
        self.subscribers.get(place).copied()
    }

    /// Whether it remembers a value whose time is over.
    pub(crate) fn retained_expired(&self, wall_ms: u64) -> bool {
        let retained = self.home.as_ref().and_then(|home| home.value());
        let message = retained.and_then(|run| run.message(0));
        message.is_some_and(|message| message.is_expired(wall_ms))
    }

    /// Whether it is there for those who list topics: it was created or published to.
    pub(crate) fn is_known(&self) -> bool {
        self.home.as_ref().is_some_and(|home| home.is_known())
    }

    /// Whether it is there and some pattern names it.
    pub(crate) fn is_named(&self, selector: &[Pattern]) -> bool {
        self.is_known() && selector.iter().any(|pattern| pattern.matches(&self.path))
    }

    /// Its value, unless its time is over.
    pub(crate) fn value(&self, now: Now) -> Option<Arc<Run>> {
        fresh(self.home.as_ref()?.value(), now)
    }

    /// Whether the server alone publishes to it.
    pub(crate) fn is_read_only(&self) -> bool {
        let guard = self.home.as_ref().and_then(|home| home.guard());
        guard.is_some_and(Guard::is_read_only)
    }

    /// Whether forgetting it would change nothing.
    pub(crate) fn is_idle(&self) -> bool {
        self.subscribers.is_empty()
            && self.pressing == 0
            && self.home.as_ref().is_none_or(|home| home.is_idle())
    }

    /// Whether somebody may come back to it, even if there are no recent messages.
    pub(crate) fn is_recorded(&self) -> bool {
        self.home.as_ref().is_some_and(|home| home.history().is_some())
    }
}

fn seconds(time: Time) -> u32 {
    u32::try_from(time.as_nanos() / 1_000_000_000).unwrap_or(u32::MAX)
}
