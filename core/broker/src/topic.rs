//! A topic as one shard sees it: who listens here, and, at its home, what it remembers.

use std::sync::Arc;

use tiderace_base::{Key, ShardId, Time};
use tiderace_topics::Path;
use tiderace_wire::{Run, SubscriptionKey};

use crate::TopicOptions;

/// One subscription's entry in a topic's list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Subscriber {
    pub(crate) session: Key,
    pub(crate) key: SubscriptionKey,
    /// Which of the subscription's targets led here.
    pub(crate) target: u16,
    /// No selector and nothing to wait for: deliveries need no look at the subscription.
    pub(crate) plain: bool,
}

const _: () = assert!(size_of::<Subscriber>() <= 16, "every subscription has one");

/// One topic on one shard.
#[derive(Debug)]
pub(crate) struct Topic {
    pub(crate) path: Path,
    pub(crate) options: TopicOptions,
    pub(crate) subscribers: Vec<Subscriber>,
    /// Subscribers by pattern, found at generation `patterns_at` of the shard's patterns.
    pub(crate) by_pattern: Vec<Subscriber>,
    pub(crate) patterns_at: u64,
    /// Sessions here for which its publishers are to wait.
    pub(crate) pressing: u32,
    pub(crate) used: Time,
    /// Present at its home only.
    pub(crate) home: Option<Box<Home>>,
}

/// What a topic's home keeps.
#[derive(Debug, Default)]
pub(crate) struct Home {
    /// Shards with subscribers of exactly this topic.
    pub(crate) interested: u64,
    /// Shards with matching patterns, found at generation `patterns_at` of the home's patterns.
    pub(crate) by_pattern: u64,
    pub(crate) patterns_at: u64,
    /// Shards with a subscriber that cannot keep up.
    pub(crate) pressed: u64,
    /// Shards that have published to it.
    pub(crate) publishers: u64,
    /// Shards that were told to hold their publishers back.
    pub(crate) told: u64,
    /// The retained value: a run of one message.
    pub(crate) retained: Option<Arc<Run>>,
}

impl Topic {
    pub(crate) fn new(path: Path, options: TopicOptions, now: Time) -> Topic {
        Topic {
            path,
            options,
            subscribers: Vec::new(),
            by_pattern: Vec::new(),
            patterns_at: 0,
            pressing: 0,
            used: now,
            home: None,
        }
    }

    /// Takes a subscriber in at the end of the list.
    pub(crate) fn list(&mut self, subscriber: Subscriber) {
        let list = &mut self.subscribers;
        if list.len() == list.capacity() {
            // Not doubled: half of a million places would be idle.
            list.reserve_exact((list.len() / 8).max(1));
        }
        list.push(subscriber);
    }

    /// Takes the subscriber out of that place; the one that is there now has moved.
    pub(crate) fn unlist(&mut self, place: usize) -> Option<Subscriber> {
        let list = &mut self.subscribers;
        if place < list.len() {
            list.swap_remove(place);
        }
        if list.len() <= list.capacity() / 2 {
            list.shrink_to(list.len() + list.len() / 8);
        }
        list.get(place).copied()
    }

    /// Whether it remembers a value whose time is over.
    pub(crate) fn retained_expired(&self, wall_ms: u64) -> bool {
        let retained = self.home.as_ref().and_then(|home| home.retained.as_ref());
        let message = retained.and_then(|run| run.message(0));
        message.is_some_and(|message| message.is_expired(wall_ms))
    }

    /// Whether forgetting it would change nothing.
    pub(crate) fn is_idle(&self) -> bool {
        self.subscribers.is_empty()
            && self.pressing == 0
            && self.home.as_ref().is_none_or(|home| {
                home.interested == 0
                    && home.pressed == 0
                    && home.told == 0
                    && home.retained.is_none()
            })
    }
}

/// A shard as a member of a set of shards.
pub(crate) fn bit(shard: ShardId) -> u64 {
    1 << (shard.0 % 64)
}

/// The members of a set of shards.
pub(crate) fn members(mut set: u64) -> impl Iterator<Item = ShardId> {
    std::iter::from_fn(move || {
        let shard = ShardId(set.trailing_zeros() as u16);
        let some = set != 0;
        set &= set.wrapping_sub(1);
        some.then_some(shard)
    })
}
