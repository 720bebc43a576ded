//! Windows: how long a subscription gets no further update of a topic.
//!
//! A subscription or a topic may have an interval; the larger counts. The first update goes at once and
//! opens a window of that length. What comes while it is open is withheld, conflated as the topic says,
//! and goes when it is over, which opens the next. A window that withholds nothing ends without a trace,
//! so a subscription costs nothing more while its topics rest. A subscription without credit left has
//! its windows open until it gets some (`credit.rs`), also where there is no interval.
//!
//! Relies on [`Broker::tick`]: windows end with the first tick at or after their time, never early.
//! Invariants: what is withheld goes before anything newer of its topic; no position vouches for it; a
//! session has at most the bytes of the high mark withheld, and what is beyond that goes at once if
//! there is credit for it.

use tiderace_base::{Key, Now, Slab, Span, Wheel};
use tiderace_topics::Path;
use tiderace_wire::SubscriptionKey;

use crate::backlog::Pending;
use crate::broker::Broker;
use crate::conflate::{Conflated, conflated};
use crate::effects::Effects;
use crate::subscriptions::Entry;

/// The open windows of one shard.
#[derive(Debug, Default)]
pub(crate) struct Windows {
    open: Slab<Window>,
    /// When they end; made when the first opens.
    wheel: Option<Box<Wheel>>,
}

/// One subscription's window on one topic. Known by path, since a topic that is forgotten and comes
/// back has another key.
#[derive(Debug)]
struct Window {
    session: Key,
    key: SubscriptionKey,
    path: Path,
    /// A removal before what is withheld.
    removal: Option<Box<Pending>>,
    /// What is withheld: one message.
    last: Option<Pending>,
    /// It is over, and only waits for credit.
    is_over: bool,
}

impl Windows {
    /// How many are open.
    pub(crate) fn len(&self) -> usize {
        self.open.len()
    }

    /// There is credit for what a window withholds.
    pub(crate) fn wake(&mut self, window: Key) {
        if let Some(open) = self.open.get_mut(window) {
            open.is_over = false;
        }
    }

    fn arm(&mut self, window: Key, now: Now, interval: Span) {
        self.wheel.get_or_insert_default().arm(window, now.time + interval);
    }
}

impl Window {
    /// The first of what is withheld.
    fn next(&mut self) -> Option<Pending> {
        self.removal.take().map(|removal| *removal).or_else(|| self.last.take())
    }

    /// All that is withheld, in order.
    fn take(&mut self) -> impl Iterator<Item = Pending> {
        self.removal.take().map(|removal| *removal).into_iter().chain(self.last.take())
    }
}

