//! Windows: how long a subscription gets no further update of a topic.
//!
//! A subscription or a topic may have an interval; the larger counts. The first update goes at once and
//! opens a window of that length. What comes while it is open is withheld, conflated as the topic says,
//! and goes when it is over, which opens the next. A window that withholds nothing ends without a trace,
//! so a subscription costs nothing more while its topics rest.
//!
//! Relies on [`Broker::tick`]: windows end with the first tick at or after their time, never early.
//! Invariants: what is withheld goes before anything newer of its topic; no position vouches for it; a
//! session has at most the bytes of the high mark withheld, and what is beyond that goes at once.

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
}

impl Windows {
    /// How many are open.
    pub(crate) fn len(&self) -> usize {
        self.open.len()
    }

    fn arm(&mut self, window: Key, now: Now, interval: Span) {
        self.wheel.get_or_insert_default().arm(window, now.time + interval);
    }
}

impl Window {
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
        if interval.is_zero() {
            return self.push_now(now, topic, session, pending, effects);
        }
        let path = pending.run.run().destination().path.clone();
        let merge = self.merges(topic);
        let Some(record) = self.sessions.get(session) else { return };
        let window = record.backlog.as_ref().and_then(|known| known.window(pending.key, &path));
        match window {
            Some(window) => self.withhold(now, topic, window, pending, effects),
            None => {
                let key = pending.key;
                let Conflated { removal, last, given_up } = conflated(None, pending, merge);
                self.note_given_up(session, given_up, 0);
                for pending in removal.into_iter().chain([last]) {
                    self.push_now(now, topic, session, pending, effects);
                }
                self.open_window(now, session, key, path, interval);
            }
        }
    }

    /// How long a subscription is to wait between two updates of a topic.
    pub(crate) fn interval(&self, topic: Key, session: Key, key: SubscriptionKey) -> Span {
        let of_topic = self.topics.get(topic).map(|topic| topic.spec.conflation.interval);
        let subscription = self.sessions.get(session).and_then(|record| record.subscription(key));
        let own = subscription.map(|subscription| subscription.interval);
        of_topic.unwrap_or_default().max(own.unwrap_or_default())
    }

    /// Whether values of a topic are merged when they are conflated.
    pub(crate) fn merges(&self, topic: Key) -> bool {
        self.topics.get(topic).is_some_and(|topic| topic.spec.conflation.merge)
    }

    fn open_window(
        &mut self,
        now: Now,
        session: Key,
        key: SubscriptionKey,
        path: Path,
        interval: Span,
    ) {
        let Some(record) = self.sessions.get_mut(session) else { return };
        let shared = path.clone();
        let window = Window { session, key, path, removal: None, last: None };
        let window = self.windows.open.insert(window);
        record.backlog.get_or_insert_default().open_window(key, shared, window);
        self.windows.arm(window, now, interval);
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
        let session = open.session;
        let Some(record) = self.sessions.get_mut(session) else { return };
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
        if after > self.options.backlog_bytes_high {
            self.let_go(now, topic, window, effects);
        }
    }

    /// What a window withholds goes; whether that was anything.
    fn let_go(&mut self, now: Now, topic: Key, window: Key, effects: &mut Effects) -> bool {
        let Some(open) = self.windows.open.get_mut(window) else { return false };
        let session = open.session;
        let withheld: Vec<Pending> = open.take().collect();
        for pending in &withheld {
            self.no_longer_withheld(session, pending);
        }
        let some = !withheld.is_empty();
        for pending in withheld {
            self.push_now(now, topic, session, pending, effects);
        }
        some
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

    /// What is withheld goes, and the next window opens if that was anything.
    pub(crate) fn end_window(&mut self, now: Now, window: Key, effects: &mut Effects) {
        let Some(open) = self.windows.open.get(window) else { return };
        let (session, key, path) = (open.session, open.key, open.path.clone());
        if open.last.is_none() {
            return self.close_window(window);
        }
        let topic = self.ensure_topic(now, &path);
        self.let_go(now, topic, window, effects);
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
