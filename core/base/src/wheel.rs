//! A hashed timer wheel: many deadlines, most of which are moved before they come.
//!
//! A deadline is 16 bytes. Moving one later costs nothing: the owner keeps the true deadline, lets
//! the old entry fire and arms again. Entries never fire early and at most one tick late.

use crate::{Key, Span, Time};

const SLOTS: usize = 2048;
const TICK: Span = Span::from_millis(8);

#[derive(Clone, Copy, Debug)]
struct Armed {
    key: Key,
    at: Time,
}

/// Deadlines of one shard, by the [`Key`] of what they are for.
#[derive(Debug)]
pub struct Wheel {
    slots: Vec<Vec<Armed>>,
    /// The tick up to which everything has fired.
    fired: u64,
    len: usize,
}

impl Default for Wheel {
    fn default() -> Self {
        Wheel { slots: (0..SLOTS).map(|_| Vec::new()).collect(), fired: 0, len: 0 }
    }
}

impl Wheel {
    /// An empty wheel.
    pub fn new() -> Self {
        Self::default()
    }

    /// Entries armed, including ones their owners have forgotten.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing is armed.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Fires `key` once, at the first [`Wheel::expire`] at or after `at`.
    pub fn arm(&mut self, key: Key, at: Time) {
        let tick = tick_after(at).max(self.fired + 1);
        if let Some(slot) = self.slots.get_mut(tick as usize % SLOTS) {
            // In small steps: with a connection each, the idle half of a doubled slot would show.
            if slot.len() == slot.capacity() {
                slot.reserve_exact((slot.len() / 8).max(1));
            }
            slot.push(Armed { key, at });
            self.len += 1;
        }
    }

    /// Moves every key whose time has come to `due`.
    pub fn expire(&mut self, now: Time, due: &mut Vec<Key>) {
        let last = now.as_nanos() / TICK.as_nanos() as u64;
        let first = self.fired + 1;
        if last < first {
            return;
        }
        // After a long sleep one revolution visits every slot.
        let first = first.max((last + 1).saturating_sub(SLOTS as u64));
        for tick in first..=last {
            let Some(slot) = self.slots.get_mut(tick as usize % SLOTS) else {
                continue;
            };
            let before = due.len();
            slot.retain(|armed| {
                let fires = armed.at <= now;
                if fires {
                    due.push(armed.key);
                }
                !fires
            });
            if slot.is_empty() {
                *slot = Vec::new();
            }
            self.len -= due.len() - before;
        }
        self.fired = last;
    }

    /// How long the loop may sleep: until the next tick when anything is armed.
    pub fn until_next(&self, now: Time) -> Option<Span> {
        if self.len == 0 {
            return None;
        }
        // Scanning slots for the first used one would cost more than waking now and then.
        let horizon = 16;
        let tick = (1..=horizon)
            .find(|ahead| {
                self.slots
                    .get((self.fired + ahead) as usize % SLOTS)
                    .is_some_and(|slot| !slot.is_empty())
            })
            .unwrap_or(horizon);
        let wake = Time::from_nanos((self.fired + tick) * TICK.as_nanos() as u64);
        Some(wake.since(now))
    }
}

/// The first tick that begins at or after `at`.
fn tick_after(at: Time) -> u64 {
    at.as_nanos().div_ceil(TICK.as_nanos() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key(slot: u32) -> Key {
        Key { slot, generation: 0 }
    }

    #[test]
    fn sleeps_no_longer_than_the_next_deadline() {
        let mut wheel = Wheel::new();
        assert_eq!(wheel.until_next(Time::ZERO), None);
        wheel.arm(key(1), Time::from_nanos(20_000_000));
        assert_eq!(wheel.until_next(Time::ZERO), Some(Span::from_millis(24)));
    }

    proptest! {
        #[test]
        fn fires_each_once_never_early_and_at_most_a_tick_late(
            deadlines in proptest::collection::vec(0u64..60_000, 1..200),
            steps in proptest::collection::vec(1u64..5_000, 1..100),
        ) {
            let mut wheel = Wheel::new();
            for (slot, ms) in deadlines.iter().enumerate() {
                wheel.arm(key(slot as u32), Time::from_nanos(ms * 1_000_000));
            }
            let mut now = 0;
            let mut fired = vec![None; deadlines.len()];
            for step in steps.into_iter().chain([70_000]) {
                let before = now;
                now += step;
                let mut due = Vec::new();
                wheel.expire(Time::from_nanos(now * 1_000_000), &mut due);
                for key in due {
                    let slot = key.slot as usize;
                    prop_assert!(fired[slot].is_none());
                    prop_assert!(deadlines[slot] <= now);
                    prop_assert!(deadlines[slot] + 8 > before || before == 0);
                    fired[slot] = Some(now);
                }
            }
            prop_assert!(fired.iter().all(Option::is_some));
            prop_assert!(wheel.is_empty());
        }
    }
}
