//! Exchanges: calls and conversations that the client began, and those in which it serves.
//!
//! ```text
//!   client ─ request-response, request-stream, request-channel ─▶ Call, SendExchange … ─▶ responder
//!   caller ─▶ Delivery … ─▶ request-response or request-channel of ours ─▶ client that serves
//! ```
//! The exchange of a client's request has the number of its stream. The demand of a client that calls goes on to
//! responders, and the demand of callers to clients that serve. What comes all the same while the client wants
//! nothing, from a responder whose protocol has no demand, waits here, within bounds. Relies on the broker for
//! timeouts. Invariants: an exchange is over when both sides have said all and nothing waits, or when either gives it
//! up; each is told once. An end, good or bad, needs no demand, but comes behind the items that do.

use tiderace_base::{Close, CloseCode};
use tiderace_wire::{
    Call, Command, Context, Delivery, Exchange, ExchangeKey, ExchangeSend, Output, Side, properties,
};

use super::begin::Begin;
use super::describe::{Asked, PROPERTIES_MIME};
use super::exchange_state::{ExchangeState, Held};
use super::faults;
use super::state::RSocketSession;
use super::streams::Stream;
use crate::frame::{Frame, Interaction, Item, NUMBER_MAX};
use crate::metadata::{Mime, write_entry};
use crate::metrics::Signal;

impl RSocketSession {
    /// A request to a service.
    pub(super) fn call(
        &mut self,
        begin: &Begin<'_>,
        path: &str,
        asked: &Asked<'_>,
        context: &mut Context<'_>,
    ) -> Result<(), Close> {
        let Begin { stream, request, .. } = *begin;
        let service = self.path(path)?;
        let interaction = request.interaction;
        let key = ExchangeKey::caller(stream);
        let last = interaction != Interaction::Channel || request.complete;
        let demand = if interaction.has_credit() { request.credit } else { 1 };
        let call = Call {
            number: stream,
            service,
            properties: self.spoken_properties(asked),
            body: request.payload.data.to_vec(),
            last,
            timeout: asked.options.timeout.unwrap_or(self.options().timeout),
            credit: Some(u64::from(demand.max(1))).filter(|_| demand < NUMBER_MAX),
            traced: None,
        };
        context.commands.push(Command::Call(Box::new(call)));
        if interaction == Interaction::FireAndForget {
            return Ok(());
        }
        let mut state = ExchangeState::new(key, interaction, demand).with_last(last, false);
        state.properties = asked.options.properties && self.mimes.is_composite();
        if !last {
            let more = state.grant(self.options().channel_window);
            self.writer.request_n(stream, more, &mut context.output);
        }
        self.streams.insert(stream, Stream::Exchange(Box::new(state)));
        Ok(())
    }

    /// The properties of what a client says in an exchange.
    fn spoken_properties(&self, asked: &Asked<'_>) -> Vec<u8> {
        let mut block = Vec::new();
        if let Some(name) = self.content_type(asked.data_mime, asked.properties) {
            properties::append(&mut block, "content-type", name);
        }
        asked.append_tracing(&mut block);
        block.extend_from_slice(asked.properties);
        block
    }

    /// An item of the client's, or its last word.
    pub(super) fn exchange_item(
        &mut self,
        stream: u32,
        item: &Item<'_>,
        context: &mut Context<'_>,
    ) {
        let spoken = self.check_size(&item.payload).and_then(|()| {
            let asked =
                self.describe(item.payload.metadata.filter(|_| self.mimes.is_composite()))?;
            Ok(self.spoken_properties(&asked))
        });
        let properties = match spoken {
            Ok(properties) => properties,
            Err(close) => {
                let (code, _) = faults::stream_code(close.code);
                self.writer.error(stream, code, &faults::sentence(&close), &mut context.output);
                if let Some(Stream::Exchange(state)) = self.end_stream(stream, Signal::Error) {
                    self.abandon_exchange(*state, close, context);
                }
                return;
            }
        };
        let window = self.options().channel_window;
        let Some(Stream::Exchange(state)) = self.streams.get_mut(stream) else { return };
        if item.next {
            state.granted = state.granted.saturating_sub(1);
        }
        // A PAYLOAD that is neither an item nor an end says nothing.
        if state.sent_last || state.ended.is_some() || !(item.next || item.complete) {
            return;
        }
        // A bare COMPLETE is no item, and so has no content of any type (Protocol.md, PAYLOAD Frame).
        let bare = !item.next && item.payload.data.is_empty();
        // The one answer of a request-response is the last, said or not.
        let last = item.complete || state.interaction == Interaction::Response;
        state.sent_last = last;
        context.commands.push(Command::SendExchange(Box::new(ExchangeSend {
            exchange: state.key,
            properties: if bare { Vec::new() } else { properties },
            body: item.payload.data.to_vec(),
            last,
            bare,
        })));
        if !last {
            let more = state.grant(window);
            self.grant_items(stream, more, &mut context.output);
        }
        self.end_exchange_if_over(stream);
    }

