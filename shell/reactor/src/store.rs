//! When records are handed to the store, and what follows from its answers.
//!
//! Invariants: a shard's records are handed over in their order, once a turn; while a batch waits for room none
//! follows it; the shard never waits.

use std::sync::Arc;

use tiderace_broker::{StoreLoaded, Unreadable};

use crate::driver::Driver;
use crate::shard::Shard;
use crate::store_gateway::StoreAnswers;
use crate::waker::CommitResult;

impl<D: Driver> Shard<D> {
    /// Takes back what has survived.
    pub(crate) fn begin_store(&mut self) {
        let shared = Arc::clone(&self.shared);
        if let Some(store_gateway) = &shared.services.store_gateway {
            let answers = StoreAnswers::new(self.id, shared.wakers.clone());
            self.store = Some(store_gateway.begin(self.id, self.now, &mut self.broker, answers));
        }
    }

    /// Hands the records of the turn over, and what is to be read back.
    pub(crate) fn submit_journal(&mut self) {
        let Some(store) = &mut self.store else { return };
        for load in self.broker.take_loads() {
            store.load(load);
        }
        if !store.flush() {
            return;
        }
        if let Some(taken) = self.broker.take_records(&mut self.effects) {
            store.submit(taken);
            self.drain_effects();
        }
    }

    /// Whether there are records that the store has not taken.
    pub(crate) fn has_unstored(&mut self) -> bool {
        let waits = self.store.as_mut().is_some_and(|store| !store.flush());
        waits || self.broker.has_records()
    }

    /// Takes what the store has read for the shard.
    pub(crate) fn receive_loaded(&mut self, loaded: StoreLoaded) {
        let unreadable = self.broker.loaded(self.now, loaded, &mut self.effects);
        if let Some(Unreadable { path, messages }) = unreadable {
            tracing::error!(
                event = "queue-messages-unreadable",
                path = path.as_str(),
                messages,
                "messages of a queue cannot be read and are passed over; they stay in the store"
            );
        }
        self.drain_effects();
    }

    /// Takes the store's word.
    pub(crate) fn receive_commit_result(&mut self, news: CommitResult) {
        match news {
            CommitResult::Stored(up_to) => self.broker.stored(self.now, up_to, &mut self.effects),
            CommitResult::Refused { up_to, is_fatal } => {
                self.broker.store_failed(self.now, up_to, is_fatal, &mut self.effects);
            }
            CommitResult::BodyRefused(record) => self.broker.body_refused(record),
            CommitResult::QueuesFull(are_full) => self.broker.store_queues_full(are_full),
        }
        self.drain_effects();
    }
}
