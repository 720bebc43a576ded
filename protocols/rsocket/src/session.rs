//! The session: one client's connection, from its first frame to the last word.
//!
//! ```text
//!          SETUP               LoggedIn                 ERROR on stream 0
//!   Fresh ───────▶ LoggingIn ────────────▶ Established ───────────────────▶ Leaving ─▶ end
//!     │ RESUME          │ Refused               │ gone          ▲
//!     ▼                 └─▶ ERROR, end          └─▶ detached ───┘ RESUME on a new connection
//!   HandingOver ─▶ this record is dropped; the connection goes to the session that it asked for
//! ```
//! Relies on `frame`, `metadata` and `fragment` for bytes and on the modules below for what they mean.
//! Invariants: nothing but a login is asked of the broker before the login is answered; what is rarely
//! used costs eight bytes; every stream that begins ends once.

mod channel;
mod channel_items;
mod cold;
mod connect;
mod consume;
mod consumer;
mod deliver;
mod describe;
mod echo;
mod echo_write;
mod exchange;
mod exchange_state;
mod faults;
mod incoming;
mod lease;
mod operate;
mod publish;
mod request;
mod resume;
mod route;
mod serve;
mod streams;
mod subscribe;
mod writer;

use std::sync::Arc;

use tiderace_base::{Close, CloseCode, Now, RateLimiter, Span, Time};
use tiderace_wire::{
    Context, Delivery, Incoming, Intake, Opening, Output, Progress, Reply, Session,
    SubscriptionKey, Takeover, Token,
};

use crate::frame::{FRAME_BYTES_MAX, PREFIX_BYTES, Split, split};
use crate::metrics::{Rejection, Signal};
use crate::options::RSocketOptions;
pub use describe::{MESSAGE_MIME, OPTIONS_MIME, PROPERTIES_MIME};

use cold::{ColdState, Waiting};
use streams::{Stream, Streams, role};
use writer::Writer;

/// Where the conversation stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
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

/// What is known of the connection, in one byte each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Marks(u8);

impl Marks {
    /// The client asked for a session that is not there.
    const UNKNOWN: Marks = Marks(1);
    /// Its first frame was RESUME.
    const RESUMING: Marks = Marks(2);
    /// It can be found by its token, or has asked for that and was not refused.
    const ALIASED: Marks = Marks(4);
    /// A new connection has come and its RESUME has not been read.
    const AWAITS_RESUME: Marks = Marks(8);
    /// It was asked whether it is there, since it promised less than is wanted here.
    const PROBED: Marks = Marks(16);
    /// Its lifetime is longer than what is borne here, so it is asked now and then.
    const PROBES: Marks = Marks(32);
    /// It ends when its requests have ended.
    const CLOSING: Marks = Marks(64);
    /// Echo streams without an interval have demand.
    const WRITES: Marks = Marks(128);

    fn has(self, other: Marks) -> bool {
        self.0 & other.0 != 0
    }

    fn set(&mut self, other: Marks, is: bool) {
        self.0 = if is { self.0 | other.0 } else { self.0 & !other.0 };
    }
}

/// One client's connection.
pub(crate) struct RSocketSession {
    writer: Writer,
    streams: Streams,
    cold: Option<Box<ColdState>>,
    /// Whose topics `~/` stands for, once that is known; nobody's for anonymous clients.
    name: Option<Arc<str>>,
    /// When a frame came last; before the login, when that has to be done.
    last_received: Time,
    /// When echo streams tick next.
    tick: Time,
    keepalives: RateLimiter,
    /// Milliseconds of silence after which the client is gone.
    lifetime_ms: u32,
    /// Bytes that echo streams keep.
    echo_bytes: u32,
    faults: u32,
    /// Bytes that waited for the client when it was last looked at while it was not read.
    unread: u32,
    next_token: Token,
    state: State,
    marks: Marks,
    /// Numbers of the MIME types of SETUP; [`describe::OTHER_MIME`] for those without.
    metadata_mime: u8,
    data_mime: u8,
}

const _: () = assert!(size_of::<RSocketSession>() <= 208, "there may be millions of idle ones");

