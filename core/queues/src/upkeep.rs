//! What goes on between calls: expiry, idle queues, and searches that were too long for one turn.
//!
//! Selectors look for messages and patterns for queues within a budget for each turn, as does a consumer
//! by patterns that leaves its queues or has room for what waits in them; what is left goes on in the next.
//! Invariants: a queue in which a search has stopped is in `unseen`; a consumer that has gone is in the
//! lines of those queues alone that have yet to hear of it.

use std::collections::BTreeSet;
use std::ops::Bound;

use tiderace_base::{Key, MemoryUse, Now};
use tiderace_wire::is_temporary;

use crate::consumer::Place;
use crate::effect::Effect;
use crate::private::reaches;
use crate::queues::{PLACE_BYTES, Queues};
use crate::walk::TURN_STEPS;

/// What it costs to compare a queue with a pattern, to make a consumer one of it, or to end that.
const QUEUE_STEPS: u32 = 32;
/// Queues that hear at once of a consumer that leaves or has room, whatever the turn has spent.
const QUEUES_AT_ONCE: usize = 16;
/// Queues that a consumer is asked for when it has some room and would rather wait for more: it is asked
/// for others when it has.
const REFUSALS_MAX: usize = 8;
/// Messages looked at in one tick for those whose time is over: about a millisecond's worth.
const EXPIRY_LOOKS: usize = 32_768;
/// Queues looked at in one tick of those that are full.
const FULL_MAX: usize = 8192;
/// Slots of queues looked at in one tick for those that are idle.
const SWEEP_SLOTS: u32 = 16_384;

impl Queues {
    /// Drops expired messages and queues nobody has used for long, a part of each at a time.
    pub fn tick(&mut self, now: Now, effects: &mut Vec<Effect>) {
        self.begin_turn(now);
        self.expire(now, effects);
        self.expire_swapped(now, effects);
        self.resume_loads(effects);
        for key in next_of(&self.full, &mut self.full_at) {
            self.dispatch(key, effects);
        }
        self.sweep(now, effects);
        let (queues, survey) = (&self.queues, &mut self.survey);
        let of = |slot| queues.at(slot).map(|queue| (queue.in_flight, queue.oldest()));
        survey.look(now.time, queues.slots(), of);
    }

    /// Looks for expired messages where it has stopped before.
    fn expire(&mut self, now: Now, effects: &mut Vec<Effect>) {
        let mut looks = EXPIRY_LOOKS;
        let (mut at, mut from) = self.expiring_at;
        for _ in 0..self.expiring.len() {
            if looks == 0 {
                break;
            }
            // The queue in which it has stopped, or the next, or the first.
            let start = if from > 0 { Bound::Included(at) } else { Bound::Excluded(at) };
            let next = self.expiring.range((start, Bound::Unbounded)).next();
            let Some(key) = next.or_else(|| self.expiring.first()).copied() else { break };
            if key != at {
                from = 0;
            }
            let before = looks;
            looks -= 1;
            let rest = self.expire_queue(now, key, from, &mut looks, effects);
            self.looked += (before - looks) as u64;
            (at, from) = (key, rest.unwrap_or(0));
        }
        self.expiring_at = (at, from);
    }

    fn expire_queue(
        &mut self,
        now: Now,
        key: Key,
        from: u64,
        looks: &mut usize,
        effects: &mut Vec<Effect>,
    ) -> Option<u64> {
        let Some(queue) = self.queues.get_mut(key) else {
            self.expiring.remove(&key);
            return None;
        };
        let (weight, ready) = (queue.weight(), queue.ready.len());
        let (expired, rest) = queue.expire((key, now.wall_ms), from, looks, effects);
        self.expired += expired as u64;
        let less = weight.without(queue.weight());
        self.ready = self.ready.saturating_sub(ready - queue.ready.len());
        if !queue.has_expiring {
            self.expiring.remove(&key);
        }
        self.forget_bytes(less);
        self.dispatch(key, effects);
        rest
    }

    /// Whether something is left to look for.
    pub fn has_work(&self) -> bool {
        !(self.walks.is_empty()
            && self.unseen.is_empty()
            && self.resuming.is_empty()
            && self.leaving.is_empty()
            && !self.browsers.has_postponed())
    }

    /// Goes on looking for messages and queues, within a budget; to be called once a turn while there
    /// is something left to look for.
    pub fn work(&mut self, now: Now, effects: &mut Vec<Effect>) {
        self.begin_turn(now);
        self.left = TURN_STEPS;
        for _ in 0..self.leaving.len() {
            let Some(leaving) = self.leaving.pop_front() else { break };
            self.leave_queues(now, leaving, effects);
        }
        for _ in 0..self.resuming.len() {
            let Some(key) = self.resuming.pop_front() else { break };
            if let Some(consumer) = self.consumers.get_mut(key) {
                consumer.resumes = false;
            }
            self.unpark(key, effects);
        }
        self.walk(effects);
        self.browse_on(effects);
        for _ in 0..self.unseen.len() {
            if self.left == 0 {
                break;
            }
            let Some(key) = self.unseen.pop_front() else { break };
            if let Some(queue) = self.queues.get_mut(key) {
                queue.has_unseen = false;
            }
            self.dispatch(key, effects);
        }
    }

