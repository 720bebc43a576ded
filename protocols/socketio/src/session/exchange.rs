//! Calls, requests and conversations.
//!
//! ```text
//!   call(service, value, ack)      one answer, in the ack
//!   open(service, value, ack)      a conversation: say ⇄ said, until both sides said the last
//!   serve(service) ─▶ request      answered by its ack, or by say if it is a conversation
//! ```
//! Relies on the broker for who serves and for timeout, and on `exchanges` for what is open. Invariant: of a call
//! the first answer alone is told.

use tiderace_base::{Close, CloseCode, Span};
use tiderace_value::Json;
use tiderace_wire::{
    Call, Command, Context, Delivery, ExchangeKey, ExchangeSend, Outcome, Output, Settle,
    properties,
};

use super::answer::Made;
use super::event::Event;
use super::exchanges::{Asked, ExchangeState, parse, spell};
use super::state::SocketSession;
use crate::body::{Shown, body_of};
use crate::limits::{CALL_MILLIS_MAX, REASON_CHARS_MAX};
use crate::write::Text;

impl SocketSession {
    /// `call(service, value, {timeout, headers}?, ack)` and `open(service, value, …, ack?)`.
    pub(super) fn call(
        &mut self,
        event: &Event<'_>,
        once: bool,
        context: &mut Context<'_>,
    ) -> Result<(), Close> {
        let service = self.path(&event.text(0)?)?;
        let value = event.value(1)?;
        let options = event.options(2)?;
        if once && event.ack.is_none() {
            return Err(event.wrong("a call needs an ack, in which the answer comes"));
        }
        let timeout = match event.number(options, "timeout")? {
            None => self.options.call_timeout,
            Some(millis) => Span::from_millis(millis.clamp(1, CALL_MILLIS_MAX)),
        };
        let mut block = Vec::new();
        let (body, content_type) = body_of(value, event.attachments);
        properties::append(&mut block, "content-type", content_type);
        event.append_headers(options, &mut block)?;
        let max = self.options.exchanges_max;
        if self.cold().exchanges.len() >= max {
            let reason = format!("more than {max} calls and conversations are open");
            return Err(Close::new(CloseCode::TooManyReceipts, reason));
        }
        let key = loop {
            self.calls = self.calls.wrapping_add(1);
            let key = ExchangeKey::caller(self.calls);
            if !self.cold().exchanges.has(key) {
                break key;
            }
        };
        let state = ExchangeState {
            namespace: event.namespace,
            call: event.ack.filter(|_| once),
            asked: None,
            sent_last: once,
            received_last: false,
        };
        self.cold().exchanges.insert(key, state);
        context.commands.push(Command::Call(Box::new(Call {
            number: key.number,
            service,
            properties: block,
            body: body.into_owned(),
            last: once,
            timeout,
            // Of an event with an acknowledgement the first answer alone is used.
            credit: once.then_some(1),
            traced: None,
        })));
        if !once {
            self.succeed(
                event.namespace,
                event.ack,
                Some(Made::of(spell(key))),
                &mut context.output,
            );
        }
        Ok(())
    }

    /// `say(id, value, {last}?, ack?)`.
    pub(super) fn say(
        &mut self,
        event: &Event<'_>,
        context: &mut Context<'_>,
    ) -> Result<(), Close> {
        let key = self.exchange_of(event)?;
        let value = event.value(1)?;
        let last = event.truth(event.options(2)?, "last", false)?;
        self.send_exchange(key, value, event.attachments, last, context);
        self.succeed(event.namespace, event.ack, None, &mut context.output);
        Ok(())
    }

    /// `end(id, message?, ack?)`.
    pub(super) fn end(
        &mut self,
        event: &Event<'_>,
        context: &mut Context<'_>,
    ) -> Result<(), Close> {
        let key = self.exchange_of(event)?;
        let reason =
            event.argument(1).and_then(Json::as_text).unwrap_or("the other side ended it".into());
        let reason: String = reason.chars().take(REASON_CHARS_MAX).collect();
        self.cold().exchanges.remove(key);
        let close = Close::new(CloseCode::Done, reason);
        context.commands.push(Command::Cancel { exchange: key, close });
        self.succeed(event.namespace, event.ack, None, &mut context.output);
        Ok(())
    }

    /// The conversation an event names, if the client may still speak in it.
    fn exchange_of(&mut self, event: &Event<'_>) -> Result<ExchangeKey, Close> {
        let key = event.value(0)?.as_unsigned().and_then(parse);
        let key =
            key.ok_or_else(|| event.wrong("its first argument is the id of a conversation"))?;
        let state =
            self.cold().exchanges.get(key).filter(|state| state.namespace == event.namespace);
        match state {
            Some(state) if !state.sent_last => Ok(key),
            Some(_) => Err(event.wrong("you have said the last word already")),
            None => Err(event.wrong("there is no such conversation")),
        }
    }

    fn send_exchange(
        &mut self,
        key: ExchangeKey,
        value: Json<'_>,
        attachments: &[Vec<u8>],
        last: bool,
        context: &mut Context<'_>,
    ) {
        let exchanges = &mut self.cold().exchanges;
        let Some(state) = exchanges.get_mut(key) else { return };
        state.sent_last = last;
        if last && state.received_last {
            exchanges.remove(key);
        }
        let (body, content_type) = body_of(value, attachments);
        let mut block = Vec::new();
        properties::append(&mut block, "content-type", content_type);
        context.commands.push(Command::SendExchange(Box::new(ExchangeSend {
            exchange: key,
            properties: block,
            body: body.into_owned(),
            last,
            bare: false,
        })));
    }

