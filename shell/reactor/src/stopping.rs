//! How far a shard that ends has come.

use tiderace_base::{Key, Span, Time};

/// A shard that ends.
#[derive(Debug)]
pub(crate) struct Stopping {
    begun: Time,
    /// Within which all goodbyes are said.
    pace: Span,
    /// When the shard ends whatever is left.
    deadline: Time,
    /// Whose turn to end is still to come, in the order of their slots.
    waiting: Vec<Key>,
    total: usize,
    /// Whether the node has been told that this shard has no connections.
    reported: bool,
}

impl Stopping {
    /// The node stops within `grace`; these connections are there.
    pub(crate) fn begin(now: Time, grace: Span, waiting: Vec<Key>) -> Stopping {
        let total = waiting.len();
        // What is left of the grace is for writing the last words.
        let pace = (GOODBYE_SPACING * total as u32).min(grace * 3 / 4);
        Stopping { begun: now, pace, deadline: now + grace, waiting, total, reported: false }
    }

    /// Those whose turn to end has come.
    pub(crate) fn take_due(&mut self, now: Time) -> Vec<Key> {
        let elapsed = now.since(self.begun);
        let share = if self.pace.is_zero() {
            1.0
        } else {
            (elapsed.as_secs_f64() / self.pace.as_secs_f64()).min(1.0)
        };
        let due = (self.total as f64 * share).ceil() as usize;
        let left = self.total.saturating_sub(due).min(self.waiting.len());
        self.waiting.split_off(left)
    }

    /// Whether the turn of all that were there at the beginning has come.
    pub(crate) fn has_said_all(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Whether the shard ends whatever is left.
    pub(crate) fn is_over(&self, now: Time) -> bool {
        now >= self.deadline
    }

    /// This shard has no connections: whether the node has not been told so before.
    pub(crate) fn report(&mut self) -> bool {
        !std::mem::replace(&mut self.reported, true)
    }

    /// Whether the node has been told that this shard has no connections.
    pub(crate) fn is_reported(&self) -> bool {
        self.reported
    }
}

/// Ten thousand goodbyes a second and shard, if the grace allows.
const GOODBYE_SPACING: Span = Span::from_micros(100);
