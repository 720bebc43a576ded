//! Identities: users and tokens from the configuration, verified off the shards
