//! Credit: how many messages a subscription may still be given.
//!
//! A subscription that began with credit is charged for each message when it is put where the session
//! takes it from. What comes of a topic while there is none is deferred in a throttle (`throttling.rs`),
//! conflated as the topic says; the throttles wait here for credit, the longest first. Pages of snapshots
//! are asked for only while there is credit. Messages of queues stay at their homes, which know the
//! credit too; only where several homes know it can more of them come than there is credit for, and
//! wait here as well. What the policies for slow consumers take out of the backlog again is given back.
//!
//! Relies on `push_now` for those policies. Invariants: a subscription is never given more than its
//! credit; nothing waits while credit is left, except between a refund and the next delivery; a session
//! has at most `deferred_bytes_max` deferred.

use tiderace_base::{Close, CloseCode, Key, Now, SessionId};
use tiderace_queues::Settlement;
use tiderace_wire::{Priority, SubscriptionKey};

use super::backlog::Pending;
use super::credit::Credit;
use crate::SlowConsumer;
use crate::effects::Effects;
use crate::home_side::HomeSide;
use crate::messages::{SubscribeRequestId, ToHome};
use crate::places::{Place, PlaceSet, key_of};
use crate::session::Session;
use crate::session_side::SessionSide;
use crate::subscription::Subscription;
use crate::subscriptions::Entry;

impl Session {
    /// The credit of a subscription that has one.
    pub(crate) fn credit(&self, key: SubscriptionKey) -> Option<&Credit> {
        match self.subscriptions.get(key)? {
            Entry::Plain(_) => None,
            Entry::Credited(credited) => Some(&credited.credit),
            Entry::Full(subscription) => subscription.credit.as_deref(),
        }
    }

    /// The same, to change it.
    pub(crate) fn credit_mut(&mut self, key: SubscriptionKey) -> Option<&mut Credit> {
        match self.subscriptions.get_mut(key)? {
            Entry::Plain(_) => None,
            Entry::Credited(credited) => Some(&mut credited.credit),
            Entry::Full(subscription) => subscription.credit.as_deref_mut(),
        }
    }

    /// Whether a subscription may be given something.
    pub(crate) fn has_credit(&self, key: SubscriptionKey) -> bool {
        self.credit(key).is_none_or(|credit| credit.left > 0)
    }

    /// Whether there is credit for so many messages.
    pub(crate) fn affords(&self, key: SubscriptionKey, count: u32) -> bool {
        self.credit(key).is_none_or(|credit| credit.left >= u64::from(count))
    }

    /// Takes as many messages as there is credit for, at most `count`; how many that is.
    pub(crate) fn spend(&mut self, key: SubscriptionKey, count: u32) -> u32 {
        let Some(credit) = self.credit_mut(key) else { return count };
        let granted = credit.left.min(u64::from(count));
        credit.left -= granted;
        granted as u32
    }

    /// Messages that were paid for have been given up again.
    fn refund(&mut self, key: SubscriptionKey, count: u64) {
        let Some(credit) = self.credit_mut(key).filter(|_| count > 0) else { return };
        credit.left = credit.left.saturating_add(count);
        let waits = credit.waiting.is_some();
        if waits {
            let refunded = &mut self.rare.get_or_insert_default().refunded;
            let refunded = refunded.get_or_insert_default();
            if !refunded.contains(&key) {
                refunded.push(key);
            }
        }
    }

    /// Keeps a snapshot that has more until there is credit for it; false if there is.
    pub(crate) fn park(&mut self, home: Place, request: SubscribeRequestId) -> bool {
        if self.has_credit(request.key) {
            return false;
        }
        let Some(credit) = self.credit_mut(request.key) else { return false };
        credit.waiting.get_or_insert_default().pages.push((home, request));
        true
    }
}

