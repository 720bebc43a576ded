//! The client's side of a session: a node's conversation with its upstream.
//!
//! ```text
//!             HELLO ─▶              WELCOME                CLOSE
//!   begin ──────────────▶ Greeting ─────────▶ Up ─────────────────▶ end
//!                            │ deadline        │ silence, broken rules
//!                            └──────── end ◀───┘
//! ```
//! Relies on `codec` for the bytes; what is asked for comes as replies of the node's own broker, and what the upstream
//! says goes there as commands. Invariants: no bytes panic; nothing grows without a limit; of one subscription things are
//! told in the order in which they came.

mod connect;
mod consume;
mod exchange;
mod exchanges;
mod fault;
mod gather;
mod liveness;
mod options;
mod relay;
mod relays;
mod subscribe;
mod subscriptions;
mod topics;
mod updates;

use std::sync::Arc;

use tiderace_base::{Close, CloseCode, Now, Time};
use tiderace_wire::{
    Command, Context, Delivery, FromUpstream, Incoming, Intake, Opening, Output, Progress, Reply,
    Session, TopicSpec,
};

pub use options::UpstreamOptions;

use crate::codec::{ClientMessage, Messages, ServerMessage};
use crate::nodes_above::{Above, UpstreamAbove};
use exchanges::Exchanges;
use fault::{broken, malformed, told};
use gather::Gather;
use liveness::Liveness;
use relays::Relays;
use subscriptions::Subscriptions;
use topics::Topics;

/// Where the conversation stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Waiting for WELCOME.
    Greeting,
    /// In order.
    Up,
    /// CLOSE has come.
    Closed,
}

/// A node's conversation with its upstream.
pub(crate) struct UpstreamSession {
    options: Arc<UpstreamOptions>,
    state: State,
    /// The upstream's name.
    upstream_node: String,
    /// What is above the upstream.
    above_upstream: Above,
    above: UpstreamAbove,
    /// The upstream's life.
    epoch: u64,
    /// Whether it may send deltas.
    has_codec: bool,
    /// Subscription ids are below this.
    subscriptions_max: u64,
    subscriptions: Subscriptions,
    relays: Relays,
    exchanges: Exchanges,
    topics: Topics,
    gather: Gather,
    liveness: Liveness,
    /// The specification that was told last: most topics of a pattern have the same.
    spec: Option<(Box<str>, Arc<TopicSpec>)>,
}

impl UpstreamSession {
    /// Begins a conversation.
    pub(crate) fn new(options: Arc<UpstreamOptions>, opening: &Opening<'_>) -> UpstreamSession {
        UpstreamSession {
            state: State::Greeting,
            upstream_node: String::new(),
            above_upstream: Above::default(),
            above: UpstreamAbove::new(Arc::clone(&options.above), options.upstream),
            epoch: 0,
            has_codec: false,
            subscriptions_max: 0,
            subscriptions: Subscriptions::default(),
            relays: Relays::default(),
            exchanges: Exchanges::default(),
            topics: Topics::new(options.bases_bytes_max),
            gather: Gather::default(),
            liveness: Liveness::greeting(opening.now.time + options.welcome_timeout),
            spec: None,
            options,
        }
    }

    /// Reads the messages of one transport message.
    fn read(&mut self, now: Now, bytes: &[u8], context: &mut Context<'_>) -> Result<(), Close> {
        let mut messages = Messages::new(bytes);
        let mut intake = Intake::begin();
        loop {
            let left = messages.rest().len();
            if left > 0 && intake.is_full() {
                context.yield_turn(bytes.len() - left);
                return Ok(());
            }
            intake.note_message();
            let Some(message) = messages.next() else { return Ok(()) };
            let (kind, payload) = message.map_err(malformed)?;
            let message = ServerMessage::read(kind, payload).map_err(malformed)?;
            self.handle(now, message, context)?;
        }
    }

