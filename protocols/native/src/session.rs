//! The session: one client's conversation, from HELLO to the last word.
//!
//! ```text
//!           HELLO              LoggedIn                BYE
//!   Fresh ────────▶ LoggingIn ──────────▶ Established ─────▶ Leaving ─▶ end
//!     │ deadline       │ Refused              │ a broken rule
//!     └─▶ end          └─▶ ERROR, end         └─▶ ERROR of the connection, end
//! ```
//! Relies on `codec` for the bytes and on the modules below for what messages mean. Invariants: nothing
//! but a login is asked of the broker before the login is answered; what is rarely used costs eight
//! bytes; whatever is said ends the open batch first.

mod acting;
mod batch;
mod cold;
mod connect;
mod consumer;
mod deliver;
mod deltas;
mod exchange;
mod operate;
mod publish;
mod subscribe;
mod subscriptions;
mod topics;

use std::sync::Arc;

use tiderace_base::limits::EARLY_BYTES_MAX;
use tiderace_base::{Close, CloseCode, Now, Span, Time};
use tiderace_topics::Path;
use tiderace_wire::{
    Confirm, Context, Delivery, Incoming, Intake, Kind, Opening, Output, Progress, Reply, Session,
    Side, SubscriptionKey, Token, parse_path,
};

use crate::codec::{AddressList, ClientMessage, Messages, ServerMessage, kind};
use crate::limits::REQUESTS_MAX;
use crate::options::NativeOptions;
use batch::Batch;
use cold::ColdState;
use subscriptions::Subscriptions;

/// Where the conversation stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Waiting for HELLO.
    Fresh,
    /// The broker is looking at the credentials.
    LoggingIn,
    /// In order.
    Established,
    /// BYE has come.
    Leaving,
}

/// One client's conversation.
pub(crate) struct NativeSession {
    options: Arc<NativeOptions>,
    subscriptions: Subscriptions,
    cold: Option<Box<ColdState>>,
    /// Whose topics `~/` stands for, once that is known; nobody's for anonymous clients.
    name: Option<Arc<str>>,
    /// When the login has to be done.
    login_until: Time,
    batch: Batch,
    /// The request id that has to come next.
    next_request: u32,
    state: State,
    shards: u8,
    /// The one that it lives on.
    shard: u8,
    agreed: Agreed,
}

/// The codec of deltas that was agreed on, 0 for none, and whether some subscription was recoverable, so that positions are
/// told: in one byte, for there may be millions of idle sessions.
#[derive(Clone, Copy, Default)]
struct Agreed(u8);

impl Agreed {
    const RECOVERABLE: u8 = 0x80;

    #[inline]
    fn codec(self) -> u8 {
        self.0 & !Agreed::RECOVERABLE
    }

    #[inline]
    fn is_recoverable(self) -> bool {
        self.0 & Agreed::RECOVERABLE != 0
    }

    fn set_codec(&mut self, number: u8) {
        debug_assert!(number < Agreed::RECOVERABLE, "there are a few codecs");
        self.0 = self.0 & Agreed::RECOVERABLE | number & !Agreed::RECOVERABLE;
    }

    fn note_recoverable(&mut self, is_recoverable: bool) {
        self.0 |= u8::from(is_recoverable) * Agreed::RECOVERABLE;
    }
}

const _: () = assert!(size_of::<NativeSession>() <= 96, "there may be millions of idle ones");

impl NativeSession {
    /// Begins a conversation.
    pub(crate) fn new(options: Arc<NativeOptions>, opening: &Opening<'_>) -> NativeSession {
        NativeSession {
            login_until: opening.now.time + options.login_timeout,
            options,
            subscriptions: Subscriptions::default(),
            cold: Some(Box::new(ColdState::new(opening.epoch))),
            name: None,
            batch: Batch::default(),
            next_request: 1,
            state: State::Fresh,
            shards: opening.shards as u8,
            shard: opening.shard.0 as u8,
            agreed: Agreed::default(),
        }
    }

