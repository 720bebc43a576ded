//! When streams that send are due: a ring of slots of time, each with the streams whose turn it is.
//!
//! Nothing is due further ahead than the ring reaches, so there is no sorting. Invariant: what was put in comes
//! out once, never early, and at most one slot late.

/// A ring of slots.
#[derive(Debug)]
pub(super) struct Wheel {
    slots: Vec<Vec<u64>>,
    slot_us: u64,
    /// The next slot to be emptied, counted from the beginning of time.
    next: u64,
}

impl Wheel {
    /// A wheel for times up to `interval_us` ahead of `now_us`.
    pub(super) fn new(interval_us: u64, now_us: u64) -> Wheel {
        let slot_us = (interval_us / (SLOTS / 2)).max(SLOT_US_MIN);
        let slots = (0..SLOTS).map(|_| Vec::new()).collect();
        Wheel { slots, slot_us, next: now_us / slot_us }
    }

    /// Puts something in.
    pub(super) fn push(&mut self, due_us: u64, what: u64) {
        let slot = due_us.div_ceil(self.slot_us).clamp(self.next, self.next + SLOTS - 1);
        if let Some(list) = self.slots.get_mut((slot % SLOTS) as usize) {
            list.push(what);
        }
    }

    /// Moves everything that is due to `due`.
    pub(super) fn take(&mut self, now_us: u64, due: &mut Vec<u64>) {
        let last = now_us / self.slot_us;
        let mut turns = SLOTS;
        while self.next <= last && turns > 0 {
            if let Some(list) = self.slots.get_mut((self.next % SLOTS) as usize) {
                due.append(list);
            }
            self.next += 1;
            turns -= 1;
        }
        self.next = self.next.max(last + 1);
    }
}

const SLOTS: u64 = 2048;
/// Half a millisecond: finer than threads are woken.
const SLOT_US_MIN: u64 = 500;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_comes_out_once_and_not_early() {
        for interval in [1_000, 100_000, 1_000_000, 60_000_000_u64] {
            let start = 123_456_789;
            let mut wheel = Wheel::new(interval, start);
            let dues: Vec<u64> = (0..1000).map(|at| start + at * interval / 999).collect();
            for (what, due) in dues.iter().enumerate() {
                wheel.push(*due, what as u64);
            }
            let (mut out, mut seen) = (Vec::new(), Vec::new());
            let mut now = start;
            while seen.len() < dues.len() {
                now += interval / 100 + 1;
                wheel.take(now, &mut out);
                for what in out.drain(..) {
                    let due = dues[what as usize];
                    assert!(due <= now, "{what} early by {}", due - now);
                    assert!(now - due <= wheel.slot_us + interval / 100 + 1, "{what} late");
                    seen.push(what);
                }
                assert!(now < start + 2 * interval + wheel.slot_us * 2, "{} are left", seen.len());
            }
            seen.sort_unstable();
            assert!(seen.iter().copied().eq(0..1000));
        }
    }

    #[test]
    fn a_long_pause_loses_nothing() {
        let mut wheel = Wheel::new(1_000_000, 0);
        wheel.push(999_000, 7);
        let mut out = Vec::new();
        wheel.take(90_000_000, &mut out);
        assert_eq!(out, [7]);
        wheel.push(90_000_000, 8);
        wheel.take(90_002_000, &mut out);
        assert_eq!(out, [7, 8]);
    }
}
