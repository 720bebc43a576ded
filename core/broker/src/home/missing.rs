//! As a home: whether somebody wants to be told of missing topics, and which were told lately.
//!
//! Bookkeeping only. Invariant: each name is told at most once a second.

use tiderace_base::Time;
use tiderace_topics::{Level, Pattern};

use crate::recently_told::RecentlyTold;

/// What a home knows about it.
#[derive(Debug, Default)]
pub(crate) struct MissingTopics {
    /// Patterns of all shards that name something here.
    listeners: usize,
    told: RecentlyTold,
}

impl MissingTopics {
    /// A pattern is the first of its shard, or was the last.
    pub(crate) fn count(&mut self, pattern: &Pattern, on: bool) {
        if listens(pattern) {
            let fewer = self.listeners.saturating_sub(1);
            self.listeners = if on { self.listeners + 1 } else { fewer };
        }
    }

    /// Whether anybody wants to be told of anything.
    pub(crate) fn is_wanted(&self) -> bool {
        self.listeners > 0
    }

    /// Whether a topic may be told now; if so, not again for a while.
    pub(crate) fn may_tell(&mut self, name: &str, now: Time) -> bool {
        self.told.may_tell(name, now)
    }
}

/// Whether a pattern names `$sys/missing` or something below.
fn listens(pattern: &Pattern) -> bool {
    let mut levels = pattern.levels().iter();
    matches!(levels.next(), Some(Level::Literal(text)) if **text == *"$sys")
        && levels.next().is_some_and(|level| level.fits("missing"))
}