    /// Topics of patterns that have an id at the same time.
    fn topics_max(&self) -> usize {
        let is_edge = self.cold.as_ref().is_some_and(|cold| cold.is_edge);
        if is_edge { self.options.edge_topics_max } else { self.options.topics_max }
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

    /// Reads the messages of one transport message.
    fn read(&mut self, now: Now, bytes: &[u8], context: &mut Context<'_>) -> Result<(), Close> {
        let mut messages = Messages::new(bytes);
        let mut requests = self.cold.as_mut().map_or(0, |cold| std::mem::take(&mut cold.requests));
        let mut intake = Intake::begin();
        loop {
            match self.state {
                State::LoggingIn => return self.keep_early(messages.rest()),
                State::Leaving => return Ok(()),
                State::Fresh | State::Established => {}
            }
            let left = messages.rest().len();
            if left > 0 && intake.is_full() {
                self.cold().requests = requests;
                context.yield_turn(bytes.len() - left);
                return Ok(());
            }
            let Some(message) = messages.next() else { return Ok(()) };
            let (kind, payload) = message.map_err(Close::from)?;
            let message = ClientMessage::read(kind, payload).map_err(Close::from)?;
            let (publishes, count) = match &message {
                ClientMessage::Publish(_) => (true, 1),
                ClientMessage::As(message) => (false, message.count().max(1)),
                _ => (false, 1),
            };
            intake.note_messages(count);
            let said = context.output.queue.len();
            self.handle(now, message, context)?;
            // What is asked for a few bytes takes many to remember or to answer, and nothing is
            // written meanwhile. Publications take their own bytes, if they are not refused.
            requests += match context.output.queue.len() == said {
                true => usize::from(!publishes),
                false => count,
            };
            if requests > REQUESTS_MAX {
                let reason = format!(
                    "one transport message holds more than {REQUESTS_MAX} messages besides PUBLISH"
                );
                return Err(Close::new(CloseCode::TooManyReceipts, reason));
            }
        }
    }

    fn keep_early(&mut self, bytes: &[u8]) -> Result<(), Close> {
        if bytes.is_empty() {
            return Ok(());
        }
        let early = &mut self.cold().early;
        if early.len() + bytes.len() > EARLY_BYTES_MAX {
            let reason = format!(
                "more than {EARLY_BYTES_MAX} bytes came before the login was done; wait for WELCOME"
            );
            return Err(Close::new(CloseCode::FrameTooLarge, reason));
        }
        early.extend_from_slice(bytes);
        Ok(())
    }

    fn handle(
        &mut self,
        now: Now,
        message: ClientMessage<'_>,
        context: &mut Context<'_>,
    ) -> Result<(), Close> {
        if (self.state == State::Fresh) != matches!(message, ClientMessage::Hello(_)) {
            let reason = "HELLO has to be the first message, and to come once";
            return Err(Close::new(CloseCode::UnexpectedFrame, reason));
        }
        match message {
            ClientMessage::Hello(hello) => self.hello(&hello, context),
            ClientMessage::Login { request, auth } => self.login(request, auth, context),
            ClientMessage::Subscribe(subscribe) => self.subscribe(&subscribe, context),
            ClientMessage::Unsubscribe { request, subscription } => {
                self.unsubscribe(request, subscription, context)
            }
            ClientMessage::Declare { declared, kind, path } => self.declare(declared, kind, path),
            ClientMessage::Publish(publish) => self.publish(now, &publish, context),
            ClientMessage::Settle(settle) => self.settle(settle, context),
            ClientMessage::Call(call) => self.call(&call, context),
            ClientMessage::Send(sent) => self.send_exchange(&sent, context),
            ClientMessage::Cancel { responder, number, code, sentence } => {
                self.cancel(responder, number, code, sentence, context)
            }
            ClientMessage::Credit { bytes } => {
                let credit = self.cold().credit.get_or_insert(0);
                *credit = credit.saturating_add(i64::try_from(bytes).unwrap_or(i64::MAX));
                Ok(())
            }
            ClientMessage::Ping(bytes) => {
                self.tell_nodes(context);
                say(&ServerMessage::Pong(bytes), &mut context.output);
                Ok(())
            }
            ClientMessage::Bye => {
                self.state = State::Leaving;
                context.commands.take_leave();
                context.finish(CloseCode::Done);
                Ok(())
            }
            ClientMessage::Operate(message) => self.operate(now, &message, context),
            ClientMessage::Principal(told) => self.tell_principal(&told),
            ClientMessage::As(message) => self.act_as(now, message, context),
            ClientMessage::Want { number, messages } => {
                self.want(number, messages, context);
                Ok(())
            }
            ClientMessage::Consumer(message) => self.consumer(message, context),
            ClientMessage::Other(kind::OPTIONAL..) => Ok(()),
            ClientMessage::Other(kind) => {
                let reason = format!("no client's message has the type {kind:#04x}");
                Err(Close::new(CloseCode::UnexpectedFrame, reason))
            }
        }
    }

    /// The token of a request that wants an answer.
    fn token(&mut self, request: u32) -> Result<Option<Token>, Close> {
        if request == 0 {
            return Ok(None);
        }
        if request != self.next_request {
            let reason = format!(
                "request id {request} came where {} was due; ids begin at 1 and rise by one",
                self.next_request
            );
            return Err(Close::new(CloseCode::BadHeader, reason));
        }
        self.next_request = request.wrapping_add(1).max(1);
        Ok(Some(request))
    }

    /// The token of a request that always wants one.
    fn answered(&mut self, request: u32) -> Result<Token, Close> {
        self.token(request)?.ok_or_else(|| {
            Close::new(CloseCode::BadHeader, "this request needs an id, since it is answered")
        })
    }

    fn path(&self, text: &str) -> Result<Path, Close> {
        parse_path(text, self.name.as_deref())
    }

    /// Whether that confirms a subscription whose OK is to come behind its values, which may not all
    /// have been given yet.
    fn waits_for_values(&mut self, confirm: Confirm) -> bool {
        let Some(cold) = self.cold.as_mut().filter(|_| confirm.from == confirm.to) else {
            return false;
        };
        let mark = cold.unanswered.key_of(confirm.from).and_then(|key| self.subscriptions.get(key));
        let waits = mark.is_some_and(|mark| mark.has(subscriptions::Mark::OK_LAST));
        if waits {
            cold.settled.push_back(confirm.from);
        }
        waits
    }

    fn refused(&mut self, token: Option<Token>, close: &Close, context: &mut Context<'_>) {
        if let Some(cold) = &mut self.cold {
            cold.large_answers.retain(|waiting| Some(*waiting) != token);
            if let Some(token) = token
                && let Some(key) = cold.unanswered.answer(token)
            {
                self.subscriptions.end(key);
            }
            // Whatever else is refused without an id was not asked for an answer.
            if token.is_none()
                && close.code.refuses_login()
                && let Some(login) = cold.login.take()
            {
                return error(login, close, &mut context.output);
            }
        }
        error(token.unwrap_or_default(), close, &mut context.output);
    }
}

impl Session for NativeSession {
    fn receive(&mut self, _: Now, _: &[u8], _: &mut Context<'_>) -> Result<Progress, Close> {
        let reason = "the native protocol needs a transport that marks messages";
        Err(Close::new(CloseCode::UnexpectedFrame, reason))
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
        self.batch.close(&mut context.output);
        if message.text {
            let reason = "messages of the native protocol are binary";
            return Err(Close::new(CloseCode::BadFrame, reason));
        }
        self.read(now, message.bytes, context)
    }

