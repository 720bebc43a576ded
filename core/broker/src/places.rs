//! Places of sessions and sets of shards, in the forms in which the broker keeps them.

use tiderace_base::{Key, SessionId, ShardId};

/// The shard that keeps the list of views.
pub(crate) const REGISTRAR: ShardId = ShardId(0);

/// A shard as a member of a set of shards.
pub(crate) fn bit(shard: ShardId) -> u64 {
    1 << (shard.0 % 64)
}

/// The members of a set of shards.
pub(crate) fn members(mut set: u64) -> impl Iterator<Item = ShardId> {
    std::iter::from_fn(move || {
        let shard = ShardId(set.trailing_zeros() as u16);
        let some = set != 0;
        set &= set.wrapping_sub(1);
        some.then_some(shard)
    })
}

/// All shards of so many.
pub(crate) fn all(shards: usize) -> u64 {
    u64::MAX >> (64 - shards.clamp(1, 64))
}

/// Where a session of this shard is kept.
pub(crate) fn key_of(session: SessionId) -> Key {
    Key { slot: session.slot, generation: session.generation }
}
