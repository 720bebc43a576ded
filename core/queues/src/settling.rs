//! What becomes of messages that their consumers settle.
//!
//! Relies on queues and consumers for what is in flight. Invariant: what leaves its consumer is gone, back at its place,
//! waiting after a failure, or dead.

use tiderace_base::{Key, Now, SessionId};
use tiderace_wire::SubscriptionKey;

use crate::consumer::Flight;
use crate::effect::{DeathReason, Effect};
use crate::queues::Queues;
use crate::{Consumed, Segment, Settlement};

impl Queues {
    /// Settles messages in flight; those that are not in flight are passed over.
    pub fn settle(
        &mut self,
        now: Now,
        session: SessionId,
        key: SubscriptionKey,
        ranges: &[(u64, u64)],
        settlement: Settlement,
        effects: &mut Vec<Effect>,
    ) {
        let Some((consumer, landed, woken)) = self.land(now, (session, key), ranges, settlement)
        else {
            return self.settle_shown(now, (session, key), ranges, settlement, effects);
        };
        let queues = queues_of(&landed);
        for flight in landed {
            match settlement {
                Settlement::Accept => self.accepted(flight.queue, flight.segment, effects),
                Settlement::Reject => self.taken(flight, true, effects),
                Settlement::Return => self.put_back(flight.queue, flight.segment),
            }
        }
        self.end_settling(now, consumer, (queues, woken), settlement, effects);
    }

    /// Accepts messages in flight as part of something that may have to be undone: these are gone, and given to the
    /// caller, who tells the store of them, or has them come back by [`Queues::give_back`].
    pub fn accept_together(
        &mut self,
        now: Now,
        session: SessionId,
        key: SubscriptionKey,
        ranges: &[(u64, u64)],
        effects: &mut Vec<Effect>,
    ) -> Vec<Consumed> {
        let settlement = Settlement::Accept;
        let Some((consumer, landed, woken)) = self.land(now, (session, key), ranges, settlement)
        else {
            self.settle_shown(now, (session, key), ranges, settlement, effects);
            return Vec::new();
        };
        let queues = queues_of(&landed);
        let consumed = landed.into_iter().map(|Flight { queue, segment, .. }| Consumed {
            stream: self.uncount(queue, &segment),
            is_outside: self.queues.get(queue).is_some_and(|queue| queue.has_outside(&segment)),
            segment,
        });
        let consumed = consumed.collect();
        self.end_settling(now, consumer, (queues, woken), settlement, effects);
        consumed
    }

    /// Takes messages off a consumer; in which queues others can go on for that.
    fn land(
        &mut self,
        now: Now,
        name: (SessionId, SubscriptionKey),
        ranges: &[(u64, u64)],
        settlement: Settlement,
    ) -> Option<(Key, Vec<Flight>, Vec<Key>)> {
        let key = *self.subscriptions.get(&name)?;
        let consumer = self.consumers.get_mut(key)?;
        let landed: Vec<Flight> =
            ranges.iter().flat_map(|(first, last)| consumer.land(*first, *last)).collect();
        if settlement != Settlement::Return {
            landed.iter().for_each(|flight| consumer.note_settled(flight));
        }
        self.begin_turn(now);
        let mut woken = Vec::new();
        for flight in &landed {
            if self.note_landed(flight.queue, &flight.segment) {
                woken.push(flight.queue);
            }
        }
        Some((key, landed, woken))
    }

    /// Messages of queues have been settled: these queues and the consumer go on.
    fn end_settling(
        &mut self,
        now: Now,
        consumer: Key,
        (queues, woken): (Vec<Key>, Vec<Key>),
        settlement: Settlement,
        effects: &mut Vec<Effect>,
    ) {
        for key in queues {
            if let Some(queue) = self.queues.get_mut(key) {
                queue.used = now.time;
            }
            match settlement {
                Settlement::Accept if woken.contains(&key) => self.dispatch(key, effects),
                Settlement::Accept => self.review(key, effects),
                // Others come first: the consumer that rejected gets it again only if nobody else has room.
                Settlement::Reject => {
                    self.dispatch_except(key, Some(consumer), effects);
                    self.dispatch(key, effects);
                }
                // What is returned would only come back to the consumer that leaves.
                Settlement::Return => {}
            }
        }
        if settlement != Settlement::Return {
            self.unpark(consumer, effects);
        }
    }

    /// Messages that were in flight, or taken out, are gone for good.
    pub(crate) fn accepted(&mut self, key: Key, segment: Segment, effects: &mut Vec<Effect>) {
        if let Some(stream) = self.uncount(key, &segment) {
            let is_outside = self.queues.get(key).is_some_and(|queue| queue.has_outside(&segment));
            effects.push(Effect::Settled { stream, segment, is_outside });
        }
    }

    /// The same, to be told to the store by the caller: in which stream they are, if they are stored.
    pub(crate) fn uncount(&mut self, key: Key, segment: &Segment) -> Option<u64> {
        let queue = self.queues.get_mut(key)?;
        let weight = segment.weight();
        queue.in_flight = queue.in_flight.saturating_sub(segment.len() as usize);
        queue.lose(weight);
        let stream = queue.stream_with(segment);
        self.forget_bytes(weight);
        stream
    }

    /// Messages that were in flight, or taken out, come back to their place, as new as they were.
    pub(crate) fn put_back(&mut self, key: Key, segment: Segment) {
        if let Some(queue) = self.queues.get_mut(key) {
            queue.in_flight = queue.in_flight.saturating_sub(segment.len() as usize);
        }
        self.put(key, segment);
    }

    /// Messages that a client has taken come back to their place, now or after a delay if they have failed, or go to
    /// the dead-letter queue if they have failed too often.
    pub(crate) fn taken(&mut self, mut flight: Flight, failed: bool, effects: &mut Vec<Effect>) {
        flight.segment.redeliveries += 1;
        flight.segment.failures += u32::from(failed);
        let Some(queue) = self.queues.get_mut(flight.queue) else { return };
        if !failed
            || queue.redeliveries_max == 0
            || flight.segment.failures <= queue.redeliveries_max
        {
            let delay = queue.policy.redelivery_delay_ms(flight.segment.failures);
            if !failed || delay == 0 {
                return self.put_back(flight.queue, flight.segment);
            }
            queue.in_flight = queue.in_flight.saturating_sub(flight.segment.len() as usize);
            let due_ms = self.wall_ms.saturating_add(delay);
            return self.delay_failed(flight.queue, flight.segment, due_ms);
        }
        let Flight { queue: key, segment, .. } = flight;
        let weight = segment.weight();
        queue.in_flight = queue.in_flight.saturating_sub(segment.len() as usize);
        queue.note_dead(key, segment, (DeathReason::Redeliveries, self.wall_ms), effects);
        self.forget_bytes(weight);
    }
}

/// The queues of messages, each once if those of one are together.
fn queues_of(flights: &[Flight]) -> Vec<Key> {
    let mut queues: Vec<Key> = flights.iter().map(|flight| flight.queue).collect();
    queues.dedup();
    queues
}
