//! Throttles: how long a subscription gets no further update of a topic.
//!
//! A subscription or a topic may have an interval; the larger counts. The first update goes at once and
//! opens a throttle of that length. What comes while it is open is deferred, conflated as the topic says,
//! and goes when it is over, which opens the next. A throttle that defers nothing ends without a trace,
//! so a subscription costs nothing more while its topics rest. A subscription without credit left has
//! its throttles open until it gets some (`granting.rs`), also where there is no interval.
//!
//! Relies on [`Broker::tick`]: throttles end with the first tick at or after their time, never early.
//! Invariants: what is deferred goes before anything newer of its topic; no position includes it; a
//! session has at most the bytes of the high mark deferred, and what is beyond that goes at once if
//! there is credit for it.

use tiderace_base::{Key, Now, Span};
use tiderace_topics::Path;
use tiderace_wire::SubscriptionKey;

use super::backlog::Pending;
use super::throttles::Throttle;
use crate::delivery::conflate::{Conflated, conflated};
use crate::effects::Effects;
use crate::session_side::SessionSide;
use crate::subscriptions::Entry;

impl SessionSide<'_> {
    /// Puts messages of a topic into a backlog, at once or when the throttle is over.
    pub(crate) fn push_topic(
        &mut self,
        now: Now,
        topic: Key,
        session: Key,
        pending: Pending,
        effects: &mut Effects,
    ) {
        let interval = self.interval(topic, session, pending.key);
        let Some(record) = self.sessions.get_mut(session) else { return };
        if interval.is_zero() && record.credit(pending.key).is_none() {
            return self.push_now(now, topic, session, pending, effects);
        }
        let path = &pending.run.run().destination().path;
        let throttle = record.backlog.as_ref().and_then(|known| known.throttle(pending.key, path));
        if let Some(throttle) = throttle {
            self.defer_update(now, topic, throttle, pending, effects);
        } else if interval.is_zero() {
            self.push_bounded(now, topic, session, pending, effects);
        } else {
            self.push_paced(now, topic, session, pending, interval, effects);
        }
    }

    /// As many messages of a topic go as there is credit for; the rest is deferred until there is more.
    fn push_bounded(
        &mut self,
        now: Now,
        topic: Key,
        session: Key,
        mut pending: Pending,
        effects: &mut Effects,
    ) {
        let Some(record) = self.sessions.get_mut(session) else { return };
        let (key, count) = (pending.key, pending.len());
        let granted = record.spend(key, count);
        if granted == count {
            return self.push_now(now, topic, session, pending, effects);
        }
        if granted > 0 {
            let front = pending.split_front(granted);
            self.push_now(now, topic, session, front, effects);
        }
        let path = pending.run.run().destination().path.clone();
        let Some(throttle) = self.open_throttle(session, key, path) else { return };
        self.wait_for_credit(session, key, throttle);
        self.defer_update(now, topic, throttle, pending, effects);
    }

    /// The first update of a topic for a while goes, if there is credit, and opens a throttle.
    fn push_paced(
        &mut self,
        now: Now,
        topic: Key,
        session: Key,
        pending: Pending,
        interval: Span,
        effects: &mut Effects,
    ) {
        let merge = self.merges(topic);
        let (key, path) = (pending.key, pending.run.run().destination().path.clone());
        let Conflated { removal, last, given_up } = conflated(None, pending, merge);
        self.note_given_up(session, given_up, 0);
        let Some(throttle) = self.open_throttle(session, key, path) else { return };
        self.delivery.throttles.arm(throttle, now, interval);
        for pending in removal.into_iter().chain([last]) {
            let record = self.sessions.get_mut(session);
            if record.is_some_and(|record| record.spend(key, 1) == 1) {
                self.push_now(now, topic, session, pending, effects);
            } else {
                self.defer_update(now, topic, throttle, pending, effects);
            }
        }
    }

    /// How long a subscription is to wait between two updates of a topic.
    pub(crate) fn interval(&self, topic: Key, session: Key, key: SubscriptionKey) -> Span {
        let of_topic = self.directory.get(topic).map(|topic| topic.spec.conflation.interval);
        let subscription = self.sessions.get(session).and_then(|record| record.subscription(key));
        let own = subscription.and_then(|subscription| subscription.interval.as_deref());
        of_topic.unwrap_or_default().max(own.copied().unwrap_or_default())
    }

    /// Whether values of a topic are merged when they are conflated.
    pub(crate) fn merges(&self, topic: Key) -> bool {
        self.directory.get(topic).is_some_and(|topic| topic.spec.conflation.merge)
    }

    fn open_throttle(&mut self, session: Key, key: SubscriptionKey, path: Path) -> Option<Key> {
        let record = self.sessions.get_mut(session)?;
        let shared = path.clone();
        let throttle = Throttle { session, key, path, removal: None, last: None, is_over: false };
        let throttle = self.delivery.throttles.open.insert(throttle);
        record.backlog.get_or_insert_default().open_throttle(key, shared, throttle);
        Some(throttle)
    }

    /// A throttle is over but for want of credit.
    fn wait_for_credit(&mut self, session: Key, key: SubscriptionKey, throttle: Key) {
        if let Some(open) = self.delivery.throttles.open.get_mut(throttle)
            && !std::mem::replace(&mut open.is_over, true)
        {
            self.await_credit(session, key, throttle);
        }
    }

    /// Something comes while the throttle is open.
    fn defer_update(
        &mut self,
        now: Now,
        topic: Key,
        throttle: Key,
        pending: Pending,
        effects: &mut Effects,
    ) {
        let merge = self.merges(topic);
        let Some(open) = self.delivery.throttles.open.get_mut(throttle) else { return };
        let (session, key) = (open.session, open.key);
        let Some(record) = self.sessions.get_mut(session) else { return };
        let has_credit = record.has_credit(key);
        let backlog = record.backlog.get_or_insert_default();
        let before = backlog.deferred_bytes();
        let waited = open.last.take();
        let Conflated { removal, last, given_up } = conflated(waited.as_ref(), pending, merge);
        // One that is deferred already says it.
        let removal = removal.filter(|_| open.removal.is_none()).map(Box::new);
        if let Some(removal) = &removal {
            backlog.note_deferred(removal, true);
        }
        open.removal = open.removal.take().or(removal);
        backlog.note_deferred(&last, true);
        open.last = Some(last);
        if let Some(waited) = &waited {
            backlog.note_deferred(waited, false);
        }
        let after = backlog.deferred_bytes();
        self.delivery.count(before, after);
        self.note_given_up(session, given_up, 0);
        let scarce = self.memory.is_exhausted() && after > before;
        if has_credit && (after > self.options.backlog_bytes_high || scarce) {
            self.let_go(now, topic, throttle, effects);
        } else if !has_credit && (after > self.options.deferred_bytes_max || scarce) {
            self.overfill(topic, session, key, throttle, effects);
        }
    }

    /// What a throttle defers goes, as far as there is credit; whether all of it has gone.
    fn let_go(&mut self, now: Now, topic: Key, throttle: Key, effects: &mut Effects) -> bool {
        loop {
            let Some(open) = self.delivery.throttles.open.get_mut(throttle) else { return true };
            let (session, key) = (open.session, open.key);
            if open.last.is_none() {
                return true;
            }
            let record = self.sessions.get_mut(session);
            if record.is_none_or(|record| record.spend(key, 1) == 0) {
                return false;
            }
            let Some(next) = open.next() else { return true };
            self.no_longer_deferred(session, &next);
            self.push_now(now, topic, session, next, effects);
        }
    }

    /// What a throttle defers is given up; how many messages that was.
    pub(crate) fn drop_throttle(&mut self, throttle: Key) -> u64 {
        let Some(open) = self.delivery.throttles.open.get_mut(throttle) else { return 0 };
        let (session, over) = (open.session, open.is_over);
        let dropped: Vec<Pending> = open.take().collect();
        for pending in &dropped {
            self.no_longer_deferred(session, pending);
        }
        if over {
            self.close_throttle(throttle);
        }
        let count = dropped.len() as u64;
        self.note_given_up(session, 0, count);
        count
    }

    fn no_longer_deferred(&mut self, session: Key, pending: &Pending) {
        let record = self.sessions.get_mut(session);
        if let Some(backlog) = record.and_then(|record| record.backlog.as_mut()) {
            let before = backlog.deferred_bytes();
            backlog.note_deferred(pending, false);
            let after = backlog.deferred_bytes();
            self.delivery.count(before, after);
        }
    }

    /// Ends the throttles whose time is over.
    pub(crate) fn end_throttles(&mut self, now: Now, effects: &mut Effects) {
        let Some(wheel) = &mut self.delivery.throttles.wheel else { return };
        let mut due = Vec::new();
        wheel.expire(now.time, &mut due);
        for throttle in due {
            self.end_throttle(now, throttle, effects);
        }
    }

    /// What is deferred goes, and the next throttle opens if that was anything. Without credit for all
    /// of it the throttle stays open.
    pub(crate) fn end_throttle(&mut self, now: Now, throttle: Key, effects: &mut Effects) {
        let Some(open) = self.delivery.throttles.open.get(throttle) else { return };
        let (session, key, path) = (open.session, open.key, open.path.clone());
        if open.last.is_none() {
            return self.close_throttle(throttle);
        }
        let topic = self.directory.ensure(now, &path);
        if !self.let_go(now, topic, throttle, effects) {
            return self.wait_for_credit(session, key, throttle);
        }
        let interval = self.interval(topic, session, key);
        if interval.is_zero() {
            return self.close_throttle(throttle);
        }
        self.delivery.throttles.arm(throttle, now, interval);
    }

    /// A throttle ends, and what it defers is for nobody any more.
    pub(crate) fn close_throttle(&mut self, throttle: Key) {
        let Some(mut open) = self.delivery.throttles.open.remove(throttle) else { return };
        let session = open.session;
        for pending in open.take() {
            self.no_longer_deferred(session, &pending);
        }
        let Some(record) = self.sessions.get_mut(session) else { return };
        if let Some(backlog) = &mut record.backlog {
            backlog.close_throttle(open.key, &open.path);
        }
        record.tidy_backlog();
    }

    /// Closes the throttles of a subscription that ends.
    pub(crate) fn close_throttles_of(&mut self, session: Key, key: SubscriptionKey, entry: &Entry) {
        let record = self.sessions.get(session);
        let Some(backlog) = record.and_then(|record| record.backlog.as_ref()) else { return };
        let topic = match entry {
            Entry::Plain(plain) => self.directory.topics().key_of(plain.topic),
            Entry::Credited(credited) => self.directory.topics().key_of(credited.plain.topic),
            Entry::Full(subscription) => match subscription.targets.as_slice() {
                [only] => only.topic,
                _ => None,
            },
        };
        let Some(topic) = topic.and_then(|topic| self.directory.get(topic)) else {
            return self.close_throttles(session, Some(key));
        };
        if let Some(throttle) = backlog.throttle(key, &topic.path) {
            self.close_throttle(throttle);
        }
    }

    /// Closes the throttles of one of a session's subscriptions, or all.
    pub(crate) fn close_throttles(&mut self, session: Key, key: Option<SubscriptionKey>) {
        let record = self.sessions.get(session);
        let backlog = record.and_then(|record| record.backlog.as_ref());
        let throttles = backlog.map(|backlog| backlog.throttles_of(key)).unwrap_or_default();
        for throttle in throttles {
            self.close_throttle(throttle);
        }
    }
}
