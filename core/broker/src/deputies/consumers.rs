//! The consumers that clients of this node have of an upstream's queues, and what is in flight to them.
//!
//! Bookkeeping only. Invariants: a key stands for one consumer until the upstream has ended it; a message that is in flight
//! has numbers of this home, which rise, and is found by them at the upstream; nothing is in flight that came by a
//! connection that is lost.

use std::collections::BTreeMap;
use std::sync::Arc;

use tiderace_base::{SessionId, ShardId};
use tiderace_wire::{Confirm, EndPrincipal, Subscribe, SubscriptionKey};

use crate::collections::Map;
use crate::messages::{Consumption, SubscribeRequestId};

/// Consumers of one upstream.
pub(super) const CONSUMERS_MAX: usize = 65_536;

/// A session and which of its subscriptions.
pub(super) type Name = (SessionId, SubscriptionKey);

/// By who gave them there, stretches of numbers of an upstream.
pub(super) type Parts = Vec<(ShardId, Vec<(u64, u64)>)>;

/// Those of one upstream.
#[derive(Debug, Default)]
pub(super) struct Consumers {
    /// Whether the upstream takes consumers; absent while that is not known.
    pub(super) taken: Option<bool>,
    all: Map<Name, Consumer>,
    by_key: Map<u32, Name>,
    /// Ended here and not yet there: who waits for that.
    ending: BTreeMap<u32, (SessionId, Option<Confirm>)>,
}

/// One consumer.
#[derive(Debug)]
pub(super) struct Consumer {
    pub(super) principal: Arc<EndPrincipal>,
    /// What it wants; with the credit that it has left.
    pub(super) subscribe: Subscribe,
    pub(super) request: SubscribeRequestId,
    /// What the upstream calls it, while it is to know it.
    pub(super) key: Option<u32>,
    /// Whether its client has been told that it consumes.
    pub(super) is_answered: bool,
    flights: BTreeMap<u64, Flight>,
    /// How many messages it has been given.
    given: u64,
    /// What was in flight below this number came by a connection that is lost.
    lost_below: u64,
}

/// Successive messages in flight, by the number that the first of them has here.
#[derive(Clone, Copy, Debug)]
struct Flight {
    len: u64,
    /// Who gave the numbers that they have there.
    home: ShardId,
    /// That of the first.
    first: u64,
    /// How many messages the consumer had been given before.
    ordinal: u64,
}

/// What numbers of this home stood for.
#[derive(Debug, Default)]
pub(super) struct Landed {
    /// What was in flight, as the upstream knows it.
    pub(super) parts: Parts,
    /// How many may have come by a connection that is lost.
    pub(super) lost: u64,
}

impl Consumers {
    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// All of them, in an order that is always the same.
    pub(super) fn names(&self) -> Vec<Name> {
        let mut names: Vec<Name> = self.all.keys().copied().collect();
        names.sort_unstable();
        names
    }

    pub(super) fn has(&self, name: &Name) -> bool {
        self.all.contains_key(name)
    }

    pub(super) fn get_mut(&mut self, name: &Name) -> Option<&mut Consumer> {
        self.all.get_mut(name)
    }

    /// Takes one in; what has a lower number than `next` of this home is not its own.
    pub(super) fn insert(&mut self, consumption: Consumption, next: u64) {
        let Consumption { principal, subscribe, request } = consumption;
        let consumer = Consumer {
            principal,
            subscribe,
            request,
            key: None,
            is_answered: false,
            flights: BTreeMap::new(),
            given: 0,
            lost_below: next,
        };
        self.all.insert((request.session, request.key), consumer);
    }

    /// The upstream is asked for one, under that key.
    pub(super) fn attach(&mut self, name: Name, key: u32) {
        if let Some(consumer) = self.all.get_mut(&name) {
            consumer.key = Some(key);
            self.by_key.insert(key, name);
        }
    }

    /// The one that a key stands for.
    pub(super) fn named(&self, key: u32) -> Option<Name> {
        self.by_key.get(&key).copied()
    }

