//! What goes on between calls: expiry, idle queues, and searches that were too long for one turn.
//!
//! Selectors look for messages and patterns for queues within a budget for each turn; what is left of a
//! search goes on in the next. Invariant: a queue in which a search has stopped is in `unseen`.

use tiderace_base::Now;

use crate::effect::Effect;
use crate::private::reaches;
use crate::queues::Queues;
use crate::walk::TURN_STEPS;

/// What it costs to compare a queue with a pattern, and to make a consumer one of it.
const QUEUE_STEPS: u32 = 32;
/// Slots of queues looked at in one tick for those that are idle.
const SWEEP_SLOTS: u32 = 16_384;

impl Queues {
    /// Drops expired messages and queues nobody has used for long.
    pub fn tick(&mut self, now: Now, effects: &mut Vec<Effect>) {
        self.begin_turn(now);
        for key in self.expiring.clone() {
            if let Some(queue) = self.queues.get_mut(key) {
                let (bytes, ready) = (queue.bytes, queue.ready_messages);
                self.expired += queue.expire(now.wall_ms) as u64;
                let less = bytes - queue.bytes;
                self.ready = self.ready.saturating_sub(ready - queue.ready_messages);
                if !queue.has_expiring {
                    self.expiring.remove(&key);
                }
                self.forget_bytes(less);
            } else {
                self.expiring.remove(&key);
            }
            self.dispatch(key, effects);
        }
        for key in self.full.clone() {
            self.dispatch(key, effects);
        }
        self.sweep(now, effects);
    }

    /// Whether something is left to look for.
    pub fn has_work(&self) -> bool {
        !self.walks.is_empty() || !self.unseen.is_empty()
    }

    /// Goes on looking for messages and queues, within a budget; to be called once a turn while there
    /// is something left to look for.
    pub fn work(&mut self, now: Now, effects: &mut Vec<Effect>) {
        self.begin_turn(now);
        self.left = TURN_STEPS;
        self.walk(effects);
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
