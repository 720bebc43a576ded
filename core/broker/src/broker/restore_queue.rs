//! Queues come back, and messages of theirs that were left to the store: wiring between the store and the home.
//!
//! Restoring relies on being called before any other call of the broker, as `restore.rs` does. No message is read for it:
//! a queue knows which messages the store has, and asks for them when somebody wants them. Versions go on above all
//! that were ever given. Invariant: a message that was stored and not settled is there again, once, and nothing else is.

use std::sync::Arc;

use tiderace_base::{MemoryUse, Now};
use tiderace_journal::{StoreLoad, StoreLoaded};
use tiderace_topics::Path;
use tiderace_wire::{number_of, rank_of, version_of};

use super::Broker;
use crate::durables::Durable;
use crate::effects::Effects;
use crate::journal::{RestoredQueue, Unrestorable, account_of, read_durable, read_owner};
use crate::places::Place;
use crate::price::durable_bytes;
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
        if let Some(upstream) = self.options.upstream_of_queue(&path) {
            // Its upstream's shard says so alone.
            return match Place::here(upstream.shard) == self.loopback.here() {
                true => Err(Unrestorable::Elsewhere { path, upstream: upstream.name.clone() }),
                false => Ok(()),
            };
        }
        let home = self.options.home_of(&path);
        let durable = read_durable(&path, restored.description);
        let is_configured = self.home.feeds().is_configured(&path);
        let durable = durable.map(|(about, owner)| (Arc::new(about), owner));
        if let Some((about, _)) = durable.as_ref().filter(|_| !is_configured) {
            // Every home is told, as when it was made.
            self.home.note_feed(home, &about.topics, true, &self.memory);
        }
        if home != self.loopback.here() {
            return Ok(());
        }
        let owner = match &durable {
            Some((_, owner)) => Some(account_of(owner).into()),
            None => match read_owner(restored.description) {
                Some(owner) => owner,
                None => return Err(Unrestorable::Description { path }),
            },
        };
        let owner = owner.as_ref();
        if self.home.queues().is_kept(&path) {
            return Err(Unrestorable::Twice { path });
        }
        let kept = (restored.stream, next_version(restored, self.home.earlier_numbers()));
        if let Some((about, made_by)) = durable.clone().filter(|_| !is_configured) {
            self.memory.charge(MemoryUse::Names, durable_bytes(&about));
            self.home.queues_mut().set_staying(now, (&path, owner), true, &self.options);
            self.home.feeds_mut().put(Durable { about, owner: Some(made_by), since: 0 });
        }
        let queue = self.home.queues_mut().restore(now, (path, owner), kept, &self.options);
        let stored = restored.stored.iter().map(|range| (range.first, range.last, range.bytes));
        self.home.queues_mut().restore_swapped(now, queue, stored);
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

/// A version above all that a queue has given: its number is above all others, and it is behind the last one in the order,
/// whether the queue orders by priority or did so once.
fn next_version(restored: &RestoredQueue<'_>, earlier: u64) -> u64 {
    // Of messages in several ranks the last in the order need not be the latest.
    let stored = restored.stored.iter().map(|range| number_of(range.last)).max();
    let given = number_of(restored.version).max(stored.unwrap_or(0)).max(earlier);
    let last = restored.stored.last().map_or(0, |range| range.last).max(restored.version);
    version_of(rank_of(last), given.saturating_add(1))
}
