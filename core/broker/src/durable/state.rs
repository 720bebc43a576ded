//! What a broker with a store keeps for it.

use std::sync::Arc;

use tiderace_base::SessionId;
use tiderace_journal::{Journal, Streams};
use tiderace_wire::{Confirm, OperationResult, TopicSpec};

use super::reservation::Reservation;
use crate::operator::Operator;

/// What a broker with a store keeps for it.
#[derive(Debug)]
pub(crate) struct Durability {
    pub(super) journal: Journal<Answer>,
    pub(super) streams: Streams,
    pub(super) numbers: Reservation,
    pub(super) fences: Reservation,
    /// Shards with publishers that wait for the store.
    pub(super) throttled: u64,
    /// Positions of these epochs can be compared with the numbers of this life.
    pub(super) earlier_epochs: Box<[u64]>,
    /// The highest number of a message that was restored here.
    pub(super) restored_to: u64,
    /// Compiled from the description of the topic that was restored last.
    pub(super) restored: Option<ReadDescription>,
}

/// An answer that is held until the journal is committed.
#[derive(Debug)]
pub(super) enum Answer {
    Confirm(SessionId, Confirm),
    Operated(Box<Operator>, Box<OperationResult>),
}

impl Durability {
    /// Reserves the numbers of messages beyond the next one, if too few of them are left.
    pub(super) fn reserve_numbers(&mut self, next: u64) {
        self.numbers.cover(next, &mut self.journal);
    }
}

/// A specification's text and what it says: most topics have that of the one before.
#[derive(Debug)]
pub(super) struct ReadDescription {
    pub(super) text: Box<[u8]>,
    pub(super) spec: Arc<TopicSpec>,
}
