//! Consumers of an upstream's queues: from a subscription here to one there, for each of them.
//!
//! ```text
//!  session ──ConsumeElsewhere──▶ waits ──Consume──▶ upstream ──Complete──▶ consumes ◀──Queued── upstream
//!                                 ▲ │ away for too long, or refused there: refused here      │
//!                                 │ └───▶ end ◀── Leave, from the session                    │
//!                                 └───────── the connection is lost ─────────────────────────┘
//! ```
//! What is in flight when the connection is lost is in its queue again, so it is taken back from sessions that have not
//! given it to their clients. Relies on [`Consumers`](super::consumers::Consumers) for what is in flight. Invariants: a
//! message that has come is given to the consumer it came for, or to nobody, and then the upstream has it back; a consumer
//! that its client has been told of ends only by its client, or with a reason.

use tiderace_base::{Close, CloseCode, MemoryUse, Now, SessionId};
use tiderace_queues::{Effect, Segment};
use tiderace_topics::Path;
use tiderace_wire::{
    Destination, Numbering, Prefetch, Run, Subscribe, SubscriptionKey, Target, ToUpstream,
    UpstreamNumbers,
};

use super::consumers::{CONSUMERS_MAX, Name};
use crate::deputy_side::DeputySide;
use crate::effects::Effects;
use crate::elsewhere_queues::queue_elsewhere;
use crate::messages::{Answer, Consumption, LocalMessage, ToSubscriber};
use crate::places::Place;
use crate::room::check_room;

/// Bytes that may be in flight to a consumer that names no bound: here nobody else bounds them.
const IN_FLIGHT_BYTES: u32 = 8 << 20;

