//! What of clients' unfinished input counts in the memory budget.

use std::collections::HashMap;

use tiderace_base::{MemoryUse, Span, Time};

/// What is counted of the records of a shard.
#[derive(Debug)]
pub(crate) struct UnfinishedInput {
    /// By the slot of the record.
    counted: HashMap<u32, (MemoryUse, usize)>,
    /// From when on freed memory may be given back again.
    release_at: Time,
}

impl UnfinishedInput {
    /// Of a shard that begins.
    pub(crate) fn new(now: Time) -> UnfinishedInput {
        UnfinishedInput { counted: HashMap::new(), release_at: now }
    }

    /// So many bytes count for a record from now on; says what counted before.
    pub(crate) fn count(
        &mut self,
        slot: u32,
        what: MemoryUse,
        bytes: usize,
    ) -> Option<(MemoryUse, usize)> {
        self.counted.insert(slot, (what, bytes))
    }

    /// Nothing counts for a record any more; says what counted before.
    pub(crate) fn forget(&mut self, slot: u32) -> Option<(MemoryUse, usize)> {
        self.counted.remove(&slot)
    }

    /// Whether freed memory may be given back now; if so, not again for an interval.
    pub(crate) fn may_release(&mut self, now: Time) -> bool {
        let may = now >= self.release_at;
        if may {
            self.release_at = now + RELEASE_INTERVAL;
        }
        may
    }
}

/// Time between two calls that give freed memory back.
const RELEASE_INTERVAL: Span = Span::from_millis(100);