impl Broker {
    /// Puts messages of a topic into a backlog, at once or when the window is over.
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
        let window = record.backlog.as_ref().and_then(|known| known.window(pending.key, path));
        if let Some(window) = window {
            self.withhold(now, topic, window, pending, effects);
        } else if interval.is_zero() {
            self.push_bounded(now, topic, session, pending, effects);
        } else {
            self.push_paced(now, topic, session, pending, interval, effects);
        }
    }

    /// As many messages of a topic go as there is credit for; the rest is withheld until there is more.
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
        let Some(window) = self.open_window(session, key, path) else { return };
        self.wait_for_credit(session, key, window);
        self.withhold(now, topic, window, pending, effects);
    }

    /// The first update of a topic for a while goes, if there is credit, and opens a window.
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
        let Some(window) = self.open_window(session, key, path) else { return };
        self.windows.arm(window, now, interval);
        for pending in removal.into_iter().chain([last]) {
            let record = self.sessions.get_mut(session);
            if record.is_some_and(|record| record.spend(key, 1) == 1) {
                self.push_now(now, topic, session, pending, effects);
            } else {
                self.withhold(now, topic, window, pending, effects);
            }
        }
    }

    /// How long a subscription is to wait between two updates of a topic.
    pub(crate) fn interval(&self, topic: Key, session: Key, key: SubscriptionKey) -> Span {
        let of_topic = self.topics.get(topic).map(|topic| topic.spec.conflation.interval);
        let subscription = self.sessions.get(session).and_then(|record| record.subscription(key));
        let own = subscription.and_then(|subscription| subscription.interval.as_deref());
        of_topic.unwrap_or_default().max(own.copied().unwrap_or_default())
    }

    /// Whether values of a topic are merged when they are conflated.
    pub(crate) fn merges(&self, topic: Key) -> bool {
        self.topics.get(topic).is_some_and(|topic| topic.spec.conflation.merge)
    }

    fn open_window(&mut self, session: Key, key: SubscriptionKey, path: Path) -> Option<Key> {
        let record = self.sessions.get_mut(session)?;
        let shared = path.clone();
        let window = Window { session, key, path, removal: None, last: None, is_over: false };
        let window = self.windows.open.insert(window);
        record.backlog.get_or_insert_default().open_window(key, shared, window);
        Some(window)
    }

    /// A window is over but for want of credit.
    fn wait_for_credit(&mut self, session: Key, key: SubscriptionKey, window: Key) {
        if let Some(open) = self.windows.open.get_mut(window)
            && !std::mem::replace(&mut open.is_over, true)
        {
            self.await_credit(session, key, window);
        }
    }

    /// Something comes while the window is open.
    fn withhold(
        &mut self,
        now: Now,
        topic: Key,
        window: Key,
        pending: Pending,
        effects: &mut Effects,
    ) {
        let merge = self.merges(topic);
        let Some(open) = self.windows.open.get_mut(window) else { return };
        let (session, key) = (open.session, open.key);
        let Some(record) = self.sessions.get_mut(session) else { return };
        let has_credit = record.has_credit(key);
        let backlog = record.backlog.get_or_insert_default();
        let before = backlog.withheld_bytes();
        let waited = open.last.take();
        let Conflated { removal, last, given_up } = conflated(waited.as_ref(), pending, merge);
        // One that is withheld already says it.
        let removal = removal.filter(|_| open.removal.is_none()).map(Box::new);
        if let Some(removal) = &removal {
            backlog.withhold(removal, true);
        }
        open.removal = open.removal.take().or(removal);
        backlog.withhold(&last, true);
        open.last = Some(last);
        if let Some(waited) = &waited {
            backlog.withhold(waited, false);
        }
        let after = backlog.withheld_bytes();
        self.backlog_bytes = (self.backlog_bytes + after).saturating_sub(before);
        self.note_given_up(session, given_up, 0);
        let scarce = self.memory.is_exhausted() && after > before;
        if has_credit && (after > self.options.backlog_bytes_high || scarce) {
            self.let_go(now, topic, window, effects);
        } else if !has_credit && (after > self.options.withheld_bytes_max || scarce) {
            self.overfill(topic, session, key, window, effects);
        }
    }

    /// What a window withholds goes, as far as there is credit; whether all of it has gone.
    fn let_go(&mut self, now: Now, topic: Key, window: Key, effects: &mut Effects) -> bool {
        loop {
            let Some(open) = self.windows.open.get_mut(window) else { return true };
            let (session, key) = (open.session, open.key);
            if open.last.is_none() {
                return true;
            }
            let record = self.sessions.get_mut(session);
            if record.is_none_or(|record| record.spend(key, 1) == 0) {
                return false;
            }
            let Some(next) = open.next() else { return true };
            self.no_longer_withheld(session, &next);
            self.push_now(now, topic, session, next, effects);
        }
    }

    /// What a window withholds is given up; how many messages that was.
    pub(crate) fn drop_window(&mut self, window: Key) -> u64 {
        let Some(open) = self.windows.open.get_mut(window) else { return 0 };
        let (session, over) = (open.session, open.is_over);
        let dropped: Vec<Pending> = open.take().collect();
        for pending in &dropped {
            self.no_longer_withheld(session, pending);
        }
        if over {
            self.close_window(window);
        }
        let count = dropped.len() as u64;
        self.note_given_up(session, 0, count);
        count
    }

    fn no_longer_withheld(&mut self, session: Key, pending: &Pending) {
        let record = self.sessions.get_mut(session);
        if let Some(backlog) = record.and_then(|record| record.backlog.as_mut()) {
            let before = backlog.withheld_bytes();
            backlog.withhold(pending, false);
            let less = before - backlog.withheld_bytes();
            self.backlog_bytes = self.backlog_bytes.saturating_sub(less);
        }
    }

    /// Ends the windows whose time is over.
    pub(crate) fn end_windows(&mut self, now: Now, effects: &mut Effects) {
        let Some(wheel) = &mut self.windows.wheel else { return };
        let mut due = Vec::new();
        wheel.expire(now.time, &mut due);
        for window in due {
            self.end_window(now, window, effects);
        }
    }

    /// What is withheld goes, and the next window opens if that was anything. Without credit for all
    /// of it the window stays open.
    pub(crate) fn end_window(&mut self, now: Now, window: Key, effects: &mut Effects) {
        let Some(open) = self.windows.open.get(window) else { return };
        let (session, key, path) = (open.session, open.key, open.path.clone());
        if open.last.is_none() {
            return self.close_window(window);
        }
        let topic = self.ensure_topic(now, &path);
        if !self.let_go(now, topic, window, effects) {
            return self.wait_for_credit(session, key, window);
        }
        let interval = self.interval(topic, session, key);
        if interval.is_zero() {
            return self.close_window(window);
        }
        self.windows.arm(window, now, interval);
    }

    /// A window ends, and what it withholds is for nobody any more.
    fn close_window(&mut self, window: Key) {
        let Some(mut open) = self.windows.open.remove(window) else { return };
        let session = open.session;
        for pending in open.take() {
            self.no_longer_withheld(session, &pending);
        }
        let Some(record) = self.sessions.get_mut(session) else { return };
        if let Some(backlog) = &mut record.backlog {
            backlog.close_window(open.key, &open.path);
        }
        record.tidy_backlog();
    }

    /// Closes the windows of a subscription that ends.
    pub(crate) fn close_windows_of(&mut self, session: Key, key: SubscriptionKey, entry: &Entry) {
        let record = self.sessions.get(session);
        let Some(backlog) = record.and_then(|record| record.backlog.as_ref()) else { return };
        let topic = match entry {
            Entry::Plain(plain) => self.topics.key_of(plain.topic),
            Entry::Credited(credited) => self.topics.key_of(credited.plain.topic),
            Entry::Full(subscription) => match subscription.targets.as_slice() {
                [only] => only.topic,
                _ => None,
            },
        };
        let Some(topic) = topic.and_then(|topic| self.topics.get(topic)) else {
            return self.close_windows(session, Some(key));
        };
        if let Some(window) = backlog.window(key, &topic.path) {
            self.close_window(window);
        }
    }

    /// Closes the windows of one of a session's subscriptions, or all.
    pub(crate) fn close_windows(&mut self, session: Key, key: Option<SubscriptionKey>) {
        let record = self.sessions.get(session);
        let backlog = record.and_then(|record| record.backlog.as_ref());
        let windows = backlog.map(|backlog| backlog.windows_of(key)).unwrap_or_default();
        for window in windows {
            self.close_window(window);
        }
    }
}
