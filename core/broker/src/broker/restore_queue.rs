//! Queues come back, and messages of theirs that were left to the store: wiring between the store and the home.
//!
//! Restoring relies on being called before any other call of the broker, as `restore.rs` does. No message is read for it:
//! a queue knows which messages the store has, and asks for them when somebody wants them. Versions go on above all
//! that were ever given. Invariant: a message that was stored and not settled is there again, once, and nothing else is.

use tiderace_base::Now;
use tiderace_journal::{StoreLoad, StoreLoaded};
use tiderace_topics::Path;

use super::Broker;
use crate::effects::Effects;
use crate::journal::{RestoredQueue, Unrestorable, is_queue};
use crate::queue_loads::Unreadable;

impl Broker {
    /// Takes a queue back, if its home is this shard.
    ///
    /// # Errors
    /// When it cannot be understood; it stays in the store as it is.
    pub fn restore_queue(
        &mut self,
        now: Now,
        restored: &RestoredQueue<'_>,
    ) -> Result<(), Unrestorable> {
        let Ok(path) = Path::parse(restored.path) else {
            return Err(Unrestorable::Path(restored.path.to_owned()));
        };
        if self.options.home_of(&path) != self.loopback.here() {
            return Ok(());
        }
        if !is_queue(restored.description) {
            return Err(Unrestorable::Description { path });
        }
        if self.home.queues().is_kept(&path) {
            return Err(Unrestorable::Twice { path });
        }
        let next_version = restored.version.max(self.home.earlier_numbers()).saturating_add(1);
        let kept = (restored.stream, next_version);
        let queue = self.home.queues_mut().restore(now, path, kept, &self.options);
        if let (Some(first), Some(last)) = (restored.stored.first(), restored.stored.last()) {
            let messages = restored.stored.iter().map(|range| range.last - range.first + 1).sum();
            let bytes = restored.stored.iter().map(|range| range.bytes).sum();
            let range = (first.first, last.last);
            self.home.queues_mut().restore_swapped(now, queue, range, (messages, bytes));
        }
        self.metrics.queues_restored += 1;
        Ok(())
    }

    /// Takes what the store is to be asked for; to be called once a turn. Each is to be answered by [`Broker::loaded`].
    pub fn take_loads(&mut self) -> Vec<StoreLoad> {
        match self.home.queue_loads().has_requests() {
            true => self.home.queue_loads_mut().take(),
            false => Vec::new(),
        }
    }

    /// The store has given what it was asked for. What it could not give is to be said in the log.
    pub fn loaded(
        &mut self,
        now: Now,
        loaded: StoreLoaded,
        effects: &mut Effects,
    ) -> Option<Unreadable> {
        let unreadable = self.home_side().take_loaded(now, loaded, effects);
        self.end_call(now, effects);
        unreadable
    }
}
