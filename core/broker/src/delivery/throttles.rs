//! The throttles of one shard: which subscriptions get no further update of a topic for a while, until when,
//! and what is deferred of them meanwhile.
//!
//! `throttling.rs` says when they begin and end. Invariant: a throttle defers one message of its topic at
//! most, and a removal before it.

use tiderace_base::{Key, Now, Slab, Span, Wheel};
use tiderace_topics::Path;
use tiderace_wire::SubscriptionKey;

use super::backlog::Pending;

/// The open throttles of one shard.
#[derive(Debug, Default)]
pub(crate) struct Throttles {
    pub(super) open: Slab<Throttle>,
    /// When they end; made when the first opens.
    pub(super) wheel: Option<Box<Wheel>>,
}

/// One subscription's throttle on one topic. Known by path, since a topic that is forgotten and comes
/// back has another key.
#[derive(Debug)]
pub(super) struct Throttle {
    pub(super) session: Key,
    pub(super) key: SubscriptionKey,
    pub(super) path: Path,
    /// A removal before what is deferred.
    pub(super) removal: Option<Box<Pending>>,
    /// What is deferred: one message.
    pub(super) last: Option<Pending>,
    /// It is over, and only waits for credit.
    pub(super) is_over: bool,
}

impl Throttles {
    /// How many are open.
    pub(crate) fn len(&self) -> usize {
        self.open.len()
    }

    /// There is credit for what a throttle defers.
    pub(crate) fn wake(&mut self, throttle: Key) {
        if let Some(open) = self.open.get_mut(throttle) {
            open.is_over = false;
        }
    }

    pub(super) fn arm(&mut self, throttle: Key, now: Now, interval: Span) {
        self.wheel.get_or_insert_default().arm(throttle, now.time + interval);
    }
}

impl Throttle {
    /// The first of what is deferred.
    pub(super) fn next(&mut self) -> Option<Pending> {
        self.removal.take().map(|removal| *removal).or_else(|| self.last.take())
    }

    /// All that is deferred, in order.
    pub(super) fn take(&mut self) -> impl Iterator<Item = Pending> {
        self.removal.take().map(|removal| *removal).into_iter().chain(self.last.take())
    }
}
