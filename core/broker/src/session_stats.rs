//! How sessions fare: what waits for each, and what it did not get.
//!
//! Each shard knows its own sessions. Relies on sessions to count what they lose. Invariant: looking at a session changes
//! nothing.

use tiderace_base::SessionId;
use tiderace_wire::{SessionEntry, SessionState};

use crate::places::key_of;
use crate::session::Session;
use crate::session_side::SessionSide;

impl SessionSide<'_> {
    pub(crate) fn state_of(&self, session: SessionId) -> SessionState {
        self.sessions.get(key_of(session)).map(state).unwrap_or_default()
    }

    /// The session at a place of this shard, if it has logged in.
    pub(crate) fn session_entry(&self, slot: u32) -> Option<SessionEntry> {
        let key = self.sessions.key_of(slot)?;
        let record = self.sessions.get(key)?;
        record.principal.as_ref()?;
        Some(entry(self.id_of(key), record))
    }
}

/// A session as lists show it.
pub(crate) fn entry(id: SessionId, record: &Session) -> SessionEntry {
    let principal = record.principal.as_ref();
    let name = principal.map_or_else(|| "".into(), |who| who.name.clone());
    SessionEntry { id, name, state: state(record), facts: None }
}

/// How a session fares.
pub(crate) fn state(record: &Session) -> SessionState {
    let backlog = record.backlog.as_ref();
    SessionState {
        subscriptions: record.subscriptions.count() as u64,
        backlog_messages: backlog.map_or(0, |backlog| backlog.messages()),
        backlog_bytes: record.held_bytes() as u64,
        conflated: record.rare.as_ref().map_or(0, |rare| rare.conflated),
        dropped: record.rare.as_ref().map_or(0, |rare| rare.dropped),
    }
}
