//! What subscriptions are called, what they listen to, and why they lose a topic.
//!
//! Relies on nothing that acts. Invariant: a target names topics, queues or services, never several kinds.

use tiderace_topics::{Pattern, Selector as TopicSelector};

use crate::{Destination, Kind};

/// A session's own name for one of its subscriptions; small numbers, used again after an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SubscriptionKey(pub u32);

/// What a subscription listens to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// One destination.
    Exact(Destination),
    /// All destinations of a kind whose path matches, present and future.
    Pattern(Kind, Pattern),
}

impl Target {
    /// The path or the pattern, as it is spelled.
    pub fn name(&self) -> &str {
        match self {
            Target::Exact(destination) => destination.path.as_str(),
            Target::Pattern(_, pattern) => pattern.as_str(),
        }
    }

    /// Whether it names queues.
    pub fn is_queue(&self) -> bool {
        let (Target::Exact(Destination { kind, .. }) | Target::Pattern(kind, _)) = self;
        *kind == Kind::Queue
    }

    /// What a selector names: each path that it holds exactly, and its patterns.
    pub fn of(kind: Kind, selector: TopicSelector) -> Vec<Target> {
        let target = |pattern: Pattern| match pattern.as_path() {
            Some(path) => Target::Exact(Destination { kind, path }),
            None => Target::Pattern(kind, pattern),
        };
        selector.into_iter().map(target).collect()
    }
}

/// Why a subscription has lost a topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaveReason {
    /// The topic was removed.
    Removed,
    /// The client's identity may not read it any more.
    NotAuthorised,
}

impl LeaveReason {
    /// Its name in protocols.
    pub fn name(self) -> &'static str {
        match self {
            LeaveReason::Removed => "removed",
            LeaveReason::NotAuthorised => "not-authorised",
        }
    }
}
