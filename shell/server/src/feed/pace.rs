//! When the next message is due.
//!
//! The schedule stands: what a stalled server or a held-back feed has not sent in time is due at the
//! time it was meant to be sent, so that its delay shows. Only when it is more than [`BEHIND_MAX`]
//! behind, it begins anew. Invariant: without a rate, a message is always due.

use tiderace_base::{Span, Time};

/// The schedule of one shard's share of a feed.
#[derive(Debug)]
pub(crate) struct Pace {
    /// Nanoseconds between two messages as a fraction; `None` without a rate.
    interval: Option<(u64, u64)>,
    begun: Time,
    taken: u64,
}

impl Pace {
    /// A share of `own` of `all` topics in `rate` messages a second; zero for as fast as possible.
    pub(crate) fn new(now: Time, rate: u64, own: usize, all: usize) -> Pace {
        let interval = (rate > 0 && own > 0)
            .then(|| (1_000_000_000 * all as u64, rate.saturating_mul(own as u64)));
        Pace { interval, begun: now, taken: 0 }
    }

    /// When the next message is due.
    pub(crate) fn next(&self) -> Time {
        let Some((numerator, denominator)) = self.interval else { return Time::ZERO };
        let nanos = u128::from(self.taken) * u128::from(numerator) / u128::from(denominator);
        self.begun + Span::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// Begins a round of [`Pace::take`].
    pub(crate) fn begin(&mut self, now: Time) {
        if self.interval.is_some() && now.since(self.next()) > BEHIND_MAX {
            self.begun = now;
            self.taken = 0;
        }
    }

    /// When a message was due, if one is.
    pub(crate) fn take(&mut self, now: Time) -> Option<Time> {
        let next = self.next();
        if next > now {
            return None;
        }
        self.taken += 1;
        Some(if self.interval.is_some() { next } else { now })
    }
}

/// Where catching up would be another load than was asked for.
const BEHIND_MAX: Span = Span::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::from_nanos(ms * 1_000_000)
    }

    #[test]
    fn what_was_missed_is_caught_up_unless_it_is_too_much() {
        let mut pace = Pace::new(at(0), 3, 1, 1);
        let times: Vec<u64> =
            std::iter::from_fn(|| pace.take(at(1_000))).map(Time::as_nanos).collect();
        assert_eq!(times, [0, 333_333_333, 666_666_666, 1_000_000_000]);
        pace.begin(at(9_000));
        assert_eq!(pace.take(at(9_000)), Some(at(9_000)));
        assert_eq!(pace.take(at(9_000)), None);
    }

    #[test]
    fn without_a_rate_a_message_is_always_due_now() {
        let mut pace = Pace::new(at(5), 0, 1, 4);
        assert_eq!(pace.next(), Time::ZERO);
        assert_eq!(pace.take(at(7)), Some(at(7)));
        assert_eq!(pace.take(at(7)), Some(at(7)));
    }
}
