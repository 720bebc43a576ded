//! What the event loop tells of limits, and asks to be refused because of them.
//!
//! Invariant: what is refused has changed nothing, and each of it is answered as the broker's own refusals are.

use tiderace_base::{Allowances, Close, SessionId};
use tiderace_wire::{Command, Commands};

use super::Broker;
use crate::effects::Effects;
use crate::places::key_of;

impl Broker {
    /// The caller's name for what carries a session.
    pub fn link_of(&self, session: SessionId) -> Option<u32> {
        self.sessions.get(key_of(session)).map(|record| record.link)
    }

    /// A session is limited by these from now on, or no more.
    pub fn limit(&mut self, session: SessionId, allowances: Option<Allowances>) {
        if let Some(record) = self.sessions.get_mut(key_of(session)) {
            record.set_allowances(allowances);
        }
    }

    /// Refuses what a session asks for.
    pub fn refuse(
        &mut self,
        session: SessionId,
        commands: &mut Commands,
        close: &Close,
        effects: &mut Effects,
    ) {
        for command in commands.drain() {
            if !matches!(command, Command::Goodbye | Command::Together(_) | Command::ActAs(_)) {
                self.refuse_command(session, &command, close.clone(), effects);
            }
        }
    }
}
