//! Request-streams of topics and queues.
//!
//! Relies on the broker for credit: without any it keeps the newest message of each topic, and leaves
//! those of queues where they are. Invariant: the credit of a subscription is exactly what its client
//! has asked for, less what it was sent.

use tiderace_base::{Close, CloseCode};
use tiderace_filter::Selector;
use tiderace_topics as topics;
use tiderace_wire::{Command, Context, Kind, Prefetch, Subscribe, SubscriptionKey, Target};

use super::begin::Begin;
use super::cold::Waiting;
use super::consumer::Consumer;
use super::describe::Asked;
use super::state::RSocketSession;
use super::streams::{Form, Stream};
use crate::frame::NUMBER_MAX;

impl RSocketSession {
    pub(super) fn subscribe(
        &mut self,
        begin: &Begin<'_>,
        kind: Kind,
        path: &str,
        asked: &Asked<'_>,
        context: &mut Context<'_>,
    ) -> Result<(), Close> {
        if self.streams.subscriptions() >= self.options().subscriptions_max {
            return Err(CloseCode::TooManySubscriptions.into());
        }
        let options = &asked.options;
        let selector = options.selector.as_deref().map(Selector::parse).transpose();
        let selector = selector.map_err(|error| {
            Close::new(CloseCode::BadSelector, format!("the selector cannot be used: {error}"))
        })?;
        let (targets, several) = self.targets(kind, path)?;
        let is_queue = kind == Kind::Queue;
        // Who wants everything settles nothing.
        let everything = begin.request.credit == NUMBER_MAX;
        let explicit = is_queue && !everything;
        let composite = self.mimes.is_composite();
        let codec = options.codec.iter().find_map(|name| self.options().deltas.named(name));
        let deltas = composite && codec.is_some() && kind == Kind::Topic;
        let form = Form::default()
            .with(Form::DETAILS, composite && (several || options.details || deltas))
            .with(Form::PROPERTIES, composite && options.properties)
            .with(Form::DELTAS, deltas)
            .with(Form::QUEUE, is_queue)
            .with(Form::EXPLICIT, explicit)
            .with(Form::UNBOUNDED, everything);
        let stream = begin.stream;
        let key = self.streams.take_key(stream, form);
        let entry = if is_queue {
            Stream::Consuming(Box::new(Consumer::new(key, explicit)))
        } else {
            Stream::Subscribed { key }
        };
        self.streams.insert(stream, entry);
        if let (true, Some(codec)) = (deltas, codec) {
            self.cold().deltas.begin(key, codec.number);
        }
        let token = self.ask(Waiting::Subscribe(stream, key));
        context.commands.push(Command::Subscribe(Box::new(Subscribe {
            selector,
            explicit,
            // The client's demand is the only limit: a client that asks for a thousand gets a thousand.
            prefetch: explicit.then_some(Prefetch { messages: 0, bytes: 0 }),
            confirm: Some(token),
            retained: options.snapshot,
            deltas,
            replay: options.replay,
            interval: options.interval,
            credit: (!everything).then_some(u64::from(begin.request.credit)),
            ..Subscribe::new(key, targets)
        })));
        Ok(())
    }

    /// What a request-stream listens to, and whether that may be several topics.
    fn targets(&self, kind: Kind, path: &str) -> Result<(Vec<Target>, bool), Close> {
        if !topics::Selector::is_meant(path) {
            return Ok((vec![Target::Exact(self.destination(kind, path)?)], false));
        }
        Ok((Target::of(kind, self.selector(path)?), true))
    }

    /// Ends a subscription whose stream is over.
    pub(super) fn unsubscribe(&mut self, key: SubscriptionKey, context: &mut Context<'_>) {
        self.streams.free_key(key);
        if let Some(cold) = &mut self.cold {
            cold.deltas.end(key);
        }
        context.commands.push(Command::Unsubscribe { key, confirm: None });
    }

    /// The broker has ended a subscription: so does its stream.
    pub(super) fn subscription_ended(
        &mut self,
        key: SubscriptionKey,
        close: &Close,
        context: &mut Context<'_>,
    ) {
        let Some(slot) = self.streams.by_key(key) else { return };
        self.streams.free_key(key);
        if let Some(cold) = &mut self.cold {
            cold.deltas.end(key);
        }
        self.fail(slot.stream, close, &mut context.output);
    }
}
