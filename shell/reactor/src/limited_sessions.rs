//! The sessions of a shard to which limits apply, and until when they wait because of these.
//!
//! Relies on the caller for the timer. Only such sessions take memory here. Invariants: a session counts as a connection
//! while it is here and not detached; of each kind of wait it has at most one entry in the timer wheel.

use std::collections::HashMap;

use tiderace_base::{Allowances, Key, Time};

/// Those of one shard.
#[derive(Debug, Default)]
pub(crate) struct LimitedSessions(HashMap<Key, Limited>);

#[derive(Debug)]
struct Limited {
    allowances: Allowances,
    /// Whether it has no connection, and counts as none.
    is_detached: bool,
    read_at: Time,
    write_at: Time,
}

impl LimitedSessions {
    /// Whether limits apply to no session.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What limits a session, if something does.
    pub(crate) fn of(&self, key: Key) -> Option<&Allowances> {
        Some(&self.0.get(&key)?.allowances)
    }

    /// A session is limited by these, which have counted its connection; before it was by others, or by none.
    pub(crate) fn insert(&mut self, key: Key, allowances: Allowances) {
        let (read_at, write_at) = (Time::ZERO, Time::ZERO);
        let new = Limited { allowances, is_detached: false, read_at, write_at };
        if let Some(before) = self.0.insert(key, new) {
            before.dismiss();
        }
    }

    /// Nothing limits a session any more.
    pub(crate) fn remove(&mut self, key: Key) {
        if !self.0.is_empty()
            && let Some(limited) = self.0.remove(&key)
        {
            limited.dismiss();
        }
    }

    /// A session has lost its connection.
    pub(crate) fn detach(&mut self, key: Key) {
        if let Some(limited) = self.0.get_mut(&key)
            && !std::mem::replace(&mut limited.is_detached, true)
        {
            limited.allowances.dismiss_connection();
        }
    }

    /// Its client has come back to it.
    pub(crate) fn attach(&mut self, key: Key) {
        if let Some(limited) = self.0.get_mut(&key)
            && std::mem::replace(&mut limited.is_detached, false)
        {
            limited.allowances.add_connection();
        }
    }

    /// How much is written at once to a session.
    pub(crate) fn block_bytes(&self, key: Key, most: usize) -> usize {
        self.of(key).map_or(most, |allowances| allowances.block_bytes(most))
    }

    /// A session is not read until then.
    pub(crate) fn wait_to_read(&mut self, key: Key, until: Time) {
        if let Some(limited) = self.0.get_mut(&key) {
            limited.read_at = until;
        }
    }

    /// A session is not written to until then.
    pub(crate) fn wait_to_write(&mut self, key: Key, until: Time) {
        if let Some(limited) = self.0.get_mut(&key) {
            limited.write_at = until;
        }
    }

    /// What to do with a session that is not read, when a timer of it has fired.
    pub(crate) fn look_at_reading(&mut self, key: Key, now: Time) -> LimitWait {
        let Some(limited) = self.0.get_mut(&key) else { return LimitWait::Over };
        let until = limited.allowances.receives_from(now).map(|(_, (until, _))| until);
        look(&mut limited.read_at, until, now)
    }

    /// The same with one that is not written to.
    pub(crate) fn look_at_writing(&mut self, key: Key, now: Time) -> LimitWait {
        let Some(limited) = self.0.get_mut(&key) else { return LimitWait::Over };
        let until = limited.allowances.sends_from(now).map(|(_, (until, _))| until);
        look(&mut limited.write_at, until, now)
    }
}

fn look(armed: &mut Time, until: Option<Time>, now: Time) -> LimitWait {
    match until {
        // The timer was for something else, and the one for this is still to come.
        _ if *armed > now => LimitWait::Lasts,
        // Others who share the limit have sent meanwhile.
        Some(until) => {
            *armed = until;
            LimitWait::Armed(until)
        }
        None => LimitWait::Over,
    }
}

impl Limited {
    fn dismiss(&self) {
        if !self.is_detached {
            self.allowances.dismiss_connection();
        }
    }
}

/// How it stands with a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LimitWait {
    /// A timer is to be armed for that time.
    Armed(Time),
    /// One is armed already.
    Lasts,
    /// It has ended.
    Over,
}
