//! What a connection to an upstream knows of exchanges that pass through it.
//!
//! Of those that are open it knows nothing: their numbers are the same on both sides, chosen by the broker that has the
//! responder's end, and what is said in an exchange that is over is for nobody on either side. Bookkeeping only. Invariant: a
//! subscription id serves one target.

use std::collections::BTreeMap;

use tiderace_base::Close;
use tiderace_wire::{ExchangeKey, Target};

/// What is known.
#[derive(Default)]
pub(super) struct Exchanges {
    /// Exchanges of which something could not be said to the upstream: to be ended, with the reason.
    refused: Vec<(ExchangeKey, Close)>,
    /// How many messages the caller of the call that comes next wants.
    credit: Option<(u32, u64)>,
    /// What clients of this node serve at the upstream, by subscription id.
    served: BTreeMap<u32, Target>,
}

impl Exchanges {
    /// An exchange cannot go on.
    pub(super) fn refuse(&mut self, exchange: ExchangeKey, close: Close) {
        self.refused.push((exchange, close));
    }

    /// Whether some are to be ended.
    pub(super) fn some_are_refused(&self) -> bool {
        !self.refused.is_empty()
    }

    /// Those that are to be ended.
    pub(super) fn take_refused(&mut self) -> Vec<(ExchangeKey, Close)> {
        std::mem::take(&mut self.refused)
    }

    /// The upstream tells how many messages are wanted, perhaps in the exchange that begins next.
    pub(super) fn note_credit(&mut self, number: u32, messages: u64) {
        self.credit = Some((number, messages));
    }

    /// How many are wanted in an exchange that begins.
    pub(super) fn take_credit(&mut self, number: u32) -> Option<u64> {
        self.credit.take().filter(|(told, _)| *told == number).map(|(_, messages)| messages)
    }

    /// A subscription is to serve.
    pub(super) fn begin(&mut self, id: u32, target: Target) {
        self.served.insert(id, target);
    }

    /// Whether a subscription serves.
    pub(super) fn serves(&self, id: u32) -> bool {
        self.served.contains_key(&id)
    }

    /// What a subscription serves.
    pub(super) fn target(&self, id: u32) -> Option<&Target> {
        self.served.get(&id)
    }

    /// A subscription serves no more.
    pub(super) fn end(&mut self, id: u32) {
        self.served.remove(&id);
    }
}
