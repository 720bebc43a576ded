//! What is appended when messages of queues are put and consumed.
//!
//! Relies on the home for versions and streams. Invariants: no message is put before its queue is declared; what a
//! transaction does here is refused together, for its records are in one batch.

use std::sync::Arc;

use tiderace_base::{Close, CloseCode, Key, Now};
use tiderace_journal::{RecordBody, RecordSubject, StoreRecord, StoredKind};
use tiderace_queues::Segment;
use tiderace_topics::Path;
use tiderace_wire::{Run, SharedBytes};

use super::codec::{Circumstances, encode};
use super::{HomeJournal, OpenJournal};

/// Messages of several queues that other queues are looked up for: as many as the selections of a run that are shared.
const SHARED_MAX: usize = 32;

/// The form of the descriptions of queues that nothing feeds, which say who owns them and nothing else.
pub(super) const QUEUE_FORM: u8 = 1;

impl HomeJournal {
    /// Refuses a persistent message that would not be kept. It may be taken without a store if the
    /// configuration says so.
    pub(crate) fn check_message(&self, in_memory: bool) -> Result<(), Close> {
        if let Some(open) = &self.open {
            if open.queues_full {
                let reason = "persistent messages of queues have filled their share of the store \
                              (store.queue_bytes_max); send it again when some are consumed";
                return Err(Close::new(CloseCode::StoreUnavailable, reason));
            }
            return self.check_outage();
        }
        if in_memory {
            return Ok(());
        }
        let reason = "a persistent message cannot be kept: queues live in memory here and end with the server. \
                      Leave the mark out, or have the server's option `store.directory` set";
        Err(Close::new(CloseCode::NoStore, reason))
    }

    /// Messages of queues have filled their share of the store, or there is room for some again.
    pub(crate) fn set_queues_full(&mut self, are_full: bool) {
        if let Some(open) = self.open.as_deref_mut() {
            open.queues_full = are_full;
        }
    }

    /// Whether messages that need not survive are left to the store now.
    pub(crate) fn takes_volatile(&self) -> bool {
        self.open.as_ref().is_some_and(|open| !open.queues_full)
    }

    /// Whether messages of queues are put into the store now.
    pub(crate) fn stores_messages(&self) -> bool {
        self.open.as_ref().is_some_and(|open| open.journal.outage().is_none())
    }

    /// Messages of queues have got numbers.
    #[inline]
    pub(crate) fn note_queue_numbers(&mut self, next_number: u64) {
        if let Some(open) = self.open.as_deref_mut() {
            open.reserve_numbers(next_number);
        }
    }

    /// A queue is to be kept from now on: its stream. The version of its last message is `version`.
    pub(crate) fn begin_queue(
        &mut self,
        key: Key,
        path: &Path,
        version: u64,
        description: Vec<u8>,
    ) -> Option<u64> {
        let open = self.open.as_deref_mut()?;
        let stream = open.streams.create();
        open.declare_queue((key, stream, version), path, description);
        Some(stream)
    }

    /// A queue that is kept is something else from now on.
    pub(crate) fn describe_queue(
        &mut self,
        kept: (Key, u64, u64),
        path: &Path,
        description: Vec<u8>,
    ) {
        if let Some(open) = self.open.as_deref_mut() {
            open.declare_queue(kept, path, description);
        }
    }

    /// A stream for messages that need not survive.
    pub(crate) fn volatile_stream(&mut self) -> Option<u64> {
        Some(self.open.as_deref_mut()?.volatile.create())
    }

    /// Messages between two versions, both included, that are in the store alone are gone.
    pub(crate) fn settle_range(&mut self, stream: u64, (first, last): (u64, u64)) {
        if let Some(open) = self.open.as_deref_mut() {
            open.journal.append_settled(stream, first, last);
        }
    }