impl SessionSide<'_> {
    /// A session allows more messages to one of its subscriptions.
    pub(crate) fn add_credit(
        &mut self,
        now: Now,
        session: SessionId,
        key: SubscriptionKey,
        messages: u64,
        effects: &mut Effects,
    ) {
        if self.sessions.owners_mut().add_credit(session, key, messages) {
            return;
        }
        let Some(record) = self.sessions.get_mut(key_of(session)) else { return };
        let Some(credit) = record.credit_mut(key).filter(|_| messages > 0) else { return };
        credit.left = credit.left.saturating_add(messages);
        let record = self.session(session);
        let subscription = record.and_then(|record| record.subscription(key));
        let homes = subscription.map_or(PlaceSet::EMPTY, |known| self.serving_homes(known));
        for home in homes.iter() {
            self.send(home, ToHome::Credit { session, key, messages }, effects);
        }
        self.use_credit(now, session, key, effects);
    }

    /// The homes of the queues and services that a subscription is for.
    pub(crate) fn serving_homes(&self, subscription: &Subscription) -> PlaceSet {
        let targets = subscription.targets.as_slice().iter();
        let homes = targets.map(|listening| self.options.serving_homes(&listening.target));
        homes.fold(PlaceSet::EMPTY, PlaceSet::union)
    }

    /// Gives what waits, as far as the credit goes.
    fn use_credit(
        &mut self,
        now: Now,
        session: SessionId,
        key: SubscriptionKey,
        effects: &mut Effects,
    ) {
        let at = key_of(session);
        loop {
            let Some(record) = self.sessions.get_mut(at) else { return };
            let Some(credit) = record.credit_mut(key).filter(|credit| credit.left > 0) else {
                return;
            };
            let Some(waiting) = &mut credit.waiting else { break };
            if let Some(segment) = waiting.segments.pop_front() {
                self.delivery.count(segment.bytes(), 0);
                self.push_segment(at, segment, true, effects);
            } else if let Some(throttle) = waiting.throttles.pop_front() {
                self.delivery.throttles.wake(throttle);
                self.end_throttle(now, throttle, effects);
            } else {
                break;
            }
        }
        let Some(record) = self.sessions.get_mut(at) else { return };
        let Some(credit) = record.credit_mut(key) else { return };
        let pages = credit.waiting.as_mut().map(|waiting| std::mem::take(&mut waiting.pages));
        credit.tidy();
        for (home, request) in pages.unwrap_or_default() {
            self.note_more(home, request);
        }
        self.ask_for_pages(session, effects);
    }

    /// Something was given to the session, or given up: what credit came back for goes.
    pub(crate) fn use_refunds(&mut self, now: Now, session: SessionId, effects: &mut Effects) {
        let record = self.sessions.get_mut(key_of(session));
        let rare = record.and_then(|record| record.rare.as_mut());
        for key in rare.and_then(|rare| rare.refunded.take()).into_iter().flat_map(|keys| *keys) {
            self.use_credit(now, session, key, effects);
        }
    }

    /// Messages of a topic were paid for and then given up for others, or dropped.
    pub(crate) fn refund(&mut self, session: Key, key: SubscriptionKey, count: u64) {
        if let Some(record) = self.sessions.get_mut(session) {
            record.refund(key, count);
        }
    }

    /// A throttle is over, and only lacks credit.
    pub(crate) fn await_credit(&mut self, session: Key, key: SubscriptionKey, throttle: Key) {
        let record = self.sessions.get_mut(session);
        if let Some(credit) = record.and_then(|record| record.credit_mut(key)) {
            credit.waiting.get_or_insert_default().throttles.push_back(throttle);
        }
    }

    /// Puts messages of a queue into the backlog as far as the credit goes; the rest waits, in front of
    /// others if it did before.
    pub(crate) fn push_segment(
        &mut self,
        session: Key,
        mut segment: Pending,
        waited: bool,
        effects: &mut Effects,
    ) {
        let Some(record) = self.sessions.get_mut(session) else { return };
        let key = segment.key;
        let granted = record.spend(key, segment.len());
        if granted < segment.len() {
            let front = (granted > 0).then(|| segment.split_front(granted));
            self.delivery.count(0, segment.bytes());
            if let Some(credit) = record.credit_mut(key) {
                let segments = &mut credit.waiting.get_or_insert_default().segments;
                match waited {
                    true => segments.push_front(segment),
                    false => segments.push_back(segment),
                }
            }
            let Some(front) = front else { return };
            segment = front;
        }
        self.push(session, segment, None, Priority::Default, effects);
    }

    /// More is deferred of a session than it may have, for lack of credit: the topic's policy says what
    /// becomes of it.
    pub(crate) fn overfill(
        &mut self,
        topic: Key,
        session: Key,
        key: SubscriptionKey,
        throttle: Key,
        effects: &mut Effects,
    ) {
        let policy = self.directory.get(topic).map(|topic| topic.spec.slow_consumer);
        let Some(record) = self.sessions.get_mut(session) else { return };
        match policy.unwrap_or(SlowConsumer::DropOldest) {
            SlowConsumer::DropNewest => {
                self.metrics.dropped_newest += self.drop_throttle(throttle);
            }
            SlowConsumer::DropOldest => self.drop_deferred(session, key, throttle),
            SlowConsumer::Conflate | SlowConsumer::Block | SlowConsumer::Disconnect => {
                let most = self.options.deferred_bytes_max;
                let reason = format!(
                    "more than {most} bytes of newest values wait for this client to ask for them; ask for more messages or subscribe to less"
                );
                let close = Close::new(CloseCode::SlowConsumer, reason);
                let link = record.link;
                effects.close.push((link, self.id_of(session), close));
            }
        }
    }

    /// Gives up what a subscription has waited for longest until no more is deferred than may be, at
    /// last what a throttle has just deferred.
    fn drop_deferred(&mut self, session: Key, key: SubscriptionKey, throttle: Key) {
        loop {
            let Some(record) = self.sessions.get_mut(session) else { return };
            let deferred = record.backlog.as_ref().map_or(0, |backlog| backlog.deferred_bytes());
            if deferred <= self.options.deferred_bytes_max {
                return;
            }
            let waiting = record.credit_mut(key).and_then(|credit| credit.waiting.as_mut());
            let oldest = waiting.and_then(|waiting| waiting.throttles.pop_front());
            self.metrics.dropped_oldest += self.drop_throttle(oldest.unwrap_or(throttle));
            if oldest.is_none() {
                return;
            }
        }
    }

    /// A subscription ends: messages of queues that waited for credit go back.
    pub(crate) fn return_waiting(
        &mut self,
        session: SessionId,
        credit: Option<&mut Credit>,
        effects: &mut Effects,
    ) {
        let waiting = credit.and_then(|credit| credit.waiting.take());
        for segment in waiting.into_iter().flat_map(|waiting| waiting.segments) {
            self.delivery.count(segment.bytes(), 0);
            let run = segment.run.run();
            let (first, home) = (run.first(), run.home());
            let range = (first + u64::from(segment.from), first + u64::from(segment.to) - 1);
            let key = segment.key;
            self.settle_towards(home, session, key, vec![range], Settlement::Return, effects);
        }
    }
}

impl HomeSide<'_> {
    /// At a home of queues and services: a consumer or responder may be given more.
    pub(crate) fn credit_at_home(
        &mut self,
        now: Now,
        session: SessionId,
        key: SubscriptionKey,
        messages: u64,
        effects: &mut Effects,
    ) {
        self.credit_consumer(now, session, key, messages, effects);
        self.credit_responder(session, key, messages, effects);
    }
}