    fn handle(
        &mut self,
        now: Now,
        message: ServerMessage<'_>,
        context: &mut Context<'_>,
    ) -> Result<(), Close> {
        let is_first = matches!(message, ServerMessage::Welcome(_));
        let comes_always = matches!(message, ServerMessage::Close { .. } | ServerMessage::Nodes(_));
        if !comes_always && is_first != (self.state == State::Greeting) {
            return Err(broken("WELCOME has to be the first message, and to come once"));
        }
        match message {
            ServerMessage::Welcome(welcome) => self.welcome(now, &welcome, context),
            ServerMessage::Ok { first, last } => self.confirmed(first, last, context),
            ServerMessage::Error { request, code, slug, sentence } => {
                self.refused(request, (code, slug, sentence), context)
            }
            ServerMessage::Topic { topic, subscription, path } => {
                self.topic(topic, subscription, path)
            }
            ServerMessage::Updates(entries) => self.updates(now, entries, context),
            ServerMessage::Follows { flags, id, version } => self.follows(flags, id, version),
            ServerMessage::Position(numbers) => self.position(&numbers, context),
            ServerMessage::Recovered { request, complete, continues } => {
                self.recovered(request, complete, continues, context)
            }
            ServerMessage::Joined { subscription, path, spec, is_empty } => {
                self.joined(subscription, path, (spec, is_empty), context)
            }
            ServerMessage::Left { subscription, path, reason } => {
                self.left(subscription, path, reason, context)
            }
            ServerMessage::Result(result) => self.resulted(result.request, result.result, context),
            ServerMessage::Close { code, slug, sentence, .. } => {
                self.state = State::Closed;
                Err(told(code, slug, sentence, CloseCode::PeerGone))
            }
            ServerMessage::Pong(_) => {
                if let Some(round_trip) = self.liveness.answered(now) {
                    self.tell(FromUpstream::Pong { round_trip }, context);
                }
                Ok(())
            }
            ServerMessage::Nodes(nodes) => self.nodes(&nodes),
            ServerMessage::Other(_) => Ok(()),
            ServerMessage::Queued(queued) => self.queued(now, &queued, context),
            ServerMessage::Browsed { subscription } => self.browsed(subscription, context),
            ServerMessage::Unsubscribed { subscription, code, slug, sentence } => {
                self.unsubscribed(subscription, (code, slug, sentence), context)
            }
            ServerMessage::Exchange(message) => self.exchange(&message, context),
            ServerMessage::Ended { responder, number, code, slug, sentence } => {
                self.exchange_ended(responder, number, (code, slug, sentence), context);
                Ok(())
            }
            ServerMessage::Wanted { number, messages } => {
                self.wanted(number, messages, context);
                Ok(())
            }
            ServerMessage::LoggedIn { .. } => {
                Err(broken("a message comes that belongs to nothing that was asked"))
            }
        }
    }

    /// Tells the broker, behind the messages that came before.
    fn tell(&mut self, told: FromUpstream, context: &mut Context<'_>) {
        self.gather.end(context.commands);
        context.commands.push(Command::Upstream(Box::new(told)));
    }
}

impl Session for UpstreamSession {
    fn begin(&mut self, _now: Now, context: &mut Context<'_>) -> Result<(), Close> {
        self.hello(context);
        Ok(())
    }

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
        if message.text {
            return Err(broken("messages of the native protocol are binary"));
        }
        self.liveness.received();
        self.end_refused(context);
        let read = self.read(now, message.bytes, context);
        self.gather.end(context.commands);
        read
    }

    fn reply(&mut self, now: Now, reply: Reply, context: &mut Context<'_>) -> Result<(), Close> {
        match reply {
            Reply::Upstream(asked) => {
                self.ask(now, *asked, context);
                Ok(())
            }
            Reply::ExchangeEnded { exchange, close } => {
                self.cancel_exchange(exchange, &close, &mut context.output);
                Ok(())
            }
            Reply::ExchangeCredit { exchange, messages } => {
                let want = ClientMessage::Want { number: exchange.number, messages };
                say(&want, &mut context.output);
                Ok(())
            }
            // The session's own broker would not have it.
            Reply::Refused { close, .. } => Err(close),
            // It asks for nothing else.
            _ => Ok(()),
        }
    }

    /// What is said in exchanges; nothing else is delivered, since the session subscribes to nothing of its own broker.
    fn deliver(&mut self, _now: Now, delivery: &Delivery<'_>, output: &mut Output<'_>) {
        if let Some(exchange) = &delivery.exchange {
            self.deliver_exchange(exchange, delivery, output);
        }
    }

    fn deadline(&self) -> Time {
        match self.exchanges.some_are_refused() {
            // They are ended as soon as the broker can be told.
            true => Time::ZERO,
            false => self.liveness.due(),
        }
    }

    fn expire(&mut self, now: Now, context: &mut Context<'_>) -> Result<(), Close> {
        self.end_refused(context);
        if self.liveness.expire(now, context.reading_paused)? {
            say(&ClientMessage::Ping(b""), &mut context.output);
        }
        Ok(())
    }

    fn goodbye(&mut self, close: &Close, output: &mut Output<'_>) {
        if self.state != State::Closed && !close.code.is_silent() {
            say(&ClientMessage::Bye, output);
        }
    }

    fn is_established(&self) -> bool {
        self.state != State::Greeting
    }
}

/// Writes one message in a frame of its own.
fn say(message: &ClientMessage<'_>, output: &mut Output<'_>) {
    let mut bytes = Vec::new();
    message.write(&mut bytes);
    output.frame(&bytes, false);
}
