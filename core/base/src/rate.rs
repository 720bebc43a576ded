//! A rate limiter in one word: the generic cell rate algorithm.

use crate::{Span, Time};

/// Allows `burst` events at once and then one per `interval`.
#[derive(Clone, Copy, Debug, Default)]
pub struct RateLimiter {
    /// The theoretical arrival time of the next event.
    next: Time,
}

impl RateLimiter {
    /// Whether an event may happen now; counts it if so.
    pub fn allow(&mut self, now: Time, interval: Span, burst: u32) -> bool {
        let tolerance = interval * burst.saturating_sub(1);
        if self.next > now + tolerance {
            return false;
        }
        self.next = self.next.max(now) + interval;
        true
    }

    /// Whether the limiter has forgotten all past events.
    pub fn is_idle(&self, now: Time) -> bool {
        self.next <= now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allows_the_burst_then_the_rate() {
        let mut limiter = RateLimiter::default();
        let second = Span::from_secs(1);
        let start = Time::from_nanos(1);
        assert_eq!((0..5).filter(|_| limiter.allow(start, second, 3)).count(), 3);
        assert!(limiter.allow(start + second, second, 3));
        assert!(!limiter.allow(start + second, second, 3));
        assert!(!limiter.is_idle(start + second));
        assert!(limiter.is_idle(start + second * 10));
    }
}
