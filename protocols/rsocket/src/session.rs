//! The session: one client's connection, from its first frame to the last word.
//!
//! ```text
//!          SETUP               LoggedIn                 ERROR on stream 0
//!   Fresh ───────▶ LoggingIn ────────────▶ Established ───────────────────▶ Leaving ─▶ end
//!     │ RESUME          │ Refused               │ gone          ▲
//!     ▼                 └─▶ ERROR, end          └─▶ detached ───┘ RESUME on a new connection
//!   HandingOver ─▶ this record is dropped; the connection goes to the session that it asked for
//! ```
//! Relies on `frame`, `metadata` and `fragment` for bytes and on the modules below for what they mean, which fall into
//! three rows; each imports only those below it:
//!
//! * This file and `incoming`, `request`, `answers` and `timers` give what comes to whose duty it is: frames, requests,
//!   answers of the broker, time.
//! * Duties work on the session as a whole: `connect`, `resume`, `subscribe`, `consume`, `publish`, `channel_items`,
//!   `operate`, `exchange`, `serve`, `deliver`, `fragments`.
//! * `state` is the session; it is made of types with state of their own: `streams` with what a stream can be, `writer`,
//!   `kept`, `watch`, and in `cold` what is rarely needed.
//!
//! Invariants: nothing but a login is asked of the broker before the login is answered; what is rarely used costs eight
//! bytes; every stream that begins ends once.

mod answers;
mod begin;
mod channel;
mod channel_items;
mod cold;
mod connect;
mod consume;
mod consumer;
mod deliver;
mod deltas;
mod describe;
mod early;
mod echo;
mod echo_write;
mod exchange;
mod exchange_state;
mod faults;
mod fragments;
mod incoming;
mod kept;
mod lease;
mod operate;
mod publish;
mod request;
mod resume;
mod route;
mod serve;
mod state;
mod streams;
mod subscribe;
mod timers;
mod watch;
mod writer;

use tiderace_base::{Close, CloseCode, Now, Time};
use tiderace_wire::{
    Context, Delivery, Incoming, Intake, Output, Progress, Reply, Session, Side, SubscriptionKey,
    Takeover,
};

use crate::frame::{PREFIX_BYTES, Split, split};
use crate::metrics::Signal;
pub use describe::{MESSAGE_MIME, OPTIONS_MIME, PROPERTIES_MIME};
pub(crate) use state::RSocketSession;
use state::{Marks, State};

impl Session for RSocketSession {
    fn receive(
        &mut self,
        now: Now,
        input: &[u8],
        context: &mut Context<'_>,
    ) -> Result<Progress, Close> {
        let mut progress = Progress::default();
        let intake = Intake::begin();
        while matches!(self.state, State::Fresh | State::Established) {
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
        self.release_if_empty();
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
            State::LoggingIn => self.cold().early.push(message.bytes),
            State::Fresh | State::Established => {
                self.frame(now, message.bytes, context)?;
                self.release_if_empty();
                Ok(())
            }
            State::HandingOver | State::Leaving => Ok(()),
        }
    }

    fn takeover(&mut self, now: Now, takeover: Takeover, _: &mut Context<'_>) -> Result<(), Close> {
        if takeover != Takeover::Done || self.writer.kept.is_none() {
            return Err(CloseCode::UnexpectedFrame.into());
        }
        self.watch.restart(now.time);
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
        self.writer.kept.as_ref().map_or(0, |kept| kept.bytes())
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
        self.marks.set(Marks::HAS_SESSION_ID, outcome.is_ok());
        outcome
    }

    fn secret(&self) -> Option<u128> {
        self.writer.kept.as_ref().map(|kept| kept.secret())
    }

    fn reply(&mut self, now: Now, reply: Reply, context: &mut Context<'_>) -> Result<(), Close> {
        match reply {
            Reply::LoggedIn { name, anonymous, .. } => {
                let early = self.logged_in(now, Some(name).filter(|_| !anonymous), context);
                self.early_frames(now, &early, context)?;
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
            Reply::SubscriptionEnded { key, close } => {
                close.answered(|close| self.subscription_ended(key, close, context))?;
            }
            Reply::Recovered { .. } | Reply::Reached { .. } | Reply::ReachedUpstream { .. } => {}
            // Nobody asks for them.
            Reply::Joined { .. }
            | Reply::Left { .. }
            | Reply::Browsed { .. }
            | Reply::Upstream(_) => {}
        }
        self.release_if_empty();
        Ok(())
    }

    fn deliver(&mut self, now: Now, delivery: &Delivery<'_>, output: &mut Output<'_>) {
        match &delivery.exchange {
            None => self.deliver_messages(delivery, output),
            Some(exchange) if exchange.first && exchange.key.side == Side::Responder => {
                self.serve_request(now, exchange, delivery, output);
            }
            Some(exchange) => self.deliver_exchange(exchange, delivery, output),
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
        self.due_at()
    }

    fn expire(&mut self, now: Now, context: &mut Context<'_>) -> Result<(), Close> {
        self.do_due(now, context)
    }

    fn goodbye(&mut self, close: &Close, output: &mut Output<'_>) {
        if close.code.is_silent() {
            return;
        }
        // A token that is refused is part of the setup, which the client has not been told is done.
        let is_refused = self.writer.kept.is_some() && !self.marks.has(Marks::HAS_SESSION_ID);
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
