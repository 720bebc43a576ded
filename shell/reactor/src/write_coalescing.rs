//! Connections that wait for more to go along with what they are to be written.
//!
//! Each is written once in an interval, and once more at most if it begins after a quiet time. They take
//! turns in rounds, whose ends are spread over the interval: if all ended at once, the last client would
//! be written, and would read, long after the first. Invariant: a session that is added comes out within an
//! interval, and a round in which nobody was written lately holds nobody up.

use tiderace_base::{Key, Span, Time};

/// Connections in their rounds.
#[derive(Debug, Default)]
pub(crate) struct WriteCoalescing {
    rounds: [Round; ROUNDS],
    /// How many keys are in them: mostly none, and then the rounds need not be looked at.
    waiting: usize,
}

#[derive(Debug, Default)]
struct Round {
    keys: Vec<Key>,
    /// When it ends, or when the one after the last may.
    end: Time,
}

impl WriteCoalescing {
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    /// A connection has something to be written.
    pub(crate) fn add(&mut self, key: Key) {
        let Some(round) = self.rounds.get_mut(place(key)) else { return };
        let before = round.keys.len();
        if before == round.keys.capacity() {
            // A connection that asks again and again is in it many times, and is to take no room for that.
            round.keys.sort_unstable();
            round.keys.dedup();
        }
        round.keys.push(key);
        self.waiting = self.waiting - before + round.keys.len();
    }

    /// Takes out those whose round is over; the next one begins.
    pub(crate) fn end_rounds(&mut self, now: Time, interval: Span) -> Vec<Key> {
        let mut ended = Vec::new();
        if self.is_empty() {
            return ended;
        }
        for (place, round) in self.rounds.iter_mut().enumerate() {
            if now >= round.end && !round.keys.is_empty() {
                ended.append(&mut round.keys);
                round.end = next_end(place, now, interval);
            }
        }
        self.waiting -= ended.len();
        ended
    }

    /// When the next round with somebody in it ends.
    pub(crate) fn next(&self) -> Option<Time> {
        if self.is_empty() {
            return None;
        }
        let waiting = self.rounds.iter().filter(|round| !round.keys.is_empty());
        waiting.map(|round| round.end).min()
    }
}

/// Each round has ends of its own, an interval apart: the next of them that is later than now.
fn next_end(place: usize, now: Time, interval: Span) -> Time {
    let interval = u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX).max(1);
    let offset = interval / ROUNDS as u64 * place as u64;
    let before = (now.as_nanos() + interval - offset) / interval;
    Time::from_nanos(offset + before.saturating_mul(interval))
}

/// Neighbouring keys are often alike, every other one the connection of a client's requests.
fn place(key: Key) -> usize {
    key.slot.wrapping_mul(SPREAD) as usize >> (u32::BITS - ROUNDS.ilog2())
}

/// Enough for the clients of one round to be written in a small part of the interval.
const ROUNDS: usize = 16;
/// 2^32 divided by the golden ratio.
const SPREAD: u32 = 0x9e37_79b9;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn each_is_written_once_in_an_interval_and_waits_no_longer(
            interval in 1u64..1000,
            steps in proptest::collection::vec((0u64..300, 0u32..40), 1..200),
        ) {
            let span = Span::from_nanos(interval);
            let (mut coalescing, mut now) = (WriteCoalescing::default(), 1000);
            let mut added: BTreeMap<u32, u64> = BTreeMap::new();
            let mut written: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
            for (pause, slot) in steps {
                let until = now + pause;
                while now < until {
                    now += 1;
                    let mut ended = coalescing.end_rounds(Time::from_nanos(now), span);
                    ended.sort_unstable();
                    ended.dedup();
                    for key in ended {
                        let since = added.remove(&key.slot).unwrap_or(now);
                        prop_assert!(now - since <= interval, "{} waited {}", key.slot, now - since);
                        written.entry(key.slot).or_default().push(now);
                    }
                    prop_assert!(coalescing.next().is_none_or(|next| next > Time::from_nanos(now)));
                }
                // It waits since it was added first.
                added.entry(slot).or_insert(now);
                coalescing.add(Key { slot, generation: 0 });
                prop_assert_eq!(coalescing.is_empty(), added.is_empty());
            }
            for times in written.values() {
                // An end that came late, because nobody waited for it, may be followed by one in time.
                for three in times.windows(3) {
                    if let [first, _, third] = three {
                        prop_assert!(third - first >= interval, "{times:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn who_asks_a_thousand_times_takes_the_room_of_few() {
        let mut coalescing = WriteCoalescing::default();
        for _ in 0..1000 {
            coalescing.add(Key { slot: 1, generation: 0 });
        }
        assert!(coalescing.end_rounds(Time::from_nanos(1), Span::from_nanos(1)).len() <= 8);
    }

    #[test]
    fn the_ends_are_spread_over_the_interval() {
        let interval = Span::from_millis(32);
        let mut coalescing = WriteCoalescing::default();
        let keys = (0..64).map(|slot| Key { slot: slot * 2, generation: 0 });
        keys.clone().for_each(|key| coalescing.add(key));
        let at_once = coalescing.end_rounds(Time::from_nanos(64_000_000), interval);
        assert_eq!(at_once.len(), 64, "nobody was written lately");
        keys.for_each(|key| coalescing.add(key));
        let mut most = 0;
        for millis in 65..=96 {
            most = most
                .max(coalescing.end_rounds(Time::from_nanos(millis * 1_000_000), interval).len());
        }
        assert!(coalescing.is_empty() && most <= 16, "{most} at once");
    }
}
