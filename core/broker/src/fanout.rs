//! Who of this shard is to get the messages of a pattern.
//!
//! Who subscribes to one topic alone stands in the topic's record, and who gets notices in `notices/`.

use crate::pattern_subscribers::PatternSubscribers;

/// The shard's subscriptions by pattern.
#[derive(Debug, Default)]
pub(crate) struct Fanout {
    patterns: PatternSubscribers,
}

impl Fanout {
    /// Who gets messages.
    #[inline]
    pub(crate) fn patterns(&self) -> &PatternSubscribers {
        &self.patterns
    }

    pub(crate) fn patterns_mut(&mut self) -> &mut PatternSubscribers {
        &mut self.patterns
    }
}
