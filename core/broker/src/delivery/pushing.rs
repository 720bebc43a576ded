//! Into the backlogs of sessions, and the policies for what finds one above the mark.
//!
//! `deliver.rs` says which subscribers a run is for, and `taking.rs` goes on from here.

use std::rc::Rc;
use std::sync::Arc;

use tiderace_base::{Close, CloseCode, Key, Memory, Now, SessionId};
use tiderace_queues::Segment;
use tiderace_topics::Path;
use tiderace_wire::{Destination, Kind, Priority, Run, SharedRun, SubscriptionKey, Target};

use super::backlog::{Pending, Source};
use super::offer::{OVERSHOOT, Offer};
use crate::SlowConsumer;
use crate::effects::Effects;
use crate::places::{Place, key_of};
use crate::price::ABOVE_MARK;
use crate::session_side::SessionSide;
use crate::subscriber_list::Subscriber;
use crate::subscription::Subscription;
use crate::subscriptions::Entry;

/// What a session may have waiting when the shard's memory is exhausted.
const EXHAUSTED_BYTES_MAX: usize = 64 * 1024;

impl SessionSide<'_> {
    #[inline(always)]
    pub(crate) fn offer(
        &mut self,
        now: Now,
        offer: Offer,
        to: Subscriber,
        run: &Rc<SharedRun>,
        effects: &mut Effects,
    ) {
        let whole = Pending {
            key: to.key,
            run: run.clone(),
            from: 0,
            to: offer.len,
            redeliveries: 0,
            reached: offer.reached,
            source: Source::Topic,
            is_past: false,
        };
        if to.plain && offer.is_plain {
            self.push_of(now, offer.topic, offer.priority, to.session, whole, effects);
        } else {
            self.offer_parts(now, offer.topic, to, whole, effects);
        }
    }

    /// The same where the subscription may want only part of a run, or not everything at once.
    fn offer_parts(
        &mut self,
        now: Now,
        topic: Key,
        to: Subscriber,
        whole: Pending,
        effects: &mut Effects,
    ) {
        let run = &whole.run;
        if self.is_disowned(topic, to) {
            return;
        }
        let record = self.sessions.get(to.session);
        let subscription = record.and_then(|record| record.subscription(to.key));
        if subscription.is_some_and(|subscription| subscription.selector.is_some()) {
            return self.offer_selected(now, topic, to, run, effects);
        }
        let mut stretches = std::mem::take(&mut self.delivery.stretches);
        self.wanted(now, to, run, &mut stretches);
        for (from, end) in stretches.drain(..) {
            let reached = run.run().first() + u64::from(end) - 1;
            let part = Pending { run: run.clone(), from, to: end, reached, ..whole };
            self.push_or_hold(now, topic, to.session, part, effects);
        }
        self.delivery.stretches = stretches;
    }

    /// The stretches of a run that a subscription with a selector wants, or one whose homes have
    /// not all answered yet, are added to `stretches`.
    pub(crate) fn wanted(
        &mut self,
        now: Now,
        to: Subscriber,
        run: &SharedRun,
        stretches: &mut Vec<(u32, u32)>,
    ) {
        let Some(record) = self.sessions.get(to.session) else { return };
        let selector = match record.subscriptions.get(to.key) {
            None => return,
            Some(Entry::Plain(_) | Entry::Credited(_)) => None,
            Some(Entry::Full(subscription)) => {
                let listening = subscription.targets.as_slice().get(usize::from(to.target));
                let home = Place::here(run.run().home());
                if listening.is_none_or(|listening| listening.waiting.contains(home)) {
                    return;
                }
                subscription.selector.as_ref()
            }
        };
        for (message, index) in run.run().messages().zip(0u32..) {
            if message.is_expired(now.wall_ms) {
                self.metrics.dropped_expired += 1;
                continue;
            }
            if selector.is_some_and(|selector| !selector.matches(&message)) {
                continue;
            }
            match stretches.last_mut() {
                Some((_, end)) if *end == index => *end += 1,
                _ => stretches.push((index, index + 1)),
            }
        }
    }

    /// Puts messages of a topic into a backlog, or does what the topic's policy says.
    pub(crate) fn push_now(
        &mut self,
        now: Now,
        topic: Key,
        session: Key,
        pending: Pending,
        effects: &mut Effects,
    ) {
        self.push_of(now, topic, self.priority_of(topic), session, pending, effects);
    }

    /// The same for a topic whose priority is known.
    #[inline]
    fn push_of(
        &mut self,
        now: Now,
        topic: Key,
        priority: Priority,
        session: Key,
        pending: Pending,
        effects: &mut Effects,
    ) {
        let mark = self.mark();
        let Some(record) = self.sessions.get_mut(session) else { return };
        let held = record.backlog_bytes();
        if (held > 0 || mark == 0) && held + pending.bytes() > mark {
            return self.push_above_mark(now, topic, session, pending, effects);
        }
        let id =
            SessionId { shard: self.shard, slot: session.slot, generation: session.generation };
        let spares = &mut self.delivery.spares;
        self.delivery.waiting_bytes +=
            record.push(id, pending, Some(topic), priority, spares, effects);
    }

    fn priority_of(&self, topic: Key) -> Priority {
        self.directory.get(topic).map_or(Priority::Default, |topic| topic.spec.priority)
    }

    /// The same where the backlog is longer than it should be.
    #[cold]
    fn push_above_mark(
        &mut self,
        now: Now,
        topic: Key,
        session: Key,
        pending: Pending,
        effects: &mut Effects,
    ) {
        let (mark, priority) = (self.mark_of(session), self.priority_of(topic));
        if self.sessions.get(session).is_some_and(|it| it.backlog_bytes() + pending.bytes() <= mark)
        {
            return self.push(session, pending, Some(topic), priority, effects);
        }
        self.work.charge_at(now, ABOVE_MARK);
        if mark == 0 {
            return self.push_exhausted(now, topic, session, pending, effects);
        }
        let Some(record) = self.sessions.get_mut(session) else { return };
        let spec = self.directory.get(topic).map(|topic| &*topic.spec);
        let (held, bytes) = (record.backlog_bytes(), pending.bytes());
        let over_grace = record.slow().is_some_and(|slow| slow.over_grace);
        let policy = spec.map_or(SlowConsumer::DropOldest, |spec| spec.slow_consumer);
        let merge = spec.is_some_and(|spec| spec.conflation.merge);
        // Of the ordinary mark: a shortage of memory holds publishers back sooner, but takes nothing
        // from a subscriber before its grace is over.
        let most = record.own_mark(self.options.backlog_bytes_high).saturating_mul(OVERSHOOT);
        let within = held + bytes <= most;
        let waits = spec.is_some_and(|spec| !spec.grace.is_zero());
        if policy == SlowConsumer::Block || (waits && !over_grace && within) {
            self.apply_backpressure(now, topic, session, effects);
            return self.push(session, pending, Some(topic), priority, effects);
        }
        let (of, count) = (pending.key, u64::from(pending.len()));
        let mut refunds = Vec::new();
        let backlog = record.backlog.get_or_insert_default();
        let (mut conflated, mut dropped) = (0, 0);
        match policy {
            SlowConsumer::Conflate => {
                conflated = backlog.conflate(topic, pending, merge, priority);
                refunds.push((of, conflated));
            }
            SlowConsumer::DropNewest => {
                dropped = count;
                refunds.push((of, count));
                self.metrics.dropped_newest += count;
            }
            SlowConsumer::Disconnect => {
                let reason = format!(
                    "{held} bytes of messages were waiting for this client; read faster or subscribe to less"
                );
                let close = Close::new(CloseCode::SlowConsumer, reason);
                let link = record.link;
                effects.close.push((link, self.id_of(session), close));
                return;
            }
            SlowConsumer::DropOldest | SlowConsumer::Block => {
                dropped = backlog.drop_oldest(bytes, mark, &mut refunds);
                self.metrics.dropped_oldest += dropped;
                backlog.push(pending, Some(topic), priority);
            }
        }
        let after = record.backlog_bytes();
        self.delivery.count(held, after);
        self.note_over_grace(now, session);
        self.note_given_up(session, conflated, dropped);
        for (key, count) in refunds {
            self.refund(session, key, count);
        }
    }

    /// The same when the shard's memory is exhausted: there is no grace, and no policy by which a backlog
    /// may grow. A session keeps a little, so that those that read go on.
    #[cold]
    fn push_exhausted(
        &mut self,
        now: Now,
        topic: Key,
        session: Key,
        pending: Pending,
        effects: &mut Effects,
    ) {
        let priority = self.priority_of(topic);
        let policy =
            self.directory.get(topic).map_or(SlowConsumer::DropOldest, |it| it.spec.slow_consumer);
        let Some(record) = self.sessions.get_mut(session) else { return };
        let (held, bytes) = (record.backlog_bytes(), pending.bytes());
        if held + bytes <= EXHAUSTED_BYTES_MAX {
            self.apply_backpressure(now, topic, session, effects);
            return self.push(session, pending, Some(topic), priority, effects);
        }
        if matches!(policy, SlowConsumer::DropOldest | SlowConsumer::DropNewest) {
            let (of, count) = (pending.key, u64::from(pending.len()));
            self.metrics.dropped_newest += count;
            self.note_given_up(session, 0, count);
            return self.refund(session, of, count);
        }
        let reason = format!(
            "the server's memory for messages is used up, and {held} bytes of them were waiting for this client; read faster or subscribe to less"
        );
        let close = Close::new(CloseCode::SlowConsumer, reason);
        effects.close.push((record.link, self.id_of(session), close));
    }

    /// A session gets newer messages in the place of some, or does not get some at all.
    pub(crate) fn note_given_up(&mut self, session: Key, conflated: u64, dropped: u64) {
        self.metrics.conflated += conflated;
        let record = self.sessions.get_mut(session).filter(|_| conflated + dropped > 0);
        if let Some(record) = record {
            let rare = record.rare.get_or_insert_default();
            rare.conflated += conflated;
            rare.dropped += dropped;
        }
    }

    /// Puts messages of a queue into the consumer's backlog; its window bounds them.
    pub(crate) fn deliver_segment(
        &mut self,
        session: SessionId,
        key: SubscriptionKey,
        segment: Segment,
        effects: &mut Effects,
    ) {
        let (home, path) = (segment.run.home(), &segment.run.destination().path);
        let Some(subscription) = self.consumer(session, key, (Place::here(home), path)) else {
            return;
        };
        let source = if subscription.explicit { Source::ExplicitQueue } else { Source::AutoQueue };
        if subscription.explicit {
            subscription.note_handed(segment.run.home(), segment.len());
        }
        if segment.redeliveries > 0 {
            self.metrics.redelivered += u64::from(segment.len());
        }
        let pending = Pending {
            key,
            from: segment.from,
            to: segment.to,
            redeliveries: segment.redeliveries,
            reached: 0,
            run: Rc::new(queued(segment.run, self.memory)),
            source,
            is_past: false,
        };
        effects.note_handed(&pending.run, pending.from..pending.to, pending.redeliveries);
        self.push_segment(key_of(session), pending, false, effects);
    }

    /// The same of the end of a queue that is browsed, behind what was shown of it.
    pub(crate) fn deliver_end(
        &mut self,
        now: Now,
        session: SessionId,
        key: SubscriptionKey,
        path: Path,
        effects: &mut Effects,
    ) {
        let home = self.options.home_of_queue(&path);
        if self.consumer(session, key, (home, &path)).is_some() {
            let destination = Destination { kind: Kind::Queue, path };
            let here = (home.shard, now);
            let pending = Pending::place(here, destination, (key, Source::QueueEnd));
            self.push(key_of(session), pending, None, Priority::Default, effects);
        }
    }

    /// The subscription for which something has come of a queue. A home answers before it delivers: what comes earlier was
    /// for one that had the same key before.
    fn consumer(
        &mut self,
        session: SessionId,
        key: SubscriptionKey,
        (home, path): (Place, &Path),
    ) -> Option<&mut Subscription> {
        let record = self.sessions.get_mut(key_of(session));
        // If there is none it was not one to a queue, or has ended meanwhile: the home hears of that too and takes the
        // messages back.
        let subscription = record.and_then(|record| record.subscription_mut(key))?;
        let is_answered = subscription.targets.as_slice().iter().any(|listening| {
            !listening.waiting.contains(home) && listens_to(&listening.target, path)
        });
        is_answered.then_some(subscription)
    }

    /// Puts something into a session's backlog, whatever waits there.
    pub(crate) fn push(
        &mut self,
        session: Key,
        pending: Pending,
        topic: Option<Key>,
        priority: Priority,
        effects: &mut Effects,
    ) {
        let id = self.id_of(session);
        let Some(record) = self.sessions.get_mut(session) else { return };
        let spares = &mut self.delivery.spares;
        self.delivery.waiting_bytes += record.push(id, pending, topic, priority, spares, effects);
    }
}

/// Whether the target is that queue or a pattern of queues it is one of.
fn listens_to(target: &Target, path: &Path) -> bool {
    match target {
        Target::Exact(destination) => destination.kind == Kind::Queue && destination.path == *path,
        Target::Pattern(kind, pattern) => *kind == Kind::Queue && pattern.matches(path),
    }
}

/// Messages of a queue: of another node's queue they count here, where no home counts them.
fn queued(run: Arc<Run>, memory: &Rc<Memory>) -> SharedRun {
    let is_elsewhere = run.upstream().is_some();
    let run = SharedRun::new(run);
    if is_elsewhere { run.counted(memory) } else { run }
}