impl RSocketSession {
    /// Begins a conversation.
    pub(crate) fn new(options: Arc<RSocketOptions>, opening: &Opening<'_>) -> RSocketSession {
        let mut marks = Marks::default();
        marks.set(Marks::UNKNOWN, opening.unknown);
        RSocketSession {
            last_received: opening.now.time + options.login_timeout,
            writer: Writer { options, kept: None, shard: opening.shard },
            streams: Streams::default(),
            cold: Some(Box::new(ColdState::new(opening.ticket.secret))),
            name: None,
            tick: Time::NEVER,
            keepalives: RateLimiter::default(),
            lifetime_ms: 0,
            echo_bytes: 0,
            faults: 0,
            unread: 0,
            next_token: 1,
            state: State::Fresh,
            marks,
            metadata_mime: describe::OTHER_MIME,
            data_mime: describe::OTHER_MIME,
        }
    }

    fn options(&self) -> &RSocketOptions {
        &self.writer.options
    }

    fn cold(&mut self) -> &mut ColdState {
        self.cold.get_or_insert_default()
    }

    /// Gives memory back that is not needed any more.
    fn tidy(&mut self) {
        if self.state == State::Established && self.cold.as_ref().is_some_and(|cold| cold.is_idle())
        {
            self.cold = None;
        }
    }

    /// A token for a question to the broker, and what its answer will mean.
    fn ask(&mut self, waiting: Waiting) -> Token {
        let token = self.next_token;
        self.next_token = token.wrapping_add(1).max(1);
        self.cold().waiting.insert(token, waiting);
        token
    }

    /// The longest frame that is taken now.
    fn frame_bytes_max(&self) -> usize {
        let options = self.options();
        match self.state {
            State::Established => (options.message_bytes_max + options.metadata_bytes_max)
                .saturating_add(FRAME_HEAD_BYTES)
                .min(FRAME_BYTES_MAX),
            _ => options.setup_bytes_max,
        }
    }

    /// Whether frames are read now.
    fn reads(&self) -> bool {
        matches!(self.state, State::Fresh | State::Established)
    }

    /// Takes a stream out and counts its end.
    fn end_stream(&mut self, stream: u32, signal: Signal) -> Option<Stream> {
        let removed = self.streams.remove(stream)?;
        self.writer.count(|counters| counters.end(removed.kind(), role(stream), signal));
        Some(removed)
    }

    /// Ends a request for a reason.
    fn fail(&mut self, stream: u32, close: &Close, output: &mut Output<'_>) {
        let (code, rejection) = faults::stream_code(close.code);
        if let Some(rejection) = rejection {
            self.writer.count(|counters| counters.reject(rejection));
        }
        let text = faults::sentence(close);
        self.writer.error(stream, code, &text, output);
        self.end_stream(stream, Signal::Error);
    }

    /// A command was refused.
    fn refused(&mut self, token: Option<Token>, close: &Close, context: &mut Context<'_>) {
        let Some(waiting) = token.and_then(|token| self.cold().waiting.remove(&token)) else {
            // Fire-and-forget has nobody to be told.
            self.writer.count(|counters| counters.reject(Rejection::Other));
            return;
        };
        self.answer_refused(waiting, token.unwrap_or_default(), close, context);
    }

    /// The client has said all, or all was said for it.
    fn expired(&mut self, now: Now, context: &mut Context<'_>) -> Result<(), Close> {
        if context.reading_paused {
            // What it said may wait where we do not read. But if nothing of what waits for it has gone
            // since the last look, it does not read either.
            let waiting = u32::try_from(context.output.queue.len()).unwrap_or(u32::MAX);
            if waiting > 0 && waiting == self.unread {
                let reason = format!(
                    "nothing was read for {:?} while {waiting} bytes waited",
                    self.lifetime()
                );
                return Err(Close::new(CloseCode::SlowConsumer, reason));
            }
            self.unread = waiting;
            self.last_received = now.time;
            return Ok(());
        }
        self.unread = 0;
        let lifetime = self.lifetime();
        if self.marks.has(Marks::PROBES) && !self.marks.has(Marks::PROBED) {
            self.marks.set(Marks::PROBED, true);
            self.probe(context);
            return Ok(());
        }
        let reason = format!("nothing came for {lifetime:?}");
        Err(Close::new(CloseCode::HeartBeatTimeout, reason))
    }

    /// Whether the client wants to go, and nothing keeps it any more.
    fn is_done(&self) -> bool {
        self.marks.has(Marks::CLOSING)
            && self.state == State::Established
            && self.streams.len() == 0
    }

