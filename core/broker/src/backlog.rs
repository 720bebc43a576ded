//! What a session has not been sent yet: references to runs, in order, within a byte budget.
//!
//! The mechanisms of the slow-consumer policies live here; when to use which is decided in
//! `deliver.rs`. Messages of queues are bounded by their consumer's window and are never dropped.

use std::collections::VecDeque;
use std::rc::Rc;

use hashbrown::HashMap;
use tiderace_base::{Key, ShardId};
use tiderace_wire::{Delivery, Exchange, ExchangeKey, SharedRun, Side, SubscriptionKey};

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
    },
}

impl Source {
    /// Whether its home waits to hear what becomes of it.
    pub(crate) fn is_queue(self) -> bool {
        matches!(self, Source::AutoQueue | Source::ExplicitQueue)
    }

    fn is_exchange(self) -> bool {
        matches!(self, Source::Exchange { .. })
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
    /// that is not known.
    pub(crate) reached: u64,
    pub(crate) source: Source,
}

impl Pending {
    /// As a session wants it.
    pub fn delivery(&self) -> Delivery<'_> {
        let exchange = self.exchange();
        Delivery {
            key: self.key,
            run: &self.run,
            from: self.from as usize,
            to: self.to as usize,
            redeliveries: if exchange.is_some() { 0 } else { self.redeliveries },
            reached: self.reached,
            exchange,
        }
    }

    /// What it is to an exchange, if it is of one.
    pub(crate) fn exchange(&self) -> Option<Exchange> {
        match self.source {
            Source::Exchange { side, first, last } => {
                let key = ExchangeKey { side, number: self.redeliveries };
                Some(Exchange { key, first, last })
            }
            _ => None,
        }
    }

    /// How many messages.
    pub fn len(&self) -> u32 {
        self.to - self.from
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.to <= self.from
    }

    /// What it counts for, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.run.run().bytes_of(self.from as usize, self.to as usize)
            + self.len() as usize * 16
            + size_of::<Pending>()
    }
}

/// A session's backlog; allocated while it is not empty.
#[derive(Debug, Default)]
pub(crate) struct Backlog {
    entries: VecDeque<Pending>,
    bytes: usize,
    /// Of them, those of exchanges.
    exchange_bytes: usize,
    /// Entries taken since the beginning: the absolute place of the front.
    taken: u64,
    /// While conflating: the absolute place of the newest entry of each topic.
    newest: Option<HashMap<(SubscriptionKey, Key), u64, foldhash::fast::RandomState>>,
}

