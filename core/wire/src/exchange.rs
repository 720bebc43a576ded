//! Exchanges: a request and its answer, or a conversation, between a caller and a responder.
//!
//! ```text
//!   caller: Call ─▶ home of the service ─▶ one responder: Delivery (exchange, first)
//!   caller ◀─ Delivery (exchange) ◀─ SendExchange      SendExchange ─▶ Delivery (exchange) ─▶ responder
//!   each side says `last` once; when both have, the exchange is over. Cancel ends it at any time.
//! ```
//! Messages of an exchange arrive in order, each once, and what a side has said before it cancelled, or
//! was lost, arrives before the other side hears of the end by [`crate::Reply::ExchangeEnded`]. A
//! caller that gives up before the responder was given its call withdraws the call. For a session an exchange that has begun is over once: when both
//! sides have said their last, when the session cancels it, or when it is told so. It begins for a
//! caller with its call and for a responder with the first delivery. A call whose number is still
//! open is answered by [`crate::Reply::Refused`], any other call that is not taken by its end.
//!
//! A caller may say how many messages it wants ([`Call::credit`]) and ask for more as it takes them
//! ([`crate::Command::ExchangeCredit`]); the responder is told with the call, and of more by
//! [`crate::Reply::ExchangeCredit`]. While a caller wants nothing, nobody waits for the responder's next message,
//! and the caller has as long as the longest timeout to want more or to say something. A protocol without credit says what it likes; the caller's session holds what it
//! cannot pass on, within its limits.
//!
//! What is said in an exchange that is over, or after one's own last, is for nobody. After the end of
//! a subscription messages may still come in exchanges in which only the other side's were missing.

use std::sync::Arc;

use tiderace_base::Span;
use tiderace_topics::Path;

use crate::Traced;

/// Which end of an exchange a session holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Side {
    /// It has called.
    Caller,
    /// It serves.
    Responder,
}

/// A session's own name for one of its open exchanges.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ExchangeKey {
    /// Which end the session holds.
    pub side: Side,
    /// For callers chosen by the session, unique among its open calls; for responders chosen by the
    /// broker.
    pub number: u32,
}

impl ExchangeKey {
    /// The caller's end.
    pub fn caller(number: u32) -> ExchangeKey {
        ExchangeKey { side: Side::Caller, number }
    }

    /// The responder's end.
    pub fn responder(number: u32) -> ExchangeKey {
        ExchangeKey { side: Side::Responder, number }
    }
}

/// Begins an exchange.
#[derive(Clone, Debug)]
pub struct Call {
    /// The caller's number for it.
    pub number: u32,
    /// The service.
    pub service: Path,
    /// The properties of the first message, in the form of [`crate::properties`].
    pub properties: Vec<u8>,
    /// The body of the first message.
    pub body: Vec<u8>,
    /// Whether the caller has nothing more to say.
    pub last: bool,
    /// How long the responder may stay silent: until its first message, and from one to the next;
    /// after its last the caller itself. Zero, or more than the server allows, means the longest
    /// that it allows.
    pub timeout: Span,
    /// How many messages are wanted until more are asked for; at least one. Absent: no such bound. That there are
    /// no more messages needs no credit.
    pub credit: Option<u64>,
    /// What is known of it if it is traced: protocols leave that to the event loop.
    pub traced: Option<Arc<Traced>>,
}

/// Says more in an exchange.
#[derive(Clone, Debug)]
pub struct ExchangeSend {
    /// Which.
    pub exchange: ExchangeKey,
    /// The properties, in the form of [`crate::properties`].
    pub properties: Vec<u8>,
    /// The body.
    pub body: Vec<u8>,
    /// Whether this side has nothing more to say.
    pub last: bool,
    /// Whether this is no message, but says only that it is the last; properties and body are empty.
    pub bare: bool,
}

/// What a delivery is to an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// Which.
    pub key: ExchangeKey,
    /// Whether it begins with this message.
    pub first: bool,
    /// Whether the other side has nothing more to say.
    pub last: bool,
    /// Whether there is no message here: the other side says only that it has nothing more to say.
    pub bare: bool,
    /// Of the first message of an exchange: how many messages the caller wants until it asks for more. Absent:
    /// no such bound.
    pub credit: Option<u64>,
}