    /// One ends here.
    pub(super) fn remove(&mut self, name: &Name) -> Option<Consumer> {
        let consumer = self.all.remove(name)?;
        if let Some(key) = consumer.key {
            self.by_key.remove(&key);
        }
        Some(consumer)
    }

    /// The upstream is to end one: who waits for that.
    pub(super) fn end(&mut self, key: u32, session: SessionId, confirm: Option<Confirm>) {
        self.ending.insert(key, (session, confirm));
    }

    /// The upstream has ended one: who waits for that.
    pub(super) fn ended(&mut self, key: u32) -> Option<(SessionId, Option<Confirm>)> {
        self.ending.remove(&key)
    }

    /// The connection is lost, before a number of this home: who waits for the end of a consumer.
    pub(super) fn unlink(&mut self, next: u64) -> Vec<(SessionId, Option<Confirm>)> {
        self.taken = None;
        self.by_key.clear();
        for consumer in self.all.values_mut() {
            consumer.key = None;
            consumer.flights.clear();
            consumer.lost_below = next;
        }
        std::mem::take(&mut self.ending).into_values().collect()
    }
}

impl Consumer {
    /// Bytes that it takes.
    pub(super) fn bytes(&self) -> usize {
        let selector = self.subscribe.selector.as_ref().map_or(0, |it| it.text().len());
        size_of::<Consumer>() + size_of::<Name>() + self.principal.bytes() + selector
    }

    /// Whether it may go on by another connection as if it had begun there: it takes what is in its queues, from
    /// whichever on.
    pub(super) fn can_go_on(&self) -> bool {
        let Subscribe { browsing, start, .. } = &self.subscribe;
        browsing.is_none() && *start == tiderace_wire::QueueStart::Version(0)
    }

    /// Messages are given to it: so many from a number of this home on, which are those from another on at the upstream.
    pub(super) fn take_off(&mut self, here: u64, len: u64, (home, first): (ShardId, u64)) {
        self.flights.insert(here, Flight { len, home, first, ordinal: self.given });
        self.given += len;
        let credit = &mut self.subscribe.credit;
        *credit = credit.map(|credit| credit.saturating_sub(len));
    }

    /// It may be given more; whether it counts that.
    pub(super) fn add_credit(&mut self, messages: u64) -> bool {
        let credit = &mut self.subscribe.credit;
        *credit = credit.map(|credit| credit.saturating_add(messages));
        credit.is_some()
    }

    /// Takes messages off it, between numbers of this home, both included.
    pub(super) fn land(&mut self, ranges: &[(u64, u64)]) -> Landed {
        let mut landed = Landed::default();
        for (first, last) in ranges.iter().filter(|(first, last)| first <= last) {
            let lost = self.lost_below.min(last.saturating_add(1));
            landed.lost += lost.saturating_sub(*first);
            let start = self.flights.range(..=first).next_back().map_or(*first, |(it, _)| *it);
            let within: Vec<u64> = self.flights.range(start..=*last).map(|(it, _)| *it).collect();
            for here in within {
                self.land_within(here, (*first, *last), &mut landed.parts);
            }
        }
        landed
    }

    /// The same of one stretch of those in flight.
    fn land_within(&mut self, here: u64, (first, last): (u64, u64), parts: &mut Parts) {
        let Some(flight) = self.flights.get(&here).copied() else { return };
        let end = here + flight.len - 1;
        if end < first {
            return;
        }
        self.flights.remove(&here);
        if end > last {
            self.flights.insert(last + 1, flight.cut(last + 1 - here, end - last));
        }
        let (from, to) = (first.max(here), last.min(end));
        if from > here {
            self.flights.insert(here, flight.cut(0, from - here));
        }
        add(parts, flight.cut(from - here, to - from + 1));
    }

    /// Takes off what its client has not been handed, which has been handed the first `handed` messages.
    pub(super) fn take_unread(&mut self, handed: u64) -> Parts {
        let mut parts = Parts::new();
        for flight in std::mem::take(&mut self.flights).into_values() {
            let read = handed.saturating_sub(flight.ordinal).min(flight.len);
            if read < flight.len {
                add(&mut parts, flight.cut(read, flight.len - read));
            }
        }
        parts
    }
}

