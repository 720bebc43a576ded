//! Large tables of views are divided into parts, so that none is walked or dropped at once.
//!
//! Invariant: a topic is always in the same part.

use tiderace_base::Key;

/// Parts into which large tables are divided, so that none is walked or dropped at once.
pub(super) const BUCKETS: usize = 64;

/// The bucket of a topic.
pub(super) fn bucket_of(key: Key) -> usize {
    key.slot as usize % BUCKETS
}
