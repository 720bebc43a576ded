//! Subscriptions of this shard's sessions to patterns of topics.
//!
//! Invariants: the generation rises whenever other subscribers may be found for some topic; each distinct pattern is
//! kept, and its compiled bytes are counted, once.

use tiderace_topics::{Path, Pattern, PatternIndex};

use crate::collections::Map;
use crate::subscriber_list::Subscriber;

/// The pattern subscriptions of one shard.
#[derive(Debug)]
pub(crate) struct PatternSubscribers {
    index: PatternIndex<Subscriber>,
    generation: u64,
    /// How many subscriptions use each pattern.
    uses: Map<Pattern, u32>,
    /// Compiled bytes of the distinct patterns.
    regex_bytes: usize,
}

impl Default for PatternSubscribers {
    fn default() -> PatternSubscribers {
        // Topics begin with generation zero, and look at once.
        PatternSubscribers {
            index: PatternIndex::default(),
            generation: 1,
            uses: Map::default(),
            regex_bytes: 0,
        }
    }
}

impl PatternSubscribers {
    pub(crate) fn insert(&mut self, pattern: &Pattern, subscriber: Subscriber) {
        self.index.insert(pattern, subscriber);
        self.generation += 1;
        let uses = self.uses.entry(pattern.clone()).or_default();
        *uses += 1;
        self.regex_bytes += if *uses == 1 { pattern.regex_bytes() } else { 0 };
    }

    /// Whether it was there.
    pub(crate) fn remove(&mut self, pattern: &Pattern, subscriber: &Subscriber) -> bool {
        let removed = self.index.remove(pattern, subscriber);
        self.generation += u64::from(removed);
        if removed && let Some(uses) = self.uses.get_mut(pattern) {
            *uses -= 1;
            if *uses == 0 {
                self.uses.remove(pattern);
                self.regex_bytes -= pattern.regex_bytes();
            }
        }
        removed
    }

    /// Calls for each subscription with this pattern, however it was written.
    pub(crate) fn with(&self, pattern: &Pattern, found: &mut dyn FnMut(&Subscriber)) {
        self.index.filed_under(pattern, &mut |subscriber| found(subscriber));
    }

    /// The same pattern as a subscription holds it.
    pub(crate) fn known(&self, pattern: &Pattern) -> Option<&Pattern> {
        self.uses.get_key_value(pattern).map(|(known, _)| known)
    }

    /// Compiled bytes of the distinct patterns.
    pub(crate) fn regex_bytes(&self) -> usize {
        self.regex_bytes
    }

    /// Who is allowed to see what has changed: what was found for a topic is to be found again.
    pub(crate) fn renew(&mut self) {
        self.generation += 1;
    }

    /// Rises with each change.
    #[inline]
    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    /// Calls for each subscription with a pattern that names a topic.
    pub(crate) fn of(&self, path: &Path, found: &mut dyn FnMut(&Subscriber)) {
        self.index.matches(path, &mut |subscriber| found(subscriber));
    }
}
