//! How far the sessions of a shard have been looked at, since rules, limits or credentials have changed.
//!
//! Invariant: a session is looked at with what held when it was given what it has, also if there are several changes soon
//! after another; and what held between those counts as well, since it has been hidden what they did not allow.

use std::sync::Arc;

use crate::BrokerOptions;
use crate::access_change::AccessChange;
use crate::heard::Heard;

/// How far it has come.
#[derive(Debug)]
pub(crate) struct Review {
    next: u32,
    change: Arc<AccessChange>,
    before: Arc<BrokerOptions>,
    /// What held since then and does no more.
    between: Vec<Arc<BrokerOptions>>,
    heard: Heard,
}

impl Review {
    /// All have yet to be looked at; `unfinished` is what was to be done before.
    pub(crate) fn new(
        change: Arc<AccessChange>,
        (before, heard): (Arc<BrokerOptions>, Heard),
        unfinished: Option<&Review>,
    ) -> Review {
        let Some(unfinished) = unfinished else {
            return Review { next: 0, change, before, between: Vec::new(), heard };
        };
        let mut between = unfinished.between.clone();
        between.push(before);
        Review { next: 0, change, before: unfinished.before.clone(), between, heard }
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

    /// How far this shard had heard of homes when it changed last: what came later has gone to who may see it now.
    pub(crate) fn heard(&self) -> &Heard {
        &self.heard
    }

    /// What held before.
    pub(crate) fn before(&self) -> &BrokerOptions {
        &self.before
    }

    /// What held between that and now, if there were several changes.
    pub(crate) fn between(&self) -> &[Arc<BrokerOptions>] {
        &self.between
    }
}
