//! What the threads of the store have to say, and to whom they say it.
//!
//! Relies on `store` and `load` for what became of requests. Invariant: the report is never called by two threads at
//! once.

use std::sync::{Arc, Mutex, PoisonError};

use crate::load::Loaded;
use crate::store::Outcome;

/// What became of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    /// Whose batch.
    pub shard: u16,
    /// Which.
    pub ticket: u64,
    /// What became of it.
    pub outcome: Outcome,
}

/// What the committer has to say.
#[derive(Debug)]
pub enum Notice<'a> {
    /// What became of batches, in the order in which each shard submitted them.
    Done(&'a [Done]),
    /// The files of bodies could not be kept, so the records with these numbers are left out of a batch of a shard. Said
    /// before that is [`Notice::Done`], which is about its other records.
    BodiesRefused {
        /// Whose batch.
        shard: u16,
        /// The numbers that [`crate::Batch::put_with_body`] was given.
        records: &'a [u64],
    },
    /// Messages that were read back, in the order in which each shard asked. Said by the thread that reads them.
    Loaded(Loaded),
    /// Something for the operator's log.
    Trouble {
        /// A sentence.
        what: &'a str,
        /// Nothing is acknowledged any more.
        is_fatal: bool,
    },
    /// The disk is not full any more.
    RoomAgain,
    /// Messages of queues have filled their share of the store ([`crate::Options::queue_bytes_max`]), so that no others
    /// should be put; or there is room for some again.
    QueuesFull(bool),
}

/// What is called with what the store has to say.
pub(crate) struct Report<R>(Arc<Mutex<R>>);

impl<R> Clone for Report<R> {
    fn clone(&self) -> Report<R> {
        Report(Arc::clone(&self.0))
    }
}

impl<R: FnMut(Notice<'_>)> Report<R> {
    pub(crate) fn new(report: R) -> Report<R> {
        Report(Arc::new(Mutex::new(report)))
    }

    pub(crate) fn tell(&self, notice: Notice<'_>) {
        let mut report = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        report(notice);
    }
}
