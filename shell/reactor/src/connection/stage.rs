//! What a connection is doing, and what a session is carried by.

use std::sync::Arc;

use tiderace_base::{Key, SessionId, Time};
use tiderace_websocket::Decoder;
use tiderace_wire::{Framing, Held, Request, Session, Ticket};

use crate::h2::connection::H2Connection;
use crate::http_stage::{HttpStage, KeptRequest};
use crate::message_framing::{CHUNKS, FRAMING};
use crate::metrics::Gauge;
use crate::options::ClientTls;

/// What a connection is doing.
pub(crate) enum Stage {
    /// Its protocol is not known yet.
    Sniff,
    /// It sends HTTP requests.
    Http(HttpStage),
    /// It speaks HTTP/2; what that carries has records of its own.
    Http2(Box<H2Connection>),
    /// Its protocol is known; the session begins when it has its shard.
    Starting(Box<Starting>),
    /// It carries a session.
    Live(Live),
    /// It looks for the session that its client wants to go on with.
    Seeking(Box<Seeking>),
    /// It was begun here and does not carry its session yet: an upstream's.
    Dialling,
    /// It ends.
    Closing {
        /// Bytes received and thrown away since.
        discarded: u32,
        /// Our side is shut.
        is_shut: bool,
    },
}

/// What a session needs to begin.
#[derive(Debug)]
pub(crate) struct Starting {
    /// Its place among the protocols.
    pub(crate) protocol: u16,
    pub(crate) websocket: bool,
    pub(crate) subprotocol: Option<&'static str>,
    /// The request for the WebSocket.
    pub(crate) request: Option<Box<KeptRequest>>,
    /// Whether it must stay on its shard, where the session is that it may take over.
    pub(crate) pinned: bool,
    /// Whether it is to move to another shard at the end of its handling.
    pub(crate) is_moving: bool,
}

/// A session and what carries it.
pub(crate) struct Live {
    pub(crate) session: Box<dyn Session>,
    pub(crate) id: SessionId,
    /// Its place among the protocols, for metrics.
    pub(crate) protocol: u16,
    /// Its login is being verified.
    pub(crate) verifying: bool,
    pub(crate) transport: Transport,
}

/// How the session's bytes are carried.
pub(crate) enum Transport {
    /// As they are.
    Stream,
    /// In chunks of one answer; what the client sends is taken as it is.
    Chunked,
    /// In WebSocket messages.
    WebSocket {
        decoder: Decoder,
        /// Payload bytes of earlier messages that the session has not consumed.
        rest: Option<Box<Rest>>,
    },
    /// By the answers to requests on other connections.
    Requests(Box<Requests>),
    /// Not at all: the session lives on the server.
    Internal,
    /// By nothing, until its client comes back.
    Detached,
}

/// What a WebSocket client has begun and not finished.
#[derive(Debug)]
pub(crate) struct Rest {
    /// Payload that waits for more, or for the session to take it.
    pub(crate) bytes: Vec<u8>,
    /// Set if that is a whole message, which a session that takes messages was given and did not take:
    /// whether it is text.
    pub(crate) whole: Option<bool>,
    /// Bytes without which another call is pointless.
    pub(crate) need: usize,
    /// When the next byte of an unfinished frame is due, the protocol's or the WebSocket's.
    pub(crate) frame_by: Time,
    /// When the last fragment of a fragmented message is due.
    pub(crate) message_by: Time,
}

impl Default for Rest {
    fn default() -> Self {
        let (frame_by, message_by) = (Time::NEVER, Time::NEVER);
        Rest { bytes: Vec::new(), whole: None, need: 0, frame_by, message_by }
    }
}

impl Rest {
    /// When the timeout of the client ends.
    pub(crate) fn deadline(&self) -> Time {
        self.frame_by.min(self.message_by)
    }

    /// Whether nothing is unfinished.
    pub(crate) fn is_over(&self) -> bool {
        self.bytes.is_empty() && self.deadline() == Time::NEVER
    }
}

impl Live {
    /// When the timeout of an unfinished frame or message ends.
    pub(crate) fn rest_by(&self) -> Time {
        match &self.transport {
            Transport::WebSocket { rest: Some(rest), .. } => rest.deadline(),
            _ => Time::NEVER,
        }
    }

