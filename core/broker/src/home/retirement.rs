//! What the policy by which a topic is removed looks at.
//!
//! Bookkeeping only. Invariant: a topic without a policy has none of this.

use tiderace_base::{SessionId, Span, Time};
use tiderace_wire::{Removal, RemovalCondition};

use crate::places::Place;

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

    /// Of a topic that a session has created.
    pub(crate) fn of(creator: SessionId, now: Time) -> Retirement {
        Retirement { creator: Some(creator), ..Retirement::new(now) }
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

    /// The topic has a message.
    pub(crate) fn update(&mut self, now: Time) {
        self.updated = now;
        self.updated_earlier = Span::ZERO;
    }

    /// A session has ended, which may have created the topic.
    pub(crate) fn abandon(&mut self, creator: SessionId) {
        self.abandoned |= self.creator == Some(creator);
    }

    /// A place is lost, of which a session may have created the topic.
    pub(crate) fn lose(&mut self, place: Place) {
        self.abandoned |= self.creator.is_some_and(|creator| Place::of(creator) == place);
    }

    /// Whether the topic is to be removed; `heard` says whether somebody listens.
    pub(crate) fn is_due(&mut self, removal: &Removal, heard: bool, now: Time) -> bool {
        self.unheard = match heard {
            true => None,
            false => Some(self.unheard.unwrap_or(now)),
        };
        removal.is_due(|condition| match condition {
            RemovalCondition::NoSubscribers(span) => {
                self.unheard.is_some_and(|then| now.since(then) >= span)
            }
            RemovalCondition::NoUpdates(span) => {
                now.since(self.updated) + self.updated_earlier >= span
            }
            RemovalCondition::After(span) => self.age(now) >= span,
            RemovalCondition::SessionCloses => self.abandoned,
        })
    }
}
