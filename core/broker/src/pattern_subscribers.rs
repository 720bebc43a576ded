//! Subscriptions of this shard's sessions to patterns of topics.
//!
//! Invariant: the generation rises whenever other subscribers may be found for some topic.

use tiderace_topics::{Path, Pattern, PatternIndex};

use crate::subscriber_list::Subscriber;

/// The pattern subscriptions of one shard.
#[derive(Debug)]
pub(crate) struct PatternSubscribers {
    index: PatternIndex<Subscriber>,
    generation: u64,
}

impl Default for PatternSubscribers {
    fn default() -> PatternSubscribers {
        // Topics begin with generation zero, and look at once.
        PatternSubscribers { index: PatternIndex::default(), generation: 1 }
    }
}

impl PatternSubscribers {
    pub(crate) fn insert(&mut self, pattern: &Pattern, subscriber: Subscriber) {
        self.index.insert(pattern, subscriber);
        self.generation += 1;
    }

    /// Whether it was there.
    pub(crate) fn remove(&mut self, pattern: &Pattern, subscriber: &Subscriber) -> bool {
        let removed = self.index.remove(pattern, subscriber);
        self.generation += u64::from(removed);
        removed
    }

    /// Who is allowed to see what has changed: what was found for a topic is to be found again.
    pub(crate) fn renew(&mut self) {
        self.generation += 1;
    }

    /// Rises with each change.
    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    /// Calls for each subscription with a pattern that names a topic.
    pub(crate) fn of(&self, path: &Path, found: &mut dyn FnMut(&Subscriber)) {
        self.index.matches(path, &mut |subscriber| found(subscriber));
    }
}
