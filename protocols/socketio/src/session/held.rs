//! Messages that came before their namespace is connected.
//!
//! Relies on runs being shared by reference. Invariant: at most [`HELD_BYTES_MAX`] bytes of messages
//! are kept; beyond that they are all let go and this is told.

use std::sync::Arc;

use tiderace_wire::{Delivery, Exchange, Run, SharedRun, SubscriptionKey};

use crate::options::HELD_BYTES_MAX;

/// One delivery, kept.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) key: SubscriptionKey,
    run: SharedRun,
    from: usize,
    to: usize,
    redeliveries: u32,
    exchange: Option<Exchange>,
}

impl Held {
    pub(super) fn delivery(&self) -> Delivery<'_> {
        Delivery {
            key: self.key,
            run: &self.run,
            from: self.from,
            to: self.to,
            redeliveries: self.redeliveries,
            exchange: self.exchange,
        }
    }
}

/// Deliveries kept, in order.
#[derive(Default)]
pub(super) struct HeldMessages {
    list: Vec<(SubscriptionKey, Arc<Run>, [usize; 2], u32, Option<Exchange>)>,
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
        let place = [delivery.from, delivery.to];
        let run = delivery.run.run_arc().clone();
        self.list.push((delivery.key, run, place, delivery.redeliveries, delivery.exchange));
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
        let mut taken = Vec::new();
        let mut kept = Vec::new();
        for (key, run, [from, to], redeliveries, exchange) in std::mem::take(&mut self.list) {
            if fits(key) {
                let run = SharedRun::new(run);
                taken.push(Held { key, run, from, to, redeliveries, exchange });
            } else {
                kept.push((key, run, [from, to], redeliveries, exchange));
            }
        }
        self.list = kept;
        if self.list.is_empty() {
            (self.bytes, self.overflowed) = (0, false);
        }
        taken
    }
}
