//! How far a client has come, and what its namespaces ask to go on with.
//!
//! Relies on positions that rise. Invariant: where a client began with a home is noted once.

use tiderace_wire::{Delivery, Numbering, Position};

/// What a namespace asked to go on with.
#[derive(Debug)]
pub(super) struct Resume {
    pub(super) pid: u128,
    /// The last message received; none if there was no message yet.
    pub(super) offset: Option<Position>,
    /// Subscriptions that are being made.
    left: usize,
    complete: bool,
}

impl Resume {
    pub(super) fn new(pid: u128, offset: Option<Position>) -> Resume {
        Resume { pid, offset, left: 0, complete: true }
    }

    /// So many subscriptions are being made.
    pub(super) fn expect(&mut self, subscriptions: usize) {
        self.left = subscriptions;
    }

    /// What a subscription missed is on its way, all of it or not.
    pub(super) fn recovered(&mut self, complete: bool) {
        self.complete &= complete;
    }

    /// One subscription is made again, or could not be. With the last one says whether nothing is missing.
    pub(super) fn restored(&mut self, made: bool) -> Option<bool> {
        self.complete &= made;
        self.left = self.left.saturating_sub(1);
        (self.left == 0).then_some(self.complete)
    }
}

/// How far a client has come, and where it began.
#[derive(Debug)]
pub(super) struct Trail {
    /// What recoverable subscriptions have been sent.
    pub(super) position: Position,
    /// For each home the number at which the client came: what holds for a client that has not
    /// received anything from it.
    pub(super) beginning: Position,
}

impl Trail {
    #[inline]
    pub(super) fn new(epoch: u64) -> Box<Trail> {
        Box::new(Trail { position: Position::new(epoch), beginning: Position::new(epoch) })
    }

    /// Messages of a delivery come: what has a lower number was before the client's time.
    pub(super) fn begin_with(&mut self, delivery: &Delivery<'_>) {
        // Values from before the subscription say nothing of where it began; a position follows them.
        if delivery.reached == 0 {
            return;
        }
        let run = delivery.run.run();
        let own = Numbering::new(self.position.epoch, run.home());
        self.begin(own, run.first().saturating_sub(1));
        if let Some(upstream) = run.upstream() {
            self.begin(upstream.numbering, upstream.first.saturating_sub(1));
        }
    }

    /// A delivery has been given.
    #[inline]
    pub(super) fn reach(&mut self, delivery: &Delivery<'_>) {
        self.position.advance(delivery.run.run().home(), delivery.reached);
        if let Some((numbering, sequence)) = delivery.reached_upstream() {
            self.position.advance_to(numbering, sequence);
        }
    }

    /// Messages of a numbering up to that number were before the client's time.
    #[inline]
    pub(super) fn begin(&mut self, numbering: Numbering, number: u64) {
        if self.beginning.number(numbering).is_none_or(|known| known == 0) {
            self.beginning.advance_to(numbering, number);
        }
    }
}