impl Backlog {
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn exchange_bytes(&self) -> usize {
        self.exchange_bytes
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Appends; `topic` is where it comes from, if from a topic.
    pub(crate) fn push(&mut self, pending: Pending, topic: Option<Key>) {
        let bytes = pending.bytes();
        self.bytes += bytes;
        if pending.source.is_exchange() {
            self.exchange_bytes += bytes;
        }
        // While conflating, a later message must not take a place before this one.
        if let (Some(newest), Some(topic)) = (&mut self.newest, topic) {
            newest.insert((pending.key, topic), self.taken + self.entries.len() as u64);
        }
        // The same run for another subscription: it has not been given before both are.
        let same = |waiting: &&mut Pending| Rc::ptr_eq(&waiting.run, &pending.run);
        for waiting in self.entries.iter_mut().rev().take_while(same) {
            if waiting.key != pending.key {
                waiting.reached = waiting.reached.min(pending.run.run().first().saturating_sub(1));
            }
        }
        self.entries.push_back(pending);
    }

    pub(crate) fn pop(&mut self) -> Option<Pending> {
        let pending = self.entries.pop_front()?;
        let bytes = pending.bytes();
        self.bytes -= bytes;
        if pending.source.is_exchange() {
            self.exchange_bytes -= bytes;
        }
        self.taken += 1;
        Some(pending)
    }

    /// Looks at the next entries all at once. What they refer to was written long before and has left
    /// the near caches; asked for together it comes in the time of one, asked for one by one, as
    /// each is encoded, it would be waited for each time.
    pub(crate) fn look_ahead(&self, count: usize) {
        if self.entries.len() < 2 {
            return;
        }
        let next = || self.entries.iter().take(count);
        let sizes =
            next().fold(0, |sum: usize, pending| sum.wrapping_add(pending.run.run().bytes()));
        let bytes = next().fold(0, |sum: u8, pending| {
            let message = pending.run.run().message(pending.from as usize);
            let body = message.map_or(&[][..], |message| message.body);
            let byte = |at: usize| body.get(at).copied().unwrap_or(0);
            sum ^ byte(0) ^ byte(CACHE_LINE_BYTES) ^ byte(2 * CACHE_LINE_BYTES)
        });
        std::hint::black_box((sizes, bytes));
    }

    /// What is taken next.
    pub(crate) fn front(&self) -> Option<&Pending> {
        self.entries.front()
    }

    /// Drops topic messages from the front until `room` more bytes fit under `high`; how many
    /// messages that were.
    pub(crate) fn drop_oldest(&mut self, room: usize, high: usize) -> u64 {
        let mut dropped = 0;
        let mut kept = VecDeque::new();
        let mut kept_bytes = 0;
        while self.bytes + kept_bytes + room > high {
            let Some(pending) = self.pop() else { break };
            if pending.source == Source::Topic {
                dropped += u64::from(pending.len());
            } else {
                kept_bytes += pending.bytes();
                kept.push_back(pending);
            }
        }
        while let Some(pending) = kept.pop_back() {
            self.bytes += pending.bytes();
            if pending.source.is_exchange() {
                self.exchange_bytes += pending.bytes();
            }
            self.taken -= 1;
            self.entries.push_front(pending);
        }
        dropped
    }

    /// Puts the newest message of a topic in the place of the one that waits already; how many
    /// messages were given up for it.
    pub(crate) fn conflate(&mut self, topic: Key, mut pending: Pending) -> u64 {
        let mut conflated = u64::from(pending.len()) - 1;
        pending.from = pending.to - 1;
        let place =
            self.newest.get_or_insert_default().entry((pending.key, topic)).or_insert(u64::MAX);
        let index = place.checked_sub(self.taken).and_then(|index| usize::try_from(index).ok());
        // Dropping the oldest may have moved a queue's message to that place.
        let waiting = index.and_then(|index| self.entries.get_mut(index)).filter(|waiting| {
            waiting.source == Source::Topic
                && waiting.key == pending.key
                && waiting.run.run().destination() == pending.run.run().destination()
        });
        match waiting {
            Some(waiting) => {
                conflated += u64::from(waiting.len());
                self.bytes -= waiting.bytes();
                self.bytes += pending.bytes();
                let (home, number) = (pending.run.run().home(), pending.reached);
                // What waits behind it is older than it.
                pending.reached = waiting.reached;
                *waiting = pending;
                let newest = self.entries.iter_mut().rev().take(REACH_WITHIN);
                raise(newest, home, number);
            }
            None => {
                *place = self.taken + self.entries.len() as u64;
                self.push(pending, None);
            }
        }
        conflated
    }

    /// Everything of a home up to a number has been given once all that waits has been; whether
    /// anything of that home waits.
    pub(crate) fn reach(&mut self, home: ShardId, number: u64) -> bool {
        raise(self.entries.iter_mut().rev(), home, number)
    }

    /// Older messages of a home are about to be appended, but none up to a number; the highest number
    /// that was vouched for until now.
    pub(crate) fn lower(&mut self, home: ShardId, number: u64) -> u64 {
        let mut highest = 0;
        for waiting in &mut self.entries {
            if waiting.source == Source::Topic && waiting.run.run().home() == home {
                highest = highest.max(waiting.reached);
                waiting.reached = waiting.reached.min(number);
            }
        }
        highest
    }

    /// Whether messages are given up for newer ones of their topics.
    pub(crate) fn is_conflating(&self) -> bool {
        self.newest.is_some()
    }

    /// The backlog is short again: conflation starts afresh when it is next needed.
    pub(crate) fn forget_newest(&mut self) {
        self.newest = None;
    }

    /// Removes what is for nobody any more.
    pub(crate) fn remove(&mut self, gone: impl Fn(&Pending) -> bool) -> Vec<Pending> {
        let entries = std::mem::take(&mut self.entries);
        self.newest = None;
        let (removed, kept) = entries.into_iter().partition(gone);
        self.entries = kept;
        self.bytes = self.entries.iter().map(Pending::bytes).sum();
        let exchanges = self.entries.iter().filter(|pending| pending.source.is_exchange());
        self.exchange_bytes = exchanges.map(Pending::bytes).sum();
        let removed: VecDeque<Pending> = removed;
        removed.into()
    }

    #[cfg(test)]
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Pending> {
        self.entries.iter()
    }
}

/// Of every processor we know of.
const CACHE_LINE_BYTES: usize = 64;
/// How many of the newest entries are looked at for one that can tell how far a client has come;
/// if there is none, a client that comes back gets some messages twice.
const REACH_WITHIN: usize = 64;

/// Lets the first of these entries that is of a home vouch for a number; whether there is one.
fn raise<'a>(
    mut newest: impl Iterator<Item = &'a mut Pending>,
    home: ShardId,
    number: u64,
) -> bool {
    let of_home = |waiting: &&mut Pending| {
        waiting.source == Source::Topic && waiting.run.run().home() == home
    };
    match newest.find(of_home) {
        Some(waiting) => {
            waiting.reached = waiting.reached.max(number);
            true
        }
        None => false,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::sync::Arc;
    use tiderace_base::Time;
    use tiderace_topics::Path;
    use tiderace_wire::{Destination, Kind, Meta, RunBuilder};

    fn pending(first: u64, count: u32, source: Source) -> Pending {
        let path = Path::parse("a").unwrap();
        let mut builder = RunBuilder::new(Destination { kind: Kind::Topic, path }, Time::ZERO);
        for _ in 0..count {
            builder.finish(&[0; 100], Meta::default());
        }
        let mut run = builder.build();
        run.number(ShardId(0), first);
        let run = Rc::new(SharedRun::new(Arc::new(run)));
        let (key, reached) = (SubscriptionKey(0), first + u64::from(count) - 1);
        Pending { key, run, from: 0, to: count, redeliveries: 0, reached, source }
    }

    fn reached(backlog: &Backlog) -> Vec<u64> {
        backlog.iter().map(|p| p.reached).collect()
    }

    fn sequences(backlog: &Backlog) -> Vec<u64> {
        backlog.iter().map(|p| p.run.run().first() + u64::from(p.from)).collect()
    }

    #[test]
    fn dropping_the_oldest_spares_queue_messages() {
        let mut backlog = Backlog::default();
        for (first, source) in
            [(1, Source::Topic), (2, Source::AutoQueue), (3, Source::Topic), (4, Source::Topic)]
        {
            backlog.push(pending(first, 1, source), None);
        }
        let one = backlog.bytes() / 4;
        assert_eq!(backlog.drop_oldest(0, one * 2), 2);
        assert_eq!(sequences(&backlog), [2, 4]);
        assert_eq!(backlog.bytes(), one * 2);
    }

    #[test]
    fn conflation_keeps_one_message_of_each_topic_in_its_place() {
        let mut backlog = Backlog::default();
        let topic = |slot| Key { slot, generation: 0 };
        assert_eq!(backlog.conflate(topic(1), pending(10, 3, Source::Topic)), 2);
        assert_eq!(backlog.conflate(topic(2), pending(20, 1, Source::Topic)), 0);
        assert_eq!(backlog.conflate(topic(1), pending(30, 1, Source::Topic)), 1);
        assert_eq!(sequences(&backlog), [30, 20]);
        backlog.pop();
        assert_eq!(backlog.conflate(topic(1), pending(40, 1, Source::Topic)), 0);
        assert_eq!(sequences(&backlog), [20, 40]);
        backlog.pop();
        backlog.pop();
        assert_eq!(backlog.bytes(), 0);
    }

    #[test]
    fn a_message_in_an_older_place_does_not_vouch_for_what_waits_behind_it() {
        let mut backlog = Backlog::default();
        let topic = |slot| Key { slot, generation: 0 };
        backlog.conflate(topic(1), pending(10, 3, Source::Topic));
        backlog.conflate(topic(2), pending(20, 1, Source::Topic));
        backlog.conflate(topic(1), pending(30, 2, Source::Topic));
        assert_eq!(sequences(&backlog), [31, 20]);
        assert_eq!(reached(&backlog), [12, 31]);
        let delivered = backlog.pop().unwrap();
        assert_eq!((delivered.run.run().first() + u64::from(delivered.from)), 31);
        assert!(backlog.reach(ShardId(0), 40));
        assert!(!backlog.reach(ShardId(1), 40));
        assert_eq!(backlog.lower(ShardId(0), 25), 40);
        assert_eq!(reached(&backlog), [25]);
    }

    #[test]
    fn a_newer_message_takes_no_place_before_an_older_one() {
        let mut backlog = Backlog::default();
        let topic = Key { slot: 1, generation: 0 };
        backlog.conflate(topic, pending(1, 1, Source::Topic));
        backlog.push(pending(2, 2, Source::Topic), Some(topic));
        assert_eq!(backlog.conflate(topic, pending(4, 1, Source::Topic)), 2);
        assert_eq!(sequences(&backlog), [1, 4]);
    }

    #[test]
    fn conflation_spares_a_queue_message_that_moved_to_its_place() {
        let mut backlog = Backlog::default();
        let topic = Key { slot: 1, generation: 0 };
        backlog.push(pending(1, 1, Source::AutoQueue), None);
        backlog.conflate(topic, pending(2, 1, Source::Topic));
        let one = backlog.bytes() / 2;
        assert_eq!(backlog.drop_oldest(0, one), 1);
        backlog.conflate(topic, pending(3, 1, Source::Topic));
        assert_eq!(sequences(&backlog), [1, 3]);
    }
}
