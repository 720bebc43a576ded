//! Time as a value: the core is told what time it is and never asks.

use std::ops::{Add, Sub};

/// A span of time in nanoseconds.
pub type Span = std::time::Duration;

/// A point on the node's monotonic clock, in nanoseconds since the node started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Time(u64);

impl Time {
    /// The moment the node started.
    pub const ZERO: Time = Time(0);
    /// Later than any deadline.
    pub const NEVER: Time = Time(u64::MAX);

    /// A point so many nanoseconds after the start.
    pub const fn from_nanos(nanos: u64) -> Time {
        Time(nanos)
    }

    /// Nanoseconds since the start.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// The span since `earlier`, zero if that lies in the future.
    pub fn since(self, earlier: Time) -> Span {
        Span::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Span> for Time {
    type Output = Time;
    fn add(self, span: Span) -> Time {
        Time(self.0.saturating_add(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)))
    }
}

impl Sub<Span> for Time {
    type Output = Time;
    fn sub(self, span: Span) -> Time {
        Time(self.0.saturating_sub(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)))
    }
}

/// What a turn of the event loop knows about time, read once per turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// The monotonic clock: for deadlines and latency.
    pub time: Time,
    /// Milliseconds since 1970 UTC: for expiry dates and time stamps that people see.
    pub wall_ms: u64,
}

impl Now {
    /// Seconds since 1970 UTC, in four bytes.
    pub fn wall_s(self) -> u32 {
        u32::try_from(self.wall_ms / 1000).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates_at_both_ends() {
        assert_eq!(Time::NEVER + Span::from_secs(1), Time::NEVER);
        assert_eq!(Time::ZERO - Span::from_secs(1), Time::ZERO);
        assert_eq!(Time::from_nanos(5).since(Time::from_nanos(9)), Span::ZERO);
        assert_eq!(Time::from_nanos(9).since(Time::from_nanos(5)), Span::from_nanos(4));
    }
}
