//! Back-pressure: publishers of a topic wait for its slow subscribers, for a while, if the topic says so.
//!
//! This is the subscribers' side; `pressure.rs` is the topic's home, and `sessions.rs` keeps which publishers wait.
//!
//! ```text
//!   backlog above the mark
//!     ├─ no grace, or it is used up ─▶ over its grace: the topic's policy applies to this one
//!     └─ grace ─▶ back-pressure: home is told, publishers are paused, until
//!          ├─ the backlog is below the low mark again: nothing was lost
//!          └─ the grace is over ─▶ over its grace
//! ```
//! The grace is the topic's: its home holds publishers no longer than that in any minute, however many
//! subscribers are slow, and a publisher is held no longer by all such topics together. Only the policy
//! `block` holds them without end. By default there is no grace, and a slow subscriber affects itself alone.

use std::collections::BTreeSet;

use tiderace_base::{Key, Now};
use tiderace_topics::Path;

use crate::SlowConsumer;
use crate::effects::Effects;
use crate::messages::ToHome;
use crate::price::GRACE;
use crate::session::Slow;
use crate::session_side::SessionSide;

impl SessionSide<'_> {
    /// The session's backlog is above the mark: publishers of the topic are to wait for it.
    pub(crate) fn apply_backpressure(
        &mut self,
        now: Now,
        topic: Key,
        session: Key,
        effects: &mut Effects,
    ) {
        let Some(record) = self.sessions.get_mut(session) else {
            return;
        };
        let rare = record.rare.get_or_insert_default();
        let slow = rare.slow.get_or_insert_with(|| {
            self.delivery.slow.insert(session);
            Slow { since: now.time, over_grace: false, topics: BTreeSet::new() }
        });
        if !slow.topics.insert(topic) {
            return;
        }
        let Some(topic) = self.directory.get(topic) else {
            return;
        };
        if self.fanout.subscribers_or_new(topic).apply_backpressure() {
            let path = topic.path.clone();
            self.tell_pressure(path, true, effects);
        }
    }

    /// The session's backlog is above the mark, and nobody waits for it.
    pub(crate) fn note_over_grace(&mut self, now: Now, session: Key) {
        let Some(record) = self.sessions.get_mut(session) else { return };
        let slow = &mut record.rare.get_or_insert_default().slow;
        if slow.is_none() {
            *slow = Some(Slow { since: now.time, over_grace: true, topics: BTreeSet::new() });
            self.metrics.slow_consumers += 1;
        }
    }

    /// The session has caught up, or has gone.
    pub(crate) fn caught_up(&mut self, session: Key, effects: &mut Effects) {
        let Some(record) = self.sessions.get_mut(session) else {
            return;
        };
        let Some(rare) = &mut record.rare else {
            return;
        };
        let Some(slow) = rare.slow.take() else {
            return;
        };
        if rare.is_empty() {
            record.rare = None;
        }
        if let Some(backlog) = &mut record.backlog {
            backlog.forget_newest();
        }
        self.delivery.slow.remove(session);
        self.release(slow.topics, effects);
    }

    /// The session listens to less: publishers go on, and those it still hears are held back again
    /// by their next message if need be.
    pub(crate) fn release_backpressure(&mut self, session: Key, effects: &mut Effects) {
        let slow = self.sessions.get_mut(session).and_then(|record| record.slow_mut());
        let topics = slow.map(|slow| std::mem::take(&mut slow.topics)).unwrap_or_default();
        self.release(topics, effects);
    }

    /// Ends the grace periods that are over. Of very many topics and sessions some are looked at each time.
    pub(crate) fn end_graces(&mut self, now: Now, effects: &mut Effects) {
        let mut looks = 0;
        for _ in 0..self.delivery.slow.len() {
            if looks >= GRACE_LOOKS {
                break;
            }
            let Some(session) = self.delivery.slow.next() else { break };
            let record = self.sessions.get_mut(session);
            let Some(slow) = record.and_then(|record| record.slow_mut()) else { continue };
            looks += slow.topics.len().max(1);
            let waited = now.time.since(slow.since);
            let topics = self.directory.topics();
            let is_over = |topic: &Key| {
                topics.get(*topic).is_none_or(|topic| {
                    topic.spec.slow_consumer != SlowConsumer::Block && waited >= topic.spec.grace
                })
            };
            if !slow.topics.iter().any(is_over) {
                continue;
            }
            let (over, kept) = slow.topics.iter().partition(|topic| is_over(topic));
            slow.over_grace = true;
            slow.topics = kept;
            self.delivery.slow.remove(session);
            self.metrics.slow_consumers += 1;
            self.release(over, effects);
        }
        self.work.charge_at(now, GRACE * looks as u64);
    }

    fn release(&mut self, topics: BTreeSet<Key>, effects: &mut Effects) {
        for topic in topics {
            let Some(topic) = self.directory.get(topic) else {
                continue;
            };
            let known = self.fanout.subscribers_mut(topic);
            if known.is_some_and(|known| known.release_backpressure()) {
                let path = topic.path.clone();
                self.tell_pressure(path, false, effects);
            }
        }
    }

    fn tell_pressure(&mut self, path: Path, on: bool, effects: &mut Effects) {
        let home = self.options.home_of(&path);
        self.send(home, ToHome::Pressure { path, on }, effects);
    }
}

/// Topics of slow sessions that are looked at in one tick for graces that are over; all of one session
/// together.
const GRACE_LOOKS: usize = 16_384;
