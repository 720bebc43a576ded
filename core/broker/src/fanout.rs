//! Who of this shard is to get what concerns a pattern: its messages, and notices of topics that come and go.
//!
//! Who subscribes to one topic alone stands in the topic's record. Each part keeps its state to itself.

use crate::pattern_subscribers::PatternSubscribers;
use crate::told_topics::Notices;

/// The shard's subscriptions by pattern.
#[derive(Debug, Default)]
pub(crate) struct Fanout {
    patterns: PatternSubscribers,
    notices: Box<Notices>,
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

    /// Who gets notices.
    pub(crate) fn notices(&self) -> &Notices {
        &self.notices
    }

    pub(crate) fn notices_mut(&mut self) -> &mut Notices {
        &mut self.notices
    }
}
