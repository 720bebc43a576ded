//! A number that one shard counts and anybody reads.
//!
//! Invariant: one writer. Then a plain load and store are as good as an atomic addition and cost no
//! bus lock.

use std::sync::atomic::{AtomicU64, Ordering};

/// A number with one writer.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Zero.
    pub const fn new() -> Counter {
        Counter(AtomicU64::new(0))
    }

    /// Adds; for the owning shard alone.
    #[inline]
    pub fn add(&self, amount: u64) {
        self.set(self.value().wrapping_add(amount));
    }

    /// Takes away; for the owning shard alone.
    #[inline]
    pub fn sub(&self, amount: u64) {
        self.set(self.value().wrapping_sub(amount));
    }

    /// Replaces; for the owning shard alone.
    #[inline]
    pub fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    /// The number now.
    #[inline]
    pub fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_up_and_down() {
        let counter = Counter::new();
        counter.add(7);
        counter.sub(2);
        assert_eq!(counter.value(), 5);
        counter.set(1);
        assert_eq!(counter.value(), 1);
    }
}
