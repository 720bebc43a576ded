//! Answers to the commands of sessions, of this shard or of another.
//!
//! Relies on nothing but the session's identity. Invariant: who has gone is told nothing.

use tiderace_base::{Close, SessionId};
use tiderace_wire::{Confirm, Reply, Token};

use crate::broker::Broker;
use crate::effects::{Effects, Mail};

impl Broker {
    /// Answers a session of this shard.
    pub(crate) fn reply(&self, session: SessionId, reply: Reply, effects: &mut Effects) {
        if let Some(record) = self.session(session) {
            effects.replies.push((record.link, session, reply));
        }
    }

    pub(crate) fn confirm(&self, session: SessionId, token: Option<Token>, effects: &mut Effects) {
        if let Some(token) = token {
            self.reply(session, Reply::Confirmed(Confirm::one(token)), effects);
        }
    }

    /// Refuses a command of a session of any shard, or of nobody.
    pub(crate) fn refuse_anywhere(
        &mut self,
        session: Option<SessionId>,
        token: Option<Token>,
        close: Close,
        effects: &mut Effects,
    ) {
        match session {
            Some(session) if session.shard == self.shard => {
                self.reply(session, Reply::Refused { token, close }, effects);
            }
            Some(session) => {
                self.send(session.shard, Mail::Refused { session, token, close }, effects);
            }
            None => {}
        }
    }

    /// Confirms to a session of any shard.
    pub(crate) fn confirm_anywhere(
        &mut self,
        session: SessionId,
        confirm: Confirm,
        effects: &mut Effects,
    ) {
        if session.shard == self.shard {
            self.reply(session, Reply::Confirmed(confirm), effects);
        } else {
            self.send(session.shard, Mail::Confirmed { session, confirm }, effects);
        }
    }
}
