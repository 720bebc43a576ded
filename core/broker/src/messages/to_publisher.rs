//! What the shard of sessions that publish and ask is told by homes: what came of it, and when to pause.

use tiderace_base::{Close, SessionId, Span};
use tiderace_wire::{Confirm, Destination, OperationResult, Token};

/// A message to the shard of sessions that publish, settle and ask for operations.
#[derive(Debug)]
pub enum ToPublisher {
    /// A publication or a settlement was taken.
    Confirmed {
        /// Whose.
        session: SessionId,
        /// Which receipts.
        confirm: Confirm,
    },
    /// It was not taken.
    Refused {
        /// Whose.
        session: SessionId,
        /// The receipt asked for.
        token: Option<Token>,
        /// Why not.
        close: Close,
    },
    /// What came of an operation.
    Operated {
        /// Whose.
        session: SessionId,
        /// The operation's.
        token: Token,
        /// What came of it.
        result: Result<Box<OperationResult>, Close>,
    },
    /// Publishers of the destination are to wait, or may go on.
    Pause {
        /// Which destination.
        destination: Destination,
        /// How long each of them waits for such destinations in any minute; zero: until it is let go.
        /// Absent: they go on.
        hold: Option<Span>,
    },
    /// The session waits until the destination is let go by [`ToPublisher::Pause`].
    Wait {
        /// Whose messages are too many.
        session: SessionId,
        /// What it waits for.
        destination: Destination,
    },
    /// Requests of a session wait for an upstream: whether they are so many that it is not to be read.
    Relaying {
        /// Whose.
        session: SessionId,
        /// Whether they are too many.
        on: bool,
    },
    /// Operations of a session are deferred: whether they are so many that it is not to be read.
    Deferred {
        /// Whose.
        session: SessionId,
        /// Whether they are too many.
        on: bool,
    },
}

impl ToPublisher {
    /// Bytes of what it carries.
    pub(super) fn bytes(&self) -> usize {
        match self {
            ToPublisher::Operated { result: Ok(result), .. } => result.bytes(),
            _ => 0,
        }
    }
}
