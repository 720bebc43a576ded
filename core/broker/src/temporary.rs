//! Temporary destinations: whose they are, and what may lie there.
//!
//! Everything below `temp/<name>/` belongs to the session of that name, which alone consumes and
//! subscribes there; whoever was told the name may send there, whatever the rules say. The name is made
//! from the session's id and a secret of the node, so every shard can tell a session's own name, and the
//! home, which is the session's shard, can tell whether a name is true and the session still there.
//!
//! Temporary destinations pass messages on and keep nothing but what waits in a queue: no values, no
//! histories, no locks, no wills with values. Patterns do not reach them. Invariants: what waits below a
//! session's name is bounded in queues and bytes, and gone when the session has ended; a message to a
//! name that no session has is dropped and counted, for the session may have ended a moment ago.

use tiderace_base::{Close, CloseCode, SessionId};
use tiderace_topics::{Level, Path, Pattern};
use tiderace_wire::{Destination, Flags, Kind, Run, Target, TemporaryName, is_temporary};

use crate::access::Caller;
use crate::broker::Broker;
use crate::effects::Effects;
use crate::places::key_of;
use crate::{Action, BrokerOptions};

impl BrokerOptions {
    /// The name of a session in the paths of its temporary destinations.
    pub(crate) fn temporary_name(&self, session: SessionId) -> TemporaryName {
        let mut hash = sha1_smol::Sha1::new();
        hash.update(b"tiderace temporary");
        hash.update(&session.shard.0.to_be_bytes());
        hash.update(&session.slot.to_be_bytes());
        hash.update(&session.generation.to_be_bytes());
        hash.update(&self.temporary_secret.to_be_bytes());
        let digest = hash.digest().bytes();
        let secret = digest.iter().take(16).fold(0, |id, byte| id << 8 | u128::from(*byte));
        TemporaryName::new(session, secret)
    }

    /// Whether somebody may do that at a temporary destination.
    pub(crate) fn may_temporarily(&self, caller: Caller<'_>, action: Action, path: &Path) -> bool {
        let Some(name) = TemporaryName::of(path) else { return false };
        match action {
            // To whom it comes is found at the home; who sends need not be told.
            Action::Call | Action::Publish | Action::Send => true,
            Action::Browse | Action::Receive | Action::Serve | Action::Subscribe => {
                name == self.temporary_name(caller.session)
            }
            Action::Admin | Action::Create | Action::Monitor => false,
        }
    }
}

/// Whether a pattern spells out that it means temporary destinations, of which it would get none.
pub(crate) fn means_temporary(pattern: &Pattern) -> bool {
    let levels = pattern.levels();
    levels.len() > 1 && matches!(levels.first(), Some(Level::Literal(text)) if **text == *"temp")
}

/// Why somebody may not listen there.
pub(crate) fn not_owner(name: &str) -> Close {
    let reason = format!(
        "{name} belongs to another session or to none: only the session that made a temporary destination consumes from it or subscribes to it, and not by a pattern; anybody may send there who knows its name"
    );
    Close::new(CloseCode::NotOwner, reason)
}

/// Why somebody may not do anything but send there.
pub(crate) fn only_passes_on(path: &Path) -> Close {
    let reason = format!(
        "{path} is a temporary destination, or none at all: below temp/ messages are passed on, and nothing is created, kept, locked or claimed; use another path"
    );
    Close::new(CloseCode::NotAuthorised, reason)
}

/// Whether messages may go to where they are to go, if that is a temporary destination.
pub(crate) fn check_temporary(run: &Run) -> Result<(), Close> {
    let path = &run.destination().path;
    if !is_temporary(path) || !(run.any(Flags::RETAIN) || run.any(Flags::RETAIN_REMOVE)) {
        return Ok(());
    }
    let reason = format!("{path} is a temporary destination, which keeps no value; send without");
    Err(Close::new(CloseCode::BadDestination, reason))
}

impl Broker {
    /// The name of a session in the paths of its temporary destinations.
    pub fn temporary_name(&self, session: SessionId) -> TemporaryName {
        self.options.temporary_name(session)
    }

    /// At the home of a temporary destination: whether messages go there. If not, nobody would get them,
    /// or there is no room for them.
    pub(crate) fn goes_to_session(&mut self, run: &Run) -> bool {
        let Destination { kind, path } = run.destination();
        let Some(session) = self.session_below(path) else { return false };
        match kind {
            Kind::Service => true,
            Kind::Topic => {
                let topic = self.find_topic(path).and_then(|key| self.topics.get(key));
                topic.is_some_and(|topic| !topic.subscribers.is_empty())
            }
            Kind::Queue => self.has_room_for(session, path, run.bytes()),
        }
    }

    /// The session whose temporary destination a path names, if it is there.
    fn session_below(&self, path: &Path) -> Option<SessionId> {
        let name = TemporaryName::of(path)?;
        let session = name.session();
        let here = session.shard == self.shard && self.session(session).is_some();
        (here && name == self.temporary_name(session)).then_some(session)
    }

    fn has_room_for(&mut self, session: SessionId, path: &Path, bytes: usize) -> bool {
        let most = self.options.temporary_bytes_max;
        if !self.note_temporary(session, path) {
            return false;
        }
        let queues = &self.queues;
        let record = self.sessions.get_mut(key_of(session));
        let rare = record.and_then(|record| record.rare.as_mut());
        let Some(temporary) = rare.and_then(|rare| rare.temporary.as_mut()) else { return false };
        if temporary.bytes + bytes > most {
            let held = temporary.queues.iter().filter_map(|path| queues.bytes_of(path));
            temporary.bytes = held.sum();
        }
        // One message alone may be larger.
        let fits = temporary.bytes == 0 || temporary.bytes + bytes <= most;
        temporary.bytes += if fits { bytes } else { 0 };
        fits
    }

    /// Counts a queue as one of a session's temporary ones; false if it has as many as it may have.
    pub(crate) fn note_temporary(&mut self, session: SessionId, path: &Path) -> bool {
        let (queues, most) = (&self.queues, self.options.temporary_queues_max);
        let Some(record) = self.sessions.get_mut(key_of(session)) else { return false };
        let temporary = record.rare.get_or_insert_default().temporary.get_or_insert_default();
        if temporary.queues.contains(path) {
            return true;
        }
        if temporary.queues.len() >= most {
            temporary.queues.retain(|known| queues.bytes_of(known).is_some());
        }
        temporary.queues.len() < most && temporary.queues.insert(path.clone())
    }

    /// Counts the temporary queues that a session is about to consume from.
    pub(crate) fn note_temporaries(
        &mut self,
        session: SessionId,
        targets: &[Target],
    ) -> Result<(), Close> {
        for target in targets {
            if let Target::Exact(Destination { kind: Kind::Queue, path }) = target
                && is_temporary(path)
                && !self.note_temporary(session, path)
            {
                let most = self.options.temporary_queues_max;
                let reason = format!(
                    "a session may have {most} temporary queues; end subscriptions to some first"
                );
                return Err(Close::new(CloseCode::TooManySubscriptions, reason));
            }
        }
        Ok(())
    }

    /// A session has ended, and with it what waits at its temporary destinations.
    pub(crate) fn end_temporary(&mut self, session: SessionId, effects: &mut Effects) {
        let record = self.sessions.get_mut(key_of(session));
        let rare = record.and_then(|record| record.rare.as_mut());
        let Some(temporary) = rare.and_then(|rare| rare.temporary.take()) else { return };
        for path in &temporary.queues {
            self.discard_queue(path, effects);
        }
    }
}
