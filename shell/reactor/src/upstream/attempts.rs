//! When to connect to an upstream again, and to which of its addresses: pure, given times and random numbers.
//!
//! ```text
//!   round: each address once, one after the other, from a random one on
//!   between rounds: a random wait, up to 0.1 s, 0.2 s, 0.4 s … 2 s
//!   a connection that lasted 10 s: the waits begin anew
//! ```
//! The whole wait is random, so that many servers that have lost the same upstream do not come back together. Invariants:
//! no wait is longer than [`WAIT_MAX`]; an upstream that takes connections and ends them at once is asked as
//! seldom as one that takes none.

use tiderace_base::{Span, Time};

/// The longest first wait.
const WAIT_MIN: Span = Span::from_millis(100);
/// The longest wait: a source that was started again is asked by all its edges within it, so that they are current soon; an
/// attempt at one that is not there costs next to nothing.
pub(crate) const WAIT_MAX: Span = Span::from_secs(2);
/// How long a connection has to last for the waits to begin anew.
const LASTED: Span = Span::from_secs(10);

/// The attempts to reach one upstream.
#[derive(Debug)]
pub(crate) struct Attempts {
    addresses: usize,
    /// The address that is next.
    next: usize,
    /// How many of the round have been tried.
    tried: usize,
    /// Rounds that failed since a connection has lasted.
    failed: u32,
}

impl Attempts {
    /// The attempts for so many addresses, at least one, from a random one on.
    pub(crate) fn new(addresses: usize, random: u64) -> Attempts {
        let addresses = addresses.max(1);
        Attempts { addresses, next: (random % addresses as u64) as usize, tried: 0, failed: 0 }
    }

    /// The address to try now.
    pub(crate) fn begin(&mut self) -> usize {
        let address = self.next;
        self.next = (self.next + 1) % self.addresses;
        self.tried += 1;
        address
    }

    /// The attempt has failed: when the next one is due.
    pub(crate) fn failed(&mut self, now: Time, random: u64) -> Time {
        if self.tried < self.addresses {
            return now;
        }
        self.tried = 0;
        let longest = WAIT_MIN * 2u32.saturating_pow(self.failed.min(16));
        self.failed = self.failed.saturating_add(1);
        let longest = longest.min(WAIT_MAX).as_nanos() as u64;
        now + Span::from_nanos(random % longest.max(1))
    }

    /// A connection that was there from `since` on is gone: when the next attempt is due.
    pub(crate) fn lost(&mut self, since: Time, now: Time, random: u64) -> Time {
        if now.since(since) >= LASTED {
            self.failed = 0;
        }
        // Whatever of the round is left has not failed lately.
        self.tried = self.addresses;
        self.failed(now, random)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Clone, Copy, Debug)]
    enum Outcome {
        Failed,
        Lost(u64),
    }

    fn outcome() -> impl Strategy<Value = Outcome> {
        prop_oneof![Just(Outcome::Failed), (0u64..20_000).prop_map(Outcome::Lost)]
    }

    proptest! {
        #[test]
        fn waits_grow_within_their_bounds_and_begin_anew(
            addresses in 1usize..5,
            outcomes in prop::collection::vec((outcome(), any::<u64>()), 1..200),
            random in any::<u64>(),
        ) {
            let mut attempts = Attempts::new(addresses, random);
            let (mut now, mut bound, mut tried) = (Time::from_nanos(1), WAIT_MIN, 0);
            let mut expected = (random % addresses as u64) as usize;
            for (outcome, random) in outcomes {
                prop_assert_eq!(attempts.begin(), expected, "each in its turn");
                expected = (expected + 1) % addresses;
                tried += 1;
                let due = match outcome {
                    Outcome::Failed => attempts.failed(now, random),
                    Outcome::Lost(millis) => {
                        let since = now;
                        now = now + Span::from_millis(millis);
                        if millis >= 10_000 {
                            bound = WAIT_MIN;
                        }
                        tried = addresses;
                        attempts.lost(since, now, random)
                    }
                };
                if tried < addresses {
                    prop_assert_eq!(due, now, "the others of the round come at once");
                } else {
                    prop_assert!(due.since(now) < bound, "{:?} of {bound:?}", due.since(now));
                    prop_assert!(bound <= WAIT_MAX);
                    bound = (bound * 2).min(WAIT_MAX);
                    tried = 0;
                }
                now = due;
            }
        }
    }

    #[test]
    fn the_whole_wait_is_random() {
        let mut attempts = Attempts::new(1, 0);
        let mut waits = Vec::new();
        for step in 0..1000u64 {
            attempts.begin();
            let random = step.wrapping_mul(0x9E37_79B9_7F4A_7C15);
            waits.push(attempts.failed(Time::ZERO, random).since(Time::ZERO));
        }
        assert!(waits.iter().any(|wait| *wait < WAIT_MAX / 10));
        assert!(waits.iter().any(|wait| *wait > WAIT_MAX * 9 / 10));
    }
}
