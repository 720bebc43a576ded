//! What shards tell each other about services and exchanges; `serving.rs` shows the way of a call.

use tiderace_base::{Close, Key};
use tiderace_topics::Path;

use crate::exchange::Said;
use crate::home::services::Calling;
use crate::home::services::Responding;

/// What shards tell each other about services and exchanges.
#[derive(Debug)]
pub enum ServiceMail {
    /// To a home: somebody calls. Comes back if the responder had gone.
    Call(Calling),
    /// To a home: the caller no longer waits.
    Cancel {
        /// What was called.
        service: Path,
        /// Who, on the sender's shard.
        caller: Key,
    },
    /// To a home: an exchange is over.
    Released {
        /// Whose place is free.
        responder: Key,
    },
    /// To a responder's shard.
    Assigned(Responding, Calling),
    /// To the caller's shard: who answers.
    Met {
        /// The caller's end.
        caller: Key,
        /// The responder's, on the sender's shard.
        responder: Key,
    },
    /// To the other side of an exchange.
    Spoken {
        /// Its end.
        to: Key,
        /// One message.
        said: Said,
    },
    /// To the responder's side of an exchange: its caller wants more messages.
    Credit {
        /// Its end.
        to: Key,
        /// How many more.
        messages: u64,
    },
    /// To one side of an exchange: it is over.
    Ended {
        /// Its end.
        to: Key,
        /// Why.
        close: Close,
    },
}

impl ServiceMail {
    /// Bytes it keeps in memory.
    pub fn bytes(&self) -> usize {
        match self {
            ServiceMail::Call(call) | ServiceMail::Assigned(_, call) => call.run.bytes(),
            ServiceMail::Spoken { said, .. } => said.run.bytes(),
            _ => 0,
        }
    }
}
