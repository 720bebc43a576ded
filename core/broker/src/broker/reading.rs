//! What others may know of the broker.

use tiderace_base::{Memory, SessionId};
use tiderace_wire::{SessionEntry, SessionState, TemporaryName};

use super::Broker;
use crate::places::key_of;
use crate::session_stats::{entry, state};

impl Broker {
    /// What is kept on this shard, for code that keeps something beside the broker: unfinished input.
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// The name of a session in the paths of its temporary destinations.
    pub fn temporary_name(&self, session: SessionId) -> TemporaryName {
        self.options.temporary_name(session)
    }

    /// Bytes that wait for a session, those that are deferred included.
    pub fn backlog_bytes(&self, session: SessionId) -> usize {
        self.sessions.get(key_of(session)).map_or(0, |record| record.held_bytes())
    }

    /// How a session fares.
    pub fn session_state(&self, session: SessionId) -> SessionState {
        self.sessions.get(key_of(session)).map(state).unwrap_or_default()
    }

    /// A session as lists show it; without a name if it has not logged in.
    pub fn session_entry(&self, session: SessionId) -> Option<SessionEntry> {
        self.sessions.get(key_of(session)).map(|record| entry(session, record))
    }
}