    /// A consumer has left these queues: what it has left goes to others. Some of them hear of it at once,
    /// and as many more as the turn's budget is for; the others in later turns.
    pub(crate) fn leave_queues(
        &mut self,
        now: Now,
        (consumer, mut queues): (Key, Vec<(Key, Place)>),
        effects: &mut Vec<Effect>,
    ) {
        for count in 0.. {
            if count >= QUEUES_AT_ONCE && self.left == 0 {
                break;
            }
            let Some((key, place)) = queues.pop() else { return };
            self.left = self.left.saturating_sub(QUEUE_STEPS);
            self.memory.refund(MemoryUse::Names, PLACE_BYTES);
            let Some(queue) = self.queues.get_mut(key) else { continue };
            queue.lines.detach(place, &self.consumers);
            queue.used = now.time;
            self.leave_groups(key, consumer);
            let Some(queue) = self.queues.get(key) else { continue };
            if queue.lines.is_empty() && is_temporary(&queue.path) {
                self.remove(key, effects);
            } else {
                self.dispatch(key, effects);
            }
        }
        if !queues.is_empty() {
            self.leaving.push_back((consumer, queues));
        }
    }

    /// A consumer may have room again: the queues that wait for that go on, as far as it has and the turn's
    /// budget allows; the others in later turns.
    pub(crate) fn unpark(&mut self, key: Key, effects: &mut Vec<Effect>) {
        let mut refusals = 0;
        for count in 0.. {
            let Some(consumer) = self.consumers.get_mut(key) else { return };
            if refusals == REFUSALS_MAX || consumer.room_messages() == 0 {
                return;
            }
            if count >= QUEUES_AT_ONCE && self.left == 0 {
                break;
            }
            let Some(at) = consumer.parked.pop_front() else { return };
            self.left = self.left.saturating_sub(QUEUE_STEPS);
            let Some(place) = consumer.queues.get_mut(&at) else { continue };
            place.parked = false;
            if let Some(queue) = self.queues.get_mut(at) {
                queue.lines.list(key, place);
                self.dispatch(at, effects);
            }
            let place = self.consumers.get(key).and_then(|consumer| consumer.queues.get(&at));
            refusals += usize::from(place.is_some_and(|place| place.parked));
        }
        let consumer = self.consumers.get_mut(key);
        if consumer.is_some_and(|consumer| !std::mem::replace(&mut consumer.resumes, true)) {
            self.resuming.push_back(key);
        }
    }

    /// Each turn has a budget.
    pub(crate) fn begin_turn(&mut self, now: Now) {
        self.wall_ms = now.wall_ms;
        if self.turn != now.time {
            self.turn = now.time;
            self.left = TURN_STEPS;
        }
    }

    /// Looks for queues that consumers by patterns have not found yet.
    pub(crate) fn walk(&mut self, effects: &mut Vec<Effect>) {
        while self.left > 0 {
            let Some(mut walk) = self.walks.pop_front() else { return };
            while walk.slot < self.queues.slots() && self.left > 0 {
                self.left = self.left.saturating_sub(QUEUE_STEPS);
                let key = self.queues.key_of(walk.slot);
                walk.slot += 1;
                let Some((key, queue)) = key.and_then(|key| Some((key, self.queues.get(key)?)))
                else {
                    continue;
                };
                if reaches(&walk.pattern, &queue.path) {
                    self.attach(key, walk.consumer);
                    self.dispatch(key, effects);
                }
            }
            if walk.slot < self.queues.slots() && self.consumers.get(walk.consumer).is_some() {
                self.walks.push_back(walk);
            }
        }
    }

    /// Forgets queues that are idle, some slots at a time.
    fn sweep(&mut self, now: Now, effects: &mut Vec<Effect>) {
        let slots = self.queues.slots();
        let end = self.sweep_at.saturating_add(SWEEP_SLOTS).min(slots);
        for slot in self.sweep_at..end {
            let Some(key) = self.queues.key_of(slot) else { continue };
            if self.queues.get(key).is_some_and(|queue| queue.is_idle(now.time)) {
                self.remove(key, effects);
            }
        }
        self.sweep_at = if end < slots { end } else { 0 };
    }
}

/// Some of a set's queues: those behind the one that was looked at last, or the first if there are none.
fn next_of(queues: &BTreeSet<Key>, at: &mut Key) -> Vec<Key> {
    let behind = queues.range((Bound::Excluded(*at), Bound::Unbounded));
    let mut next: Vec<Key> = behind.take(FULL_MAX).copied().collect();
    if next.len() < FULL_MAX {
        let first = queues.range(..=*at).take(FULL_MAX - next.len());
        next.extend(first);
    }
    *at = next.last().copied().unwrap_or_default();
    next
}
