//! What rooms of shards tell each other, by who is told.
//!
//! Each room has one type of messages, so that it can be told only what concerns it: a home [`ToHome`], the sessions
//! of a shard [`ToSubscriber`] and [`ToPublisher`], its notices [`ToNotices`], the ends of calls [`ToExchange`], views [`ToViews`]. Between shards
//! they travel in an [`Envelope`]. Relies on nothing that acts. Invariant: a message says all that its receiver needs
//! to know.

mod local;
mod subscribing;
mod to_exchange;
mod to_home;
mod to_notices;
mod to_publisher;
mod to_subscriber;
mod to_views;

use tiderace_base::SessionId;
use tiderace_wire::SubscriptionKey;

use crate::places::Place;

pub(crate) use local::LocalMessage;
pub use subscribing::{
    Answer, Ask, Consumption, First, Interest, Missed, SnapshotPage, Specs, UpstreamMarks,
};
pub use to_exchange::ToExchange;
pub use to_home::ToHome;
pub use to_notices::ToNotices;
pub use to_publisher::ToPublisher;
pub use to_subscriber::ToSubscriber;
pub use to_views::{ToViews, Values};

const _: () = assert!(size_of::<Envelope>() <= 104, "each message between shards is moved in one");

/// A message from a room of one shard to a room of another. The order between two shards is kept.
#[derive(Debug)]
pub struct Envelope {
    /// Where the sender is.
    pub from: Place,
    /// Where the receiver is.
    pub to: Place,
    /// Which room it is for, and what it is told.
    pub body: Body,
}

/// A message between rooms, by the room that it is for.
#[derive(Debug)]
pub enum Body {
    /// For the home of destinations.
    Home(ToHome),
    /// For the sessions that subscribe.
    Subscriber(ToSubscriber),
    /// For the notices of the sessions.
    Notices(ToNotices),
    /// For the sessions that publish and ask.
    Publisher(ToPublisher),
    /// For an end of a call.
    Exchange(ToExchange),
    /// For the views.
    Views(ToViews),
    /// For the side that sent it: its receiver's place is lost.
    Undelivered(Box<Envelope>),
}

impl Body {
    /// Bytes that it keeps in memory beyond its own size; the same for its sender and its receiver.
    pub fn bytes(&self) -> usize {
        match self {
            Body::Home(message) => message.bytes(),
            Body::Subscriber(message) => message.bytes(),
            Body::Notices(message) => message.bytes(),
            Body::Publisher(message) => message.bytes(),
            Body::Exchange(message) => message.bytes(),
            Body::Views(message) => message.bytes(),
            Body::Undelivered(message) => message.body.bytes(),
        }
    }
}

impl From<ToHome> for Body {
    #[inline]
    fn from(message: ToHome) -> Body {
        Body::Home(message)
    }
}

impl From<ToSubscriber> for Body {
    #[inline]
    fn from(message: ToSubscriber) -> Body {
        Body::Subscriber(message)
    }
}

impl From<ToNotices> for Body {
    #[inline]
    fn from(message: ToNotices) -> Body {
        Body::Notices(message)
    }
}

impl From<ToPublisher> for Body {
    #[inline]
    fn from(message: ToPublisher) -> Body {
        Body::Publisher(message)
    }
}

impl From<ToExchange> for Body {
    #[inline]
    fn from(message: ToExchange) -> Body {
        Body::Exchange(message)
    }
}

impl From<ToViews> for Body {
    #[inline]
    fn from(message: ToViews) -> Body {
        Body::Views(message)
    }
}

/// Messages that are on their way from a queue of one home to a queue of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransferId {
    /// The job of their home that they belong to.
    pub job: u64,
    /// Which of its messages they are.
    pub part: u32,
}

/// One target of a subscription, waiting for a home's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SubscribeRequestId {
    /// Whose.
    pub session: SessionId,
    /// Which subscription.
    pub key: SubscriptionKey,
    /// Which of its targets.
    pub target: u16,
    /// Which of the subscriptions that have had that key: keys are used again, and an answer to an
    /// earlier one may still be under way.
    pub epoch: u32,
}
