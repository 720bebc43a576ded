//! What queues have asked of the store and it has not answered yet.
//!
//! A part of a queue may lie in two streams, each of which is asked for by itself. Bookkeeping only. Invariants: no more
//! than [`LOADING_BYTES_MAX`] are asked for at once, or one part; a queue is given an answer when all its streams have
//! answered.

use std::collections::{BTreeMap, VecDeque};

use tiderace_base::Key;
use tiderace_journal::{StoreLoad, StoreLoaded};

use crate::queued::{LoadedStreams, WantedPart};

/// Bytes that are asked for at once.
const LOADING_BYTES_MAX: usize = 8 << 20;
/// Streams that one part may lie in.
const STREAMS_MAX: u64 = 2;

/// A part that is under way.
#[derive(Debug)]
struct UnderWay {
    queue: Key,
    last: u64,
    bytes_max: usize,
    streams: usize,
    answers: Vec<StoreLoaded>,
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
            let WantedPart { queue, streams, first, last, bytes_max } = next;
            self.next += 1;
            for (stream, place) in streams.iter().zip(0..STREAMS_MAX) {
                let (ticket, stream) = (self.next * STREAMS_MAX + place, *stream);
                let bytes_max = bytes_max / streams.len().max(1);
                loads.push(StoreLoad { ticket, stream, first, last, bytes_max });
            }
            self.bytes += bytes_max;
            let (streams, answers) = (streams.len(), Vec::new());
            let under_way = UnderWay { queue, last, bytes_max, streams, answers };
            self.under_way.insert(self.next, under_way);
        }
        loads
    }

    /// The store has answered: the part, if it is complete by that.
    pub(crate) fn answered(&mut self, loaded: StoreLoaded) -> Option<LoadedStreams> {
        let number = loaded.ticket / STREAMS_MAX;
        let under_way = self.under_way.get_mut(&number)?;
        under_way.answers.push(loaded);
        if under_way.answers.len() < under_way.streams {
            return None;
        }
        let UnderWay { queue, last, bytes_max, answers, .. } = self.under_way.remove(&number)?;
        self.bytes = self.bytes.saturating_sub(bytes_max);
        Some(LoadedStreams { queue, last, answers })
    }

    fn has_room(&self, next: &WantedPart) -> bool {
        self.under_way.is_empty() || self.bytes + next.bytes_max <= LOADING_BYTES_MAX
    }
}
