//! What queues have asked of the store and it has not answered yet.
//!
//! A part of a queue may lie in two streams, which are asked for together. Bookkeeping only. Invariant: no more than
//! [`LOADING_BYTES_MAX`] are asked for at once, or one part.

use std::collections::{BTreeMap, VecDeque};

use tiderace_base::Key;
use tiderace_journal::{StoreLoad, StoreLoaded};

use crate::queued::{ReadPart, WantedPart};

/// Bytes that are asked for at once.
const LOADING_BYTES_MAX: usize = 8 << 20;

/// A part that is under way.
#[derive(Debug)]
struct UnderWay {
    queue: Key,
    last: u64,
    bytes_max: usize,
}

/// The parts of one home's queues.
#[derive(Debug, Default)]
pub(crate) struct QueueLoads {
    waiting: VecDeque<WantedPart>,
    under_way: BTreeMap<u64, UnderWay>,
    bytes: usize,
    next: u64,
}

impl QueueLoads {
    /// A part is wanted.
    pub(crate) fn want(&mut self, wanted: WantedPart) {
        self.waiting.push_back(wanted);
    }

    /// Whether the store is to be asked for something now.
    pub(crate) fn has_requests(&self) -> bool {
        self.waiting.front().is_some_and(|next| self.has_room(next))
    }

    /// What the store is to be asked for now.
    pub(crate) fn take(&mut self) -> Vec<StoreLoad> {
        let mut loads = Vec::new();
        while self.has_requests()
            && let Some(next) = self.waiting.pop_front()
        {
            let WantedPart { queue, streams: (stream, beside), first, last, bytes_max } = next;
            self.next += 1;
            self.bytes += bytes_max;
            self.under_way.insert(self.next, UnderWay { queue, last, bytes_max });
            loads.push(StoreLoad { ticket: self.next, stream, beside, first, last, bytes_max });
        }
        loads
    }

    /// The store has answered: which part that is.
    pub(crate) fn answered(&mut self, answer: StoreLoaded) -> Option<ReadPart> {
        let UnderWay { queue, last, bytes_max } = self.under_way.remove(&answer.ticket)?;
        self.bytes = self.bytes.saturating_sub(bytes_max);
        Some(ReadPart { queue, last, answer })
    }

    fn has_room(&self, next: &WantedPart) -> bool {
        self.under_way.is_empty() || self.bytes + next.bytes_max <= LOADING_BYTES_MAX
    }
}
