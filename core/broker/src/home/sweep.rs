//! When a home looks at its queues and topics without being asked.
//!
//! Topics are looked at a part at a time, for looking at millions would hold up everything else.

use std::ops::Range;

use tiderace_base::{Span, Time};

const QUEUE_TICK: Span = Span::from_millis(250);
const TOPICS_TICK: Span = Span::from_secs(5);
/// Topics looked at per tick: a tenth of a millisecond, and a million within thirteen seconds.
const TOPICS_SLOTS: u32 = 4096;

/// What is due next.
#[derive(Debug, Default)]
pub(crate) struct Sweep {
    queues_due: Time,
    topics_due: Time,
    /// The slot at which the sweep of topics goes on; zero between two of them.
    topics_at: u32,
}

impl Sweep {
    /// Whether queues are to be looked at now.
    pub(crate) fn begin_queues(&mut self, now: Time) -> bool {
        let due = now >= self.queues_due;
        if due {
            self.queues_due = now + QUEUE_TICK;
        }
        due
    }

    /// The slots of topics, of so many, that are to be looked at now; from zero on: a sweep begins.
    pub(crate) fn next_topics(&mut self, now: Time, slots: u32) -> Option<Range<u32>> {
        if now < self.topics_due {
            return None;
        }
        let slice = self.topics_at..self.topics_at.saturating_add(TOPICS_SLOTS).min(slots);
        self.topics_at = slice.end;
        if slice.end == slots {
            self.topics_at = 0;
            self.topics_due = now + TOPICS_TICK;
        }
        Some(slice)
    }
}
