//! What waits for sessions, and when they are given it.
//!
//! A session's backlog, credit and throttles stand in its record; here is what is the same for all of them on
//! a shard. The files beside this one are the only ones that see its fields. Invariant: the bytes that wait are
//! those of all backlogs, with what is deferred and what waits for credit or for selectors.

pub(crate) mod backlog;
mod backpressure;
pub(crate) mod conflate;
pub(crate) mod credit;
mod granting;
mod marks;
pub(crate) mod offer;
pub(crate) mod pending;
mod pushing;
pub(crate) mod recovery;
pub(crate) mod selection;
mod selectors;
mod slow;
pub(crate) mod spares;
mod taking;
mod throttles;
mod throttling;

use selection::SelectorState;
use slow::SlowSessions;
use spares::Spares;
use throttles::Throttles;

pub use backlog::{Left, Pending};

/// What waits on one shard.
#[derive(Debug, Default)]
pub(crate) struct Deliveries {
    /// Bytes that wait, shared ones counted for each session.
    waiting_bytes: usize,
    spares: Spares,
    slow: SlowSessions,
    throttles: Throttles,
    selectors: SelectorState,
    /// Bytes in a backlog up to which nothing limits any session.
    mark: usize,
    /// Empty between calls: the stretches of a run that a subscriber wants.
    stretches: Vec<(u32, u32)>,
}

impl Deliveries {
    /// Nothing waits; what some session may have waiting is more than these bytes.
    pub(crate) fn new(mark: usize) -> Deliveries {
        Deliveries { mark, ..Deliveries::default() }
    }

    /// Another one from now on.
    pub(crate) fn set_mark(&mut self, mark: usize) {
        self.mark = mark;
    }

    /// Bytes in a backlog up to which nothing limits any session.
    #[inline]
    pub(crate) fn mark(&self) -> usize {
        self.mark
    }

    /// Bytes that wait of something have become more or less.
    #[inline]
    pub(crate) fn count(&mut self, before: usize, after: usize) {
        self.waiting_bytes = (self.waiting_bytes + after).saturating_sub(before);
    }

    /// Bytes that wait, shared ones counted for each session.
    pub(crate) fn waiting_bytes(&self) -> usize {
        self.waiting_bytes
    }

    /// How many throttles there are.
    pub(crate) fn throttles(&self) -> usize {
        self.throttles.len()
    }

    /// Whether selectors are behind.
    pub(crate) fn is_selecting(&self) -> bool {
        !self.selectors.behind.is_empty()
    }

    /// To be called now and then.
    pub(crate) fn tick(&mut self) {
        self.spares.tick();
    }
}
