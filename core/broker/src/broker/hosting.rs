//! What sessions of virtual hosts ask: their names become those of the server.
//!
//! Relies on [`tiderace_wire::Root`]. Called for sessions of hosts, and for all where there are hosts. What they get has
//! their names when it is answered (`answering.rs`) and taken (`delivery/taking.rs`). Invariant: nothing sees a command of
//! a session of a host as its client has written it.

use std::sync::Arc;

use tiderace_base::{Close, SessionId};
use tiderace_wire::{Command, Confirm, Reply};

use super::Broker;
use crate::Principal;
use crate::effects::Effects;

impl Broker {
    /// A session has come by this name of the server.
    pub fn name_host(&mut self, session: SessionId, host: &str) {
        self.session_side().name_host(session, host);
    }

    /// A command with the names that the server has for what it names, unless it is refused. Where there are virtual
    /// hosts, also one of somebody who sees the whole tree.
    #[inline(never)]
    pub(super) fn enter_host(
        &mut self,
        session: SessionId,
        mut command: Command,
        effects: &mut Effects,
    ) -> Option<Command> {
        let entered = match self.session(session)?.root() {
            Some(root) => root.enter(&mut command),
            None => self.options.virtual_hosts.check_command(&command),
        };
        match entered {
            Ok(()) => Some(command),
            Err(close) => {
                self.refuse_command(session, &command, close, effects);
                None
            }
        }
    }

    pub(super) fn refuse_command(
        &mut self,
        session: SessionId,
        command: &Command,
        close: Close,
        effects: &mut Effects,
    ) {
        if let Command::Operate { token, operation } = command {
            self.record(session, *token, operation, effects);
        }
        let side = self.session_side();
        let token = match command {
            Command::Publish { confirm, confirm_first, .. } => {
                let first = |confirm: Confirm| confirm.from;
                let blame = confirm.filter(|_| *confirm_first).map(first);
                return side.refuse_run(session, *confirm, blame, &close, effects);
            }
            Command::Call(call) => {
                let exchange = tiderace_wire::ExchangeKey::caller(call.number);
                return side.reply(session, Reply::ExchangeEnded { exchange, close }, effects);
            }
            Command::Subscribe(subscribe) => {
                let reply = Reply::no_subscription(subscribe.key, subscribe.confirm, close);
                return side.reply(session, reply, effects);
            }
            Command::Operate { token, .. } => Some(*token),
            _ => None,
        };
        side.reply(session, Reply::Refused { token, close }, effects);
    }

    /// The name that somebody has, or would have, who logs in on a session, with the virtual host that this leads to: `@HOST/NAME`.
    pub fn name_at_login(&mut self, session: SessionId, principal: &Principal) -> Arc<str> {
        let host = self.session_side().host_at_login(session, principal);
        // Who may not log in there is refused for that.
        let host = host.unwrap_or_else(|_| principal.host.clone());
        Principal { host, ..principal.clone() }.whole_name()
    }

    /// In whose account what a session sends counts: a user's, in all virtual hosts.
    pub fn account_name(&self, session: SessionId) -> Option<Arc<str>> {
        Some(self.session(session)?.principal.as_ref()?.name.clone())
    }

    /// The name of the principal that a session is logged in as; one of a virtual host is another one, whatever its name.
    pub fn principal_name(&self, session: SessionId) -> Option<Arc<str>> {
        let record = self.session(session)?;
        let name = &record.principal.as_ref()?.name;
        Some(match record.root() {
            None => name.clone(),
            Some(root) => [root.level(), "/", name].concat().into(),
        })
    }
}
