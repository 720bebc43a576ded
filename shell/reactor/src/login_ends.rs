//! When the logins of sessions end, of those that do.
//!
//! Relies on the caller for the timer. Only sessions whose login ends take memory here: what is idle and has logged in
//! for good costs nothing. Invariant: a session has one entry in the timer wheel that counts, however often it logs in
//! again.

use std::collections::HashMap;

use tiderace_base::{Key, Time};

/// When the logins of sessions end, of those that do.
#[derive(Debug, Default)]
pub(crate) struct LoginEnds(HashMap<Key, LoginEnd>);

#[derive(Clone, Copy, Debug)]
struct LoginEnd {
    until: Time,
    /// The earliest entry in the timer wheel; it is armed again when it fires, so that renewing leaves no entries behind.
    armed: Time,
}

impl LoginEnds {
    /// Forgets a session; when its login would have ended.
    pub(crate) fn remove(&mut self, key: Key) -> Time {
        if self.0.is_empty() {
            return Time::NEVER;
        }
        self.0.remove(&key).map_or(Time::NEVER, |end| end.until)
    }

    /// A session's login ends then; when its timer has to be armed for, if it has to.
    pub(crate) fn set(&mut self, key: Key, until: Time) -> Option<Time> {
        if until == Time::NEVER {
            self.remove(key);
            return None;
        }
        let new = LoginEnd { until, armed: Time::NEVER };
        let end = self.0.entry(key).or_insert(new);
        end.until = until;
        let sooner = until < end.armed;
        if sooner {
            end.armed = until;
        }
        sooner.then_some(until)
    }

    /// What there is to do when a timer of the session has fired.
    pub(crate) fn look(&mut self, key: Key, now: Time) -> LoginState {
        if self.0.is_empty() {
            return LoginState::Lasts;
        }
        match self.0.get_mut(&key) {
            Some(end) if end.until <= now => LoginState::Over,
            Some(end) if end.armed <= now => {
                end.armed = end.until;
                LoginState::Armed(end.until)
            }
            _ => LoginState::Lasts,
        }
    }
}

/// How it stands with a login.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LoginState {
    /// It has been renewed: the timer is to be armed for that time.
    Armed(Time),
    /// It goes on.
    Lasts,
    /// It has ended.
    Over,
}
