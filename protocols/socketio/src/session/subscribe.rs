//! Subscribing: topics, queues and services, and their ends.
//!
//! Relies on the broker to allow it. Invariant: what the broker has been asked for is exactly what
//! stands among the subscriptions.

use tiderace_base::{Close, CloseCode, Span};
use tiderace_filter::Selector;
use tiderace_value::Json;
use tiderace_wire::{
    Browsing, Command, Context, Destination, Kind, Position, Prefetch, Subscribe, SubscriptionKey,
    Target, Token, shown,
};

use super::event::Event;
use super::questions::{Waiting, What};
use super::state::SocketSession;
use super::subscriptions::{Choices, Listening, Subscription};
use crate::limits::PREFETCH_MAX;
use crate::write::Text;

/// Where a subscription begins.
#[derive(Debug, Default)]
pub(super) struct Begins {
    /// Behind what its client has had.
    since: Option<Position>,
    /// Its client asks whether anything is missing.
    gone_on: bool,
}

impl SocketSession {
    /// `subscribe(name, {snapshot, selector, recoverable, since, deltas, replay, interval, notices}?, ack?)`, or
    /// `subscribe(name, {durable, selector, prefetch, acks}, ack?)`.
    pub(super) fn subscribe(
        &mut self,
        event: &Event<'_>,
        context: &mut Context<'_>,
    ) -> Result<(), Close> {
        let name = event.text(0)?;
        let options = event.options(1)?;
        if let Some(durable) = string(event, options, "durable")? {
            return self.subscribe_durably(event, &name, durable, context);
        }
        let choices = Choices {
            selector: string(event, options, "selector")?,
            codec: self.delta_codec(event, options)?,
            replay: event.replay(options)?,
            interval: event.interval(options)?,
            notices: event.truth(options, "notices", false)?,
            ..Choices::default()
        };
        let choices = (choices != Choices::default()).then(|| Box::new(choices));
        let subscription = Subscription {
            name: (&*name).into(),
            choices,
            namespace: event.namespace,
            listening: Listening::Topic,
            recoverable: event.truth(options, "recoverable", false)? && self.remembers(),
            explicit: false,
            snapshot: event.truth(options, "snapshot", true)?,
        };
        let since = event.since(options)?;
        if since.is_some() && !event.truth(options, "recoverable", false)? {
            return Err(event.wrong("its option `since` needs `recoverable: true`"));
        }
        // Without recovery there is nothing to go on with here, which the answer says.
        let begins = Begins { gone_on: since.is_some(), since: since.filter(|_| self.remembers()) };
        self.listen(subscription, begins, (event.ack, "subscribe"), context)
    }

    /// `receive(name, {prefetch, acks, browse, follow}?, ack?)` and `serve(name, {prefetch}?, ack?)`.
    pub(super) fn consume(
        &mut self,
        event: &Event<'_>,
        name: &'static str,
        listening: Listening,
        context: &mut Context<'_>,
    ) -> Result<(), Close> {
        let destination = event.text(0)?;
        let options = event.options(1)?;
        let prefetch = prefetch(event, options)?;
        let is_queue = listening == Listening::Queue;
        let browsing = match is_queue && event.truth(options, "browse", false)? {
            false => None,
            true if event.truth(options, "follow", false)? => Some(Browsing::Following),
            true => Some(Browsing::ToEnd),
        };
        // What is only shown is dealt with by being shown.
        let acks = event.truth(options, "acks", browsing.is_none())?;
        let choices = Choices { prefetch, browsing, ..Choices::default() };
        let subscription = Subscription {
            name: (&*destination).into(),
            choices: (choices != Choices::default()).then(|| Box::new(choices)),
            namespace: event.namespace,
            listening,
            recoverable: false,
            explicit: is_queue && acks,
            snapshot: false,
        };
        self.listen(subscription, Begins::default(), (event.ack, name), context)
    }