impl DeputySide<'_> {
    /// A consumer begins.
    pub(super) fn begin_consumer(
        &mut self,
        now: Now,
        consumption: Consumption,
        effects: &mut Effects,
    ) {
        let request = consumption.request;
        match self.admit_consumer(now, &consumption) {
            Ok(at) => {
                let name = (request.session, request.key);
                let next = self.home.home.next_number();
                let Some(deputy) = self.deputies.list.get_mut(at) else { return };
                deputy.consumers.insert(consumption, next);
                let bytes = deputy.consumers.get_mut(&name).map_or(0, |it| it.bytes());
                self.home.memory.charge(MemoryUse::Names, bytes);
                self.attach(at, name);
            }
            Err(close) => {
                self.home.metrics.upstream_relay_refused += 1;
                let close = Box::new(close);
                let refused = ToSubscriber::SubscribeRefused { request, close };
                self.home.send(Place::of(request.session), refused, effects);
            }
        }
    }

    fn admit_consumer(&self, now: Now, consumption: &Consumption) -> Result<usize, Close> {
        let mut targets = consumption.subscribe.targets.iter();
        let upstream = targets.find_map(|target| self.home.options.upstream_of_queues(target));
        let at = upstream.and_then(|upstream| self.at_upstream(upstream));
        let found = at.and_then(|at| Some((at, self.deputies.list.get(at)?)));
        let Some((at, deputy)) = found else { return Err(CloseCode::UpstreamAway.into()) };
        if deputy.consumers.taken == Some(false) {
            return Err(self.takes_no_consumers(at, &consumption.subscribe));
        }
        if deputy.link.is_none() && self.is_long_away(now, at) {
            return Err(self.away(at));
        }
        if deputy.consumers.len() >= CONSUMERS_MAX {
            let reason = format!(
                "this server passes on at most {CONSUMERS_MAX} consumers to one upstream; end some first"
            );
            return Err(Close::new(CloseCode::TooManySubscriptions, reason));
        }
        check_room(self.home.memory, MemoryUse::Names, size_of::<Consumption>())?;
        Ok(at)
    }

    /// Asks the upstream for a consumer, if it is there and takes them.
    fn attach(&mut self, at: usize, name: Name) {
        let Some(deputy) = self.deputies.list.get_mut(at) else { return };
        let (Some(session), Some(true)) = (deputy.link, deputy.consumers.taken) else { return };
        let Some(consumer) = deputy.consumers.get_mut(&name) else { return };
        let (principal, mut subscribe) =
            (consumer.principal.clone(), Box::new(consumer.subscribe.clone()));
        let key = deputy.subscriptions.take_for_consumer();
        deputy.consumers.attach(name, key);
        let key = SubscriptionKey(key);
        // This node settles what is given here, also for clients that settle nothing.
        subscribe.explicit = true;
        subscribe.key = key;
        subscribe.prefetch = subscribe.prefetch.map(bounded);
        let asked = Box::new(ToUpstream::Consume { key, principal, subscribe });
        self.home.loopback.hand_on(LocalMessage::Upstream { session, asked });
    }

    /// The upstream says whether it takes consumers.
    pub(super) fn consumers_taken(&mut self, at: usize, taken: bool, effects: &mut Effects) {
        let Some(deputy) = self.deputies.list.get_mut(at) else { return };
        deputy.consumers.taken = Some(taken);
        for name in deputy.consumers.names() {
            match taken {
                true => self.attach(at, name),
                false => {
                    let known = self.deputies.list.get_mut(at);
                    let known = known.and_then(|deputy| deputy.consumers.get_mut(&name));
                    let subscribe = known.map(|consumer| consumer.subscribe.clone());
                    let Some(subscribe) = subscribe else { continue };
                    let close = self.takes_no_consumers(at, &subscribe);
                    self.refuse_consumer(at, &name, close, effects);
                }
            }
        }
    }

    /// The upstream has a consumer; whether the key stands for one.
    pub(super) fn consumer_begun(&mut self, at: usize, key: u32, effects: &mut Effects) -> bool {
        let Some(deputy) = self.deputies.list.get_mut(at) else { return false };
        let Some(name) = deputy.consumers.named(key) else { return false };
        let Some(consumer) = deputy.consumers.get_mut(&name) else { return false };
        let request = consumer.request;
        if !std::mem::replace(&mut consumer.is_answered, true) {
            let place = Place::of(request.session);
            self.home.answer(place, request, Answer::default(), effects);
        }
        true
    }

    /// The upstream does not have a consumer, or not any more.
    pub(super) fn consumer_refused(
        &mut self,
        at: usize,
        key: u32,
        close: Close,
        effects: &mut Effects,
    ) {
        let Some(deputy) = self.deputies.list.get_mut(at) else { return };
        let Some(name) = deputy.consumers.named(key) else { return };
        deputy.subscriptions.free_consumer(key);
        self.drop_said_to(at, key, &close, effects);
        self.refuse_consumer(at, &name, close, effects);
    }

    fn refuse_consumer(&mut self, at: usize, name: &Name, close: Close, effects: &mut Effects) {
        let Some(deputy) = self.deputies.list.get_mut(at) else { return };
        let Some(consumer) = deputy.consumers.remove(name) else { return };
        self.home.memory.refund(MemoryUse::Names, consumer.bytes());
        self.home.metrics.upstream_relay_refused += 1;
        let (request, close) = (consumer.request, Box::new(close));
        let refused = ToSubscriber::SubscribeRefused { request, close };
        self.home.send(Place::of(request.session), refused, effects);
    }

    /// The upstream has ended a consumer: its client is told, if it waits for that.
    pub(super) fn consumer_ended(&mut self, at: usize, key: u32, effects: &mut Effects) {
        let Some(deputy) = self.deputies.list.get_mut(at) else { return };
        if let Some((session, Some(confirm))) = deputy.consumers.ended(key) {
            self.home.confirm(session, confirm, effects);
        }
    }

    /// Messages have come for a consumer. If that has left, the upstream hears of it and takes them back.
    pub(super) fn consumed(
        &mut self,
        at: usize,
        key: u32,
        (redeliveries, mut run): (u32, Run),
        effects: &mut Effects,
    ) {
        self.consumer_begun(at, key, effects);
        let Some(deputy) = self.deputies.list.get_mut(at) else { return };
        let Some(name) = deputy.consumers.named(key).filter(|_| !run.is_empty()) else { return };
        let Some(consumer) = deputy.consumers.get_mut(&name) else { return };
        let there = (run.home(), run.first());
        self.home.home.number(&mut run);
        consumer.take_off(run.first(), run.len() as u64, there);
        // Also what says that no queue of this node counts it.
        let numbering = Numbering::new(deputy.epoch, there.0);
        run.set_upstream(Some(UpstreamNumbers { numbering, first: there.1, reached: 0 }));
        self.home.metrics.upstream_consumed += run.len() as u64;
        let mut segment = Segment::whole(run.into());
        segment.redeliveries = redeliveries;
        let (session, key) = name;
        self.home.apply(vec![Effect::Deliver { session, key, segment }], effects);
    }

    /// Somebody who browses has been given all that was there.
    pub(super) fn browsed_there(&mut self, at: usize, key: u32, effects: &mut Effects) {
        let Some(deputy) = self.deputies.list.get_mut(at) else { return };
        let Some(name) = deputy.consumers.named(key) else { return };
        let Some(consumer) = deputy.consumers.get_mut(&name) else { return };
        let queue = consumer.subscribe.targets.iter().find_map(|target| match target {
            Target::Exact(Destination { path, .. }) => Some(Path::clone(path)),
            Target::Pattern(..) => None,
        });
        let (session, key) = name;
        if let Some(path) = queue {
            self.home.apply(vec![Effect::Browsed { session, key, path }], effects);
        }
    }

    /// The connection is lost, and with it what was in flight.
    pub(super) fn lose_consumers(&mut self, at: usize, effects: &mut Effects) {
        let next = self.home.home.next_number();
        let close = Close::new(
            CloseCode::UpstreamAway,
            format!(
                "the connection to the upstream {} was lost, and where this subscription stood in its queue is not known \
                 to another one; subscribe again",
                self.name_of_upstream(at)
            ),
        );
        let Some(deputy) = self.deputies.list.get_mut(at) else { return };
        for (session, confirm) in deputy.consumers.unlink(next) {
            if let Some(confirm) = confirm {
                self.home.confirm(session, confirm, effects);
            }
        }
        let names = self.deputies.list.get(at).map(|deputy| deputy.consumers.names());
        for name in names.into_iter().flatten() {
            let Some(deputy) = self.deputies.list.get_mut(at) else { return };
            let Some(consumer) = deputy.consumers.get_mut(&name) else { continue };
            if consumer.is_answered && !consumer.can_go_on() {
                self.refuse_consumer(at, &name, close.clone(), effects);
            } else if consumer.is_answered {
                let (session, key) = name;
                let recall = ToSubscriber::Recall { session, key };
                self.home.send(Place::of(session), recall, effects);
            }
        }
    }

    /// Housekeeping: clients that have not been told of their consumers wait no longer than for anything else.
    pub(super) fn end_overdue_consumers(&mut self, now: Now, at: usize, effects: &mut Effects) {
        let Some(deputy) = self.deputies.list.get(at) else { return };
        if deputy.link.is_some() || deputy.consumers.len() == 0 || !self.is_long_away(now, at) {
            return;
        }
        let close = self.away(at);
        for name in deputy.consumers.names() {
            let known = self.deputies.list.get_mut(at);
            let known = known.and_then(|deputy| deputy.consumers.get_mut(&name));
            if known.is_some_and(|consumer| !consumer.is_answered) {
                self.refuse_consumer(at, &name, close.clone(), effects);
            }
        }
    }

    /// The deputy that has the consumer of a session's subscription.
    pub(super) fn at_consumer(&self, session: SessionId, key: SubscriptionKey) -> Option<usize> {
        let name = (session, key);
        self.deputies.list.iter().position(|deputy| deputy.consumers.has(&name))
    }

    /// The sessions of a place are lost, with their consumers.
    pub(crate) fn lose_consumers_of(&mut self, place: Place, effects: &mut Effects) {
        for at in 0..self.deputies.list.len() {
            let names = self.deputies.list.get(at).map(|deputy| deputy.consumers.names());
            let names = names.into_iter().flatten();
            for name in names.filter(|(session, _)| Place::of(*session) == place) {
                // All that it was given may have been read.
                self.leave_there(at, name, (u64::MAX, true), None, effects);
            }
        }
    }

    fn takes_no_consumers(&self, at: usize, subscribe: &Subscribe) -> Close {
        let queue = subscribe.targets.first().map_or("", Target::name);
        let close = queue_elsewhere(queue, &self.name_of_upstream(at));
        Close::new(close.code, format!("{}, or update that server", close.reason))
    }
}

/// A prefetch that bounds the bytes.
fn bounded(prefetch: Prefetch) -> Prefetch {
    match prefetch {
        // What the queue says of itself applies.
        Prefetch { messages: 0, bytes: 0 } => prefetch,
        Prefetch { messages, bytes: 0 } => Prefetch { messages, bytes: IN_FLIGHT_BYTES },
        _ => prefetch,
    }
}
