//! A consumer: one subscription of one session, with what is under way to it.

use std::collections::BTreeMap;

use tiderace_base::{Key, SessionId};
use tiderace_filter::Selector;
use tiderace_wire::{SubscriptionKey, Target, Window};

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
    pub window: Window,
    /// Whether it wants the queues for itself.
    pub exclusive: bool,
    /// Whether its client settles; if not, messages are accepted as they are sent.
    pub explicit: bool,
    /// How many messages it may be given until it gets more credit; absent: any number.
    pub credit: Option<u64>,
}

/// What becomes of messages in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settlement {
    /// Consumed.
    Accept,
    /// Seen and given back: counts as a redelivery.
    Reject,
    /// Given back without having been seen, by a consumer about to leave: they go to another when
    /// it has left.
    Return,
}

#[derive(Debug)]
pub(crate) struct Flight {
    pub(crate) queue: Key,
    pub(crate) segment: Segment,
}

#[derive(Debug)]
pub(crate) struct Consumer {
    pub(crate) session: SessionId,
    pub(crate) key: SubscriptionKey,
    pub(crate) selector: Option<Selector>,
    pub(crate) window: Window,
    pub(crate) exclusive: bool,
    pub(crate) explicit: bool,
    pub(crate) credit: Option<u64>,
    pub(crate) queues: Vec<Key>,
    /// By the number of the first message of each.
    pub(crate) in_flight: BTreeMap<u64, Flight>,
    pub(crate) messages: u32,
    pub(crate) bytes: usize,
}

impl Consumer {
    pub(crate) fn new(consume: &Consume) -> Consumer {
        Consumer {
            session: consume.session,
            key: consume.key,
            selector: consume.selector.clone(),
            window: consume.window,
            exclusive: consume.exclusive,
            explicit: consume.explicit,
            credit: consume.credit,
            queues: Vec::new(),
            in_flight: BTreeMap::new(),
            messages: 0,
            bytes: 0,
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
        self.in_flight.insert(segment.first(), Flight { queue, segment });
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
            if let Some(rest) = flight.segment.split_off(last.saturating_add(1)) {
                self.in_flight.insert(rest.first(), Flight { queue: flight.queue, segment: rest });
            }
            if let Some(inside) = flight.segment.split_off(first) {
                if !flight.segment.is_empty() {
                    self.in_flight.insert(start, Flight { queue: flight.queue, ..flight });
                }
                self.messages -= inside.len();
                self.bytes = self.bytes.saturating_sub(inside.bytes());
                landed.push(Flight { queue: flight.queue, segment: inside });
            }
        }
        landed
    }
}
