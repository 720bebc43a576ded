//! Paths, wildcard patterns and the subscription index