    fn lifetime(&self) -> Span {
        Span::from_millis(u64::from(self.lifetime_ms))
    }

    /// When silence is too long.
    fn silent_at(&self) -> Time {
        match self.state {
            State::Fresh | State::LoggingIn | State::HandingOver => self.last_received,
            State::Leaving => Time::NEVER,
            State::Established if self.is_detached() => Time::NEVER,
            State::Established => {
                let probes = self.marks.has(Marks::PROBES) && !self.marks.has(Marks::PROBED);
                let lifetime = self.lifetime();
                self.last_received + if probes { lifetime / 2 } else { lifetime }
            }
        }
    }
}

impl Session for RSocketSession {
    fn receive(
        &mut self,
        now: Now,
        input: &[u8],
        context: &mut Context<'_>,
    ) -> Result<Progress, Close> {
        let mut progress = Progress::default();
        let intake = Intake::begin();
        while self.reads() {
            if intake.is_full() {
                context.yield_turn(progress.consumed);
                break;
            }
            let rest = input.get(progress.consumed..).unwrap_or_default();
            match split(rest, self.frame_bytes_max())? {
                Split::Need(need) => {
                    progress.need = need;
                    break;
                }
                Split::Frame(frame) => {
                    self.frame(now, frame, context)?;
                    if self.state == State::HandingOver {
                        break;
                    }
                    progress.consumed += PREFIX_BYTES + frame.len();
                }
            }
        }
        if self.state == State::Leaving {
            progress.consumed = input.len();
        }
        self.tidy();
        Ok(progress)
    }

    fn takes_messages(&self) -> bool {
        true
    }

    fn message(
        &mut self,
        now: Now,
        message: Incoming<'_>,
        context: &mut Context<'_>,
    ) -> Result<(), Close> {
        if message.text {
            return Err(Close::new(CloseCode::BadFrame, "messages of RSocket are binary"));
        }
        if message.bytes.len() > self.frame_bytes_max() {
            let reason = format!("a frame is longer than {} bytes", self.frame_bytes_max());
            return Err(Close::new(CloseCode::FrameTooLarge, reason));
        }
        match self.state {
            State::LoggingIn => self.keep_early(message.bytes),
            State::Fresh | State::Established => {
                self.frame(now, message.bytes, context)?;
                self.tidy();
                Ok(())
            }
            State::HandingOver | State::Leaving => Ok(()),
        }
    }

    fn takeover(&mut self, now: Now, takeover: Takeover, _: &mut Context<'_>) -> Result<(), Close> {
        if takeover != Takeover::Done || self.writer.kept.is_none() {
            return Err(CloseCode::UnexpectedFrame.into());
        }
        self.last_received = now.time;
        self.marks.set(Marks::AWAITS_RESUME, true);
        Ok(())
    }

    fn detach(&mut self, now: Now) -> bool {
        self.wait_for_return(now)
    }

    fn unfinished_bytes(&self) -> usize {
        self.cold.as_ref().map_or(0, |cold| cold.assemblies.held_bytes())
    }

    fn kept_bytes(&self) -> usize {
        self.writer.kept.as_ref().map_or(0, |kept| kept.sent.bytes())
    }

    fn admits(&self, _: Now, first: &[u8]) -> bool {
        // On a stream it stands behind its length.
        match split(first, self.options().setup_bytes_max) {
            Ok(Split::Frame(frame)) if self.admits_frame(frame) => true,
            _ => self.admits_frame(first),
        }
    }

    fn client_session_id_decided(
        &mut self,
        _: Now,
        outcome: Result<(), Close>,
        _: &mut Context<'_>,
    ) -> Result<(), Close> {
        self.marks.set(Marks::ALIASED, outcome.is_ok());
        outcome
    }

    fn secret(&self) -> Option<u128> {
        let kept = self.writer.kept.as_ref()?;
        Some(kept.secret)
    }

