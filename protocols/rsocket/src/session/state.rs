//! What a session knows, and what all its duties need of it.
//!
//! Relies on the types beside it, which have state of their own: the way out, the streams, the watch over the
//! client, and what is rarely needed. Invariants: what is rarely used costs eight bytes; a stream that ends is
//! counted once.

use std::sync::Arc;

use tiderace_base::{Close, CloseCode, Time};
use tiderace_topics::{Path, Selector};
use tiderace_wire::{
    Command, Context, Destination, ExchangeKey, Kind, Opening, Output, Token, parse_path,
    parse_selector,
};

use super::cold::{ColdState, Waiting};
use super::describe::{Asked, SetupMimes};
use super::faults;
use super::streams::{Stream, Streams, role};
use super::watch::Watch;
use super::writer::Writer;
use crate::frame::{Body, FRAME_BYTES_MAX, Frame, NUMBER_MAX, Payload};
use crate::metrics::{Rule, Signal};
use crate::options::RSocketOptions;

/// Where the conversation stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Waiting for SETUP or RESUME.
    Fresh,
    /// The broker is looking at the credentials.
    LoggingIn,
    /// Its connection goes to another session.
    HandingOver,
    /// In order.
    Established,
    /// The client has said its last.
    Leaving,
}

/// What is known of the connection, in one bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Marks(u8);

impl Marks {
    /// The client asked for a session that is not there.
    pub(super) const UNKNOWN: Marks = Marks(1);
    /// Its first frame was RESUME.
    pub(super) const RESUMING: Marks = Marks(2);
    /// It can be found by its token, or has asked for that and was not refused.
    pub(super) const HAS_SESSION_ID: Marks = Marks(4);
    /// A new connection has come and its RESUME has not been read.
    pub(super) const AWAITS_RESUME: Marks = Marks(8);
    /// It ends when its requests have ended.
    pub(super) const CLOSING: Marks = Marks(16);
    /// Echo streams without an interval have demand.
    pub(super) const WRITES: Marks = Marks(32);

    #[inline]
    pub(super) fn has(self, other: Marks) -> bool {
        self.0 & other.0 != 0
    }

    #[inline]
    pub(super) fn set(&mut self, other: Marks, is: bool) {
        self.0 = if is { self.0 | other.0 } else { self.0 & !other.0 };
    }
}

/// One client's connection.
pub(crate) struct RSocketSession {
    pub(super) writer: Writer,
    pub(super) streams: Streams,
    pub(super) cold: Option<Box<ColdState>>,
    /// Whose topics `~/` stands for, once that is known; nobody's for anonymous clients.
    pub(super) name: Option<Arc<str>>,
    pub(super) watch: Watch,
    /// When echo streams tick next.
    pub(super) tick: Time,
    pub(super) next_token: Token,
    pub(super) state: State,
    pub(super) marks: Marks,
    pub(super) mimes: SetupMimes,
}

const _: () = assert!(size_of::<RSocketSession>() <= 208, "there may be millions of idle ones");

impl RSocketSession {
    /// Begins a conversation.
    pub(crate) fn new(options: Arc<RSocketOptions>, opening: &Opening<'_>) -> RSocketSession {
        let mut marks = Marks::default();
        marks.set(Marks::UNKNOWN, opening.unknown);
        RSocketSession {
            watch: Watch::new(opening.now.time + options.login_timeout),
            writer: Writer { options, kept: None, shard: opening.shard },
            streams: Streams::default(),
            cold: Some(Box::new(ColdState::new(opening.ticket.secret))),
            name: None,
            tick: Time::NEVER,
            next_token: 1,
            state: State::Fresh,
            marks,
            mimes: SetupMimes::NONE,
        }
    }

    #[inline]
    pub(super) fn options(&self) -> &RSocketOptions {
        &self.writer.options
    }

    #[inline]
    pub(super) fn cold(&mut self) -> &mut ColdState {
        self.cold.get_or_insert_default()
    }

    /// Gives memory back that is not needed any more.
    #[inline]
    pub(super) fn release_if_empty(&mut self) {
        if self.state == State::Established && self.cold.as_ref().is_some_and(|cold| cold.is_idle())
        {
            self.cold = None;
        }
    }

    /// A token for a question to the broker, and what its answer will mean.
    pub(super) fn ask(&mut self, waiting: Waiting) -> Token {
        let token = self.next_token;
        self.next_token = token.wrapping_add(1).max(1);
        self.cold().waiting.insert(token, waiting);
        token
    }

