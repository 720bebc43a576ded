//! What the ends of calls are told, by the homes of services and by the other end; `serving.rs` shows the way of a
//! call.

use tiderace_base::{Close, Key};

use crate::exchange::Said;
use crate::home::services::{Calling, Responding};

/// A message to the shard of one end of an exchange.
#[derive(Debug)]
pub enum ToExchange {
    /// To a responder's shard: a call for it.
    Assigned(Responding, Calling),
    /// To the caller's end: who answers.
    Accepted {
        /// The caller's end.
        caller: Key,
        /// The responder's, on the sender's shard.
        responder: Key,
    },
    /// The other side has said something.
    Sent {
        /// Its end.
        to: Key,
        /// One message.
        said: Said,
    },
    /// To the responder's end: its caller wants more messages.
    Credit {
        /// Its end.
        to: Key,
        /// How many more.
        messages: u64,
    },
    /// The exchange is over.
    Ended {
        /// Its end.
        to: Key,
        /// Why.
        close: Close,
    },
}

impl ToExchange {
    /// Bytes of the messages in it.
    pub(super) fn bytes(&self) -> usize {
        match self {
            ToExchange::Assigned(_, call) => call.run.bytes(),
            ToExchange::Sent { said, .. } => said.run.bytes(),
            _ => 0,
        }
    }
}
