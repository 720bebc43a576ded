//! Numbers that look random and are the same in every run: splitmix64.

/// A generator.
#[derive(Debug)]
pub(crate) struct Random(u64);

impl Random {
    /// A generator of that seed.
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// The next number.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// A number below `limit`, which is not zero.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit.max(1)
    }

    /// A number from `-most` to `most`.
    pub(crate) fn around_zero(&mut self, most: i64) -> i64 {
        let width = 2 * most.unsigned_abs() + 1;
        i64::try_from(self.below(width)).unwrap_or(0) - most
    }
}