impl Flight {
    /// So many of its messages, behind some.
    fn cut(self, from: u64, len: u64) -> Flight {
        Flight { len, first: self.first + from, ordinal: self.ordinal + from, ..self }
    }
}

fn add(parts: &mut Parts, flight: Flight) {
    let range = (flight.first, flight.first + flight.len - 1);
    match parts.iter_mut().find(|(home, _)| *home == flight.home) {
        Some((_, ranges)) => ranges.push(range),
        None => parts.push((flight.home, vec![range])),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn consumer() -> Consumer {
        let session = SessionId { shard: ShardId(0), slot: 1, generation: 0 };
        let key = SubscriptionKey(3);
        let request = SubscribeRequestId { session, key, target: 0, epoch: 1 };
        let principal = EndPrincipal::new("ann".into(), [].into(), [].into(), false).unwrap();
        let subscribe = Subscribe::new(key, Vec::new());
        let mut all = Consumers::default();
        all.insert(Consumption { principal: principal.into(), subscribe, request }, 0);
        all.remove(&(session, key)).unwrap()
    }

    fn flat(parts: &Parts) -> BTreeSet<(u16, u64)> {
        let of = |(home, ranges): &(ShardId, Vec<(u64, u64)>)| {
            let home = home.0;
            let all = ranges.iter().flat_map(move |(first, last)| *first..=*last);
            all.map(move |number| (home, number)).collect::<Vec<_>>()
        };
        parts.iter().flat_map(of).collect()
    }

    proptest! {
        #[test]
        fn each_message_lands_once(
            flights in proptest::collection::vec((1u64..9, 0u16..3, 0u64..4), 1..20),
            ranges in proptest::collection::vec((0u64..120, 0u64..12), 0..20),
            handed in 0u64..100,
        ) {
            let mut consumer = consumer();
            // By number here: what it is there.
            let (mut known, mut here, mut there) = (BTreeMap::new(), 1, [1u64; 3]);
            let mut order = Vec::new();
            for (len, home, gap) in flights {
                here += gap;
                let first = &mut there[home as usize];
                consumer.take_off(here, len, (ShardId(home), *first));
                for index in 0..len {
                    known.insert(here + index, (home, *first + index));
                    order.push((home, *first + index));
                }
                here += len;
                *first += len + gap;
            }
            for (first, more) in ranges {
                let landed = consumer.land(&[(first, first + more)]);
                let expected: BTreeSet<_> =
                    (first..=first + more).filter_map(|number| known.remove(&number)).collect();
                let count: usize = landed.parts.iter().flat_map(|(_, ranges)| ranges)
                    .map(|(first, last)| (last - first + 1) as usize).sum();
                prop_assert_eq!(count, expected.len());
                prop_assert_eq!(flat(&landed.parts), expected);
                prop_assert_eq!(landed.lost, 0);
            }
            let left: BTreeSet<_> = known.into_values().collect();
            let unread = order.into_iter().skip(handed as usize).filter(|it| left.contains(it));
            prop_assert_eq!(flat(&consumer.take_unread(handed)), unread.collect::<BTreeSet<_>>());
        }
    }

    #[test]
    fn what_came_by_a_lost_connection_is_known_as_that() {
        let mut all = Consumers::default();
        let mut known = consumer();
        known.subscribe.credit = Some(10);
        known.take_off(5, 4, (ShardId(1), 70));
        let name = (known.request.session, known.request.key);
        all.all.insert(name, known);
        all.attach(name, 8);
        assert_eq!(all.named(8), Some(name));
        all.end(9, name.0, None);
        assert_eq!(all.unlink(9).len(), 1);
        assert_eq!((all.named(8), all.ended(9)), (None, None));
        let known = all.get_mut(&name).unwrap();
        known.take_off(11, 2, (ShardId(0), 1));
        let landed = known.land(&[(5, 11)]);
        assert_eq!((landed.lost, landed.parts), (4, vec![(ShardId(0), vec![(1, 1)])]));
        assert!(known.add_credit(4));
        assert_eq!(known.subscribe.credit, Some(8));
        assert_eq!(known.take_unread(5), vec![(ShardId(0), vec![(2, 2)])]);
    }
}
