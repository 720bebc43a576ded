//! Exchanges through this connection: calls of this node's clients for responders at the upstream, and its calls for
//! responders that are clients of this node.
//!
//! To the node's own broker the session is the responder of the former and the caller of the latter; to the upstream it is
//! the other way round. Relies on both brokers for what an exchange is, and on their numbers: an exchange has the same on both
//! sides. Invariants: what the upstream would end the connection for ends its own exchange alone; an exchange that ends on
//! one side ends on the other.

use tiderace_base::limits::SENTENCE_BYTES_MAX;
use tiderace_base::{Close, CloseCode, Span};
use tiderace_topics::Path;
use tiderace_wire::{
    Call, Command, Context, Delivery, Exchange, ExchangeKey, ExchangeSend, FromUpstream, Kind,
    Message, Output, Prefetch, Run, Side, Target,
};

use super::fault::{broken, malformed, told};
use super::subscriptions::Request;
use super::{State, UpstreamSession, say};
use crate::codec::{
    CallMessage, ClientMessage, Content, Destination, ExchangeMessage, SendMessage,
    SubscribeMessage, check_properties, flag, split_content, subscribe,
};
use crate::limits::SERVED_EXCHANGES_MAX;

/// How long a responder may be silent, in milliseconds: a day, so that the server where the caller is decides.
const TIMEOUT_MS: u64 = 86_400_000;

impl UpstreamSession {
    /// Says to the upstream what the other side of an exchange has said here.
    pub(super) fn deliver_exchange(
        &mut self,
        exchange: &Exchange,
        delivery: &Delivery<'_>,
        output: &mut Output<'_>,
    ) {
        let run = delivery.run.run();
        let Some(message) = run.message(delivery.from) else { return };
        let is_call = exchange.first && exchange.key.side == Side::Responder;
        if let Err(close) = self.check_exchange(run, &message, is_call) {
            if !is_call {
                self.cancel_exchange(exchange.key, &close, output);
            }
            return self.exchanges.refuse(exchange.key, close);
        }
        let bit = |flag, is| if is { flag } else { 0 };
        let (content, properties) = split_content(message.properties);
        let (number, body) = (exchange.key.number, message.body);
        let flags = content.bits() | bit(flag::LAST, exchange.last);
        if let (true, Some(principal)) = (is_call, run.caller()) {
            let call = CallMessage {
                number,
                flags,
                timeout_ms: TIMEOUT_MS,
                destination: Destination::Path(Kind::Service, run.destination().path.as_str()),
                credit: exchange.credit,
                properties,
                body,
            };
            let mut bytes = Vec::new();
            ClientMessage::Call(call).write(&mut bytes);
            return self.say_as(principal, &bytes, output);
        }
        let responder = bit(flag::RESPONDER, exchange.key.side == Side::Caller);
        let flags = match exchange.bare {
            true => flag::BARE | flag::LAST | responder,
            false => flags | responder,
        };
        say(&ClientMessage::Send(SendMessage { number, flags, properties, body }), output);
    }

    /// Ends an exchange at the upstream, by the end that the session has at its own broker.
    pub(super) fn cancel_exchange(
        &self,
        exchange: ExchangeKey,
        close: &Close,
        output: &mut Output<'_>,
    ) {
        let cancel = ClientMessage::Cancel {
            responder: exchange.side == Side::Caller,
            number: exchange.number,
            code: close.code as u16,
            sentence: short(&close.reason),
        };
        say(&cancel, output);
    }

    /// Whether the upstream takes what is said in an exchange, of a caller that may be told.
    fn check_exchange(&self, run: &Run, message: &Message<'_>, is_call: bool) -> Result<(), Close> {
        if is_call {
            let caller = run.caller().ok_or_else(|| Close::from(CloseCode::NotAuthorised))?;
            self.check_relay(caller)?;
        }
        self.check_message(run.destination().path.as_str(), message)
    }

    /// Ends at this node what could not be said to the upstream.
    pub(super) fn end_refused(&mut self, context: &mut Context<'_>) {
        for (exchange, close) in self.exchanges.take_refused() {
            context.commands.push(Command::Cancel { exchange, close });
        }
    }

    /// EXCHANGE.
    pub(super) fn exchange(
        &mut self,
        message: &ExchangeMessage<'_>,
        context: &mut Context<'_>,
    ) -> Result<(), Close> {
        let has = |flag| message.flags & flag != 0;
        let (last, bare) = (has(flag::LAST), has(flag::BARE));
        let is_served = has(flag::RESPONDER);
        let exchange = own_key(is_served, message.number);
        check_properties(message.properties).map_err(malformed)?;
        if bare && !last {
            return Err(broken("an EXCHANGE that is BARE is the LAST one"));
        }
        let service = match is_served && has(flag::FIRST) {
            true => Some(self.service_of(message)?),
            false => None,
        };
        if message.body.len() > self.options.message_bytes_max {
            let (len, most) = (message.body.len(), self.options.message_bytes_max);
            let reason = format!(
                "a message of the exchange has {len} bytes; a server on its way takes {most}"
            );
            let close = Close::new(CloseCode::BodyTooLarge, reason);
            self.cancel_exchange(exchange, &close, &mut context.output);
            context.commands.push(Command::Cancel { exchange, close });
            return Ok(());
        }
        let properties = match bare {
            true => Vec::new(),
            false => [Content::of(message.flags).line(), message.properties].concat(),
        };
        let body = if bare { Vec::new() } else { message.body.to_vec() };
        self.gather.end(context.commands);
        context.commands.push(match service {
            Some(service) => Command::Call(Box::new(Call {
                number: message.number,
                service,
                properties,
                body,
                last,
                timeout: Span::from_millis(TIMEOUT_MS),
                credit: self.exchanges.take_credit(message.number),
                traced: None,
            })),
            None => Command::SendExchange(Box::new(ExchangeSend {
                exchange,
                properties,
                body,
                last,
                bare,
            })),
        });
        Ok(())
    }

