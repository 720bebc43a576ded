//! Back-pressure: publishers of a topic wait for its slow subscribers, for a while.
//!
//! ```text
//!   backlog above the mark ─▶ press: home is told, publishers are held back
//!     ├─ backlog below the low mark again ─▶ relax: publishers go on, nothing was lost
//!     └─ grace period over ─▶ lagging: publishers go on, the topic's policy applies to this one
//!          └─ backlog below the low mark ─▶ an ordinary subscriber again
//! ```

use tiderace_base::{Key, Now, SessionId, ShardId};
use tiderace_topics::Path;
use tiderace_wire::{Destination, Kind};

use crate::SlowConsumer;
use crate::broker::{Broker, key_of};
use crate::effects::{Effects, Mail};
use crate::session::Slow;
use crate::topic::{Home, bit, members};

impl Broker {
    /// The session's backlog is above the mark: publishers of the topic are to wait for it.
    pub(crate) fn press(&mut self, now: Now, topic: Key, session: Key, effects: &mut Effects) {
        let Some(record) = self.sessions.get_mut(session) else {
            return;
        };
        let rare = record.rare.get_or_insert_default();
        let slow = rare.slow.get_or_insert_with(|| {
            self.slow.push(session);
            Slow { since: now.time, lagging: false, topics: Vec::new() }
        });
        if slow.topics.contains(&topic) {
            return;
        }
        slow.topics.push(topic);
        let Some(record) = self.topics.get_mut(topic) else {
            return;
        };
        record.pressing += 1;
        if record.pressing == 1 {
            let path = record.path.clone();
            self.tell_pressure(now, path, true, effects);
        }
    }

    /// The session has caught up, or has gone.
    pub(crate) fn relax(&mut self, now: Now, session: Key, effects: &mut Effects) {
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
        self.slow.retain(|slow| *slow != session);
        self.release(now, slow.topics, effects);
    }

    /// The session listens to less: publishers go on, and those it still hears are held back again
    /// by their next message if need be.
    pub(crate) fn relent(&mut self, now: Now, session: Key, effects: &mut Effects) {
        let slow = self.sessions.get_mut(session).and_then(|record| record.slow_mut());
        let topics = slow.map(|slow| std::mem::take(&mut slow.topics)).unwrap_or_default();
        self.release(now, topics, effects);
    }

    /// Ends the grace periods that are over.
    pub(crate) fn end_graces(&mut self, now: Now, effects: &mut Effects) {
        for session in self.slow.clone() {
            let Some(record) = self.sessions.get_mut(session) else {
                continue;
            };
            let Some(slow) = record.slow_mut() else {
                continue;
            };
            if slow.lagging {
                continue;
            }
            let waited = now.time.since(slow.since);
            let (over, kept): (Vec<Key>, Vec<Key>) = slow.topics.iter().partition(|topic| {
                self.topics.get(**topic).is_none_or(|topic| {
                    topic.spec.slow_consumer != SlowConsumer::Block && waited >= topic.spec.grace
                })
            });
            if over.is_empty() {
                continue;
            }
            slow.lagging = true;
            slow.topics = kept;
            self.metrics.slow_consumers += 1;
            self.release(now, over, effects);
        }
    }

    fn release(&mut self, now: Now, topics: Vec<Key>, effects: &mut Effects) {
        for topic in topics {
            let Some(record) = self.topics.get_mut(topic) else {
                continue;
            };
            record.pressing -= 1;
            if record.pressing == 0 {
                let path = record.path.clone();
                self.tell_pressure(now, path, false, effects);
            }
        }
    }

    fn tell_pressure(&mut self, now: Now, path: Path, on: bool, effects: &mut Effects) {
        let home = self.home(&path);
        if home == self.shard {
            self.pressure(now, self.shard, &path, on, effects);
        } else {
            effects.mail.push((home, Mail::Pressure { path, on }));
        }
    }

    /// At the topic's home: a shard's subscribers need time, or no longer.
    pub(crate) fn pressure(
        &mut self,
        now: Now,
        from: ShardId,
        path: &Path,
        on: bool,
        effects: &mut Effects,
    ) {
        let key = self.ensure_topic(now, path);
        let Some(topic) = self.topics.get_mut(key) else {
            return;
        };
        let floor = || Home::starting(self.history.floor_of(path));
        let home = topic.home.get_or_insert_with(floor);
        let before = home.pressed();
        let after = if on { before | bit(from) } else { before & !bit(from) };
        home.rare_mut().pressed = after;
        home.tidy();
        if (before == 0) == (after == 0) {
            return;
        }
        if after == 0 {
            self.work.unblock();
        }
        // Who publishes is not known; a shard without publishers has nobody to hold.
        let all = u64::MAX >> (64 - self.options.shards.clamp(1, 64));
        let destination = Destination { kind: Kind::Topic, path: path.clone() };
        for shard in members(all) {
            self.tell_pause(shard, destination.clone(), after != 0, effects);
        }
    }

    /// Tells a shard to hold publishers of a destination back, or to let them go.
    pub(crate) fn tell_pause(
        &mut self,
        shard: ShardId,
        destination: Destination,
        on: bool,
        effects: &mut Effects,
    ) {
        if shard == self.shard {
            self.hold(destination, on, effects);
        } else {
            effects.mail.push((shard, Mail::Pause { destination, on }));
        }
    }

    /// On a publisher's shard: holds from the next message on, or lets everybody go.
    pub(crate) fn hold(&mut self, destination: Destination, on: bool, effects: &mut Effects) {
        if on {
            self.held.entry(destination).or_default();
            return;
        }
        for session in self.held.remove(&destination).unwrap_or_default() {
            let Some(record) = self.sessions.get_mut(key_of(session)) else {
                continue;
            };
            record.blocked_by = record.blocked_by.saturating_sub(1);
            if record.blocked_by == 0 {
                effects.resume.push((record.link, session));
            }
        }
    }

    /// Holds a session back if it publishes to a destination that is held.
    pub(crate) fn wait_if_held(
        &mut self,
        session: SessionId,
        destination: &Destination,
        effects: &mut Effects,
    ) {
        let Some(waiting) = self.held.get_mut(destination) else {
            return;
        };
        if waiting.contains(&session) {
            return;
        }
        let Some(record) = self.sessions.get_mut(key_of(session)) else {
            return;
        };
        waiting.push(session);
        record.blocked_by += 1;
        if record.blocked_by == 1 {
            self.metrics.publishers_paused += 1;
            effects.pause.push((record.link, session));
        }
    }
}
