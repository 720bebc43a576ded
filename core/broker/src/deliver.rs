//! From a run to the backlogs of this shard's subscribers; `taking.rs` goes on from there.
//!
//! Also the policy part of slow consumers: what is done with a message that finds its session's
//! backlog above the mark.

use std::rc::Rc;
use std::sync::Arc;

use tiderace_base::{Close, CloseCode, Key, Now, SessionId};
use tiderace_queues::{Segment, Settlement, is_private};
use tiderace_topics::Path;
use tiderace_wire::{Flags, Kind, Priority, Run, SharedRun, SubscriptionKey, Target, TopicSpec};

use crate::access::Caller;
use crate::backlog::{Pending, Source};
use crate::broker::Broker;
use crate::effects::{Effects, Mail};
use crate::places::{bit, key_of};
use crate::price::{ABOVE_MARK, DELIVERY, FREE_DELIVERIES};
use crate::runs::copy_of;
use crate::runs::last_of;
use crate::session::Session;
use crate::subscriber_list::Subscriber;
use crate::subscriber_list::SubscriberList;
use crate::subscriptions::Entry;
use crate::{Action, SlowConsumer};

/// What a topic's subscribers on this shard are offered: a run, and what is the same for all of them.
#[derive(Clone, Copy, Debug)]
struct Offer {
    topic: Key,
    priority: Priority,
    /// A subscriber without conditions gets all of it at once.
    is_plain: bool,
    /// Messages in the run.
    len: u32,
    /// The number of the last of them.
    reached: u64,
}

/// How far above the mark a backlog may grow during the grace period, when publishers are held
/// back but what they sent before is still under way.
pub(crate) const OVERSHOOT: usize = 4;

/// What a session may have waiting when the shard's memory is exhausted.
const EXHAUSTED_BYTES_MAX: usize = 64 * 1024;

impl Broker {
    /// Puts a run of a topic into the backlogs of this shard's subscribers. Without a specification the
    /// topic is what the configuration says of all.
    pub(crate) fn fan_out(
        &mut self,
        now: Now,
        run: Arc<Run>,
        spec: Option<Arc<TopicSpec>>,
        effects: &mut Effects,
    ) {
        let key = self.ensure_topic(now, &run.destination().path);
        let spec = match spec {
            Some(spec) => spec,
            None => {
                let known = self.topics.get(key).map(|topic| &topic.spec);
                if known.is_some_and(|known| Arc::ptr_eq(known, &self.options.topic_default)) {
                    return self.fan_out_topic(now, key, run, effects);
                }
                self.options.topic_default.clone()
            }
        };
        self.set_spec(now, key, spec, effects);
        self.fan_out_topic(now, key, run, effects);
    }

    /// The same for a topic that has been looked up.
    pub(crate) fn fan_out_topic(
        &mut self,
        now: Now,
        key: Key,
        run: Arc<Run>,
        effects: &mut Effects,
    ) {
        self.refresh_pattern_subscribers(key);
        let Some(topic) = self.topics.get_mut(key) else {
            return;
        };
        topic.touch(now.time);
        let wants_deltas = topic.wants_deltas();
        let spec = &topic.spec;
        let is_plain = spec.conflation.interval.is_zero() && !run.any(Flags::EXPIRES);
        let offer = Offer {
            topic: key,
            priority: spec.priority,
            is_plain,
            len: run.len() as u32,
            reached: last_of(&run),
        };
        // Taken out so that sessions can be touched meanwhile; nothing below adds subscribers.
        let subscribers = std::mem::take(&mut topic.subscribers);
        let by_pattern = std::mem::take(&mut topic.by_pattern);
        let shared = if wants_deltas {
            let previous = topic.previous.replace(newest(&run));
            Rc::new(SharedRun::after(run, previous).counted(&self.memory))
        } else {
            topic.previous = None;
            Rc::new(SharedRun::new(run).counted(&self.memory))
        };
        let (exact, matching) = (subscribers.as_slice(), by_pattern.as_slice());
        let count = exact.len() + matching.len();
        for subscriber in exact.iter().chain(matching) {
            self.offer(now, offer, *subscriber, &shared, effects);
        }
        if count > FREE_DELIVERIES {
            self.work.charge_at(now, DELIVERY * count as u64);
        }
        if let Some(topic) = self.topics.get_mut(key) {
            topic.subscribers = subscribers;
            topic.by_pattern = by_pattern;
        }
    }

