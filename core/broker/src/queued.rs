//! What is known of messages of queues on their way to the store and back, and of dead letters on their way to another
//! queue.
//!
//! Values that `queue_store.rs` and `queue_loads.rs` make and take, and that the journal and messages carry. Relies on nothing.

use tiderace_base::{Key, SessionId};
use tiderace_journal::StoreLoaded;
use tiderace_queues::Segment;
use tiderace_wire::Confirm;

use crate::places::Place;

/// What was put into the store of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Put {
    pub(crate) queue: Key,
    /// Those of the first and the last.
    pub(crate) versions: (u64, u64),
    pub(crate) record: u64,
    /// They stay in memory if the store does not take them, and nobody waits for it.
    pub(crate) stays: bool,
}

/// What waits until the store has messages of queues, or that they were consumed.
#[derive(Debug)]
pub(crate) struct Queued {
    /// Who is told, and of which receipts.
    pub(crate) publisher: Option<(SessionId, Option<Confirm>)>,
    /// Messages that were put: taken out again if they are refused.
    pub(crate) put: Option<Put>,
    /// Messages that a transaction has consumed: given back if that is refused.
    pub(crate) consumed: Vec<Segment>,
    /// Where a dead letter lay, which is told when it is stored where it goes.
    pub(crate) source: Option<(Place, MovedFrom)>,
}

/// Where a dead letter lay.
#[derive(Clone, Copy, Debug)]
pub struct MovedFrom {
    /// In which queue.
    pub(crate) queue: Key,
    /// In which stream that was kept.
    pub(crate) stream: u64,
    /// As which version.
    pub(crate) version: u64,
}

/// A part of a queue that is wanted.
#[derive(Debug)]
pub(crate) struct WantedPart {
    pub(crate) queue: Key,
    /// The one or two in which it may lie.
    pub(crate) streams: (u64, Option<u64>),
    pub(crate) first: u64,
    pub(crate) last: u64,
    pub(crate) bytes_max: usize,
}

/// A part that is here.
#[derive(Debug)]
pub(crate) struct ReadPart {
    pub(crate) queue: Key,
    /// The version of the last message that was asked for.
    pub(crate) last: u64,
    /// What the store has of it.
    pub(crate) answer: StoreLoaded,
}
