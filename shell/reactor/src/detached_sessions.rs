//! Which sessions of a shard are detached, and whether there is room for another one.
//!
//! Invariants: a node has only so many detached sessions, and of one principal only so many. Each shard has an
//! equal share of these limits, so none is asked of another.

use std::collections::HashMap;
use std::sync::Arc;

use tiderace_base::{Key, Span, Time};

use crate::options::DetachedLimits;

/// The detached sessions of one shard.
#[derive(Debug, Default)]
pub(crate) struct Detached {
    sessions: HashMap<Key, Arc<str>>,
    principals: HashMap<Arc<str>, usize>,
    swept_at: Time,
}

impl Detached {
    /// Whether there is room for another session of a principal.
    pub(crate) fn admits(&self, principal: &str, limits: &DetachedLimits, shards: usize) -> bool {
        let share = |limit: usize| limit.div_ceil(shards.max(1));
        let of_principal = self.principals.get(principal).copied().unwrap_or(0);
        self.sessions.len() < share(limits.sessions_max)
            && of_principal < share(limits.sessions_per_principal_max)
    }

    pub(crate) fn add(&mut self, key: Key, principal: Arc<str>) {
        *self.principals.entry(principal.clone()).or_default() += 1;
        self.sessions.insert(key, principal);
    }

    /// Whether it is time to look at what they hold; if so, the next time is an interval later.
    pub(crate) fn is_sweep_due(&mut self, now: Time, interval: Span) -> bool {
        let is_due = !self.sessions.is_empty() && now >= self.swept_at;
        if is_due {
            self.swept_at = now + interval;
        }
        is_due
    }

    /// All of them.
    pub(crate) fn keys(&self) -> impl Iterator<Item = Key> {
        self.sessions.keys().copied()
    }

    /// A session is not detached any more.
    pub(crate) fn remove(&mut self, key: Key) {
        let Some(principal) = self.sessions.remove(&key) else { return };
        if let Some(count) = self.principals.get_mut(&principal) {
            *count -= 1;
            if *count == 0 {
                self.principals.remove(&principal);
            }
        }
    }
}
