//! What others may know of the broker.

use std::sync::Arc;

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

    /// The name of the principal that a session is logged in as.
    pub fn principal_name(&self, session: SessionId) -> Option<Arc<str>> {
        let record = self.sessions.get(key_of(session))?;
        record.principal.as_ref().map(|principal| principal.name.clone())
    }

    /// Bytes that wait for a session, those that are deferred included.
    pub fn backlog_bytes(&self, session: SessionId) -> usize {
        self.sessions.get(key_of(session)).map_or(0, |record| record.held_bytes())
    }
}
