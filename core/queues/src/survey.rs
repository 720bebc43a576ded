//! What all queues have in flight, and how old the oldest message is that waits: looked up queue by queue, some at a time.
//!
//! Relies on the ticks of the home. Invariant: a look is at a bounded number of queues, so with many of them the figures are
//! as old as the round that was finished last.

use tiderace_base::{Span, Time};

/// Queues looked at in a tick, of which there are four in a second.
const LOOKS: u32 = 256;

/// The figures, and how far the round under way has come.
#[derive(Debug, Default)]
pub(crate) struct Survey {
    at: u32,
    next: Figures,
    last: Figures,
    /// When it has looked last.
    looked: Time,
}

/// Messages in flight, and when the oldest of the ready ones was published.
pub(crate) type OfQueue = (usize, Option<Time>);

#[derive(Clone, Copy, Debug, Default)]
struct Figures {
    in_flight: usize,
    oldest: Option<Time>,
}

impl Survey {
    /// Messages in flight, and how long ago the oldest of those that are ready was published.
    pub(crate) fn figures(&self) -> (usize, Span) {
        let age = |oldest| self.looked.since(oldest);
        (self.last.in_flight, self.last.oldest.map(age).unwrap_or_default())
    }

    /// Looks at the queues of some more of so many slots.
    pub(crate) fn look(&mut self, now: Time, slots: u32, of: impl Fn(u32) -> Option<OfQueue>) {
        let to = slots.min(self.at.saturating_add(LOOKS));
        for (in_flight, oldest) in (self.at..to).filter_map(of) {
            self.next.in_flight += in_flight;
            self.next.oldest = [self.next.oldest, oldest].into_iter().flatten().min();
        }
        (self.at, self.looked) = (to, now);
        if to == slots {
            (self.at, self.last) = (0, std::mem::take(&mut self.next));
        }
    }
}
