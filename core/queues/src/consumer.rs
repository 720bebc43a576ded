//! A consumer: one subscription of one session, with what is under way to it.

use std::collections::{BTreeMap, VecDeque};

use tiderace_base::{Key, SessionId};
use tiderace_filter::Selector;
use tiderace_topics::Pattern;
use tiderace_wire::{Browsing, Prefetch, QueueStart, SubscriptionKey, Target};

use crate::Segment;

/// A request to consume.
#[derive(Clone, Debug)]
pub struct Consume {
    /// Who.
    pub session: SessionId,
    /// Which of its subscriptions.
    pub key: SubscriptionKey,
    /// Which queues.
    pub target: Target,
    /// Only messages that match.
    pub selector: Option<Selector>,
    /// How much may be under way.
    pub window: Prefetch,
    /// Whether it wants the queues for itself.
    pub exclusive: bool,
    /// It is shown the messages of one queue and takes none.
    pub browsing: Option<Browsing>,
    /// Where in a queue it begins.
    pub start: QueueStart,
    /// Whether its client settles; if not, messages are accepted as they are sent.
    pub explicit: bool,
    /// How many messages it may be given until it gets more credit; absent: any number.
    pub credit: Option<u64>,
    /// The name of who asks, who owns a queue that is made for it.
    pub owner: Option<std::sync::Arc<str>>,
}

/// What becomes of messages in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settlement {
    /// Consumed.
    Accept,
    /// Rejected: counts as a redelivery and as a failure.
    Reject,
    /// Released unread by a consumer about to leave: they go to another when it has left, as new.
    Return,
}

/// How a consumer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Its client unsubscribed, or said goodbye.
    Orderly,
    /// Its connection was lost.
    Lost,
}

#[derive(Debug)]
pub(crate) struct Flight {
    pub(crate) queue: Key,
    pub(crate) segment: Segment,
    /// How many messages the consumer had been given before the first of these.
    pub(crate) ordinal: u64,
}

impl Flight {
    /// Cuts off the messages from number `sequence` on; `None` if there are none.
    fn split_off(&mut self, sequence: u64) -> Option<Flight> {
        let segment = self.segment.split_off(sequence)?;
        let ordinal = self.ordinal + (segment.first() - self.segment.run.first())
            - u64::from(self.segment.from);
        Some(Flight { queue: self.queue, segment, ordinal })
    }

    /// Cuts off the messages from the one with that ordinal on; `None` if there are none.
    fn split_at(&mut self, ordinal: u64) -> Option<Flight> {
        let offset = ordinal.saturating_sub(self.ordinal);
        self.split_off(self.segment.first().saturating_add(offset))
    }
}

/// What a consumer that ends leaves unsettled.
#[derive(Debug, Default)]
pub(crate) struct Left {
    /// What its client has, or most likely has, taken.
    pub(crate) taken: Vec<Flight>,
    /// What its client has not taken, as far as can be known.
    pub(crate) unread: Vec<Flight>,
}

/// How a consumer stands in one queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    /// Rises with every consumer of the queue.
    pub(crate) order: u64,
    /// Whether it stands in one of the queue's lines.
    pub(crate) listed: bool,
    /// Whether the queue is among those that wait for it to have room.
    pub(crate) parked: bool,
    /// Which of the queue's selections it takes from, if it has a selector.
    pub(crate) selection: Option<u32>,
}

#[derive(Debug)]
pub(crate) struct Consumer {
    pub(crate) session: SessionId,
    pub(crate) key: SubscriptionKey,
    pub(crate) selector: Option<Selector>,
    pub(crate) window: Prefetch,
    pub(crate) exclusive: bool,
    /// It takes no message of its queue with a lower number.
    pub(crate) start: u64,
    pub(crate) explicit: bool,
    pub(crate) credit: Option<u64>,
    /// The queues that it consumes from, and how it stands in each.
    pub(crate) queues: BTreeMap<Key, Place>,
    /// Queues that have something for it when it has room again.
    pub(crate) parked: VecDeque<Key>,
    /// Whether it has room for more of them than one turn could look at.
    pub(crate) resumes: bool,
    /// The patterns by which it finds queues.
    pub(crate) patterns: Vec<Pattern>,
    /// By the number of the first message of each.
    pub(crate) in_flight: BTreeMap<u64, Flight>,
    pub(crate) messages: u32,
    pub(crate) bytes: usize,
    /// How many messages it has been given.
    given: u64,
    /// Of these, how many up to the last that its client settled: the client has taken all of them.
    settled_up_to: u64,
}

impl Consumer {
    pub(crate) fn new(consume: &Consume) -> Consumer {
        Consumer {
            session: consume.session,
            key: consume.key,
            selector: consume.selector.clone(),
            window: consume.window,
            exclusive: consume.exclusive,
            start: 0,
            explicit: consume.explicit,
            credit: consume.credit,
            queues: BTreeMap::new(),
            parked: VecDeque::new(),
            resumes: false,
            patterns: Vec::new(),
            in_flight: BTreeMap::new(),
            messages: 0,
            bytes: 0,
            given: 0,
            settled_up_to: 0,
        }
    }