    /// The other side wants more of what the client says.
    pub(super) fn exchange_credited(
        &mut self,
        key: ExchangeKey,
        items: u64,
        context: &mut Context<'_>,
    ) {
        let Some(stream) = self.stream_of(key) else { return };
        let window = self.options().channel_window;
        let Some(Stream::Exchange(state)) = self.streams.get_mut(stream) else { return };
        if state.sent_last || state.ended.is_some() || state.interaction == Interaction::Response {
            return;
        }
        state.want(items);
        let more = state.grant(window);
        self.grant_items(stream, more, &mut context.output);
    }

    fn grant_items(&mut self, stream: u32, more: u32, output: &mut Output<'_>) {
        if more > 0 {
            self.writer.request_n(stream, more, output);
        }
    }

    fn end_exchange_if_over(&mut self, stream: u32) {
        let over =
            matches!(self.streams.get(stream), Some(Stream::Exchange(state)) if state.is_over());
        if over && let Some(Stream::Exchange(state)) = self.end_stream(stream, Signal::Complete) {
            self.forget_served(state.key);
        }
    }

    /// The exchange is not one of a client that serves any more.
    fn forget_served(&mut self, key: ExchangeKey) {
        if let (Side::Responder, Some(cold)) = (key.side, &mut self.cold) {
            cold.served.remove(&key.number);
            if cold.served.is_empty() {
                cold.served = Default::default();
            }
        }
    }

    /// The stream of an exchange.
    pub(super) fn stream_of(&self, key: ExchangeKey) -> Option<u32> {
        let stream = match key.side {
            Side::Caller => key.number,
            Side::Responder => *self.cold.as_ref()?.served.get(&key.number)?,
        };
        let known =
            matches!(self.streams.get(stream), Some(Stream::Exchange(state)) if state.key == key);
        known.then_some(stream)
    }

    /// A message of an exchange that has begun.
    pub(super) fn deliver_exchange(
        &mut self,
        exchange: &Exchange,
        delivery: &Delivery<'_>,
        output: &mut Output<'_>,
    ) {
        let Some(message) = delivery.run.run().message(delivery.from) else { return };
        let Some(stream) = self.stream_of(exchange.key) else {
            // A call that nobody waits for, or one that was given up meanwhile.
            if !exchange.last {
                self.cancel_later(exchange.key, CloseCode::CallCancelled.into());
            }
            return;
        };
        let Some(Stream::Exchange(state)) = self.streams.get_mut(stream) else { return };
        state.received_last |= exchange.last;
        let only = state.interaction == Interaction::Response && state.key.side == Side::Caller;
        if only {
            return self.answer(stream, exchange, delivery, output);
        }
        if state.deaf {
            return self.end_exchange_if_over(stream);
        }
        let metadata = state.properties.then_some(message.properties).filter(|all| !all.is_empty());
        let metadata = metadata.map(|all| {
            let mut entry = Vec::with_capacity(all.len() + PROPERTIES_MIME.len() + 4);
            write_entry(Mime::Name(PROPERTIES_MIME), all, &mut entry);
            entry.into_boxed_slice()
        });
        let data = delivery.run.body_bytes(delivery.from).unwrap_or_default();
        let held = Held { metadata, data, last: exchange.last, bare: exchange.bare };
        if state.held.is_empty() && (state.demand > 0 || held.bare) {
            self.say_item(stream, &held, output);
            return self.end_exchange_if_over(stream);
        }
        self.hold(stream, held, output);
    }

    /// The one answer of a call.
    fn answer(
        &mut self,
        stream: u32,
        exchange: &Exchange,
        delivery: &Delivery<'_>,
        output: &mut Output<'_>,
    ) {
        let Some(message) = delivery.run.run().message(delivery.from) else { return };
        let Some(Stream::Exchange(state)) = self.end_stream(stream, Signal::Complete) else {
            return;
        };
        if exchange.bare {
            return self.writer.complete(stream, output);
        }
        let mut metadata = Vec::new();
        if state.properties && !message.properties.is_empty() {
            write_entry(Mime::Name(PROPERTIES_MIME), message.properties, &mut metadata);
        }
        let metadata = (!metadata.is_empty()).then_some(metadata.as_slice());
        let data = delivery.run.body_bytes(delivery.from).unwrap_or_default();
        self.writer.shared_item(stream, metadata, data, true, output);
        if !exchange.last {
            // It wanted one.
            self.cancel_later(exchange.key, CloseCode::CallCancelled.into());
        }
    }

    fn say_item(&mut self, stream: u32, held: &Held, output: &mut Output<'_>) {
        if held.bare {
            return self.writer.complete(stream, output);
        }
        if let Some(Stream::Exchange(state)) = self.streams.get_mut(stream) {
            state.demand = state.demand.saturating_sub(1);
        }
        self.writer.shared_item(
            stream,
            held.metadata.as_deref(),
            held.data.clone(),
            held.last,
            output,
        );
    }