    pub(crate) fn is_websocket(&self) -> bool {
        matches!(self.transport, Transport::WebSocket { .. })
    }

    pub(crate) fn is_internal(&self) -> bool {
        matches!(self.transport, Transport::Internal)
    }

    pub(crate) fn is_detached(&self) -> bool {
        matches!(self.transport, Transport::Detached)
    }

    /// Whether the session may live on when its connection is gone.
    pub(crate) fn may_detach(&self) -> bool {
        matches!(self.transport, Transport::Stream | Transport::WebSocket { .. })
            && self.session.secret().is_some()
            && self.session.is_established()
    }

    /// Whether another connection may come to carry the session.
    pub(crate) fn may_be_carried(&self) -> bool {
        (self.may_detach() || self.is_detached()) && !self.verifying
    }
}

impl Transport {
    /// How it marks protocol frames.
    pub(crate) fn framing(&self) -> Framing {
        match self {
            Transport::Stream
            | Transport::Requests(_)
            | Transport::Internal
            | Transport::Detached => Framing::Stream,
            Transport::WebSocket { .. } => Framing::Messages(&FRAMING),
            Transport::Chunked => Framing::Messages(&CHUNKS),
        }
    }
}

impl Stage {
    /// A connection begins to end.
    pub(crate) fn closing() -> Stage {
        Stage::Closing { discarded: 0, is_shut: false }
    }

    /// Whether a connection at this stage may be on its way out of a drain: nothing that has a session is, for
    /// that ends at once.
    pub(crate) fn may_be_leaving(&self) -> bool {
        matches!(self, Stage::Http(_) | Stage::Http2(_) | Stage::Closing { .. })
    }

    /// The gauge that counts connections at this stage.
    pub(crate) fn gauge(&self) -> Gauge {
        match self {
            Stage::Http(_) => Gauge::HTTP,
            Stage::Http2(_) => Gauge::HTTP2,
            Stage::Live(live) => match live.transport {
                Transport::Stream | Transport::Chunked => Gauge::protocol(live.protocol, 0),
                Transport::WebSocket { .. } => Gauge::protocol(live.protocol, 1),
                Transport::Requests(_) => Gauge::protocol(live.protocol, 2),
                Transport::Detached => Gauge::protocol(live.protocol, 3),
                Transport::Internal => Gauge::NONE,
            },
            Stage::Dialling => Gauge::NONE,
            Stage::Sniff | Stage::Starting(_) | Stage::Seeking(_) | Stage::Closing { .. } => {
                Gauge::UNKNOWN
            }
        }
    }
}

/// How a session comes about.
pub(crate) struct Origin<'a> {
    /// The WebSocket subprotocol agreed on.
    pub(crate) subprotocol: Option<&'static str>,
    /// The request it began with.
    pub(crate) request: Option<&'a Request<'a>>,
    /// Its connection was for a session that is not there.
    pub(crate) unknown: bool,
}

/// A connection on its way to the session that its client has named.
pub(crate) struct Seeking {
    pub(crate) protocol: u16,
    /// The session's, once that is known.
    pub(crate) ticket: Ticket,
    /// Who the client has shown to be, if it has.
    pub(crate) principal: Option<Arc<str>>,
    /// When that login ceases to be valid.
    pub(crate) login_until: Time,
    /// What carries it, with what was read of messages and not taken in.
    pub(crate) transport: Transport,
}

/// What carries a session that has no connection of its own.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    /// The request that waits for an answer.
    pub(crate) pending: Option<Pending>,
    /// Connections with requests that the session does not take in while it is held back.
    pub(crate) blocked: Option<Box<Vec<Key>>>,
    /// What its client had shown where the first of them came.
    pub(crate) tls: Option<Arc<ClientTls>>,
}

const _: () = assert!(size_of::<Requests>() <= 56, "there may be millions of idle ones");

/// A request that waits for an answer.
#[derive(Debug)]
pub(crate) struct Pending {
    /// Where it came.
    pub(crate) connection: Key,
    /// Set if what the session sends is the answer.
    pub(crate) held: Option<Held>,
}
