//! Operations: from a session to the homes of the topics that they concern, and their answers back.
//!
//! An operation on one path is done by the path's home. One on a selector is done by every home for
//! its own topics, and the session's shard puts the answers together. Invariant: every operation is
//! answered once, or its session has ended.

use tiderace_base::{Close, CloseCode, Now, SessionId};
use tiderace_wire::{Operation, Outturn, Reply, SessionState, Token};

use crate::broker::Broker;
use crate::effects::Effects;

impl Broker {
    /// On the session's shard.
    pub(crate) fn operate(
        &mut self,
        _now: Now,
        session: SessionId,
        token: Token,
        operation: Operation,
        effects: &mut Effects,
    ) {
        let reply = match operation {
            Operation::Session => {
                let outturn = Box::new(Outturn::Session(self.state_of(session)));
                Reply::Operated { token, outturn }
            }
            _ => {
                let close = Close::new(CloseCode::BadRequest, "this cannot be done yet");
                Reply::Refused { token: Some(token), close }
            }
        };
        self.reply(session, reply, effects);
    }

    fn state_of(&self, session: SessionId) -> SessionState {
        let Some(record) = self.session(session) else {
            return SessionState::default();
        };
        SessionState {
            subscriptions: record.subscriptions.keys().len() as u64,
            backlog_bytes: record.backlog_bytes() as u64,
            ..SessionState::default()
        }
    }
}
