//! What a client is told.

use tiderace_native::codec::{
    AddressList, Content, ExchangeMessage, Queued, ResultMessage, Welcome,
};

/// Something that came from the server.
#[derive(Clone, Debug)]
pub enum Event<'a> {
    /// The session has begun.
    Welcome(Welcome<'a>),
    /// Requests were done; both ends included.
    Done {
        /// The first.
        first: u32,
        /// The last.
        last: u32,
    },
    /// A request was refused.
    Refused {
        /// Which; 0 for one without id.
        request: u32,
        /// The code's number.
        code: u16,
        /// Its name.
        slug: &'a str,
        /// What to tell people.
        sentence: &'a str,
    },
    /// A topic has changed.
    Update(Update<'a>),
    /// Messages of a queue, by the id of their subscription, with its path if that is a pattern.
    Queued(Queued<'a>, Option<&'a str>),
    /// A message of an exchange, the first by the id of its subscription, with the service's path if
    /// that is a pattern.
    Exchange(ExchangeMessage<'a>, Option<&'a str>),
    /// An exchange is over.
    Ended {
        /// Whether the client was its responder.
        responder: bool,
        /// Its number.
        number: u32,
        /// The name of the code.
        slug: &'a str,
        /// What to tell people.
        sentence: &'a str,
    },
    /// A subscription was made again after a break.
    Recovered {
        /// Which.
        subscription: u32,
        /// Whether nothing is missing.
        complete: bool,
    },
    /// A subscription that browses a queue has told all that was there.
    Browsed {
        /// Which.
        subscription: u32,
    },
    /// The server has ended a subscription: nothing more comes of it, its id is free, and it is not made again on
    /// another connection.
    Unsubscribed {
        /// Which.
        subscription: u32,
        /// The code's number.
        code: u16,
        /// Its name.
        slug: &'a str,
        /// What to tell people.
        sentence: &'a str,
    },
    /// What came of an operation.
    Outcome(ResultMessage<'a>),
    /// A subscription that asked for notices has gained a topic.
    Joined {
        /// Which subscription.
        subscription: u32,
        /// Which topic.
        path: &'a str,
        /// Its specification, as JSON text.
        spec: &'a str,
    },
    /// A subscription that asked for notices has lost a topic.
    Left {
        /// Which subscription.
        subscription: u32,
        /// Which topic.
        path: &'a str,
        /// Why: `removed`, `not-authorised`.
        reason: &'a str,
    },
    /// The identity has changed.
    LoggedIn(&'a str),
    /// The answer to PING.
    Pong(&'a [u8]),
    /// The last word of the server.
    Closed {
        /// The code's number.
        code: u16,
        /// Its name.
        slug: &'a str,
        /// What to tell people.
        sentence: &'a str,
        /// Within which random time to connect again; `None` if that is no use.
        reconnect_ms: Option<u64>,
        /// Where to connect to, the best first; none if the server knows no other.
        addresses: AddressList<'a>,
    },
}

/// A change of a topic.
#[derive(Clone, Debug)]
pub struct Update<'a> {
    /// Which subscription.
    pub subscription: u32,
    /// Which topic, if the subscription is a pattern.
    pub path: Option<&'a str>,
    /// The topic's version; zero if it is told by the client itself that a value is gone.
    pub version: u64,
    /// How many versions were left out before it, since the last that was told.
    pub missed: u64,
    /// Whether a message of this version, or of a later one, was told before the connection was lost: it
    /// comes again because the server does not know what had arrived.
    pub repeated: bool,
    /// Whether it is the first of its topic since its subscription was resumed: `missed` counts what was
    /// published during the break.
    pub resumed: bool,
    /// What the body is.
    pub content: Content,
    /// Whether the topic has no current value any more.
    pub removed: bool,
    /// Properties, in the neutral form.
    pub properties: &'a [u8],
    /// The body, whole.
    pub body: &'a [u8],
    /// Bytes that came for it instead of the body, if it came as a delta.
    pub delta_bytes: Option<usize>,
}