    /// Keeps a message until the client wants it.
    fn hold(&mut self, stream: u32, held: Held, output: &mut Output<'_>) {
        let options = self.writer.options.clone();
        let bytes = self.cold().held_bytes + held.bytes();
        let Some(Stream::Exchange(state)) = self.streams.get_mut(stream) else { return };
        if state.held.len() < options.waiting_max && bytes <= options.waiting_bytes_max {
            state.held.push_back(held);
            self.cold().held_bytes = bytes;
            return;
        }
        let key = state.key;
        let close = Close::new(
            CloseCode::SlowConsumer,
            "too many messages wait for the demand of the other side",
        );
        if let Some(Stream::Exchange(state)) = self.end_stream(stream, Signal::Error) {
            self.release(&state);
        }
        self.forget_served(key);
        let (code, _) = faults::stream_code(close.code);
        self.writer.error(stream, code, &faults::sentence(&close), output);
        self.cancel_later(key, close);
    }

    /// What waited does not any more.
    fn release(&mut self, state: &ExchangeState) {
        let bytes: usize = state.held.iter().map(Held::bytes).sum();
        if let Some(cold) = &mut self.cold {
            cold.held_bytes = cold.held_bytes.saturating_sub(bytes);
        }
    }

    /// The client wants more.
    pub(super) fn exchange_demand(&mut self, stream: u32, items: u32, context: &mut Context<'_>) {
        let Some(Stream::Exchange(state)) = self.streams.get_mut(stream) else { return };
        state.demand = state.demand.saturating_add(u64::from(items));
        if state.key.side == Side::Caller && !state.received_last && state.ended.is_none() {
            let (exchange, messages) = (state.key, u64::from(items));
            context.commands.push(Command::ExchangeCredit { exchange, messages });
        }
        loop {
            let Some(Stream::Exchange(state)) = self.streams.get_mut(stream) else { return };
            let demand = state.demand;
            if !state.held.front().is_some_and(|held| demand > 0 || held.bare) {
                break;
            }
            let Some(held) = state.held.pop_front() else { break };
            if let Some(cold) = &mut self.cold {
                cold.held_bytes = cold.held_bytes.saturating_sub(held.bytes());
            }
            self.say_item(stream, &held, &mut context.output);
        }
        self.end_exchange_if_over(stream);
        self.fail_if_ended(stream, &mut context.output);
    }

    /// The exchange is over, and nothing that was said in it waits any more.
    fn fail_if_ended(&mut self, stream: u32, output: &mut Output<'_>) {
        let Some(Stream::Exchange(state)) = self.streams.get_mut(stream) else { return };
        let Some(close) = state.ended.take_if(|_| state.held.is_empty()) else { return };
        let granted = state.granted;
        self.fail(stream, &close, output);
        self.expect_late_items(granted);
    }

    /// A client that serves wants no more of what the caller says.
    pub(super) fn exchange_cancelled(&mut self, stream: u32, output: &mut Output<'_>) {
        let Some(Stream::Exchange(state)) = self.streams.get_mut(stream) else { return };
        state.deaf = true;
        let held = std::mem::take(&mut state.held);
        let bytes: usize = held.iter().map(Held::bytes).sum();
        if let Some(cold) = &mut self.cold {
            cold.held_bytes = cold.held_bytes.saturating_sub(bytes);
        }
        self.end_exchange_if_over(stream);
        self.fail_if_ended(stream, output);
    }

    /// An exchange is over because the client said so.
    pub(super) fn abandon_exchange(
        &mut self,
        state: ExchangeState,
        close: Close,
        context: &mut Context<'_>,
    ) {
        self.release(&state);
        self.forget_served(state.key);
        self.expect_late_items(state.granted);
        context.commands.push(Command::Cancel { exchange: state.key, close });
    }

    /// An exchange is over before both sides had said all.
    pub(super) fn exchange_ended(
        &mut self,
        key: ExchangeKey,
        close: &Close,
        context: &mut Context<'_>,
    ) {
        let Some(stream) = self.stream_of(key) else { return };
        let Some(Stream::Exchange(state)) = self.streams.get_mut(stream) else { return };
        let granted = state.granted;
        let answered =
            state.key.side == Side::Responder && state.interaction == Interaction::Response;
        if !state.held.is_empty() {
            state.ended = Some(Box::new(close.clone()));
            return self.forget_served(key);
        }
        if answered {
            // A request of ours is given up by CANCEL.
            self.writer.say(&Frame::cancel(stream), &mut context.output);
            self.end_stream(stream, Signal::Cancel);
        } else {
            self.fail(stream, close, &mut context.output);
        }
        self.forget_served(key);
        self.expect_late_items(granted);
    }
}
