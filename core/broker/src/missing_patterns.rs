//! On the subscriber's shard: patterns for which homes have found no topic.
//!
//! Bookkeeping only. Invariants: a pattern is told as missing when all homes have found nothing for it; at most once
//! a second.

use tiderace_base::{SessionId, Time};

use crate::collections::Map;
use crate::messages::SubscribeRequestId;
use crate::recently_told::{NAMES_MAX, PAUSE, RecentlyTold};

/// Patterns of this shard's subscriptions for which not all homes have answered yet.
#[derive(Debug, Default)]
pub(crate) struct MissingPatterns {
    /// How many homes have found nothing for a target.
    nothing: Map<(SessionId, u32, u16), (u32, Time)>,
    told: RecentlyTold,
}

impl MissingPatterns {
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

    /// Whether a pattern may be told now; if so, not again for a while.
    pub(crate) fn may_tell(&mut self, pattern: &str, now: Time) -> bool {
        self.told.may_tell(pattern, now)
    }
}