    fn reply(&mut self, now: Now, reply: Reply, context: &mut Context<'_>) -> Result<(), Close> {
        self.batch.close(&mut context.output);
        match reply {
            Reply::LoggedIn { name, anonymous, .. } => {
                return self.logged_in(now, name, anonymous, context);
            }
            Reply::Confirmed(confirm) => {
                if self.waits_for_values(confirm) {
                    return Ok(());
                }
                if let Some(cold) = &mut self.cold {
                    cold.confirm(confirm);
                }
                let answer = ServerMessage::Ok { first: confirm.from, last: confirm.to };
                say(&answer, &mut context.output);
            }
            Reply::Recovered { token, complete, continues } => {
                let answer = ServerMessage::Recovered { request: token, complete, continues };
                say(&answer, &mut context.output);
            }
            Reply::Reached { home, sequence } => {
                let position = ServerMessage::Position(vec![(u64::from(home.0), sequence)]);
                say(&position, &mut context.output);
            }
            Reply::ReachedUpstream { numbering, sequence } => {
                let position = ServerMessage::Position(vec![(numbering.whole(), sequence)]);
                say(&position, &mut context.output);
            }
            // Only sessions to upstreams are asked for anything.
            Reply::Upstream(_) => {}
            Reply::Operated { token, result } => self.operated(token, &result, context),
            Reply::Joined { key, path, spec, is_empty } => {
                let spec = spec.to_json();
                let spec = std::str::from_utf8(&spec).unwrap_or_default();
                let (subscription, path) = (key.0, path.as_str());
                let joined = ServerMessage::Joined { subscription, path, spec, is_empty };
                say(&joined, &mut context.output);
            }
            Reply::Left { key, path, reason } => {
                let (subscription, path, reason) = (key.0, path.as_str(), reason.name());
                say(&ServerMessage::Left { subscription, path, reason }, &mut context.output);
            }
            Reply::ExchangeEnded { exchange, close } => {
                let ended = ServerMessage::Ended {
                    responder: exchange.side == Side::Responder,
                    number: exchange.number,
                    code: close.code as u16,
                    slug: close.code.slug(),
                    sentence: &close.reason,
                };
                say(&ended, &mut context.output);
            }
            Reply::ExchangeCredit { exchange, messages } => {
                self.tell_wanted(exchange.number, messages, &mut context.output);
                self.batch.close(&mut context.output);
            }
            Reply::Browsed { key } => {
                let browsed = ServerMessage::Browsed { subscription: key.0 };
                say(&browsed, &mut context.output);
            }
            Reply::SubscriptionEnded { key, close } => {
                close.answered(|close| self.subscription_ended(key.0, close, context))?;
            }
            Reply::Refused { close, .. } if self.state == State::LoggingIn => return Err(close),
            Reply::Refused { token, close } => {
                close.answered(|close| self.refused(token, close, context))?;
            }
        }
        self.tidy();
        Ok(())
    }

