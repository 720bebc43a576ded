//! Durable subscriptions: `subscribe(name, {durable, selector, prefetch, acks}, ack?)`.
//!
//! One is made, or is there already, and is consumed from at once: two commands, which come to its home in this order.
//! Its messages come as those of other subscriptions, and are answered as those of queues. Relies on the operations on
//! durable subscriptions for all that becomes of them. Invariant: the client is told that it is subscribed when both are
//! done, and that it is not when one of them was refused.

use tiderace_base::Close;
use tiderace_wire::{
    Command, Context, Destination, DurableSubscription, Kind, Operation, Prefetch, Subscribe,
    SubscriptionKey, Target, Token, durable_queue,
};

use super::event::Event;
use super::operate::pattern_of;
use super::questions::Waiting;
use super::state::SocketSession;
use super::subscribe::{Begins, prefetch, selector_of, string};
use super::subscriptions::{Choices, Listening, Subscription};

impl SocketSession {
    /// Makes a durable subscription, or joins those who consume from it.
    pub(super) fn subscribe_durably(
        &mut self,
        event: &Event<'_>,
        name: &str,
        durable: Box<str>,
        context: &mut Context<'_>,
    ) -> Result<(), Close> {
        let options = event.options(1)?;
        let others = ["snapshot", "recoverable", "deltas", "replay", "interval", "notices"];
        if let Some(other) = others.into_iter().find(|other| options.field(other).is_some()) {
            let problem = format!(
                "its option `{other}` is not for what is `durable`, which gathers every message"
            );
            return Err(event.wrong(&problem));
        }
        let choices = Choices {
            selector: string(event, options, "selector")?,
            prefetch: prefetch(event, options)?,
            durable: Some(durable),
            ..Choices::default()
        };
        let subscription = Subscription {
            name: name.into(),
            choices: Some(Box::new(choices)),
            namespace: event.namespace,
            listening: Listening::Topic,
            recoverable: false,
            explicit: event.truth(options, "acks", true)?,
            snapshot: false,
        };
        self.listen(subscription, Begins::default(), (event.ack, "subscribe"), context)
    }

    /// Asks the broker to make a durable subscription, and to consume from it.
    pub(super) fn ask_durably(
        &mut self,
        key: SubscriptionKey,
        (makes, consumes): (Token, Token),
        context: &mut Context<'_>,
    ) -> Result<(), Close> {
        let Some(known) = self.subscriptions.get(key) else { return Ok(()) };
        let queue = durable_queue(known.durable().unwrap_or_default())?;
        let topics = self.topics(&known.name)?.into_iter().filter_map(pattern_of).collect();
        let choices = known.choices.as_deref();
        let selector = selector_of(choices)?;
        let made = DurableSubscription { queue: queue.clone(), topics, selector };
        let operation = Box::new(Operation::CreateSubscription(Box::new(made)));
        context.commands.push(Command::Operate { token: makes, operation });
        let prefetch = choices.and_then(|choices| choices.prefetch);
        let target = Target::Exact(Destination { kind: Kind::Queue, path: queue });
        context.commands.push(Command::Subscribe(Box::new(Subscribe {
            explicit: known.explicit,
            prefetch: prefetch.map(|messages| Prefetch { messages, bytes: 0 }),
            confirm: Some(consumes),
            ..Subscribe::new(key, vec![target])
        })));
        Ok(())
    }

    /// One of the two was refused: the other one is taken back. The question whose answer the client waits for, if that
    /// was not the one.
    pub(super) fn end_refused(
        &mut self,
        key: SubscriptionKey,
        context: &mut Context<'_>,
    ) -> Option<Waiting> {
        self.subscriptions.remove(key);
        context.commands.push(Command::Unsubscribe { key, confirm: None });
        self.cold.as_mut()?.questions.end_listening(key, true)
    }
}
