//! Latency of every message: one histogram for the window, one per second of it.
//!
//! Messages are measured from the time they were *meant* to be sent, so a stalled server cannot
//! hide the messages it kept from being sent (coordinated omission). Messages of one batch share
//! that time and arrive in one read, so they are recorded together at the price of one.
//! Invariant: a message counts in the second it was meant to be sent in, whenever it arrives.

use hdrhistogram::Histogram;

use crate::clock::{SECOND_NS, Window};

/// Longest latency told apart, ns (100 s); longer ones count as this.
const LATENCY_NS_MAX: u64 = 100 * SECOND_NS;

/// Latencies of one thread, ns.
#[derive(Debug, Clone)]
pub struct Recorder {
    window: Window,
    total: Histogram<u64>,
    seconds: Vec<Histogram<u64>>,
}

impl Recorder {
    /// An empty recorder for a window.
    pub fn new(window: Window) -> Self {
        Self {
            window,
            total: histogram(3),
            seconds: (0..window.seconds()).map(|_| histogram(2)).collect(),
        }
    }

    /// Records `count` messages meant to be sent at `stamp_ns` that arrived at `now_ns`.
    pub fn record(&mut self, stamp_ns: u64, now_ns: u64, count: u64) {
        if !self.window.contains(stamp_ns) {
            return;
        }
        let latency_ns = now_ns.saturating_sub(stamp_ns).clamp(1, LATENCY_NS_MAX);
        self.total.saturating_record_n(latency_ns, count);
        let second = usize::try_from((stamp_ns - self.window.start_ns) / SECOND_NS).unwrap_or(0);
        if let Some(histogram) = self.seconds.get_mut(second) {
            histogram.saturating_record_n(latency_ns, count);
        }
    }

    /// Adds another thread's latencies.
    pub fn merge(&mut self, other: &Self) {
        // Both have the same bounds, so adding cannot fail.
        let _ = self.total.add(&other.total);
        for (mine, theirs) in self.seconds.iter_mut().zip(&other.seconds) {
            let _ = mine.add(theirs);
        }
    }

    /// The whole window.
    pub fn total(&self) -> &Histogram<u64> {
        &self.total
    }

    /// One histogram per second of the window.
    pub fn seconds(&self) -> &[Histogram<u64>] {
        &self.seconds
    }
}

/// An empty histogram of latencies, ns.
pub(crate) fn histogram(significant_digits: u8) -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_NS_MAX, significant_digits)
        .unwrap_or_else(|_| unreachable!("the bounds are constants that fit"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_by_intended_second_and_only_inside_the_window() {
        let mut recorder = Recorder::new(Window::opening_at(0, 1, 2));
        recorder.record(0, 10, 5);
        recorder.record(SECOND_NS, SECOND_NS + 1_000, 7);
        recorder.record(2 * SECOND_NS, 60 * SECOND_NS, 1);
        recorder.record(3 * SECOND_NS, 3 * SECOND_NS + 1, 1);
        assert_eq!(recorder.total().len(), 8);
        assert_eq!(recorder.seconds()[0].len(), 7);
        assert!(recorder.seconds()[1].max() >= 57 * SECOND_NS);
    }

    #[test]
    fn merging_adds() {
        let mut one = Recorder::new(Window::opening_at(0, 0, 1));
        let mut two = one.clone();
        one.record(1, 2, 3);
        two.record(1, 2, 4);
        one.merge(&two);
        assert_eq!(one.total().len(), 7);
        assert_eq!(one.seconds()[0].len(), 7);
    }
}
