//! What has been published: for each of the last publications of each topic when it was due, and a
//! checksum of its value. Clients look up by version what arrived, so values need not carry a time.
//!
//! One thread writes, many read. Invariant: an entry that has been overwritten is told apart from the one
//! looked for, so no arrival is timed by another publication.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use crate::clients::counters::unix_ns;

/// The publications of all topics.
#[derive(Debug)]
pub struct Publications {
    /// Nanoseconds since 1970 that times count from.
    origin_ns: u64,
    /// Entries of each topic, a power of two.
    depth: usize,
    /// When it was due, above the lowest 16 bits of which publication of its topic it is.
    due: Box<[AtomicU64]>,
    sums: Box<[AtomicU32]>,
    published: AtomicU64,
    published_bytes: AtomicU64,
}

impl Publications {
    /// Nothing published, of so many topics.
    pub fn new(topics: usize) -> Publications {
        let depth = (ENTRIES / topics.max(1)).clamp(DEPTH_MIN, DEPTH_MAX).next_power_of_two();
        let entries = topics * depth;
        Publications {
            origin_ns: unix_ns(),
            depth,
            due: (0..entries).map(|_| AtomicU64::new(u64::MAX)).collect(),
            sums: (0..entries).map(|_| AtomicU32::new(0)).collect(),
            published: AtomicU64::new(0),
            published_bytes: AtomicU64::new(0),
        }
    }

    /// Notes a topic's publication of that number, counted from 0.
    pub fn note(&self, topic: usize, number: u16, due_unix_ns: u64, value: &[u8]) {
        let place = self.place(topic, number);
        let due = due_unix_ns.saturating_sub(self.origin_ns) << 16 | u64::from(number);
        if let (Some(slot), Some(known)) = (self.due.get(place), self.sums.get(place)) {
            known.store(sum(value), Relaxed);
            slot.store(due, Relaxed);
        }
        self.published.fetch_add(1, Relaxed);
        self.published_bytes.fetch_add(value.len() as u64, Relaxed);
    }

    /// When a topic's publication of that number was due, since 1970; `None` if it is forgotten.
    pub fn due_unix_ns(&self, topic: usize, number: u16) -> Option<u64> {
        let entry = self.due.get(self.place(topic, number))?.load(Relaxed);
        (entry as u16 == number).then_some(self.origin_ns + (entry >> 16))
    }

    /// Whether a value is what was published; true if that is forgotten.
    pub fn is_right(&self, topic: usize, number: u16, value: &[u8]) -> bool {
        let known = self.sums.get(self.place(topic, number)).map(|known| known.load(Relaxed));
        self.due_unix_ns(topic, number).is_none() || known == Some(sum(value))
    }

    /// How many publications there were.
    pub fn published(&self) -> u64 {
        self.published.load(Relaxed)
    }

    /// Bytes of a value, on average.
    #[allow(clippy::cast_precision_loss)]
    pub fn value_bytes(&self) -> f64 {
        self.published_bytes.load(Relaxed) as f64 / self.published().max(1) as f64
    }

    fn place(&self, topic: usize, number: u16) -> usize {
        topic * self.depth + usize::from(number) % self.depth
    }
}

/// Tells values apart; no more is asked of it.
fn sum(value: &[u8]) -> u32 {
    let (words, rest) = value.as_chunks::<8>();
    let mix =
        |sum: u64, word: u64| (sum ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23);
    let whole =
        words.iter().fold(value.len() as u64, |sum, word| mix(sum, u64::from_le_bytes(*word)));
    let all = rest.iter().fold(whole, |sum, byte| mix(sum, u64::from(*byte)));
    (all >> 32) as u32 ^ all as u32
}

/// Entries of all topics together, about.
const ENTRIES: usize = 1 << 21;
const DEPTH_MIN: usize = 8;
/// Half of the numbers that 16 bits tell apart.
const DEPTH_MAX: usize = 1 << 15;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_noted_is_found_until_it_is_overwritten() {
        let publications = Publications::new(1 << 20);
        let now = unix_ns();
        for number in 65_530..65_545_u32 {
            publications.note(3, number as u16, now + u64::from(number), b"value");
        }
        assert_eq!(publications.due_unix_ns(3, 8), Some(now + 65_544));
        assert_eq!(publications.due_unix_ns(3, 1), Some(now + 65_537));
        assert_eq!(publications.due_unix_ns(3, 0), None);
        assert_eq!(publications.due_unix_ns(4, 8), None);
        assert!(publications.is_right(3, 8, b"value") && !publications.is_right(3, 8, b"valuf"));
        assert!(publications.is_right(3, 0, b"anything"));
        assert_eq!((publications.published(), publications.value_bytes()), (15, 5.0));
    }

    #[test]
    fn few_topics_are_remembered_for_longer() {
        assert_eq!((Publications::new(1).depth, Publications::new(1024).depth), (DEPTH_MAX, 2048));
    }
}
