//! What is told of one message.

use tiderace_wire::{Destination, SpanContext};

/// What the server did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// It took a message, or refused it.
    Publish,
    /// It had a message wait for subscribers until all had been given it, or for a consumer.
    Deliver {
        /// Subscriptions that it waited for.
        deliveries: u64,
        /// Of these, how many still waited when the span was ended.
        waiting: u64,
        /// How often it had been delivered before.
        redeliveries: u32,
    },
    /// It had a call answered.
    Request,
}

/// What is told of one message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// Its place in the trace.
    pub context: SpanContext,
    /// What the server did.
    pub operation: Operation,
    /// Where the message was sent.
    pub destination: Destination,
    /// The protocol of its publisher or caller.
    pub protocol: &'static str,
    /// Bytes of its body.
    pub bytes: u64,
    /// When it began, in nanoseconds since 1970.
    pub start_nanos: u64,
    /// When it ended.
    pub end_nanos: u64,
    /// The shard that tells it.
    pub shard: u16,
    /// The code of what went wrong, if something did.
    pub error: Option<&'static str>,
}
