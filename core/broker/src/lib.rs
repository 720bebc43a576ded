//! One shard of the broker: commands in, effects out
