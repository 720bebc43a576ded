//! Virtual hosts: in which of them a session is, from its login on.
//!
//! Relies on [`Root`], which puts the host before the names in a session's commands and takes it off in answers; the
//! wiring does that before anything else looks at a command, and when a delivery is taken. Invariant: a session that has
//! logged in stays in its host, whatever else it names.

use std::sync::Arc;

use tiderace_base::{Close, CloseCode, SessionId};
use tiderace_wire::{NamedHost, Root};

use crate::Principal;
use crate::places::key_of;
use crate::session_side::SessionSide;

impl SessionSide<'_> {
    /// A client has said by which name it wants to reach the server; what it says later counts.
    pub(crate) fn name_host(&mut self, session: SessionId, text: &str) {
        if self.options.virtual_hosts.is_empty() {
            return;
        }
        let named = self.options.virtual_hosts.named(text);
        let Some(record) = self.sessions.get_mut(key_of(session)) else { return };
        if named != NamedHost::None && record.principal.is_none() {
            record.rare.get_or_insert_default().host.get_or_insert_default().named = named;
        }
    }

    /// In which host somebody would be that logs in, by the name with which its session has come.
    ///
    /// # Errors
    /// When it may not log in there.
    pub(crate) fn host_at_login(
        &self,
        session: SessionId,
        principal: &Principal,
    ) -> Result<Option<Arc<str>>, Close> {
        let record = self.sessions.get(key_of(session));
        let known = record.and_then(|it| it.rare.as_ref()?.host.as_ref());
        let named = known.map(|host| &host.named).unwrap_or(&NamedHost::None);
        self.options.virtual_hosts.admit(named, principal.host.as_ref())
    }

    /// Who somebody is in the host that its session has named.
    ///
    /// # Errors
    /// When it may not log in there, or the session is in another host already.
    pub(crate) fn admit_to_host(
        &mut self,
        session: SessionId,
        mut principal: Principal,
    ) -> Result<Principal, Close> {
        if self.options.virtual_hosts.is_empty() && principal.host.is_none()
            || principal.is_server()
        {
            return Ok(principal);
        }
        principal.host = self.host_at_login(session, &principal)?;
        let Some(record) = self.sessions.get_mut(key_of(session)) else { return Ok(principal) };
        if record.principal.as_ref().is_some_and(|before| before.host != principal.host) {
            let reason = "a session stays in its virtual host; connect anew for another one";
            return Err(Close::new(CloseCode::WrongHost, reason));
        }
        match &principal.host {
            Some(name) => {
                let host = record.rare.get_or_insert_default().host.get_or_insert_default();
                host.root = Some(Root::of(name));
            }
            // Nothing is kept of the many that are in no host.
            None => {
                if let Some(rare) = &mut record.rare {
                    rare.host = None;
                }
                record.rare.take_if(|rare| rare.is_empty());
            }
        }
        Ok(principal)
    }
}
