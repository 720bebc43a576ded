//! Nanoseconds since 1970 from the node's clock, which counts from its start.
//!
//! A turn knows the wall clock in milliseconds. Each look at both clocks says when the node started, to
//! within that millisecond; the latest such time is the true one. Invariant: a time given is never
//! ahead of the wall clock, and at most a millisecond behind it.

use tiderace_base::{Now, Time};

/// When the node's clock read zero.
#[derive(Debug)]
pub(crate) struct UnixClock {
    first_ns: u64,
    latest_ns: u64,
}

impl UnixClock {
    /// As far as one look can tell.
    pub(crate) fn new(now: Now) -> UnixClock {
        let started = started_ns(now);
        UnixClock { first_ns: started, latest_ns: started }
    }

    /// Another look.
    pub(crate) fn learn(&mut self, now: Now) {
        // A wall clock that was set meanwhile teaches nothing.
        let started = started_ns(now);
        if (self.latest_ns..=self.first_ns + MILLISECOND_NS).contains(&started) {
            self.latest_ns = started;
        }
    }

    /// A time of the node's clock.
    pub(crate) fn at(&self, time: Time) -> u64 {
        self.latest_ns + time.as_nanos()
    }
}

fn started_ns(now: Now) -> u64 {
    (now.wall_ms * MILLISECOND_NS).saturating_sub(now.time.as_nanos())
}

const MILLISECOND_NS: u64 = 1_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_look_brings_it_nearer() {
        // The node started 700 us after a full millisecond.
        let look = |ns: u64| Now {
            time: Time::from_nanos(ns),
            wall_ms: (5_000 * MILLISECOND_NS + 700_000 + ns) / MILLISECOND_NS,
        };
        let mut unix = UnixClock::new(look(0));
        for ns in [100_000, 250_000, 301_000, 900_000, 5_000_000] {
            unix.learn(look(ns));
        }
        unix.learn(Now { time: Time::from_nanos(9), wall_ms: 9_999_999 });
        let behind = 5_000 * MILLISECOND_NS + 700_000 - unix.at(Time::ZERO);
        assert_eq!(behind, 1_000);
    }
}
