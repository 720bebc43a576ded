//! What a shard and the store tell each other.
//!
//! The store itself is behind [`Keeper`]: it works on a thread of its own, and its answers come back
//! as notices, as those of logins do. Invariants: a shard's records are handed over in their order,
//! once a turn; while a batch waits for room none follows it; the shard never waits.

use std::sync::Arc;

use tiderace_base::{Now, ShardId};
use tiderace_broker::{Broker, StoreRecord};

use crate::driver::Driver;
use crate::mailbox::{Door, Notice};
use crate::shard::Shard;

/// Keeps what is to survive.
pub trait Keeper: Send + Sync {
    /// A shard begins, on its own thread: gives its broker what has survived, and is given a way
    /// back for the answers.
    fn begin(
        &self,
        shard: ShardId,
        now: Now,
        broker: &mut Broker,
        answers: StoreAnswers,
    ) -> Box<dyn ShardStore>;
}

/// The store as one shard sees it.
pub trait ShardStore {
    /// Hands over what had to wait; false if it still has to.
    fn flush(&mut self) -> bool;

    /// Takes records, the last of which has that number; called only after a [`ShardStore::flush`]
    /// that left nothing. Must return at once.
    fn submit(&mut self, up_to: u64, records: Vec<StoreRecord>);
}

/// What became of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreNews {
    /// All up to this number are kept.
    Stored(u64),
    /// Those up to this number that were not answered before are not kept.
    Refused {
        /// The number.
        up_to: u64,
        /// Nothing will be kept in this life of the server.
        is_fatal: bool,
    },
}

/// The way back from the store to a shard; cheap to clone.
#[derive(Clone)]
pub struct StoreAnswers {
    shard: ShardId,
    doors: Arc<[Door]>,
}

impl StoreAnswers {
    /// Tells the shard; any thread may. Wakes it, and never blocks for long.
    pub fn tell(&self, news: StoreNews) {
        if let Some(door) = self.doors.get(self.shard.index()) {
            door.notify(Notice::Store(news));
        }
    }
}

impl std::fmt::Debug for StoreAnswers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StoreAnswers").field("shard", &self.shard).finish_non_exhaustive()
    }
}

impl<D: Driver> Shard<D> {
    /// Takes back what has survived.
    pub(crate) fn begin_store(&mut self) {
        let shared = Arc::clone(&self.shared);
        if let Some(keeper) = &shared.services.keeper {
            let answers = StoreAnswers { shard: self.id, doors: shared.doors.clone() };
            self.store = Some(keeper.begin(self.id, self.now, &mut self.broker, answers));
        }
    }

    /// Hands the records of the turn over.
    pub(crate) fn hand_over(&mut self) {
        let Some(store) = &mut self.store else { return };
        if !store.flush() {
            return;
        }
        if let Some((up_to, records)) = self.broker.take_records(&mut self.effects) {
            store.submit(up_to, records);
            self.drain_effects();
        }
    }

    /// Whether there are records that the store has not taken.
    pub(crate) fn has_unstored(&mut self) -> bool {
        let waits = self.store.as_mut().is_some_and(|store| !store.flush());
        waits || self.broker.has_records()
    }

    /// Takes the store's word.
    pub(crate) fn hear_store(&mut self, news: StoreNews) {
        match news {
            StoreNews::Stored(up_to) => self.broker.stored(self.now, up_to, &mut self.effects),
            StoreNews::Refused { up_to, is_fatal } => {
                self.broker.store_failed(self.now, up_to, is_fatal, &mut self.effects);
            }
        }
        self.drain_effects();
    }
}
