//! What a shard and the store tell each other.
//!
//! The store itself is behind [`StoreGateway`]: it works on a thread of its own, and its answers come back
//! as events, as those of logins do.

use std::sync::Arc;

use tiderace_base::{Now, ShardId};
use tiderace_broker::{Broker, StoreLoad, StoreLoaded, TakenRecords};

use crate::waker::{CommitResult, Notice, Waker};

/// Keeps what is to survive.
pub trait StoreGateway: Send + Sync {
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

    /// Takes records; called only after a [`ShardStore::flush`] that left nothing. Must return at once.
    fn submit(&mut self, taken: TakenRecords);

    /// Asks for messages to be read back; the answer comes by [`StoreAnswers::tell_loaded`]. Must return at once.
    fn load(&mut self, load: StoreLoad);
}

/// The way back from the store to a shard; cheap to clone.
#[derive(Clone)]
pub struct StoreAnswers {
    shard: ShardId,
    wakers: Arc<[Waker]>,
}

impl StoreAnswers {
    /// The way back to a shard.
    pub(crate) fn new(shard: ShardId, wakers: Arc<[Waker]>) -> StoreAnswers {
        StoreAnswers { shard, wakers }
    }

    /// Tells the shard; any thread may. Wakes it, and never blocks for long.
    pub fn tell(&self, news: CommitResult) {
        if let Some(waker) = self.wakers.get(self.shard.index()) {
            waker.notify(Notice::Store(news));
        }
    }

    /// Gives the shard what it has asked for; any thread may.
    pub fn tell_loaded(&self, loaded: StoreLoaded) {
        if let Some(waker) = self.wakers.get(self.shard.index()) {
            waker.notify(Notice::Loaded(loaded));
        }
    }
}

impl std::fmt::Debug for StoreAnswers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StoreAnswers").field("shard", &self.shard).finish_non_exhaustive()
    }
}
