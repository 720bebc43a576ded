//! Who a session is: logging in, and logging in again.
//!
//! Each identity is kept once and shared by its sessions. A session that logs in again while it
//! lives (a token is renewed) goes on as what it is now: what it may no longer listen to does not
//! outlive the login. A login that fails changes nothing.

use std::rc::Rc;

use tiderace_base::{Close, CloseCode, Now, SessionId};
use tiderace_wire::{Credentials, Destination, Entrance, Kind, Reply, Target};

use crate::authorise::Caller;
use crate::credential_id::CredentialId;
use crate::effects::Effects;
use crate::places::key_of;
use crate::session_side::SessionSide;
use crate::subscriptions::Entry;
use crate::{BrokerOptions, Principal, UpstreamTopics};

/// A session that is somebody from now on.
#[derive(Debug)]
pub(crate) struct Login {
    before: Option<Rc<Principal>>,
    principal: Rc<Principal>,
}

impl Login {
    /// Who it was, and is now.
    pub(crate) fn into_parts(self) -> (Option<Rc<Principal>>, Rc<Principal>) {
        (self.before, self.principal)
    }

    /// Who it was and is, if it was somebody else.
    pub(crate) fn change(&self) -> Option<(&Principal, &Principal)> {
        let before = self.before.as_deref()?;
        (!before.is_same_as(&self.principal)).then_some((before, &self.principal))
    }
}

impl SessionSide<'_> {
    /// Who shows such credentials on that way, unless they are to be verified first.
    ///
    /// # Errors
    /// When nobody can have the name: what the server does, it does under a name that is a wildcard.
    #[must_use = "who it is has yet to be told"]
    pub(crate) fn login(
        &mut self,
        session: SessionId,
        (mut credentials, entrance): (Credentials, Entrance),
        effects: &mut Effects,
    ) -> Result<Option<Principal>, Close> {
        if let Some(local) = Principal::unasked(&credentials, entrance) {
            return Ok(Some(local));
        }
        if let Some(host) = credentials.host.take() {
            self.name_host(session, &host);
        }
        if self.options.verify_logins {
            effects.verify.push((session, credentials));
            return Ok(None);
        }
        let principal = match credentials.login {
            Some(login) if !login.is_empty() => {
                Principal { credential: CredentialId::BELIEVED, ..Principal::named(login) }
            }
            _ => Principal::anonymous(),
        };
        if principal.is_server() {
            let reason = "nobody logs in as `*`, which means everybody; use another name";
            return Err(Close::new(CloseCode::LoginFailed, reason));
        }
        principal.logged_in_by(entrance).map(Some)
    }

    /// A session is somebody from now on, of which it has yet to be told.
    #[must_use = "its client waits for the answer"]
    pub(crate) fn begin_login(
        &mut self,
        session: SessionId,
        principal: Principal,
    ) -> Option<Login> {
        let principal = self.sessions.shared(principal);
        let record = self.sessions.get_mut(key_of(session))?;
        let before = record.principal.replace(principal.clone());
        if before.is_some()
            && let Some(rare) = &mut record.rare
        {
            rare.may_publish = None;
        }
        self.sessions.keep_principal(principal.clone());
        Some(Login { before, principal })
    }

    /// The session is told, unless its connection is to end since it may not be what it is now; `told` says whether notices
    /// could follow.
    pub(crate) fn finish_login(
        &mut self,
        now: Now,
        session: SessionId,
        login: Login,
        told: Result<(), Close>,
        effects: &mut Effects,
    ) -> Result<(), Close> {
        let changed = login.change().is_some();
        let Login { before, principal } = login;
        let (name, anonymous) = (principal.name.clone(), principal.anonymous);
        let host = principal.host.clone();
        if let Some(before) = before {
            if changed {
                self.show_again(now, session, &principal, effects);
            }
            self.sessions.forget_principal(Some(before));
            if changed {
                // Every topic here looks its pattern subscribers up again, and asks the rules again.
                self.fanout.patterns_mut().renew();
                told.and_then(|()| self.review(session, (&principal, true)))?;
            }
        } else {
            self.show_session(now, session, &principal, effects);
        }
        self.reply(session, Reply::LoggedIn { name, anonymous, host }, effects);
        Ok(())
    }

    /// Whether the identity may have all that the session listens to, but for what it has for others; what patterns of
    /// topics show it is found when messages come. `is_other` says whether it was somebody else before.
    pub(crate) fn review(&self, session: SessionId, who: (&Principal, bool)) -> Result<(), Close> {
        let (principal, is_other) = who;
        let Some(record) = self.session(session) else {
            return Ok(());
        };
        let caller = Caller { session, principal };
        for key in record.subscriptions.keys() {
            match record.subscriptions.get(key) {
                None => {}
                Some(entry @ (Entry::Plain(_) | Entry::Credited(_))) => {
                    let topic =
                        entry.plain().and_then(|plain| self.directory.topics().key_of(plain.topic));
                    let Some(topic) = topic.and_then(|key| self.directory.get(key)) else {
                        continue;
                    };
                    let path = topic.path.clone();
                    let target = Target::Exact(Destination { kind: Kind::Topic, path });
                    self.options.may_listen(caller, &target)?;
                }
                Some(Entry::Full(subscription)) if subscription.is_relayed => {}
                Some(Entry::Full(subscription)) => {
                    for listening in subscription.targets.as_slice() {
                        if matches!(listening.target, Target::Pattern(Kind::Topic, _)) {
                            continue;
                        }
                        check_elsewhere(self.options, is_other, &listening.target)?;
                        let Err(close) = self.options.may_listen(caller, &listening.target) else {
                            continue;
                        };
                        let Target::Exact(destination) = &listening.target else {
                            return Err(close);
                        };
                        if !self.still_owns(principal, session, key, &destination.path) {
                            return Err(close);
                        }
                    }
                }
            }
        }
        Ok(())
    }
}

/// A consumer at an upstream is there in the name of who began it, whose rights the upstream has looked at.
fn check_elsewhere(options: &BrokerOptions, is_other: bool, target: &Target) -> Result<(), Close> {
    let upstream = if is_other { options.upstream_of_queues(target) } else { None };
    let Some(UpstreamTopics { name, .. }) = upstream else { return Ok(()) };
    let reason = format!(
        "this session consumes from queues of the upstream {name} as somebody else; connect again with the new login"
    );
    Err(Close::new(CloseCode::NotAuthorised, reason))
}
