//! What an edge passes on to an upstream for a client, and what is not passed on.
//!
//! Relies on nothing that acts. Invariant: a request says for whom it is made.

use std::sync::Arc;

use tiderace_base::{Close, CloseCode, SessionId};
use tiderace_wire::{Command, Confirm, EndPrincipal, Operation, Run};

use crate::requester::Requester;

/// A request for what an upstream keeps.
#[derive(Debug)]
pub struct Relay {
    /// Who waits for the answer.
    pub session: SessionId,
    /// Who that is.
    pub principal: Arc<EndPrincipal>,
    /// What is wanted.
    pub wanted: Wanted,
}

/// What is wanted of an upstream.
#[derive(Debug)]
pub enum Wanted {
    /// That it takes messages.
    Publish {
        /// The messages, not numbered.
        run: Box<Run>,
        /// Receipts to confirm.
        confirm: Option<Confirm>,
    },
    /// That it does something with topics.
    Operate {
        /// Who asks.
        requester: Box<Requester>,
        /// What is to be done.
        operation: Box<Operation>,
    },
}

impl Relay {
    /// An operation.
    pub(crate) fn operation(
        principal: EndPrincipal,
        requester: Requester,
        operation: Operation,
    ) -> Box<Relay> {
        let session = requester.session;
        let (requester, operation) = (Box::new(requester), Box::new(operation));
        let wanted = Wanted::Operate { requester, operation };
        Box::new(Relay { session, principal: Arc::new(principal), wanted })
    }

    /// Messages of a session.
    pub(crate) fn publication(
        principal: EndPrincipal,
        session: SessionId,
        run: Run,
        confirm: Option<Confirm>,
    ) -> Box<Relay> {
        let wanted = Wanted::Publish { run: Box::new(run), confirm };
        Box::new(Relay { session, principal: Arc::new(principal), wanted })
    }

    /// Bytes of the messages and texts in it.
    pub(crate) fn bytes(&self) -> usize {
        let own = match &self.wanted {
            Wanted::Publish { run, .. } => run.bytes(),
            Wanted::Operate { operation, .. } => operation.bytes(),
        };
        size_of::<Relay>() + own
    }
}

/// Whether a command may be one of those between the marks.
pub(crate) fn is_relayed(command: &Command) -> bool {
    matches!(command, Command::Publish { .. } | Command::Operate { .. } | Command::ActAs(_))
}

/// Why something is not passed on.
pub(crate) fn belongs_to_session() -> Close {
    let reason = "another server keeps this topic, and what belongs to a session (locks, claims, topics that go with \
                  their session, transactions) is not passed on to it; connect to that server for it";
    Close::new(CloseCode::TopicElsewhere, reason)
}
