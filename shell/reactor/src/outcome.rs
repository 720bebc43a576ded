//! What a call of a session leads to.

use tiderace_base::{Close, CloseCode};
use tiderace_wire::SessionActions;

use crate::departure::Departure;

/// Which last words are said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Farewell {
    /// The session's and the transport's.
    Full,
    /// The transport's: the session has said its own.
    Transport,
    /// None: they have been said, or nobody listens.
    Silent,
}

/// What a call has led to.
#[derive(Debug)]
pub(crate) struct Called {
    /// Why the connection is to end, if the session, or its failure, says so.
    pub(crate) outcome: Result<(), Ended>,
    /// What the session asks of the connection.
    pub(crate) actions: SessionActions,
}

impl Called {
    /// Whether the connection ends.
    pub(crate) fn is_over(&self) -> bool {
        self.outcome.is_err() || self.actions.is_finished()
    }
}

/// What performing actions has led to: whether the connection ends, and whether it leaves.
pub(crate) type Performed = (Result<(), Ended>, Option<Box<Departure>>);

/// Why and how a connection ends.
#[derive(Debug)]
pub(crate) struct Ended(pub(crate) Close, pub(crate) Farewell);

pub(crate) fn internal_error() -> Close {
    Close::new(CloseCode::InternalError, "the server failed to handle this connection")
}
