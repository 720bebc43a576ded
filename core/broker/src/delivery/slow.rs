//! Sessions whose backlog is above the mark.
//!
//! Invariant: of very many some are looked at each time, in turns.

use std::collections::BTreeSet;
use std::ops::Bound;

use tiderace_base::Key;

/// Sessions above the mark for which publishers wait.
#[derive(Debug, Default)]
pub(crate) struct SlowSessions {
    sessions: BTreeSet<Key>,
    /// The one that was looked at last.
    at: Key,
}

impl SlowSessions {
    pub(super) fn insert(&mut self, session: Key) {
        self.sessions.insert(session);
    }

    pub(super) fn remove(&mut self, session: Key) {
        self.sessions.remove(&session);
    }

    pub(super) fn len(&self) -> usize {
        self.sessions.len()
    }

    /// The next one, in turns.
    pub(super) fn next(&mut self) -> Option<Key> {
        let behind = self.sessions.range((Bound::Excluded(self.at), Bound::Unbounded)).next();
        self.at = *behind.or_else(|| self.sessions.first())?;
        Some(self.at)
    }
}
