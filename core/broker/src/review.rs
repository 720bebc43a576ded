//! How far the sessions of a shard have been looked at, since rules, limits or credentials have changed.
//!
//! Invariant: a session is looked at with what held when it was given what it has, also if there are several changes soon
//! after another.

use std::sync::Arc;

use crate::BrokerOptions;
use crate::access_change::AccessChange;

/// How far it has come.
#[derive(Debug)]
pub(crate) struct Review {
    next: u32,
    change: Arc<AccessChange>,
    before: Arc<BrokerOptions>,
}

impl Review {
    /// All have yet to be looked at; `unfinished` is what was to be done before.
    pub(crate) fn new(
        change: Arc<AccessChange>,
        before: Arc<BrokerOptions>,
        unfinished: Option<&Review>,
    ) -> Review {
        let before = unfinished.map_or(before, |unfinished| unfinished.before.clone());
        Review { next: 0, change, before }
    }

    /// The next place to look at, of so many.
    pub(crate) fn next(&mut self, places: u32) -> Option<u32> {
        let next = (self.next < places).then_some(self.next);
        self.next += u32::from(next.is_some());
        next
    }

    /// Whether all of so many places have been looked at.
    pub(crate) fn is_over(&self, places: u32) -> bool {
        self.next >= places
    }

    /// What has changed.
    pub(crate) fn change(&self) -> &AccessChange {
        &self.change
    }

    /// What held before.
    pub(crate) fn before(&self) -> &BrokerOptions {
        &self.before
    }
}
