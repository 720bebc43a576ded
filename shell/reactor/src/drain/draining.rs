//! How far a shard has come with its part of a drain.

use tiderace_base::Time;

use crate::drain::board::DrainPlan;
use crate::drain::planner::Planner;

/// A shard that drains.
#[derive(Debug)]
pub(crate) struct Draining {
    pub(super) plan: DrainPlan,
    /// Which of the node's drains it is.
    pub(super) number: u64,
    pub(super) begun: Time,
    pub(super) closes_at: Time,
    pub(super) until: Time,
    pub(super) planner: Planner,
    /// Connections that have been told, or end anyway, and are not gone.
    pub(super) leaving: usize,
    pub(super) has_closed: bool,
    /// When the shard has something to do for it.
    pub(super) wake_at: Time,
}

impl Draining {
    /// One that had been told is gone, or has become something else.
    pub(crate) fn note_left(&mut self) {
        self.leaving = self.leaving.saturating_sub(1);
    }
}