    /// The client has answered an event.
    pub(super) fn answered(
        &mut self,
        id: u64,
        data: Json<'_>,
        attachments: &[Vec<u8>],
        context: &mut Context<'_>,
    ) {
        // Answers to what is over are no fault: the end may have crossed them.
        let Some(asked) = self.cold().exchanges.take_asked(id) else { return };
        let value = data.elements().next().unwrap_or(Json::NULL);
        match asked {
            Asked::Job { key, home, sequence } => {
                let reject = value.field("reject").and_then(Json::as_bool) == Some(true);
                let outcome = if reject { Outcome::Reject } else { Outcome::Accept };
                let ranges = vec![(sequence, sequence)];
                let settle = Settle { key, home, ranges, outcome, confirm: None };
                context.commands.push(Command::Settle(settle));
            }
            Asked::Request(key) => {
                let open = self.cold().exchanges.get(key).is_some_and(|state| !state.sent_last);
                if open {
                    self.send_exchange(key, value, attachments, true, context);
                }
            }
        }
    }

    /// A question to the client: the ack id by which it will answer.
    pub(super) fn ask_client(&mut self, asked: Asked) -> u64 {
        let id = self.asks;
        self.asks = self.asks.wrapping_add(1);
        self.cold().exchanges.ask(id, asked);
        id
    }

    /// A message of an exchange.
    pub(super) fn exchange_message(&mut self, delivery: &Delivery<'_>, output: &mut Output<'_>) {
        let Some(exchange) = delivery.exchange else { return };
        let Some(message) = delivery.run.run().message(delivery.from) else { return };
        let shown = Shown::of(message.properties, message.body, self.options.bounds());
        let key = exchange.key;
        let exchanges = &mut self.cold().exchanges;
        let Some(state) = exchanges.get_mut(key) else { return };
        state.received_last |= exchange.last;
        let (namespace, call) = (state.namespace, state.call);
        if call.is_some() || (state.received_last && state.sent_last) {
            exchanges.remove(key);
        }
        if call.is_some() && !exchange.last {
            exchanges.note_answered(key);
        }
        let name = self.namespaces.name(namespace);
        let attachments = shown.attachments();
        let text = match call {
            Some(id) if exchange.bare => {
                let mut text = Text::answer(0, name, id, true);
                text.raw(",\"value\":null}]");
                text
            }
            // There is no value: the other side has only said that it is done.
            None if exchange.bare => {
                let mut text = Text::event(0, name, None, "ended");
                text.raw(",");
                text.number(spell(key));
                text.raw(",{\"ok\":true}]");
                text
            }
            Some(id) => {
                let mut text = Text::answer(attachments.len(), name, id, true);
                text.raw(",\"value\":");
                text.value(&shown);
                text.raw("}]");
                text
            }
            None => {
                let mut text = Text::event(attachments.len(), name, None, "said");
                text.raw(",");
                text.number(spell(key));
                text.raw(",");
                text.value(&shown);
                text.raw(if exchange.last { ",{\"last\":true" } else { ",{\"last\":false" });
                text.properties(message.properties, &["last"]);
                text.raw("}]");
                text
            }
        };
        text.write(attachments, output.framing, output.queue.tail());
    }

    /// The first message of an exchange with a client that serves.
    pub(super) fn request(&mut self, delivery: &Delivery<'_>, output: &mut Output<'_>) {
        let (Some(exchange), Some(namespace)) =
            (delivery.exchange, self.subscriptions.get(delivery.key).map(|known| known.namespace))
        else {
            return;
        };
        let key = exchange.key;
        let Some(message) = delivery.run.run().message(delivery.from) else { return };
        let ack = self.ask_client(Asked::Request(key));
        let received_last = exchange.last;
        let state = ExchangeState {
            namespace,
            call: None,
            asked: Some(ack),
            sent_last: false,
            received_last,
        };
        self.cold().exchanges.insert(key, state);
        let shown = Shown::of(message.properties, message.body, self.options.bounds());
        let attachments = shown.attachments();
        let name = self.namespaces.name(namespace);
        let mut text = Text::event(attachments.len(), name, Some(ack), "request");
        text.raw(",");
        text.text(delivery.run.run().destination().path.as_str());
        text.raw(",");
        text.value(&shown);
        text.raw(",{\"id\":");
        text.number(spell(key));
        text.raw(if received_last { ",\"last\":true" } else { ",\"last\":false" });
        text.properties(message.properties, &["id", "last"]);
        text.raw("}]");
        text.write(attachments, output.framing, output.queue.tail());
    }

    /// An exchange is over before all was said.
    pub(super) fn exchange_ended(
        &mut self,
        key: ExchangeKey,
        close: &Close,
        output: &mut Output<'_>,
    ) {
        let Some(state) = self.cold.as_mut().and_then(|cold| cold.exchanges.remove(key)) else {
            return;
        };
        if state.call.is_some() {
            return self.fail(state.namespace, state.call, "call", close, output);
        }
        let Some(known) = self.namespaces.get(state.namespace) else { return };
        let mut text = Text::event(0, known.name(), None, "ended");
        text.raw(",");
        text.number(spell(key));
        text.raw(",{\"ok\":false");
        text.problem(close);
        text.raw("}]");
        output.frame(text.bytes(), true);
    }

    /// Ends all exchanges of a namespace.
    pub(super) fn cancel_all(&mut self, namespace: u8, context: &mut Context<'_>) {
        let Some(cold) = &mut self.cold else { return };
        for key in cold.exchanges.of(namespace) {
            cold.exchanges.remove(key);
            let close = Close::new(CloseCode::Done, "the other side has left");
            context.commands.push(Command::Cancel { exchange: key, close });
        }
    }
}
