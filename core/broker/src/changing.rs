//! A topic that becomes something else, or is forgotten: what that means for what waits of it.
//!
//! Relies on backlogs keeping a line for each priority. Invariant: messages of one topic to one
//! subscription wait in one line, so that none overtakes another.

use std::sync::Arc;

use tiderace_base::{Key, Now};
use tiderace_wire::TopicSpec;

use crate::broker::Broker;
use crate::effects::Effects;
use crate::subscriber_list::Subscriber;

impl Broker {
    /// A topic is something else from now on. What waits of it goes where its next messages will go,
    /// and what is withheld goes at once if they will.
    pub(crate) fn set_spec(
        &mut self,
        now: Now,
        key: Key,
        spec: Arc<TopicSpec>,
        effects: &mut Effects,
    ) {
        let Some(topic) = self.directory.get_mut(key) else { return };
        let (priority, interval) = (spec.priority, spec.conflation.interval);
        let presence = spec.presence;
        let changes_hands = spec.owner.is_some() && spec.owner != topic.spec.owner;
        let before = std::mem::replace(&mut topic.spec, spec);
        if let Some(home) = topic.home.as_mut().filter(|_| changes_hands) {
            self.home.empty_history(home);
        }
        if before.presence != presence {
            self.review_presence(key, effects);
        }
        let moves = before.priority != priority;
        let ends = !before.conflation.interval.is_zero() && interval.is_zero();
        if !moves && !ends {
            return;
        }
        self.refresh_pattern_subscribers(key);
        let Some(topic) = self.directory.get(key) else { return };
        let path = topic.path.clone();
        let subscribers = topic.subscribers.iter().chain(topic.by_pattern.iter());
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
        for subscriber in topic.by_pattern.iter() {
            let record = self.sessions.get_mut(subscriber.session);
            if let Some(backlog) = record.and_then(|record| record.backlog.as_mut()) {
                backlog.move_topic(&topic.path, priority);
            }
        }
    }
}
