//! A small seeded generator, so that a failure can be repeated from its seed.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// SplitMix64: every seed gives a sequence of its own.
#[derive(Debug)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5bd1_e995)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`, which is not zero.
    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    /// True once in so many times.
    pub fn one_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    pub fn pick<'a, T>(&mut self, values: &'a [T]) -> &'a T {
        &values[self.below(values.len())]
    }
}

/// Runs a scenario for every seed and names the seed of the one that failed. `TIDERACE_TEST_SEEDS=N` runs N times
/// as many.
#[allow(clippy::disallowed_methods, reason = "a test has no configuration")]
pub fn for_seeds(seeds: std::ops::Range<u64>, scenario: impl Fn(u64)) {
    let times = std::env::var("TIDERACE_TEST_SEEDS").map_or(1, |times| times.parse().unwrap());
    // Ranges that do not overlap do not overlap then either.
    for seed in seeds.start * times..seeds.end * times {
        if let Err(failure) = catch_unwind(AssertUnwindSafe(|| scenario(seed))) {
            eprintln!("the scenario failed with seed {seed}");
            resume_unwind(failure);
        }
    }
}
