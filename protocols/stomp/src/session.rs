//! The session: one client's conversation, from CONNECT to the last word.
//!
//! ```text
//!           CONNECT             LoggedIn               DISCONNECT
//!   Fresh ─────────▶ LoggingIn ──────────▶ Established ───────────▶ Leaving ─▶ last receipts, end
//!     │ deadline        │ Refused              │ a fault, silence
//!     └─▶ end           └─▶ ERROR, end         └─▶ ERROR, end
//! ```
//! Relies on `frame` for the bytes, on `state` for what is known, and on the duties beside it for what
//! frames mean: this file calls them, and they do not know it. Invariants: input behind a CONNECT waits
//! until the login is answered; every fault carries the receipt of the frame to blame.

mod acknowledge;
mod browse;
mod connect;
mod deliver;
mod deltas;
mod durable;
mod heart_beat;
mod message;
mod operate;
mod publication;
mod publish;
mod receipt;
mod receipts;
mod request;
mod sequence;
mod settling;
mod state;
mod subscribe;
mod subscription;
mod subscriptions;
mod transaction;
mod transactions;
mod unacked;

use tiderace_base::{Close, CloseCode, Now, Time};
use tiderace_wire::{
    Command, Context, Delivery, Intake, Outcome, Output, Progress, Reply, Session, Settle,
    SubscriptionKey,
};

use crate::error::{bad_header, fault, shown};
use crate::frame::{self, Pending};
use crate::header::Headers;
use crate::server_frame;
use crate::version::Version;
use request::{NO_COLON, Request, command_name, content_length};
use state::{Partial, State};

pub(crate) use state::StompSession;

impl StompSession {
    /// Reads as many frames as there are.
    fn read(
        &mut self,
        now: Now,
        input: &[u8],
        pending: &mut Pending,
        context: &mut Context<'_>,
    ) -> Result<Progress, Close> {
        let mut at = 0;
        if let Err(need) = pending.ready(input) {
            return Ok(Progress { consumed: 0, need });
        }
        let intake = Intake::begin();
        loop {
            let rest = input.get(at..).unwrap_or_default();
            at += frame::eols(rest);
            let rest = input.get(at..).unwrap_or_default();
            if rest.is_empty() || self.is_waiting() {
                if !rest.is_empty() {
                    context.wait();
                }
                return Ok(Progress { consumed: at, need: 0 });
            }
            if intake.is_full() {
                context.yield_turn(at);
                return Ok(Progress { consumed: at, need: 0 });
            }
            if self.state == State::Leaving {
                return Ok(Progress { consumed: input.len(), need: 0 });
            }
            let length = if let Some(tail) = rest.strip_prefix(b"SEND\n")
                && self.state == State::Established
            {
                self.send(now, rest, rest.len() - tail.len(), context)?
            } else {
                self.other(now, rest, context)?
            };
            match length {
                Ok(length) => {
                    at += length;
                    *pending = Pending::Unknown;
                }
                Err(found) => {
                    *pending = found;
                    let need = match found {
                        Pending::Body { len } => len as usize,
                        _ => 0,
                    };
                    return Ok(Progress { consumed: at, need });
                }
            }
        }
    }

    /// Handles one frame that does not begin like a plain SEND.
    fn other(
        &mut self,
        now: Now,
        input: &[u8],
        context: &mut Context<'_>,
    ) -> Result<Result<usize, Pending>, Close> {
        let Some((name, from)) = frame::command(input)? else {
            return Ok(Err(Pending::Unknown));
        };
        let connects = matches!(name, b"CONNECT" | b"STOMP");
        if self.state == State::Fresh && !connects {
            let text = format_args!(
                "`{}` came before CONNECT. Log in first, with CONNECT or STOMP.",
                shown(name)
            );
            return Err(fault(CloseCode::UnexpectedFrame, "frame", text));
        }
        if name == b"SEND" {
            return self.send(now, input, from, context);
        }
        let limits = self.limits();
        let mut declared = None;
        let mut colons = true;
        let version = self.version;
        let head = frame::head(input, from, &limits, |line, _| {
            match crate::header::split(line, version) {
                Some((b"content-length", value)) if declared.is_none() => declared = Some(value),
                Some(_) => {}
                None => colons = false,
            }
        })?;
        let Some(head) = head else {
            return Ok(Err(Pending::Head { from: 0, until: limits.header_bytes_max as u32 }));
        };
        let headers = Headers { block: head.headers, version, escaped: !connects };
        let declared = declared.map(content_length).transpose();
        let declared = declared.map_err(|close| self.blame(headers, close))?;
        let body = match frame::body(input, &head, declared, &limits) {
            Ok(body) => body,
            Err(Ok(pending)) => return Ok(Err(pending)),
            Err(Err(close)) => return Err(self.blame(headers, close)),
        };
        let result = command_name(name).and_then(|command| {
            if !colons {
                return Err(bad_header(command, NO_COLON));
            }
            // A rule of 1.1; which version is spoken, CONNECT decides.
            let request = Request { command, headers };
            let oldest = || match connects {
                true => request.version().is_ok_and(|version| version == Version::V10),
                false => version == Version::V10,
            };
            if !body.bytes.is_empty() && !oldest() {
                let text = "the frame has a body. Only SEND may have one.";
                return Err(fault(CloseCode::BadFrame, command, text));
            }
            self.dispatch(&request, context)
        });
        result.map_err(|close| self.blame(headers, close))?;
        Ok(Ok(body.end))
    }