    /// Messages are put into a queue: the record that says so. If other queues have the same, that is one for all of them.
    pub(crate) fn put_messages(&mut self, now: Now, stream: u64, run: &Run) -> u64 {
        let Some(open) = self.open.as_deref_mut() else { return 0 };
        let about = Circumstances {
            time_ms: now.wall_ms,
            author: None,
            amends: None,
            is_value_alone: false,
            follows: None,
        };
        let (first, count) = (run.queue_version(), run.len() as u32);
        // What lies in a file has a small record of its own.
        let body = run.body_in_file().cloned().map(RecordBody::from);
        if let Some(shared) = run.shared().filter(|_| body.is_none()) {
            let (owner, encode) = ((stream, first), || encode(run, &about));
            return open.put_shared(shared, owner, count, encode);
        }
        let bytes = encode(run, &about);
        let put = StoreRecord::Put { stream, first, count, keep_from: 0, bytes, body };
        open.journal.append_answered(put)
    }

    /// Messages of a stream are consumed, or gone otherwise.
    pub(crate) fn settle_messages(&mut self, stream: u64, segment: &Segment) {
        let Some(open) = self.open.as_deref_mut() else { return };
        let (first, last) = versions_of(segment);
        open.journal.append_settled(stream, first, last);
    }

    /// A version of a stream is not needed there any more.
    pub(crate) fn settle_version(&mut self, stream: u64, version: u64) {
        if let Some(open) = self.open.as_deref_mut() {
            open.journal.append_settled(stream, version, version);
        }
    }

    /// The same of stretches that are in order, as part of a transaction. It is refused together with that, and not said
    /// again then.
    pub(crate) fn settle_together(
        &mut self,
        stream: u64,
        stretches: impl IntoIterator<Item = (u64, u64)>,
    ) -> u64 {
        let Some(open) = self.open.as_deref_mut() else { return 0 };
        open.journal.append_answered(StoreRecord::Settle { stream, ranges: joined(stretches) })
    }

    /// The same of messages that are put into another queue by the record `put`, and of no others.
    pub(crate) fn settle_moved(
        &mut self,
        put: u64,
        stream: u64,
        stretches: impl IntoIterator<Item = (u64, u64)>,
    ) -> u64 {
        let Some(open) = self.open.as_deref_mut() else { return 0 };
        open.journal.append_settled_with(put, stream, joined(stretches))
    }

    /// A queue has ended.
    pub(crate) fn end_queue(&mut self, stream: u64) {
        if let Some(open) = self.open.as_deref_mut() {
            open.journal.append(StoreRecord::Drop { stream }, RecordSubject::Gone(stream));
        }
    }
}

impl OpenJournal {
    /// Puts messages that several queues have, or adds one that has them, if they are here still.
    fn put_shared(
        &mut self,
        shared: &Arc<SharedBytes>,
        owner: (u64, u64),
        count: u32,
        encode: impl FnOnce() -> Vec<u8>,
    ) -> u64 {
        let known = self.shared.iter().position(|(known, _)| Arc::ptr_eq(known, shared));
        let place = known.and_then(|at| self.shared.get_mut(at)).map(|(_, place)| place);
        if let Some(place) = &place
            && let Some(number) = self.journal.join_shared(**place, owner)
        {
            return number;
        }
        let (number, begun) = self.journal.append_shared(owner, count, encode());
        match place {
            Some(place) => *place = begun,
            None => {
                // Kept, or another might lie where it lay.
                self.shared.push_front((shared.clone(), begun));
                self.shared.truncate(SHARED_MAX);
            }
        }
        number
    }

    /// Says that there is a queue, what it is, and in which stream.
    pub(super) fn declare_queue(
        &mut self,
        (key, stream, version): (Key, u64, u64),
        path: &Path,
        description: Vec<u8>,
    ) {
        let record = StoreRecord::Declare {
            stream,
            kind: StoredKind::Queue,
            path: path.clone(),
            description,
            version,
        };
        self.journal.append(record, RecordSubject::Queue(key, stream));
    }
}

/// Stretches that are in order, those next to each other as one.
fn joined(stretches: impl IntoIterator<Item = (u64, u64)>) -> Vec<(u64, u64)> {
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for (first, last) in stretches {
        match ranges.last_mut() {
            Some(before) if before.1 + 1 == first => before.1 = last,
            _ => ranges.push((first, last)),
        }
    }
    ranges
}

/// The versions of a segment's first and last message in its queue.
pub(crate) fn versions_of(segment: &Segment) -> (u64, u64) {
    (segment.first_version(), segment.last_version())
}
