//! Names of the things a node is made of. All are plain values that may cross shards.

/// A shard: one event-loop thread with everything it owns. At most [`crate::limits::SHARDS_MAX`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ShardId(pub u16);

impl ShardId {
    /// The shard's place in per-shard tables.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// A session: one client as the broker knows it. Unique on this node until the node restarts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionId {
    /// The shard that owns the session and alone may touch it.
    pub shard: ShardId,
    /// Its slot on that shard.
    pub slot: u32,
    /// Which of the slot's successive tenants is meant.
    pub generation: u32,
}

impl std::fmt::Display for SessionId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "s{}-{}-{}", self.shard.0, self.slot, self.generation)
    }
}
