//! Logins that were decided, and those that cease to be valid.
//!
//! Relies on the broker for who a session is, and on the timer wheel. Invariants: a login that fails changes nothing, so that the session lives as long
//! as the login before; a session whose login is over ends with `login-expired`, whether it is idle, busy or waits for
//! its client.

use tiderace_base::{CloseCode, Key, Time};
use tiderace_wire::{Entrance, Reply};

use crate::decided_login::DecidedLogin;
use crate::driver::Driver;
use crate::login_ends::LoginState;
use crate::outcome::Farewell;
use crate::shard::Shard;

/// Logins whose sessions are told in a turn: those that waited for a server that does not answer are all refused at once, and
/// nobody else is to wait for that.
const LOGINS_PER_TURN: usize = 64;

impl<D: Driver> Shard<D> {
    /// A login was decided, and its session is told soon: from now on it is not the client's login that takes long.
    pub(crate) fn note_decided(&mut self, decided: DecidedLogin) {
        let session = decided.session;
        let key = self.broker.link_of(session).and_then(|link| self.find(link, session));
        if let Some(connection) = key.and_then(|key| self.connections.get_mut(key))
            && connection.live().is_some_and(|it| it.verifying && !it.session.is_established())
        {
            connection.deadline = self.now.time + self.shared.options.deadlines.login;
        }
        self.lists.decided.push_back(decided);
    }

    /// Tells some sessions what came of their logins.
    pub(crate) fn tell_logins(&mut self) {
        for _ in 0..LOGINS_PER_TURN {
            let Some(decided) = self.lists.decided.pop_front() else { return };
            self.verified(decided);
        }
    }

    /// A login was decided; one that is accepted for a while ends the session then.
    fn verified(&mut self, decided: DecidedLogin) {
        let DecidedLogin { session, result, valid_for } = decided;
        let key = self.broker.link_of(session).and_then(|link| self.find(link, session));
        let entrance = key.map_or(Entrance::Rules, |key| self.entrance_of(key));
        let result = result.and_then(|principal| self.broker.admit_login(principal));
        let result = result.and_then(|principal| principal.logged_in_by(entrance));
        let result = result.and_then(|principal| self.admit_unblocked(key, session, principal));
        let (result, admitted) = self.admit_limited(session, result);
        self.metrics.count_login(result.as_ref().err().map(|close| close.code));
        self.broker.verified(self.now, session, result, &mut self.effects);
        let accepted = self.effects.replies.iter().find_map(|(link, whose, reply)| {
            (*whose == session && matches!(reply, Reply::LoggedIn { .. })).then_some(*link)
        });
        if let Some(key) = accepted.and_then(|link| self.find(link, session)) {
            let now = self.now.time;
            self.set_login_end(key, valid_for.map_or(Time::NEVER, |span| now + span));
        }
        if let Some(admitted) = admitted {
            self.begin_limits(session, admitted, accepted.is_some());
        }
        self.drain_effects();
    }

    /// The session's login ends then.
    pub(crate) fn set_login_end(&mut self, key: Key, until: Time) {
        if let Some(armed) = self.login_ends.set(key, until) {
            self.clock.wheel.arm(key, armed);
        }
    }

    /// Ends the session if its login is over.
    pub(crate) fn end_expired_login(&mut self, key: Key) {
        match self.login_ends.look(key, self.now.time) {
            LoginState::Lasts => {}
            LoginState::Armed(at) => self.clock.wheel.arm(key, at),
            LoginState::Over => {
                self.end(key, &CloseCode::LoginExpired.into(), Farewell::Full);
                self.drain_effects();
            }
        }
    }
}