    fn deliver(&mut self, _now: Now, delivery: &Delivery<'_>, output: &mut Output<'_>) {
        if let Some(exchange) = &delivery.exchange {
            self.deliver_exchange(exchange, delivery, output);
        } else if delivery.run.run().destination().kind == Kind::Topic {
            self.deliver_updates(delivery, output);
        } else {
            self.deliver_queued(delivery, output);
        }
        if let Some(cold) = &mut self.cold
            && let Some(credit) = &mut cold.credit
        {
            *credit -= i64::from(self.batch.take_spent());
        }
    }

    fn wants_deliveries(&self) -> bool {
        self.cold.as_ref().and_then(|cold| cold.credit).is_none_or(|credit| credit > 0)
    }

    fn look_ahead(&self, key: SubscriptionKey) {
        self.subscriptions.expect(key.0);
    }

    fn wants_write(&self) -> bool {
        self.cold.as_ref().is_some_and(|cold| !cold.settled.is_empty())
    }

    /// All values are given, so the OKs that stand behind them can follow.
    fn poll_write(&mut self, _bytes_max: usize, output: &mut Output<'_>) -> bool {
        // Without credit some may wait; it is asked again when credit has come.
        if !self.wants_deliveries() {
            return false;
        }
        while let Some(token) = self.cold.as_mut().and_then(|cold| cold.settled.pop_front()) {
            self.cold().confirm(Confirm::one(token));
            say(&ServerMessage::Ok { first: token, last: token }, output);
        }
        self.tidy();
        false
    }

    fn flush(&mut self, _now: Now, output: &mut Output<'_>) {
        if let Some(cold) = &mut self.cold {
            cold.write_position(&mut self.batch, output);
        }
        self.batch.close(output);
        self.tidy();
    }

    fn deadline(&self) -> Time {
        match self.state {
            State::Fresh | State::LoggingIn => self.login_until,
            State::Established | State::Leaving => Time::NEVER,
        }
    }

    fn expire(&mut self, now: Now, _: &mut Context<'_>) -> Result<(), Close> {
        if self.deadline() > now.time {
            return Ok(());
        }
        let span = self.options.login_timeout;
        let reason = format!("no complete HELLO came, or no login was done, within {span:?}");
        Err(Close::new(CloseCode::LoginTimeout, reason))
    }

    fn goodbye(&mut self, close: &Close, output: &mut Output<'_>) {
        self.batch.close(output);
        if close.code.is_silent() {
            return;
        }
        let addresses = close.addresses.as_ref().map(ToString::to_string).unwrap_or_default();
        // A drain has spread its goodbyes already.
        let is_spread = close.code.sends_elsewhere();
        let jitter = if is_spread { Span::ZERO } else { self.options.reconnect_jitter };
        let last = ServerMessage::Close {
            code: close.code as u16,
            slug: close.code.slug(),
            sentence: &close.reason,
            reconnect: close.code.reconnects(),
            jitter_ms: jitter.as_millis() as u64,
            addresses: AddressList::Given(&addresses),
        };
        say(&last, output);
    }

    fn is_established(&self) -> bool {
        matches!(self.state, State::Established | State::Leaving)
    }
}

/// Writes one message in a frame of its own.
fn say(message: &ServerMessage<'_>, output: &mut Output<'_>) {
    let mut bytes = Vec::new();
    message.write(&mut bytes);
    output.frame(&bytes, false);
}

/// Answers a request that is refused, if no more than that ends by it.
fn refuse(request: u32, close: Close, context: &mut Context<'_>) -> Result<(), Close> {
    close.answered(|close| error(request, close, &mut context.output))
}

fn error(request: u32, close: &Close, output: &mut Output<'_>) {
    let message = ServerMessage::Error {
        request,
        code: close.code as u16,
        slug: close.code.slug(),
        sentence: &close.reason,
    };
    say(&message, output);
}