    fn dispatch(&mut self, request: &Request<'_>, context: &mut Context<'_>) -> Result<(), Close> {
        if self.state == State::Fresh {
            return self.connect(request, context);
        }
        match request.command {
            "SUBSCRIBE" => self.subscribe(request, context),
            "UNSUBSCRIBE" => self.unsubscribe(request, context),
            "ACK" | "NACK" => self.acknowledge(request, context),
            "BEGIN" => self.begin(request, context),
            "COMMIT" => self.commit(request, context),
            "ABORT" => self.abort(request, context),
            "DISCONNECT" => self.disconnect(request, context),
            command => Err(fault(
                CloseCode::UnexpectedFrame,
                command,
                "the client is connected already. Send CONNECT once.",
            )),
        }
    }

    fn disconnect(
        &mut self,
        request: &Request<'_>,
        context: &mut Context<'_>,
    ) -> Result<(), Close> {
        self.state = State::Leaving;
        self.flush(context.commands);
        let homes = self.cold.as_mut().map_or(Vec::new(), |cold| cold.settling.take_unconfirmed());
        if let Some(first) = self.owe(request.command, request.headers, homes.len() as u32)? {
            for (home, index) in homes.into_iter().zip(0..) {
                // Nothing, behind all that was settled there: confirmed when that is stored.
                let (key, ranges) = (SubscriptionKey(0), Vec::new());
                let (outcome, confirm) = (Outcome::Accept, Some(first.wrapping_add(index)));
                let settle = Settle { key, home, ranges, outcome, confirm };
                context.commands.push(Command::Settle(settle));
            }
        }
        context.commands.take_leave();
        self.write_receipts(context);
        let waits = request.headers.find_raw("receipt").is_some()
            && self.cold.as_ref().is_some_and(|cold| !cold.receipts.is_empty());
        if !waits {
            context.finish(CloseCode::Done);
        }
        Ok(())
    }
}

impl Session for StompSession {
    fn receive(
        &mut self,
        now: Now,
        input: &[u8],
        context: &mut Context<'_>,
    ) -> Result<Progress, Close> {
        let mut partial = self.partial.take();
        let (mut pending, left) =
            partial.as_ref().map_or((Pending::Unknown, 0), |known| (known.pending, known.left));
        if input.len() > left as usize {
            self.heart_beat.received(now.time);
        }
        let result = self.read(now, input, &mut pending, context);
        self.flush(context.commands);
        if let Ok(progress) = result {
            let left = (input.len() - progress.consumed) as u32;
            if left > 0 || pending != Pending::Unknown {
                *partial.get_or_insert_default().as_mut() = Partial { pending, left };
                self.partial = partial;
            }
        }
        result
    }

    fn reply(&mut self, now: Now, reply: Reply, context: &mut Context<'_>) -> Result<(), Close> {
        match reply {
            Reply::LoggedIn { name, .. } => self.logged_in(now, &name, context),
            Reply::Confirmed(_) | Reply::Operated { .. } => {
                let before = context.output.queue.len();
                if let Reply::Operated { token, result } = &reply {
                    self.operated(*token, result, context);
                } else if let Reply::Confirmed(confirm) = reply {
                    self.confirmed(confirm, context);
                }
                if context.output.queue.len() > before {
                    self.heart_beat.sent(now.time);
                }
            }
            Reply::Browsed { key } => {
                self.browsed(key, context);
                self.heart_beat.sent(now.time);
            }
            // It neither calls, nor serves, nor comes back for what it missed.
            Reply::Recovered { .. }
            | Reply::Reached { .. }
            | Reply::ReachedUpstream { .. }
            | Reply::Upstream(_)
            | Reply::ExchangeEnded { .. }
            | Reply::ExchangeCredit { .. }
            | Reply::Joined { .. }
            | Reply::Left { .. } => {}
            Reply::Refused { token, close } => {
                if let Some(cold) = &mut self.cold
                    && let Some(token) = token
                {
                    cold.blamed = cold.receipts.text_of(token).map(server_frame::receipt_line);
                }
                return Err(close);
            }
            Reply::SubscriptionEnded { key, close } => return self.subscription_ended(key, close),
        }
        Ok(())
    }

    fn deliver(&mut self, now: Now, delivery: &Delivery<'_>, output: &mut Output<'_>) {
        let before = output.queue.len();
        self.write_messages(delivery, output);
        if output.queue.len() > before {
            self.heart_beat.sent(now.time);
        }
    }

    fn takes_body(&self, _bytes: usize) -> bool {
        true
    }

    fn deadline(&self) -> Time {
        self.heart_beat.deadline(self.options.heart_beat_grace)
    }

    fn expire(&mut self, now: Now, context: &mut Context<'_>) -> Result<(), Close> {
        match self.state {
            State::Fresh if self.heart_beat.login_is_late(now.time) => {
                Err(CloseCode::LoginTimeout.into())
            }
            State::Fresh | State::LoggingIn => Ok(()),
            State::Established | State::Leaving => {
                if context.reading_paused {
                    // What the client sent cannot be known, so its silence is no fault.
                    self.heart_beat.received(now.time);
                }
                self.heart_beat.check_silence(now.time, self.options.heart_beat_grace)?;
                if self.heart_beat.beats(now.time) {
                    server_frame::heart_beat(&mut context.output);
                }
                Ok(())
            }
        }
    }

    fn goodbye(&mut self, close: &Close, output: &mut Output<'_>) {
        if close.code.is_silent() {
            return;
        }
        let blamed = self.cold.as_ref().and_then(|cold| cold.blamed.as_deref());
        server_frame::error(close, self.version, blamed, output);
    }

    fn unfinished_bytes(&self) -> usize {
        self.cold.as_ref().map_or(0, |cold| cold.transactions.bytes())
    }

    fn is_established(&self) -> bool {
        matches!(self.state, State::Established | State::Leaving)
    }
}
