//! One origin of time for all threads of a run, and the measured window on it.
//!
//! Relies on the monotonic clock. Invariant: all nanoseconds of a run count from one origin and
//! stay below 2^48 (78 hours), so that they fit a body's time field.

use std::time::{Duration, Instant};

/// Nanoseconds in a second.
pub const SECOND_NS: u64 = 1_000_000_000;

/// Nanoseconds since the start of a run.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    origin: Instant,
}

impl Clock {
    /// A clock that reads zero now.
    pub fn start() -> Self {
        Self { origin: Instant::now() }
    }

    /// Nanoseconds since the start.
    #[inline]
    pub fn now_ns(&self) -> u64 {
        u64::try_from(self.origin.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Sleeps until the clock reads `due_ns`; returns at once when that has passed.
    pub fn sleep_until(&self, due_ns: u64) {
        let now_ns = self.now_ns();
        if due_ns > now_ns {
            std::thread::sleep(Duration::from_nanos(due_ns - now_ns));
        }
    }
}

/// The schedule of a run: sending starts, measuring starts, both end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// First message, ns.
    pub send_ns: u64,
    /// Measuring starts, ns.
    pub start_ns: u64,
    /// Measuring and sending end, ns.
    pub end_ns: u64,
}

impl Window {
    /// A window that opens at `now_ns` with `warm_up_s` and `duration_s` seconds.
    pub fn opening_at(now_ns: u64, warm_up_s: u64, duration_s: u64) -> Self {
        let start_ns = now_ns + warm_up_s * SECOND_NS;
        Self { send_ns: now_ns, start_ns, end_ns: start_ns + duration_s * SECOND_NS }
    }

    /// Whether a message meant to be sent at `stamp_ns` counts.
    #[inline]
    pub fn contains(&self, stamp_ns: u64) -> bool {
        stamp_ns >= self.start_ns && stamp_ns < self.end_ns
    }

    /// Whole seconds measured, rounded up.
    pub fn seconds(&self) -> usize {
        usize::try_from((self.end_ns - self.start_ns).div_ceil(SECOND_NS)).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn window_excludes_warm_up_and_end() {
        let window = Window::opening_at(5, 1, 2);
        assert!(!window.contains(SECOND_NS));
        assert!(window.contains(SECOND_NS + 5));
        assert!(!window.contains(3 * SECOND_NS + 5));
        assert_eq!(window.seconds(), 2);
    }
}