    /// The longest frame that is taken now.
    #[inline]
    pub(super) fn frame_bytes_max(&self) -> usize {
        let options = self.options();
        match self.state {
            State::Established => (options.message_bytes_max + options.metadata_bytes_max)
                .saturating_add(FRAME_HEAD_BYTES)
                .min(FRAME_BYTES_MAX),
            _ => options.setup_bytes_max,
        }
    }

    /// Whether the session waits for another connection.
    #[inline]
    pub(super) fn is_detached(&self) -> bool {
        self.writer.kept.as_ref().is_some_and(|kept| kept.is_detached())
    }

    /// Takes a stream out and counts its end.
    pub(super) fn end_stream(&mut self, stream: u32, signal: Signal) -> Option<Stream> {
        let removed = self.streams.remove(stream)?;
        self.writer.count(|counters| counters.end(removed.kind(), role(stream), signal));
        Some(removed)
    }

    /// Ends a request for a reason.
    pub(super) fn fail(&mut self, stream: u32, close: &Close, output: &mut Output<'_>) {
        let (code, rejection) = faults::stream_code(close.code);
        if let Some(rejection) = rejection {
            self.writer.count(|counters| counters.reject(rejection));
        }
        self.writer.error(stream, code, &faults::sentence(close), output);
        self.end_stream(stream, Signal::Error);
    }

    /// Whether a stream still waits for that answer.
    pub(super) fn is_waiting(&self, stream: u32, token: Token) -> bool {
        matches!(self.streams.get(stream), Some(Stream::Waiting { token: known }) if *known == token)
    }

    /// A frame broke a rule and is ignored.
    ///
    /// # Errors
    /// When more have than may.
    pub(super) fn fault(&mut self, rule: Rule) -> Result<(), Close> {
        self.writer.count(|counters| counters.fault(rule));
        let faults_max = self.options().faults_max;
        self.watch.fault(rule, faults_max)
    }

    /// So many frames for a stream that is over may be on their way.
    pub(super) fn expect_late(&mut self, frames: u32) {
        let late = &mut self.cold().late;
        *late = late.saturating_add(frames);
    }

    /// So many items for a stream that is over may be on their way, each in several frames.
    pub(super) fn expect_late_items(&mut self, items: u32) {
        self.expect_late(items.min(NUMBER_MAX).saturating_mul(FRAMES_PER_ITEM));
    }

    /// Gives an exchange up as soon as the broker can be told.
    pub(super) fn cancel_later(&mut self, exchange: ExchangeKey, close: Close) {
        self.cold().deferred.push(Command::Cancel { exchange, close });
    }

    /// Gives the client a lease, if it asked for leases.
    pub(super) fn grant_lease(&mut self, now: Time, context: &mut Context<'_>) {
        let offer = self.options().lease;
        let Some(leases) = self.cold.as_mut().and_then(|cold| cold.leases.as_mut()) else { return };
        let lease = leases.offer(now, offer, context.reading_paused);
        self.writer.say(&Frame::connection(Body::Lease(lease)), &mut context.output);
    }

    /// Nothing more is to be said.
    pub(super) fn leave(&mut self, context: &mut Context<'_>) {
        self.state = State::Leaving;
        context.finish(CloseCode::Done);
    }

    /// Reads the metadata of a request.
    pub(super) fn describe<'a>(&self, metadata: Option<&'a [u8]>) -> Result<Asked<'a>, Close> {
        let known = self.cold.as_ref().and_then(|cold| cold.authentication.as_deref());
        Asked::read(metadata, self.mimes, self.options().metadata_bytes_max, known)
    }

    /// Whether a payload is small enough.
    pub(super) fn check_size(&self, payload: &Payload<'_>) -> Result<(), Close> {
        let (bytes, most) = (payload.data.len(), self.options().message_bytes_max);
        if bytes <= most {
            return Ok(());
        }
        let reason = format!("the data has {bytes} bytes; the limit is {most}");
        Err(Close::new(CloseCode::FrameTooLarge, reason))
    }

    /// The path of that name; `~/` begins with the client's own.
    pub(super) fn path(&self, text: &str) -> Result<Path, Close> {
        parse_path(text, self.name.as_deref())
    }

    /// The selector of that name.
    pub(super) fn selector(&self, text: &str) -> Result<Selector, Close> {
        parse_selector(text, self.name.as_deref())
    }

    /// The destination of that kind and name.
    pub(super) fn destination(&self, kind: Kind, path: &str) -> Result<Destination, Close> {
        Ok(Destination { kind, path: self.path(path)? })
    }
}

/// Frames that an item may be in, for those that come late.
const FRAMES_PER_ITEM: u32 = 4;
/// What a frame has besides metadata and data, at most.
const FRAME_HEAD_BYTES: usize = 64;
