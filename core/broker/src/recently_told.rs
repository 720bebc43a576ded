//! Names that were told lately, so that each is told at most once a second.
//!
//! Invariant: no more than [`NAMES_MAX`] are remembered; beyond that none is told.

use tiderace_base::{Span, Time};

use crate::collections::Map;

/// How long a name is not told again.
pub(crate) const PAUSE: Span = Span::from_secs(1);
/// Names remembered for that.
pub(crate) const NAMES_MAX: usize = 10_000;

/// When names were told.
#[derive(Debug, Default)]
pub(crate) struct RecentlyTold {
    names: Map<Box<str>, Time>,
}

impl RecentlyTold {
    /// Whether a name may be told now; if so, not again for a while.
    pub(crate) fn may_tell(&mut self, name: &str, now: Time) -> bool {
        if self.names.get(name).is_some_and(|told| now.since(*told) < PAUSE) {
            return false;
        }
        if self.names.len() >= NAMES_MAX {
            self.names.retain(|_, told| now.since(*told) < PAUSE);
        }
        let room = self.names.len() < NAMES_MAX;
        if room {
            self.names.insert(name.into(), now);
        }
        room
    }
}
