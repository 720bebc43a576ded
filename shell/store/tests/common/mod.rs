//! What the tests share: a file system that forgets, a model of what a store holds, and numbers from a seed.
#![allow(dead_code)]

pub(crate) mod disk;
pub(crate) mod model;
pub(crate) mod segments;

/// The seeds of a test that runs for so many; `TIDERACE_TEST_SEEDS=N` makes it N times as many.
pub(crate) fn seeds(count: u64) -> std::ops::Range<u64> {
    let times = std::env::var("TIDERACE_TEST_SEEDS").map_or(1, |times| times.parse().unwrap());
    0..count * times
}

/// Numbers from a seed (SplitMix64).
#[derive(Clone, Debug)]
pub(crate) struct Numbers(pub(crate) u64);

impl Numbers {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Below `limit`.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    /// True so many times in a hundred.
    pub(crate) fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}
