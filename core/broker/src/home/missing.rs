//! Which missing topics somebody wants to be told of, and which were told lately.
//!
//! Bookkeeping only. Invariant: of each name it is said at most once a second.

use tiderace_base::{SessionId, Span, Time};
use tiderace_topics::{Level, Pattern};

use crate::collections::Map;
use crate::messages::SubscribeRequestId;

/// How long a name is not said again.
const PAUSE: Span = Span::from_secs(1);
/// Names remembered for that, and subscriptions for which not all homes have answered yet.
const NAMES_MAX: usize = 10_000;

/// What one shard knows about it.
#[derive(Debug, Default)]
pub(crate) struct MissingTopics {
    /// Patterns of all shards that name something here.
    listeners: usize,
    said: Map<Box<str>, Time>,
    /// How many homes have found nothing for a target.
    nothing: Map<(SessionId, u32, u16), (u32, Time)>,
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

    /// Whether this may be said now; if so, not again for a while.
    pub(crate) fn may_say(&mut self, name: &str, now: Time) -> bool {
        if self.said.get(name).is_some_and(|said| now.since(*said) < PAUSE) {
            return false;
        }
        if self.said.len() >= NAMES_MAX {
            self.said.retain(|_, said| now.since(*said) < PAUSE);
        }
        let room = self.said.len() < NAMES_MAX;
        if room {
            self.said.insert(name.into(), now);
        }
        room
    }

    /// One more home has found nothing for a target: whether that were all, of so many.
    pub(crate) fn count_nothing(
        &mut self,
        request: &SubscribeRequestId,
        homes: usize,
        now: Time,
    ) -> bool {
        if self.nothing.len() >= NAMES_MAX {
            // Of most, another home has found something.
            self.nothing.retain(|_, (_, since)| now.since(*since) < PAUSE);
            if self.nothing.len() >= NAMES_MAX {
                return false;
            }
        }
        let of = (request.session, request.epoch, request.target);
        let (count, _) = self.nothing.entry(of).or_insert((0, now));
        *count += 1;
        let all = *count as usize >= homes;
        if all {
            self.nothing.remove(&of);
        }
        all
    }
}

/// Whether a pattern names `$sys/missing` or something below.
fn listens(pattern: &Pattern) -> bool {
    let mut levels = pattern.levels().iter();
    matches!(levels.next(), Some(Level::Literal(text)) if **text == *"$sys")
        && levels.next().is_some_and(|level| level.fits("missing"))
}
