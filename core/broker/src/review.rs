//! How far the sessions of a shard have been looked at, since rules, limits or credentials have changed.
//!
//! Invariant: a session is looked at with what held when it was given what it has, also if there are several changes soon
//! after another; and what held between those counts as well, since it has been hidden what they did not allow.

use std::sync::Arc;

use crate::BrokerOptions;
use crate::access_change::AccessChange;
use crate::heard::Heard;

/// What held until something changed.
#[derive(Clone, Debug)]
pub(crate) struct Past {
    pub(crate) options: Arc<BrokerOptions>,
    /// How far this shard had heard of homes then: what came later has gone to who may see it since.
    pub(crate) heard: Heard,
}

/// How far it has come.
#[derive(Debug)]
pub(crate) struct Review {
    next: u32,
    change: Arc<AccessChange>,
    /// What held, the first of it when sessions were given what they have; never empty.
    past: Vec<Past>,
}

impl Review {
    /// All have yet to be looked at; `unfinished` is what was to be done before.
    pub(crate) fn new(
        change: Arc<AccessChange>,
        before: Past,
        unfinished: Option<&Review>,
    ) -> Review {
        let mut past = unfinished.map_or_else(Vec::new, |unfinished| unfinished.past.clone());
        past.push(before);
        Review { next: 0, change, past }
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

    /// What held until now.
    pub(crate) fn past(&self) -> &[Past] {
        &self.past
    }
}