    fn reply(&mut self, now: Now, reply: Reply, context: &mut Context<'_>) -> Result<(), Close> {
        match reply {
            Reply::LoggedIn { name, anonymous } => {
                self.logged_in(now, Some(name).filter(|_| !anonymous), context)?;
            }
            Reply::Confirmed(confirm) => self.confirmed(confirm, context),
            Reply::Operated { token, result } => self.operated(token, &result, context),
            Reply::ExchangeEnded { exchange, close } => {
                self.exchange_ended(exchange, &close, context)
            }
            Reply::ExchangeCredit { exchange, messages } => {
                self.exchange_credited(exchange, messages, context);
            }
            Reply::Refused { close, .. } if self.state == State::LoggingIn => return Err(close),
            Reply::Refused { token, close } => {
                close.answered(|close| self.refused(token, close, context))?;
            }
            Reply::Recovered { .. } | Reply::Reached { .. } => {}
            // Nobody asks for them.
            Reply::Joined { .. } | Reply::Left { .. } => {}
        }
        self.tidy();
        Ok(())
    }

    fn deliver(&mut self, now: Now, delivery: &Delivery<'_>, output: &mut Output<'_>) {
        if let Some(exchange) = &delivery.exchange {
            self.deliver_exchange(now, exchange, delivery, output);
        } else {
            self.deliver_messages(delivery, output);
        }
    }

    fn wants_deliveries(&self) -> bool {
        !self.is_detached() && !self.marks.has(Marks::AWAITS_RESUME)
    }

    fn wants_write(&self) -> bool {
        self.marks.has(Marks::WRITES) && self.wants_deliveries()
    }

    fn poll_write(&mut self, bytes_max: usize, output: &mut Output<'_>) -> bool {
        if !self.wants_write() {
            return false;
        }
        let more = echo_write::poll_write(bytes_max, &mut self.streams, &mut self.writer, output);
        self.marks.set(Marks::WRITES, more);
        more
    }

    fn look_ahead(&self, key: SubscriptionKey) {
        self.streams.expect(key);
    }

    fn deadline(&self) -> Time {
        if self.is_done() {
            return cold::AT_ONCE;
        }
        let kept = self.writer.kept.as_ref().map_or(Time::NEVER, |kept| kept.until());
        let detached = self.is_detached();
        let cold = self.cold.as_ref();
        let cold = cold.map_or(Time::NEVER, |cold| cold.deadline(self.options(), detached));
        let tick = if detached { Time::NEVER } else { self.tick };
        self.silent_at().min(kept).min(cold).min(tick)
    }

    fn expire(&mut self, now: Now, context: &mut Context<'_>) -> Result<(), Close> {
        if self.is_done() {
            self.leave(context);
            return Ok(());
        }
        if self.silent_at() <= now.time {
            if self.state != State::Established {
                let span = self.options().login_timeout;
                let reason =
                    format!("no complete SETUP came, or no login was done, within {span:?}");
                return Err(Close::new(CloseCode::LoginTimeout, reason));
            }
            self.expired(now, context)?;
        }
        if self.writer.kept.as_ref().is_some_and(|kept| kept.until() <= now.time) {
            return Err(CloseCode::ResumeTimeout.into());
        }
        if self.tick <= now.time
            && !self.is_detached()
            && let Some(echo) = self.writer.options.echo
        {
            let (streams, writer) = (&mut self.streams, &mut self.writer);
            let due = self.tick;
            self.tick =
                echo_write::tick(&echo, due, now.time, streams, writer, &mut context.output);
        }
        if self.cold.is_some() {
            self.expire_cold(now, context)?;
        }
        Ok(())
    }

    fn goodbye(&mut self, close: &Close, output: &mut Output<'_>) {
        if close.code.is_silent() {
            return;
        }
        // A token that is refused is part of the setup, which the client has not been told is done.
        let is_refused = self.writer.kept.is_some() && !self.marks.has(Marks::ALIASED);
        let before = self.state != State::Established || is_refused;
        let code = faults::connection_code(close.code, before, self.marks.has(Marks::RESUMING));
        self.writer.error(0, code, &faults::sentence(close), output);
    }

    fn is_established(&self) -> bool {
        matches!(self.state, State::Established | State::Leaving)
    }
}

impl Drop for RSocketSession {
    fn drop(&mut self) {
        for stream in self.streams.ids() {
            self.end_stream(stream, Signal::Cancel);
        }
        if self.is_established() {
            let kept = self.kept_bytes() as u64;
            let fragments = self.fragment_bytes() as u64;
            self.writer.count(|counters| {
                counters.closed.add(1);
                counters.retained.sub(kept);
                counters.fragments.sub(fragments);
            });
        }
    }
}

/// What a frame has besides metadata and data, at most.
const FRAME_HEAD_BYTES: usize = 64;