    /// The service that a call of the upstream is for.
    fn service_of(&mut self, message: &ExchangeMessage<'_>) -> Result<Path, Close> {
        let unknown = || broken("a call comes for a service that was not asked for");
        let id = message.id.ok_or_else(unknown)?;
        if message.flags & flag::SERVICE_ANNOUNCED == 0 {
            return match self.exchanges.target(id) {
                Some(Target::Exact(destination)) => Ok(destination.path.clone()),
                Some(Target::Pattern(..)) | None => Err(unknown()),
            };
        }
        let topic = self.topics.get(true, id).map(|(topic, _)| &*topic);
        let (key, path) = topic.map(|topic| (topic.key, topic.path.clone())).ok_or_else(unknown)?;
        match self.exchanges.target(key) {
            Some(Target::Pattern(_, pattern)) if pattern.matches(&path) => Ok(path),
            _ => Err(unknown()),
        }
    }

    /// ENDED.
    pub(super) fn exchange_ended(
        &mut self,
        is_served: bool,
        number: u32,
        (code, slug, sentence): (u16, &str, &str),
        context: &mut Context<'_>,
    ) {
        let mut close = told(code, slug, sentence, CloseCode::CallFailed);
        if code == CloseCode::CallFailed as u16 {
            // The responder's own words, which are for the caller.
            close = Close::new(CloseCode::CallFailed, short(sentence).to_owned());
        }
        let exchange = own_key(is_served, number);
        self.gather.end(context.commands);
        context.commands.push(Command::Cancel { exchange, close });
    }

    /// WANTED.
    pub(super) fn wanted(&mut self, number: u32, messages: u64, context: &mut Context<'_>) {
        if messages == 0 {
            return;
        }
        self.exchanges.note_credit(number, messages);
        let exchange = ExchangeKey::caller(number);
        context.commands.push(Command::ExchangeCredit { exchange, messages });
    }

    /// Clients of this node are to be called from the upstream.
    pub(super) fn serve(&mut self, key: u32, target: Target, context: &mut Context<'_>) {
        let Some(id) = self.id_of_served(key) else {
            let most = self.subscriptions_max;
            let reason = format!("the upstream lets a session have {most} subscriptions");
            let result = Err(Close::new(CloseCode::TooManySubscriptions, reason));
            return self.tell(FromUpstream::Serving { key, result }, context);
        };
        let request = self.subscriptions.request(Request::Serve(id));
        let is_pattern = matches!(target, Target::Pattern(..));
        let message = SubscribeMessage {
            request,
            subscription: id,
            flags: subscribe::CREDITS | if is_pattern { subscribe::PATTERN } else { 0 },
            kind: Kind::Service,
            path: target.name(),
            selector: None,
            prefetch: Some(Prefetch { messages: SERVED_EXCHANGES_MAX, bytes: 0 }),
            position: None,
            replay: None,
            interval_ms: None,
            start: None,
            credit: None,
        };
        say(&ClientMessage::Subscribe(message), &mut context.output);
        self.exchanges.begin(id, target);
    }

    /// The id of a subscription that serves: from above, since those that bring topics have the lowest.
    fn id_of_served(&self, key: u32) -> Option<u32> {
        let id = self.subscriptions_max.checked_sub(u64::from(key) + 1)?;
        let id = u32::try_from(id).ok().filter(|_| self.state == State::Up)?;
        (!self.subscriptions.is_known(id) && !self.exchanges.serves(id)).then_some(id)
    }

    /// They are not to be called any more.
    pub(super) fn serve_no_more(&mut self, key: u32, context: &mut Context<'_>) {
        let id = self.subscriptions_max.checked_sub(u64::from(key) + 1);
        let id = id.and_then(|id| u32::try_from(id).ok());
        if let Some(id) = id.filter(|id| self.exchanges.serves(*id)) {
            let request = self.subscriptions.request(Request::ServeNoMore(id));
            let message = ClientMessage::Unsubscribe { request, subscription: id };
            say(&message, &mut context.output);
        } else {
            // It was refused.
            self.tell(FromUpstream::Serving { key, result: Ok(false) }, context);
        }
    }

    /// The upstream has answered that they are, or are no more.
    pub(super) fn served(
        &mut self,
        id: u32,
        result: Result<bool, Close>,
        context: &mut Context<'_>,
    ) {
        if result != Ok(true) {
            self.exchanges.end(id);
            self.topics.forget(id);
        }
        let key = self.subscriptions_max.saturating_sub(u64::from(id) + 1);
        let key = u32::try_from(key).unwrap_or(u32::MAX);
        self.tell(FromUpstream::Serving { key, result }, context);
    }
}

/// The end of an exchange that the session has at its own broker: where the upstream calls, it is the caller there.
fn own_key(is_served: bool, number: u32) -> ExchangeKey {
    if is_served { ExchangeKey::caller(number) } else { ExchangeKey::responder(number) }
}

/// As much of a sentence as the protocol takes.
fn short(sentence: &str) -> &str {
    let most = sentence.len().min(SENTENCE_BYTES_MAX);
    let end = (0..=most).rev().find(|end| sentence.is_char_boundary(*end));
    sentence.get(..end.unwrap_or(0)).unwrap_or_default()
}
