//! One thing that waits for a session: part of a run, for one of its subscriptions.
//!
//! Relies on runs being shared by reference. Invariant: only the ends of exchanges and of queues and the
//! place of a page have no message.

use std::rc::Rc;
use std::sync::Arc;

use tiderace_base::{Now, ShardId};
use tiderace_wire::{
    Delivery, Destination, Exchange, ExchangeKey, Flags, Meta, Run, SharedRun, Side,
    SubscriptionKey,
};

/// Stands for no subscription in deliveries to callers.
pub(crate) const NO_SUBSCRIPTION: SubscriptionKey = SubscriptionKey(u32::MAX);

/// The credit of callers that want all there is.
const NO_BOUND: u64 = u64::MAX;

/// Where a delivery came from, and so what may be done with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// A queue; the broker accepts it for the client when it is taken.
    AutoQueue,
    /// A queue; the client will settle it.
    ExplicitQueue,
    /// A topic.
    Topic,
    /// The other side of an exchange, whose number stands in the place of redeliveries.
    Exchange {
        /// Which side the session holds.
        side: Side,
        /// Whether the exchange begins with it.
        first: bool,
        /// Whether it is the other side's last.
        last: bool,
        /// Whether it is no message, but says only that it is the last.
        bare: bool,
    },
    /// The end of an exchange, behind what was said in it before; no message. Its number stands in the
    /// place of redeliveries.
    ExchangeEnd(Side),
    /// Where the next page of topics is asked for; no message.
    MoreTopics,
    /// The end of a queue that is browsed; no message.
    QueueEnd,
    /// Where a position reaches numbers of other nodes, which stand in the body; no message.
    ReachedUpstream,
}

impl Source {
    /// Whether its home waits to hear what becomes of it.
    pub(crate) fn is_queue(self) -> bool {
        matches!(self, Source::AutoQueue | Source::ExplicitQueue)
    }

    pub(crate) fn is_exchange(self) -> bool {
        matches!(self, Source::Exchange { .. } | Source::ExchangeEnd(_))
    }

    /// Whether it is no message, but a place at which something is to be done.
    #[inline]
    pub(crate) fn is_place(self) -> bool {
        matches!(
            self,
            Source::ExchangeEnd(_)
                | Source::MoreTopics
                | Source::QueueEnd
                | Source::ReachedUpstream
        )
    }
}

/// Part of a run for one subscription.
#[derive(Debug)]
pub struct Pending {
    pub(crate) key: SubscriptionKey,
    pub(crate) run: Rc<SharedRun>,
    pub(crate) from: u32,
    pub(crate) to: u32,
    pub(crate) redeliveries: u32,
    /// Of topics: the number up to which everything of the home has been given once this is; zero if
    /// that is not known. Of calls, once they are taken: the caller's credit, [`NO_BOUND`] if it is not bounded.
    pub(crate) reached: u64,
    pub(crate) source: Source,
    /// It was published before the subscriber asked for it: a value, a history, what was missed.
    pub(crate) is_past: bool,
}

const _: () = assert!(size_of::<Pending>() <= 40, "backlogs are made of these");

impl Pending {
    /// Whether it was published before the subscriber asked for it: then its age says nothing about the
    /// server's latency.
    pub fn is_past(&self) -> bool {
        self.is_past
    }

    /// As a session wants it.
    pub fn delivery(&self) -> Delivery<'_> {
        let exchange = self.exchange();
        Delivery {
            key: self.key,
            run: &self.run,
            from: self.from as usize,
            to: self.to as usize,
            redeliveries: if exchange.is_some() { 0 } else { self.redeliveries },
            reached: if exchange.is_some() { 0 } else { self.reached },
            exchange,
        }
    }

    /// What it is to an exchange, if it is of one.
    pub(crate) fn exchange(&self) -> Option<Exchange> {
        match self.source {
            Source::Exchange { side, first, last, bare } => {
                let key = ExchangeKey { side, number: self.redeliveries };
                let credit = Some(self.reached).filter(|credit| first && *credit != NO_BOUND);
                Some(Exchange { key, first, last, bare, credit })
            }
            _ => None,
        }
    }

    /// The exchange that begins with it for its responder.
    #[inline]
    pub(crate) fn begun_exchange(&self) -> Option<ExchangeKey> {
        match self.source {
            Source::Exchange { side: Side::Responder, first: true, .. } => {
                Some(ExchangeKey::responder(self.redeliveries))
            }
            _ => None,
        }
    }

    /// So many messages are wanted of the responder of this call; absent: no bound.
    pub(crate) fn set_credit(&mut self, credit: Option<u64>) {
        self.reached = credit.unwrap_or(NO_BOUND);
    }

    /// The exchange that it says or ends something of.
    pub(crate) fn exchange_key(&self) -> Option<ExchangeKey> {
        match self.source {
            Source::Exchange { side, .. } | Source::ExchangeEnd(side) => {
                Some(ExchangeKey { side, number: self.redeliveries })
            }
            _ => None,
        }
    }

    /// Asks memory for the bytes that its delivery will write.
    #[inline]
    pub(crate) fn expect_bytes(&self) {
        self.run.expect_bytes(self.from as usize);
    }

    /// How many messages.
    pub fn len(&self) -> u32 {
        self.to - self.from
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.to <= self.from
    }

    /// The number of its first message; of a value put together of several, of the oldest of them.
    pub(crate) fn first(&self) -> u64 {
        let first = || self.run.run().first() + u64::from(self.from);
        self.run.merged_from().unwrap_or_else(first)
    }

    /// Whether its last message takes the topic's value away.
    pub(crate) fn is_removal(&self) -> bool {
        let last = self.run.run().message(self.to.saturating_sub(1) as usize);
        last.is_some_and(|message| message.flags.contains(Flags::RETAIN_REMOVE))
    }

    /// What it counts for, in bytes.
    #[inline]
    pub(crate) fn bytes(&self) -> usize {
        self.run.run().bytes_of(self.from as usize, self.to as usize)
            + self.len() as usize * 16
            + size_of::<Pending>()
    }
}

impl Pending {
    /// A place in a backlog at which something is to be done, behind what is there before; no message.
    pub(crate) fn place(
        (home, now): (ShardId, Now),
        destination: Destination,
        (key, source): (SubscriptionKey, Source),
    ) -> Pending {
        let mut run = Run::single(destination, now.time, b"", b"", Meta::default());
        run.number(home, u64::MAX);
        let run = Rc::new(SharedRun::new(Arc::new(run)));
        Pending { key, run, from: 0, to: 0, redeliveries: 0, reached: 0, is_past: true, source }
    }

    /// The first so many of its messages; the rest stays.
    pub(crate) fn split_front(&mut self, count: u32) -> Pending {
        let at = self.from + count;
        let run = self.run.run();
        let last = run.first() + u64::from(at) - 1;
        let front =
            Pending { run: self.run.clone(), to: at, reached: self.reached.min(last), ..*self };
        self.from = at;
        front
    }
}
