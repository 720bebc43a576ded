//! At a topic's home: removing it when its specification says so.
//!
//! Looked at by the sweep of topics, every few seconds, so a policy takes effect that much later.
//! Relies on interest being known by shard. Invariant: a topic without a policy costs nothing here.

use tiderace_base::{Key, Now, SessionId, Span, Time};
use tiderace_topics::Path;
use tiderace_wire::RemovalCondition;

use crate::broker::Broker;
use crate::effects::Effects;

/// What a policy looks at.
#[derive(Debug)]
pub(crate) struct Retirement {
    made: Time,
    updated: Time,
    /// How long before that it really was: in another life of the server.
    made_earlier: Span,
    updated_earlier: Span,
    /// Since when nobody listens, as far as the sweep has seen.
    unheard: Option<Time>,
    creator: Option<SessionId>,
    /// Whether the session that created it has ended.
    abandoned: bool,
}

impl Retirement {
    pub(crate) fn new(now: Time) -> Retirement {
        Retirement::restored(now, Span::ZERO, Span::ZERO, false)
    }

    /// Of a topic that was made and updated so long ago.
    pub(crate) fn restored(
        now: Time,
        made_earlier: Span,
        updated_earlier: Span,
        abandoned: bool,
    ) -> Retirement {
        Retirement {
            made: now,
            updated: now,
            made_earlier,
            updated_earlier,
            unheard: None,
            creator: None,
            abandoned,
        }
    }

    /// How long ago the topic was made.
    pub(crate) fn age(&self, now: Time) -> Span {
        now.since(self.made) + self.made_earlier
    }

    pub(crate) fn update(&mut self, now: Time) {
        self.updated = now;
        self.updated_earlier = Span::ZERO;
    }
}

impl Broker {
    /// A session has created the topic, which has a policy.
    pub(crate) fn begin_retirement(&mut self, now: Now, key: Key, creator: SessionId) {
        let home = self.topics.get_mut(key).and_then(|topic| topic.home.as_mut());
        let Some(home) = home else { return };
        let made = Retirement { creator: Some(creator), ..Retirement::new(now.time) };
        home.rare_mut().retirement = Some(Box::new(made));
    }

    /// The session that created the topic has ended.
    pub(crate) fn abandon(&mut self, path: &Path, creator: SessionId) {
        let key = self.names.find(path.as_str(), &self.topics);
        let home = key.and_then(|key| self.topics.get_mut(key)?.home.as_mut());
        let Some(retirement) = home.and_then(|home| home.retirement_mut()) else { return };
        if retirement.creator == Some(creator) {
            retirement.abandoned = true;
        }
    }

    /// Removes the topic if its time has come.
    pub(crate) fn sweep_retirement(&mut self, now: Now, key: Key, effects: &mut Effects) {
        let Some(topic) = self.topics.get_mut(key).filter(|topic| topic.is_known()) else { return };
        let Some(removal) = topic.spec.removal.clone() else { return };
        let Some(home) = topic.home.as_mut() else { return };
        let mut heard = home.interested != 0;
        if !heard {
            heard = self.pattern_interest.has(&topic.path);
        }
        let Some(retirement) = home.retirement_mut() else { return };
        retirement.unheard = match heard {
            true => None,
            false => Some(retirement.unheard.unwrap_or(now.time)),
        };
        let since = |then: Time| now.time.since(then);
        let due = removal.is_due(|condition| match condition {
            RemovalCondition::NoSubscribers(span) => {
                retirement.unheard.is_some_and(|then| since(then) >= span)
            }
            RemovalCondition::NoUpdates(span) => {
                since(retirement.updated) + retirement.updated_earlier >= span
            }
            RemovalCondition::After(span) => retirement.age(now.time) >= span,
            RemovalCondition::SessionCloses => retirement.abandoned,
        });
        if due {
            self.metrics.topics_retired += 1;
            self.remove_topic(now, key, effects);
        }
    }
}
