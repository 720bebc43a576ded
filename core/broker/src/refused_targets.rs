//! What nothing brings any longer, and who listens to it still.
//!
//! Bookkeeping only, so that very many subscriptions can be ended a slice at a time.

use std::collections::VecDeque;

use tiderace_base::{Close, Key};
use tiderace_wire::{SubscriptionKey, Target};

use crate::places::Place;

/// What nothing brings any longer.
#[derive(Debug)]
pub(crate) struct RefusedTarget {
    /// Where it would be.
    pub(crate) home: Place,
    pub(crate) target: Target,
    /// Why.
    pub(crate) close: Close,
    /// The subscriptions that listened to it then and have not been ended.
    pub(crate) subscribers: Vec<(Key, SubscriptionKey)>,
}

/// All of that, the first one first.
#[derive(Debug, Default)]
pub(crate) struct RefusedTargets(VecDeque<RefusedTarget>);

impl RefusedTargets {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn push(&mut self, refused: RefusedTarget) {
        self.0.push_back(refused);
    }

    pub(crate) fn take_first(&mut self) -> Option<RefusedTarget> {
        self.0.pop_front()
    }

    /// What is left of the first one comes before all others; nothing, if none of its subscriptions is left.
    pub(crate) fn put_back(&mut self, refused: RefusedTarget) {
        if !refused.subscribers.is_empty() {
            self.0.push_front(refused);
        }
    }
}
