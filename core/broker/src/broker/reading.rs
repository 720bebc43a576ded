//! What others may know of the broker.

use tiderace_base::{Memory, SessionId};
use tiderace_wire::TemporaryName;

use super::Broker;
use crate::places::key_of;

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
}
