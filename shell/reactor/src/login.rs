//! Logins that were decided, and those that cease to be valid.
//!
//! Relies on the broker for who a session is. Only sessions whose login ends take memory here: what is idle and has
//! logged in for good costs nothing. Invariants: a login that fails changes nothing, so that the session lives as long
//! as the login before; a session whose login is over ends with `login-expired`, whether it is idle, busy or waits for
//! its client.

use tiderace_base::{Close, CloseCode, Key, SessionId, Span, Time};
use tiderace_broker::Principal;
use tiderace_wire::Reply;

use crate::driver::Driver;
use crate::login_ends::LoginEnd;
use crate::outcome::Farewell;
use crate::shard::Shard;

impl<D: Driver> Shard<D> {
    /// A login was decided; one that is accepted for a while ends the session then.
    pub(crate) fn verified(
        &mut self,
        session: SessionId,
        result: Result<Principal, Close>,
        valid_for: Option<Span>,
    ) {
        self.broker.verified(self.now, session, result, &mut self.effects);
        let accepted = self.effects.replies.iter().find_map(|(link, whose, reply)| {
            (*whose == session && matches!(reply, Reply::LoggedIn { .. })).then_some(*link)
        });
        if let Some(key) = accepted.and_then(|link| self.find(link, session)) {
            let now = self.now.time;
            self.set_login_end(key, valid_for.map_or(Time::NEVER, |span| now + span));
        }
        self.drain_effects();
    }

    /// The session's login ends then.
    pub(crate) fn set_login_end(&mut self, key: Key, until: Time) {
        let wheel = &mut self.clock.wheel;
        if until == Time::NEVER {
            self.login_ends.remove(key);
            return;
        }
        let new = LoginEnd { until, armed: Time::NEVER };
        let end = self.login_ends.0.entry(key).or_insert(new);
        end.until = until;
        if until < end.armed {
            end.armed = until;
            wheel.arm(key, until);
        }
    }

    /// Ends the session if its login is over.
    pub(crate) fn end_expired_login(&mut self, key: Key) {
        if self.login_ends.0.is_empty() {
            return;
        }
        let now = self.now.time;
        let Some(end) = self.login_ends.0.get_mut(&key) else { return };
        if end.until <= now {
            self.end(key, &CloseCode::LoginExpired.into(), Farewell::Full);
            self.drain_effects();
        } else if end.armed <= now {
            end.armed = end.until;
            self.clock.wheel.arm(key, end.until);
        }
    }
}
