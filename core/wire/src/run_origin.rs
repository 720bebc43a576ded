//! What a run's home says of it, packed.
//!
//! Relies on nothing. Invariant: no part overlaps another one.

use tiderace_base::ShardId;

/// What a home says of a run besides its numbers, in eight bytes: which shard it is (16 bits), whether
/// the topic keeps every message as its value, whether the versions are those of a queue, whether the queue
/// keeps it in the store (one bit each), and how many versions lie unused between the topic's message before
/// and the first of these (the rest).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Origin(pub(crate) u64);

impl Origin {
    const HOME: u64 = 0xffff;
    pub(crate) const IS_VALUE: u64 = 1 << 16;
    pub(crate) const IN_QUEUE: u64 = 1 << 17;
    pub(crate) const IS_STORED: u64 = 1 << 18;
    const UNUSED_SHIFT: u32 = 19;
    const MARKS: u64 = Origin::IS_VALUE | Origin::IN_QUEUE | Origin::IS_STORED;

    pub(crate) fn home(self) -> ShardId {
        ShardId((self.0 & Origin::HOME) as u16)
    }

    pub(crate) fn unused(self) -> u64 {
        self.0 >> Origin::UNUSED_SHIFT
    }

    pub(crate) fn with_home(self, home: ShardId) -> Origin {
        Origin(self.0 & !Origin::HOME | u64::from(home.0))
    }

    pub(crate) fn with_unused(self, unused: u64) -> Origin {
        let most = u64::MAX >> Origin::UNUSED_SHIFT;
        let rest = self.0 & (Origin::HOME | Origin::MARKS);
        Origin(rest | unused.min(most) << Origin::UNUSED_SHIFT)
    }
}
