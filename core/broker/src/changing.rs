//! A topic that becomes something else, or is forgotten: what that means for what waits of it.
//!
//! Relies on backlogs keeping a line for each priority. Invariant: messages of one topic to one
//! subscription wait in one line, so that none overtakes another.

use std::sync::Arc;

use tiderace_base::{Key, Now};
use tiderace_wire::TopicSpec;

use crate::directory::SpecChange;
use crate::effects::Effects;
use crate::home_side::HomeSide;
use crate::messages::LocalMessage;
use crate::session_side::SessionSide;
use crate::subscriber_list::Subscriber;

impl HomeSide<'_> {
    /// A topic is something else from now on.
    pub(crate) fn set_spec(&mut self, key: Key, spec: Arc<TopicSpec>, effects: &mut Effects) {
        let Some(change) = self.directory.set_spec(key, spec) else { return };
        if change.owner
            && let Some(topic) = self.directory.get(key)
        {
            self.home.empty_history(topic);
        }
        if change.presence {
            self.review_presence(key, effects);
        }
        if change.moves || change.ends {
            self.loopback.hand_on(LocalMessage::SpecChanged { topic: key, change });
        }
    }

    /// The same of a topic that was removed, unless it has been made known again meanwhile.
    pub(crate) fn reset_spec(&mut self, key: Key, spec: Arc<TopicSpec>, effects: &mut Effects) {
        let home = self.topic(key).and_then(|topic| topic.home());
        if !home.is_some_and(|home| home.is_created()) {
            self.set_spec(key, spec, effects);
        }
    }
}

impl SessionSide<'_> {
    /// The home of a topic has said what it is. Where the shard is that home, it is known already, or is something
    /// else by now.
    pub(crate) fn set_spec(
        &mut self,
        now: Now,
        key: Key,
        spec: Arc<TopicSpec>,
        effects: &mut Effects,
    ) {
        let Some(topic) = self.directory.get(key) else { return };
        if Arc::ptr_eq(&topic.spec, &spec) || self.options.home_of(&topic.path) == self.here() {
            return;
        }
        if let Some(change) = self.directory.set_spec(key, spec) {
            self.spec_changed(now, key, change, effects);
        }
    }

    /// A topic is something else. What waits of it goes where its next messages will go, and what is deferred
    /// goes at once if they will.
    pub(crate) fn spec_changed(
        &mut self,
        now: Now,
        key: Key,
        change: SpecChange,
        effects: &mut Effects,
    ) {
        let SpecChange { moves, ends, .. } = change;
        if !moves && !ends {
            return;
        }
        self.refresh_pattern_subscribers(key);
        let Some(topic) = self.directory.get(key) else { return };
        let (path, priority) = (topic.path.clone(), topic.spec.priority);
        let subscribers = self.fanout.exact(topic).iter().chain(self.fanout.by_pattern(topic));
        let subscribers: Vec<Subscriber> = subscribers.copied().collect();
        for Subscriber { session, key: subscription, .. } in subscribers {
            let record = self.sessions.get_mut(session);
            let Some(backlog) = record.and_then(|record| record.backlog.as_mut()) else { continue };
            if moves {
                backlog.move_topic(&path, priority);
            }
            let throttle = backlog.throttle(subscription, &path).filter(|_| ends);
            if let Some(throttle) = throttle
                && self.interval(key, session, subscription).is_zero()
            {
                self.end_throttle(now, throttle, effects);
            }
        }
    }

    /// Whether nobody here listens to a topic itself, nor are its publishers to wait for anybody here.
    pub(crate) fn is_unheard(&self, key: Key) -> bool {
        self.directory.get(key).is_some_and(|topic| self.fanout.is_idle(topic))
    }

    /// A topic is about to be forgotten, and with it its priority: what still waits of it goes where its
    /// next messages will go.
    pub(crate) fn end_priority(&mut self, key: Key) {
        let Some(topic) = self.directory.get(key) else { return };
        let priority = self.options.topic(&topic.path).priority;
        if topic.spec.priority == priority {
            return;
        }
        self.refresh_pattern_subscribers(key);
        let Some(topic) = self.directory.get(key) else { return };
        for subscriber in self.fanout.by_pattern(topic) {
            let record = self.sessions.get_mut(subscriber.session);
            if let Some(backlog) = record.and_then(|record| record.backlog.as_mut()) {
                backlog.move_topic(&topic.path, priority);
            }
        }
    }
}
