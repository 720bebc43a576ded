//! Temporary destinations: whose they are, and what may lie there.
//!
//! Everything below `temp/<name>/` belongs to the session of that name, which alone consumes and
//! subscribes there; a session that was told the name may send there, whatever the rules say. The name is made
//! from the session's id and a secret of the node, so every shard can tell a session's own name, and the
//! home, which is the session's shard, can tell whether a name is true and the session still there.
//!
//! Temporary destinations pass messages on and keep nothing but what waits in a queue: no values, no
//! histories, no locks, no wills with values. Patterns do not reach them. Invariants: what waits below a
//! session's name is bounded in queues and bytes, and gone when the session has ended; a message to a
//! name that no session has is dropped and counted, for the session may have ended a moment ago.

use tiderace_base::{Close, CloseCode, SessionId};
use tiderace_topics::{Level, Path, Pattern};
use tiderace_wire::{Flags, Run, TemporaryName, is_temporary};

use crate::authorise::Caller;
use crate::{Action, BrokerOptions};

/// Whether a destination is temporary, and whose it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TemporaryOwner {
    /// It is none.
    NotTemporary,
    /// It belongs to a session of this shard.
    Here(SessionId),
    /// No session here has that name.
    Gone,
}

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
        if caller.principal.relayed_by.is_some() {
            return false;
        }
        match action {
            // To whom it comes is found at the home; who sends need not be told.
            Action::Call | Action::Publish | Action::Send => true,
            Action::Browse | Action::Receive | Action::Serve | Action::Subscribe => {
                name == self.temporary_name(caller.session)
            }
            Action::Admin
            | Action::Create
            | Action::Manage
            | Action::Monitor
            | Action::Operate
            | Action::Relay => false,
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