    /// Whether it takes whatever comes next.
    pub(crate) fn is_plain(&self) -> bool {
        self.selector.is_none() && self.start == 0
    }

    /// It has no room: the queue waits until it has.
    pub(crate) fn park(&mut self, queue: Key) {
        let Some(place) = self.queues.get_mut(&queue) else { return };
        if !std::mem::replace(&mut place.parked, true) {
            self.parked.push_back(queue);
        }
    }

    /// Messages it may still be given, `u32::MAX` if they do not count; zero when a window is full or
    /// the credit used up.
    pub(crate) fn room_messages(&self) -> u32 {
        if self.room_bytes() == 0 {
            return 0;
        }
        let window = match self.window.messages {
            0 => u32::MAX,
            window => window.saturating_sub(self.messages),
        };
        self.credit.map_or(window, |credit| window.min(u32::try_from(credit).unwrap_or(u32::MAX)))
    }

    /// Bytes it may still be given; the last message may exceed them.
    pub(crate) fn room_bytes(&self) -> usize {
        match self.window.bytes {
            0 => usize::MAX,
            window => (window as usize).saturating_sub(self.bytes),
        }
    }

    /// Whether to wait until more of the window is free instead of giving it a sliver of a
    /// segment now. Only where it is sure to become free without the client getting more.
    pub(crate) fn can_wait(&self, segment_bytes: usize) -> bool {
        let room = self.room_bytes();
        !self.explicit && room < segment_bytes && room < self.window.bytes as usize / 4
    }

    pub(crate) fn take_off(&mut self, queue: Key, segment: Segment) {
        self.messages += segment.len();
        self.bytes += segment.bytes();
        self.credit = self.credit.map(|credit| credit.saturating_sub(u64::from(segment.len())));
        let ordinal = self.given;
        self.given += u64::from(segment.len());
        self.in_flight.insert(segment.first(), Flight { queue, segment, ordinal });
    }

    /// Its client has settled these, so it has taken all that it was given before them.
    pub(crate) fn note_settled(&mut self, flight: &Flight) {
        let end = flight.ordinal + u64::from(flight.segment.len());
        self.settled_up_to = self.settled_up_to.max(end);
    }

    /// Sorts what is in flight at its end. Its session was handed the first `handed` of the messages
    /// that it was given; what it did not put on the connection has been returned before.
    ///
    /// A client takes messages in the order in which they were given. So it has taken those before
    /// one that it settled. Whether it has taken the first one behind, nobody but the client knows:
    /// most likely so if the connection was lost, for that is what a message does that its consumer
    /// dies of, and if it has never settled any. It has not taken those behind that one, as far as
    /// can be known.
    pub(crate) fn end(self, handed: u64, ending: Ending) -> Left {
        let mut left = Left::default();
        if !self.explicit {
            // What its session put on the connection was accepted then.
            left.unread.extend(self.in_flight.into_values());
            return left;
        }
        let doubtful = ending == Ending::Lost || self.settled_up_to == 0;
        let next = self.in_flight.values().filter_map(|flight| {
            let end = flight.ordinal + u64::from(flight.segment.len());
            let next = flight.ordinal.max(self.settled_up_to);
            (next < end && next < handed).then_some(next)
        });
        let next = next.min().filter(|_| doubtful);
        for mut flight in self.in_flight.into_values() {
            let behind = flight.split_at(self.settled_up_to);
            if !flight.segment.is_empty() {
                left.taken.push(flight);
            }
            let Some(mut behind) = behind else { continue };
            if next == Some(behind.ordinal) {
                left.unread.extend(behind.split_at(behind.ordinal + 1));
                left.taken.push(behind);
            } else {
                left.unread.push(behind);
            }
        }
        left
    }

    /// Removes what is in flight between two numbers, both included.
    pub(crate) fn land(&mut self, first: u64, last: u64) -> Vec<Flight> {
        let mut landed = Vec::new();
        if first > last {
            return landed;
        }
        let start = self.in_flight.range(..=first).next_back().map_or(first, |(start, _)| *start);
        let starts: Vec<u64> =
            self.in_flight.range(start..=last).map(|(start, _)| *start).collect();
        for start in starts {
            let Some(mut flight) = self.in_flight.remove(&start) else {
                continue;
            };
            if flight.segment.last() < first {
                self.in_flight.insert(start, flight);
                continue;
            }
            if let Some(rest) = flight.split_off(last.saturating_add(1)) {
                self.in_flight.insert(rest.segment.first(), rest);
            }
            if let Some(inside) = flight.split_off(first) {
                if !flight.segment.is_empty() {
                    self.in_flight.insert(start, flight);
                }
                self.messages -= inside.segment.len();
                self.bytes = self.bytes.saturating_sub(inside.segment.bytes());
                landed.push(inside);
            }
        }
        landed
    }
}
