//! Messages that came before their namespace is connected.
//!
//! Relies on runs being shared by reference. Invariant: at most [`HELD_BYTES_MAX`] bytes of messages
//! are kept; beyond that they are all let go and this is told.

use std::sync::Arc;

use tiderace_wire::{Delivery, Exchange, Run, SharedRun, SubscriptionKey};

use crate::limits::HELD_BYTES_MAX;

/// One delivery, kept.
#[derive(Debug)]
pub(super) struct Held {
    key: SubscriptionKey,
    run: Arc<Run>,
    from: usize,
    to: usize,
    redeliveries: u32,
    reached: u64,
    exchange: Option<Exchange>,
}

impl Held {
    /// Gives it on.
    pub(super) fn pass(&self, take: impl FnOnce(&Delivery<'_>)) {
        take(&Delivery {
            key: self.key,
            run: &SharedRun::new(self.run.clone()),
            from: self.from,
            to: self.to,
            redeliveries: self.redeliveries,
            reached: self.reached,
            exchange: self.exchange,
        });
    }
}

/// Deliveries kept, in order.
#[derive(Default)]
pub(super) struct HeldMessages {
    list: Vec<Held>,
    bytes: usize,
    overflowed: bool,
}

impl HeldMessages {
    pub(super) fn keep(&mut self, delivery: &Delivery<'_>) {
        self.bytes += delivery.run.run().bytes_of(delivery.from, delivery.to);
        if self.overflowed || self.bytes > HELD_BYTES_MAX {
            self.overflowed = true;
            self.list = Vec::new();
            return;
        }
        self.list.push(Held {
            key: delivery.key,
            run: delivery.run.run_arc().clone(),
            from: delivery.from,
            to: delivery.to,
            redeliveries: delivery.redeliveries,
            reached: delivery.reached,
            exchange: delivery.exchange,
        });
    }

    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty() && !self.overflowed
    }

    /// Whether some were let go.
    pub(super) fn overflowed(&self) -> bool {
        self.overflowed
    }

    /// Takes those of some subscriptions out, in order.
    pub(super) fn take(&mut self, fits: impl Fn(SubscriptionKey) -> bool) -> Vec<Held> {
        let all = std::mem::take(&mut self.list);
        let (taken, kept): (Vec<Held>, Vec<Held>) =
            all.into_iter().partition(|held| fits(held.key));
        self.list = kept;
        if self.list.is_empty() {
            (self.bytes, self.overflowed) = (0, false);
        }
        taken
    }
}