    /// Makes a subscription, which an event asks for.
    pub(super) fn listen(
        &mut self,
        subscription: Subscription,
        begins: Begins,
        (ack, event): (Option<u64>, &'static str),
        context: &mut Context<'_>,
    ) -> Result<(), Close> {
        let (namespace, listening) = (subscription.namespace, subscription.listening);
        if self.subscriptions.find(namespace, listening, &subscription.name).is_some() {
            let reason = format!("`{}` is subscribed to already", shown(&subscription.name));
            return Err(Close::new(CloseCode::DuplicateSubscription, reason));
        }
        if self.subscriptions.len() >= self.options.subscriptions_max {
            return Err(CloseCode::TooManySubscriptions.into());
        }
        let own = listening == Listening::Room && subscription.name.is_empty();
        let key = self.subscriptions.insert(subscription);
        let what = if own { What::Join(key) } else { What::Listen(key) };
        if let Some(since) = &begins.since {
            self.begin_since(since);
        }
        let asked = self.ask(namespace, ack, event, what).and_then(|token| {
            let is_durable = self.subscriptions.get(key).is_some_and(|it| it.durable().is_some());
            let asked = match is_durable {
                true => {
                    let consumes = self.ask(namespace, None, event, What::Consume(key));
                    consumes.and_then(|consumes| self.ask_durably(key, (token, consumes), context))
                }
                false => self.ask_to_listen(key, token, begins.since, context),
            };
            if begins.gone_on {
                self.cold().questions.expect_recovery(token);
            }
            if asked.is_err() {
                self.cold().questions.forget(token);
            }
            asked
        });
        if asked.is_err() {
            self.subscriptions.remove(key);
            self.cold().questions.end_listening(key, false);
        }
        asked
    }

    /// Where a client is that goes on with a subscription that it had elsewhere: what has come before then was before its
    /// time here.
    fn begin_since(&mut self, since: &Position) {
        for (numbering, number) in since.seen() {
            self.trail().begin(*numbering, *number);
        }
    }

    /// Asks the broker for a subscription that stands among the others.
    pub(super) fn ask_to_listen(
        &mut self,
        key: SubscriptionKey,
        token: Token,
        since: Option<Position>,
        context: &mut Context<'_>,
    ) -> Result<(), Close> {
        if let Some(cold) = &mut self.cold {
            // Of one that had the key before.
            cold.bases.remove(key);
        }
        let Some(known) = self.subscriptions.get(key) else { return Ok(()) };
        let exact = |kind, path| Target::Exact(Destination { kind, path });
        let targets = match known.listening {
            Listening::Topic => self.topics(&known.name)?,
            Listening::Queue => vec![exact(Kind::Queue, self.path(&known.name)?)],
            Listening::Service => vec![exact(Kind::Service, self.path(&known.name)?)],
            Listening::Room => {
                let namespace = self.namespaces.name(known.namespace);
                vec![exact(Kind::Topic, self.room_path(namespace, &known.name)?)]
            }
        };
        let choices = known.choices.as_deref();
        let selector = selector_of(choices)?;
        let prefetch = choices.and_then(|choices| choices.prefetch);
        let prefetch = prefetch.map(|messages| Prefetch { messages, bytes: 0 });
        context.commands.push(Command::Subscribe(Box::new(Subscribe {
            selector,
            explicit: known.explicit,
            prefetch,
            confirm: Some(token),
            retained: known.snapshot,
            recoverable: known.recoverable,
            deltas: choices.and_then(|choices| choices.codec).is_some_and(|codec| codec != 0),
            // Who comes back has had what was kept.
            replay: choices.and_then(|choices| choices.replay).filter(|_| since.is_none()),
            interval: Span::from_millis(choices.map_or(0, |choices| u64::from(choices.interval))),
            notices: choices.is_some_and(|choices| choices.notices),
            browsing: choices.and_then(|choices| choices.browsing),
            since,
            ..Subscribe::new(key, targets)
        })));
        Ok(())
    }

    /// `unsubscribe(name, ack?)`, `cancel(name, ack?)`, `unserve(name, ack?)`; the id will do as well.
    pub(super) fn stop_listening(
        &mut self,
        event: &Event<'_>,
        name: &'static str,
        listening: Listening,
        context: &mut Context<'_>,
    ) -> Result<(), Close> {
        let namespace = event.namespace;
        let fits = |key: &SubscriptionKey| {
            let known = self.subscriptions.get(*key);
            known.is_some_and(|known| (known.namespace, known.listening) == (namespace, listening))
        };
        let key = match event.argument(0).and_then(Json::as_unsigned) {
            Some(id) => u32::try_from(id).ok().map(SubscriptionKey).filter(fits),
            None => self.subscriptions.find(namespace, listening, &event.text(0)?),
        };
        let key = key.ok_or_else(|| Close::from(CloseCode::UnknownSubscription))?;
        let confirm = match event.ack {
            Some(_) => Some(self.ask(namespace, event.ack, name, What::Plain)?),
            None => None,
        };
        let ended = self.subscriptions.remove(key);
        let is_durable = ended.is_some_and(|ended| ended.durable().is_some());
        let cold = self.cold();
        cold.bases.remove(key);
        cold.exchanges.forget_asked(&[key]);
        // One that was never confirmed is answered by its end.
        cold.questions.end_listening(key, is_durable);
        context.commands.push(Command::Unsubscribe { key, confirm });
        Ok(())
    }
}

impl SocketSession {
    /// The broker has ended a subscription: `unsubscribed(name, {id, code, message})`. Of a room, of which its client knows
    /// no id, `problem` tells; without the subscription to itself a namespace is left.
    pub(super) fn subscription_ended(
        &mut self,
        key: SubscriptionKey,
        close: &Close,
        context: &mut Context<'_>,
    ) {
        let Some(known) = self.subscriptions.remove(key) else { return };
        let number = known.namespace;
        let cold = self.cold();
        cold.bases.remove(key);
        cold.exchanges.forget_asked(&[key]);
        let asked = cold.questions.end_listening(key, known.durable().is_some());
        if let Some(Waiting { namespace, ack, event, .. }) = asked {
            // Of a durable one, which is told to be there when it is made as well.
            return self.fail(namespace, ack, event, close, &mut context.output);
        }
        let Some(namespace) = self.namespaces.get(number) else { return };
        if known.listening == Listening::Room {
            let left = Text::new(b'1', namespace.name(), None);
            self.fail(number, None, "join", close, &mut context.output);
            if known.name.is_empty() {
                context.output.frame(left.bytes(), true);
                self.leave_namespace(number, context);
            }
            return;
        }
        let mut text = Text::event(0, namespace.name(), None, "unsubscribed");
        text.raw(",");
        text.text(&known.name);
        text.raw(",{\"id\":");
        text.number(u64::from(key.0));
        text.problem(close);
        text.raw("}]");
        context.output.frame(text.bytes(), true);
    }
}

/// A string among the options of an event.
pub(super) fn string(
    event: &Event<'_>,
    options: Json<'_>,
    name: &str,
) -> Result<Option<Box<str>>, Close> {
    let Some(given) = options.field(name).filter(|value| !value.is_null()) else {
        return Ok(None);
    };
    let text = given.as_text();
    let text = text.ok_or_else(|| event.wrong(&format!("its option `{name}` is a string")))?;
    Ok(Some(Box::from(&*text)))
}

/// How many messages of a queue may be under way.
pub(super) fn prefetch(event: &Event<'_>, options: Json<'_>) -> Result<Option<u32>, Close> {
    match event.number(options, "prefetch")? {
        None => Ok(None),
        Some(number @ 1..=PREFETCH_MAX) => Ok(Some(number as u32)),
        Some(_) => Err(event.wrong("its option `prefetch` is 1 to 10000")),
    }
}

/// Which messages a subscription is for.
pub(super) fn selector_of(choices: Option<&Choices>) -> Result<Option<Selector>, Close> {
    let text = choices.and_then(|choices| choices.selector.as_deref());
    text.map(Selector::parse)
        .transpose()
        .map_err(|error| Close::new(CloseCode::BadSelector, format!("{error}")))
}
