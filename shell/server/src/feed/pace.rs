//! When the next message is due.
//!
//! The schedule stands: what a stalled server or a held-back feed has not sent in time is due at the
//! time it was meant to be sent, so that its delay shows. Only when it is more than [`BEHIND_MAX`]
//! behind, it begins anew. Invariant: without a rate, a message is always due.

use tiderace_base::{Span, Time};

/// How many messages a second, all shards together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rate {
    /// None.
    Stopped,
    /// So many.
    PerSecond(u64),
    /// As many as subscribers take.
    Unlimited,
}

impl Rate {
    /// The rate in a message to a feed's control topic.
    pub(crate) fn parse(text: &[u8]) -> Option<Rate> {
        match std::str::from_utf8(text).ok()?.trim() {
            "stop" | "0" => Some(Rate::Stopped),
            "max" => Some(Rate::Unlimited),
            number => number.parse().ok().map(Rate::PerSecond),
        }
    }
}

/// The schedule of one shard's share of a feed.
#[derive(Debug)]
pub(crate) struct Pace {
    /// Topics of this share and of all.
    topics: (usize, usize),
    rate: Rate,
    begun: Time,
    taken: u64,
}

impl Pace {
    /// A share of `own` of `all` topics.
    pub(crate) fn new(now: Time, rate: Rate, own: usize, all: usize) -> Pace {
        Pace { topics: (own, all), rate, begun: now, taken: 0 }
    }

    /// Begins anew with another rate.
    pub(crate) fn set(&mut self, now: Time, rate: Rate) {
        (self.rate, self.begun, self.taken) = (rate, now, 0);
    }

    /// When the next message is due.
    pub(crate) fn next(&self) -> Time {
        let rate = match self.rate {
            Rate::PerSecond(rate) if self.topics.0 > 0 => rate,
            Rate::Unlimited if self.topics.0 > 0 => return Time::ZERO,
            _ => return Time::NEVER,
        };
        let (own, all) = (self.topics.0 as u128, self.topics.1 as u128);
        let nanos = u128::from(self.taken) * 1_000_000_000 * all / (u128::from(rate.max(1)) * own);
        self.begun + Span::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// Begins a round of [`Pace::take`].
    pub(crate) fn begin(&mut self, now: Time) {
        if matches!(self.rate, Rate::PerSecond(_)) && now.since(self.next()) > BEHIND_MAX {
            self.set(now, self.rate);
        }
    }

    /// When a message was due, if one is.
    pub(crate) fn take(&mut self, now: Time) -> Option<Time> {
        let next = self.next();
        if next > now {
            return None;
        }
        self.taken += 1;
        Some(if self.rate == Rate::Unlimited { now } else { next })
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
        let mut pace = Pace::new(at(0), Rate::PerSecond(3), 1, 1);
        let times: Vec<u64> =
            std::iter::from_fn(|| pace.take(at(1_000))).map(Time::as_nanos).collect();
        assert_eq!(times, [0, 333_333_333, 666_666_666, 1_000_000_000]);
        pace.begin(at(9_000));
        assert_eq!(pace.take(at(9_000)), Some(at(9_000)));
        assert_eq!(pace.take(at(9_000)), None);
    }

    #[test]
    fn without_a_rate_a_message_is_always_due_now() {
        let mut pace = Pace::new(at(5), Rate::Unlimited, 1, 4);
        assert_eq!(pace.next(), Time::ZERO);
        assert_eq!(pace.take(at(7)), Some(at(7)));
        assert_eq!(pace.take(at(7)), Some(at(7)));
        pace.set(at(9), Rate::Stopped);
        assert_eq!(pace.take(at(99)), None);
    }

    #[test]
    fn rates_are_read() {
        let texts: [&[u8]; 4] = [b"stop", b"max\n", b"250", b"fast"];
        let expected =
            [Some(Rate::Stopped), Some(Rate::Unlimited), Some(Rate::PerSecond(250)), None];
        assert_eq!(texts.map(Rate::parse), expected);
    }
}