    #[inline(always)]
    fn offer(
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
        let mut stretches = std::mem::take(&mut self.stretches);
        self.wanted(now, to, run, &mut stretches);
        for (from, end) in stretches.drain(..) {
            let reached = run.run().first() + u64::from(end) - 1;
            let part = Pending { run: run.clone(), from, to: end, reached, ..whole };
            self.push_or_hold(now, topic, to.session, part, effects);
        }
        self.stretches = stretches;
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
                let home = bit(run.run().home());
                if listening.is_none_or(|listening| listening.waiting & home != 0) {
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
        let spares = &mut self.spares;
        self.backlog_bytes += record.push(id, pending, Some(topic), priority, spares, effects);
    }

    fn priority_of(&self, topic: Key) -> Priority {
        self.topics.get(topic).map_or(Priority::Default, |topic| topic.spec.priority)
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
        let (mark, priority) = (self.mark(), self.priority_of(topic));
        self.work.charge_at(now, ABOVE_MARK);
        if mark == 0 {
            return self.push_exhausted(now, topic, session, pending, effects);
        }
        let Some(record) = self.sessions.get_mut(session) else { return };
        let spec = self.topics.get(topic).map(|topic| &*topic.spec);
        let (held, bytes) = (record.backlog_bytes(), pending.bytes());
        let lagging = record.slow().is_some_and(|slow| slow.lagging);
        let policy = spec.map_or(SlowConsumer::DropOldest, |spec| spec.slow_consumer);
        let merge = spec.is_some_and(|spec| spec.conflation.merge);
        // Of the ordinary mark: a shortage of memory holds publishers back sooner, but takes nothing
        // from a subscriber before its grace is over.
        let most = self.options.backlog_bytes_high.saturating_mul(OVERSHOOT);
        let within = held + bytes <= most;
        let waits = spec.is_some_and(|spec| !spec.grace.is_zero());
        if policy == SlowConsumer::Block || (waits && !lagging && within) {
            self.press(now, topic, session, effects);
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
        self.backlog_bytes = (self.backlog_bytes + after).saturating_sub(held);
        self.lag(now, session);
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
            self.topics.get(topic).map_or(SlowConsumer::DropOldest, |it| it.spec.slow_consumer);
        let Some(record) = self.sessions.get_mut(session) else { return };
        let (held, bytes) = (record.backlog_bytes(), pending.bytes());
        if held + bytes <= EXHAUSTED_BYTES_MAX {
            self.press(now, topic, session, effects);
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
        let record = self.sessions.get_mut(key_of(session));
        let Some(subscription) = record.and_then(|record| record.subscription_mut(key)) else {
            // Not one to a queue, or ended meanwhile; the home hears of that too and takes the messages back.
            return;
        };
        // A home answers before it delivers: what comes earlier was for a subscription that had
        // the same key before.
        let home = bit(segment.run.home());
        let path = &segment.run.destination().path;
        let answered =
            subscription.targets.as_slice().iter().any(|listening| {
                listening.waiting & home == 0 && listens_to(&listening.target, path)
            });
        if !answered {
            return;
        }
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
            run: Rc::new(SharedRun::new(segment.run)),
            source,
            is_past: false,
        };
        self.push_segment(key_of(session), pending, false, effects);
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
        let spares = &mut self.spares;
        self.backlog_bytes += record.push(id, pending, topic, priority, spares, effects);
    }

    /// Looks up anew which pattern subscriptions the topic has, if patterns have changed.
    pub(crate) fn refresh_pattern_subscribers(&mut self, key: Key) {
        let at = self.patterns.generation();
        let Some(topic) = self.topics.get_mut(key) else {
            return;
        };
        if topic.patterns_at == at {
            return;
        }
        topic.patterns_at = at;
        topic.by_pattern = SubscriberList::None;
        let mut asked = 0;
        let (path, found, sessions, options) =
            (&topic.path, &mut topic.by_pattern, &self.sessions, &self.options);
        let (private, shard) = (is_private(path), self.shard);
        self.patterns.of(path, &mut |subscriber| {
            asked += 1;
            let record = sessions.get(subscriber.session);
            let principal = record.and_then(|record| record.principal.as_ref());
            let allowed = principal.is_some_and(|principal| {
                let Key { slot, generation } = subscriber.session;
                let session = SessionId { shard, slot, generation };
                options.may(Caller { session, principal }, Action::Subscribe, Kind::Topic, path)
            });
            // Either question is asked of the subscription only where it matters.
            let looks = private || subscriber.flags.several();
            let brings = |record: &Session| record.brings(subscriber.key, subscriber.target, path);
            if allowed && (!looks || record.is_some_and(brings)) {
                found.push(*subscriber);
            }
        });
        if asked > FREE_DELIVERIES {
            self.work.charge(DELIVERY * asked as u64);
        }
    }

    /// Sends a settlement to the home of the messages, which may be here.
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn settle_towards(
        &mut self,
        home: tiderace_base::ShardId,
        session: SessionId,
        key: SubscriptionKey,
        ranges: Vec<(u64, u64)>,
        settlement: Settlement,
        effects: &mut Effects,
    ) {
        self.send(home, Mail::Settle { session, key, ranges, settlement, confirm: None }, effects);
    }
}

/// What the next run of a topic is a change of: the run, or only its last message if that is much
/// less.
pub(crate) fn newest(run: &Arc<Run>) -> Arc<Run> {
    match run.message(run.len().saturating_sub(1)) {
        Some(last) if run.bytes() > 2 * (last.properties.len() + last.body.len()) + 1024 => {
            copy_of(run, &last)
        }
        _ => run.clone(),
    }
}

/// Whether the target is that queue or a pattern of queues it is one of.
fn listens_to(target: &Target, path: &Path) -> bool {
    match target {
        Target::Exact(destination) => destination.kind == Kind::Queue && destination.path == *path,
        Target::Pattern(kind, pattern) => *kind == Kind::Queue && pattern.matches(path),
    }
}
