//! The client's side of a connection: what load generators, tests and attacks speak with.
//!
//! ```text
//!          begin             RESUME_OK
//!   Fresh ───────▶ Open ◀──────────── Resuming
//!                   │ └──── resume ────▶  │
//!  CONNECTION_CLOSE │                     │ ERROR on stream 0
//!                   ▼                     ▼
//!                Closing ──────────────▶ Closed
//! ```
//! Bytes and time come in, bytes go out; [`Requester::next`] gives the frames that mean something to
//! the application and sees to the others itself. It asks, and answers when it is asked. Relies on the
//! codec beside it. Invariants: a stream takes some 40 bytes while it lives; credit and leases of the
//! other side are never overdrawn; nothing grows without a limit from [`RequesterOptions`].

mod inbound;
mod options;
mod outbound;
mod stream;

use std::sync::Arc;

use tiderace_base::{Span, Time};
use tiderace_wire::Framing;

use crate::fragment::{Assembled, Assemblies, FragmentError};
use crate::frame::{Body, Frame, FrameError, KeepAlive, Payload, Resume, Setup, VERSION};
use crate::outgoing::Outgoing;
use crate::position::Received;

pub use options::RequesterOptions;
pub use outbound::Refused;
use stream::Streams;

/// One client's conversation with a server.
#[derive(Debug)]
pub struct Requester {
    options: Arc<RequesterOptions>,
    phase: Phase,
    streams: Streams,
    outgoing: Outgoing,
    received: Received,
    assemblies: Assemblies,
    /// The last message that came in fragments, while the application looks at it.
    assembled: Option<Box<Assembled>>,
    /// Until when and how many requests may be begun, if leases are honoured.
    lease: (Time, u32),
    /// The same for the server.
    given: (Time, u32),
    /// When something came last.
    last_received: Time,
    /// When the next sign of life is due.
    due: Time,
}

/// How far the conversation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Nothing was said.
    Fresh,
    /// Requests may be made.
    Open,
    /// The server has not said yet whether it goes on.
    Resuming,
    /// The server ends it when the streams there are have ended; no others begin.
    Closing,
    /// It is over.
    Closed,
}

/// What the server did wrong, or that it is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequesterError {
    /// What it sent is no frame.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// What it sent in fragments cannot be put together.
    #[error(transparent)]
    Fragment(#[from] FragmentError),
    /// It sent more items than it had credit for.
    #[error("more items came on stream {0} than were asked for")]
    Overflow(u32),
    /// It sent a frame that servers do not send.
    #[error("a frame of type {0:#04x} came, which servers do not send")]
    Unexpected(u8),
    /// It wants frames again that are not there any more.
    #[error("the server has everything up to {received}, and only what follows {first} is kept")]
    NotRetained {
        /// What it has.
        received: u64,
        /// What can be sent again.
        first: u64,
    },
    /// It said nothing for its lifetime.
    #[error("the server was silent for {0:?}")]
    Silent(Span),
}

impl Requester {
    /// A conversation over a transport of this framing.
    pub fn new(options: Arc<RequesterOptions>, framing: Framing) -> Requester {
        let retained = if options.token.is_some() { options.retained_bytes_max } else { 0 };
        Requester {
            outgoing: Outgoing::new(framing, options.fragment_bytes_max, retained),
            options,
            phase: Phase::Fresh,
            streams: Streams::default(),
            received: Received::default(),
            assemblies: Assemblies::new(),
            assembled: None,
            lease: (Time::ZERO, 0),
            given: (Time::ZERO, 0),
            last_received: Time::ZERO,
            due: Time::NEVER,
        }
    }

    /// How far it is.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// How many streams live.
    pub fn streams(&self) -> usize {
        self.streams.len()
    }

    /// Whether a stream lives.
    pub fn is_open(&self, stream: u32) -> bool {
        self.streams.contains(stream)
    }

    /// Up to where everything has come from the server.
    pub fn position(&self) -> u64 {
        self.received.position()
    }

    /// Says SETUP.
    pub fn begin(&mut self, now: Time, out: &mut Vec<u8>) {
        let options = self.options.clone();
        let metadata = options.metadata.as_deref();
        let setup = Setup {
            version: VERSION,
            interval_ms: options.interval_ms,
            lifetime_ms: options.lifetime_ms,
            token: options.token.as_deref(),
            lease: options.lease,
            metadata_mime: options.metadata_mime.as_bytes(),
            data_mime: options.data_mime.as_bytes(),
            payload: Payload { metadata, data: &options.data },
        };
        Frame::connection(Body::Setup(setup)).write(self.outgoing.framing(), out);
        self.phase = Phase::Open;
        self.alive(now);
    }

    /// Says RESUME on a new transport, after the one before was lost with all bytes that were not
    /// given to [`Requester::next`] yet.
    pub fn resume(&mut self, now: Time, framing: Framing, out: &mut Vec<u8>) {
        self.outgoing.reframe(framing);
        let available = self.outgoing.retained().map_or(0, |retained| retained.first());
        let resume = Resume {
            version: VERSION,
            token: self.options.token.as_deref().unwrap_or_default(),
            received: self.received.position(),
            available,
        };
        Frame::connection(Body::Resume(resume)).write(framing, out);
        self.phase = Phase::Resuming;
        // Leases end with the connection.
        (self.lease, self.given) = ((Time::ZERO, 0), (Time::ZERO, 0));
        self.alive(now);
    }

    /// When [`Requester::expire`] wants to be called.
    pub fn deadline(&self) -> Time {
        match self.phase {
            Phase::Fresh | Phase::Closed => Time::NEVER,
            Phase::Resuming => self.silence(),
            Phase::Open | Phase::Closing => self.due.min(self.silence()),
        }
    }

    /// The deadline has come: says that the client lives, if it is time to.
    ///
    /// # Errors
    /// When the server has been silent for too long.
    pub fn expire(&mut self, now: Time, out: &mut Vec<u8>) -> Result<(), RequesterError> {
        if now >= self.silence() {
            self.phase = Phase::Closed;
            return Err(RequesterError::Silent(millis(self.options.lifetime_ms)));
        }
        if matches!(self.phase, Phase::Open | Phase::Closing) && now >= self.due {
            self.keep_alive(now, b"", out);
        }
        Ok(())
    }

    /// Says that the client lives and wants the same said with these bytes.
    pub fn keep_alive(&mut self, now: Time, data: &[u8], out: &mut Vec<u8>) {
        let position = if self.options.token.is_some() { self.received.position() } else { 0 };
        let sign = KeepAlive { respond: true, position, data };
        Frame::connection(Body::KeepAlive(sign)).write(self.outgoing.framing(), out);
        self.due = now + millis(self.options.interval_ms);
    }

    fn alive(&mut self, now: Time) {
        self.last_received = now;
        self.due = now + millis(self.options.interval_ms);
    }

    fn silence(&self) -> Time {
        self.last_received + millis(self.options.lifetime_ms)
    }
}

fn millis(millis: u32) -> Span {
    Span::from_millis(millis.into())
}
