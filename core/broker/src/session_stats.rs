//! How sessions fare: what waits for each, and what it did not get.
//!
//! Each shard knows its own sessions; those for which most waits are listed by all shards together.
//! Relies on sessions to count what they lose. Invariant: a list is bounded, however many sessions there
//! are.

use std::cmp::Reverse;

use tiderace_base::{Key, SessionId};
use tiderace_wire::{SessionEntry, SessionState};

use crate::places::key_of;
use crate::session::Session;
use crate::session_side::SessionSide;

/// Sessions of one list.
const SESSIONS_MAX: usize = 1_000;
/// The same if nobody says how many.
const SESSIONS_DEFAULT: usize = 100;

impl SessionSide<'_> {
    pub(crate) fn state_of(&self, session: SessionId) -> SessionState {
        self.sessions.get(key_of(session)).map(state).unwrap_or_default()
    }

    /// The session at a place of this shard, if it has logged in.
    pub(crate) fn session_entry(&self, slot: u32) -> Option<SessionEntry> {
        let key = self.sessions.key_of(slot)?;
        let record = self.sessions.get(key)?;
        let name = record.principal.as_ref()?.name.clone();
        Some(SessionEntry { id: self.id_of(key), name, state: state(record) })
    }

    /// The sessions of this shard for which most waits, or which have lost most.
    pub(crate) fn busiest_sessions(&self, limit: usize) -> Vec<SessionEntry> {
        let mut busy: Vec<(Reverse<(u64, u64)>, Key)> = self
            .sessions
            .iter()
            .filter_map(|(key, record)| {
                let rank = (record.held_bytes() as u64, lost(record));
                (rank != (0, 0)).then_some((Reverse(rank), key))
            })
            .collect();
        let limit = page_size(limit);
        if busy.len() > limit {
            // Those that are listed alone are put in order.
            busy.select_nth_unstable(limit);
            busy.truncate(limit);
        }
        busy.sort_unstable();
        let entry = |(_, key): (_, Key)| {
            let record = self.sessions.get(key)?;
            let name = record.principal.as_ref().map_or_else(|| "".into(), |who| who.name.clone());
            Some(SessionEntry { id: self.id_of(key), name, state: state(record) })
        };
        busy.into_iter().filter_map(entry).collect()
    }
}

/// Puts the lists of all shards together.
pub(crate) fn merge_sessions(mut sessions: Vec<SessionEntry>, limit: usize) -> Vec<SessionEntry> {
    sessions.sort_by_key(|entry| {
        let state = entry.state;
        Reverse((state.backlog_bytes, state.conflated + state.dropped))
    });
    sessions.truncate(page_size(limit));
    sessions
}

fn page_size(limit: usize) -> usize {
    if limit == 0 { SESSIONS_DEFAULT } else { limit.min(SESSIONS_MAX) }
}

fn lost(record: &Session) -> u64 {
    record.rare.as_ref().map_or(0, |rare| rare.conflated + rare.dropped)
}

fn state(record: &Session) -> SessionState {
    let backlog = record.backlog.as_ref();
    SessionState {
        subscriptions: record.subscriptions.count() as u64,
        backlog_messages: backlog.map_or(0, |backlog| backlog.messages()),
        backlog_bytes: record.held_bytes() as u64,
        conflated: record.rare.as_ref().map_or(0, |rare| rare.conflated),
        dropped: record.rare.as_ref().map_or(0, |rare| rare.dropped),
    }
}
