//! Back-pressure: publishers of a topic wait for its slow subscribers, for a while, if the topic says so.
//!
//! ```text
//!   backlog above the mark
//!     ├─ no grace, or it is used up ─▶ lagging: the topic's policy applies to this one
//!     └─ grace ─▶ press: home is told, publishers are held back, until
//!          ├─ the backlog is below the low mark again: nothing was lost
//!          └─ the grace is over ─▶ lagging
//! ```
//! The grace is the topic's: its home holds publishers no longer than that in any minute, however many
//! subscribers are slow, and a publisher is held no longer by all such topics together. Only the policy
//! `block` holds them without end. By default there is no grace, and a slow subscriber affects itself alone.

use std::collections::BTreeSet;
use std::ops::Bound;

use tiderace_base::{Key, Now, SessionId, ShardId, Span, Time};
use tiderace_topics::Path;
use tiderace_wire::{Destination, Kind};

use crate::SlowConsumer;
use crate::broker::Broker;
use crate::collections::Set;
use crate::effects::{Effects, Mail};
use crate::graces::Allowance;
use crate::places::{all, bit, key_of, members};
use crate::price::GRACE;
use crate::session::Slow;
use crate::topic::Home;

impl Broker {
    /// The session's backlog is above the mark: publishers of the topic are to wait for it.
    pub(crate) fn press(&mut self, now: Now, topic: Key, session: Key, effects: &mut Effects) {
        let Some(record) = self.sessions.get_mut(session) else {
            return;
        };
        let rare = record.rare.get_or_insert_default();
        let slow = rare.slow.get_or_insert_with(|| {
            self.slow.insert(session);
            Slow { since: now.time, lagging: false, topics: BTreeSet::new() }
        });
        if !slow.topics.insert(topic) {
            return;
        }
        let Some(record) = self.topics.get_mut(topic) else {
            return;
        };
        record.pressing += 1;
        if record.pressing == 1 {
            let path = record.path.clone();
            self.tell_pressure(path, true, effects);
        }
    }

    /// The session's backlog is above the mark, and nobody waits for it.
    pub(crate) fn lag(&mut self, now: Now, session: Key) {
        let Some(record) = self.sessions.get_mut(session) else { return };
        let slow = &mut record.rare.get_or_insert_default().slow;
        if slow.is_none() {
            *slow = Some(Slow { since: now.time, lagging: true, topics: BTreeSet::new() });
            self.metrics.slow_consumers += 1;
        }
    }

    /// The session has caught up, or has gone.
    pub(crate) fn relax(&mut self, session: Key, effects: &mut Effects) {
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
        self.slow.remove(session);
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
        self.end_holds(now, effects);
        let mut looks = 0;
        for _ in 0..self.slow.len() {
            if looks >= GRACE_LOOKS {
                break;
            }
            let Some(session) = self.slow.next() else { break };
            let record = self.sessions.get_mut(session);
            let Some(slow) = record.and_then(|record| record.slow_mut()) else { continue };
            looks += slow.topics.len().max(1);
            let waited = now.time.since(slow.since);
            let topics = &self.topics;
            let is_over = |topic: &Key| {
                topics.get(*topic).is_none_or(|topic| {
                    topic.spec.slow_consumer != SlowConsumer::Block && waited >= topic.spec.grace
                })
            };
            if !slow.topics.iter().any(is_over) {
                continue;
            }
            let (over, kept) = slow.topics.iter().partition(|topic| is_over(topic));
            slow.lagging = true;
            slow.topics = kept;
            self.slow.remove(session);
            self.metrics.slow_consumers += 1;
            self.release(over, effects);
        }
        self.work.charge_at(now, GRACE * looks as u64);
    }

    /// As a home: publishers that have waited for the whole grace of a topic go on.
    fn end_holds(&mut self, now: Now, effects: &mut Effects) {
        self.graces.sweep(now.time);
        while let Some(key) = self.graces.next_over(now.time) {
            let Some(topic) = self.topics.get_mut(key) else { continue };
            let Some(home) = topic.home.as_mut() else { continue };
            // It may have become one that blocks meanwhile: then it presses again.
            home.rare_mut().pressed = 0;
            home.tidy();
            let path = topic.path.clone();
            self.work.unblock();
            self.tell_all(path, None, effects);
        }
    }

    fn release(&mut self, topics: BTreeSet<Key>, effects: &mut Effects) {
        for topic in topics {
            let Some(record) = self.topics.get_mut(topic) else {
                continue;
            };
            record.pressing -= 1;
            if record.pressing == 0 {
                let path = record.path.clone();
                self.tell_pressure(path, false, effects);
            }
        }
    }

    fn tell_pressure(&mut self, path: Path, on: bool, effects: &mut Effects) {
        let home = self.home(&path);
        self.send(home, Mail::Pressure { path, on }, effects);
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
        let grace = match topic.spec.slow_consumer {
            SlowConsumer::Block => Span::ZERO,
            _ => topic.spec.grace,
        };
        let blocks = topic.spec.slow_consumer == SlowConsumer::Block;
        if on && before == 0 && !blocks && !self.graces.begin(now.time, key, grace) {
            return home.tidy();
        }
        let after = if on { before | bit(from) } else { before & !bit(from) };
        home.rare_mut().pressed = after;
        home.tidy();
        if (before == 0) == (after == 0) {
            return;
        }
        if after == 0 {
            self.graces.end(now.time, key);
            self.work.unblock();
        }
        self.tell_all(path.clone(), (after != 0).then_some(grace), effects);
    }

    /// Tells all shards that publishers of a topic wait, for no longer than the grace if that is not
    /// zero, or that they go on. Who publishes is not known; a shard without publishers has nobody to hold.
    fn tell_all(&mut self, path: Path, hold: Option<Span>, effects: &mut Effects) {
        let all = all(self.options.shards);
        let destination = Destination { kind: Kind::Topic, path };
        for shard in members(all) {
            self.tell_pause(shard, destination.clone(), hold, effects);
        }
    }

    /// Tells a shard to hold publishers of a destination back, or to let them go.
    pub(crate) fn tell_pause(
        &mut self,
        shard: ShardId,
        destination: Destination,
        hold: Option<Span>,
        effects: &mut Effects,
    ) {
        self.send(shard, Mail::Pause { destination, hold }, effects);
    }

    /// On a publisher's shard: holds from the next message on, or lets everybody go.
    pub(crate) fn hold(
        &mut self,
        now: Now,
        destination: Destination,
        hold: Option<Span>,
        effects: &mut Effects,
    ) {
        if let Some(grace) = hold {
            // Those who wait already were counted as it was.
            self.held.entry(destination).or_insert_with(|| Holding::of(grace));
            return;
        }
        let held = self.held.remove(&destination).unwrap_or_default();
        for session in held.waiting {
            let Some(record) = self.sessions.get_mut(key_of(session)) else {
                continue;
            };
            record.blocked_by = record.blocked_by.saturating_sub(1);
            let waits = record.rare.as_mut().and_then(|rare| rare.waits.as_mut());
            if let Some(waits) = waits {
                waits.end(now.time, &destination, held.grace);
            }
            if record.blocked_by == 0 {
                effects.resume.push((record.link, session));
            }
        }
    }

    /// Holds a session back if it publishes to a destination that is held.
    pub(crate) fn wait_if_held(
        &mut self,
        now: Now,
        session: SessionId,
        destination: &Destination,
        effects: &mut Effects,
    ) {
        let Some(held) = self.held.get_mut(destination) else {
            return;
        };
        if held.waiting.contains(&session) {
            return;
        }
        let Some(record) = self.sessions.get_mut(key_of(session)) else {
            return;
        };
        let waits = record.rare.get_or_insert_default().waits.get_or_insert_default();
        if !waits.begin(now.time, destination, held.grace) {
            return;
        }
        held.waiting.insert(session);
        record.blocked_by += 1;
        if record.blocked_by == 1 {
            self.metrics.publishers_paused += 1;
            effects.pause.push((record.link, session));
        }
    }

    /// A session ends: nobody has to let it go any more.
    pub(crate) fn wait_no_more(&mut self, session: SessionId) {
        let rare = self.sessions.get_mut(key_of(session)).and_then(|record| record.rare.as_mut());
        let Some(waits) = rare.and_then(|rare| rare.waits.take()) else { return };
        for destination in waits.destinations {
            if let Some(held) = self.held.get_mut(&destination) {
                held.waiting.remove(&session);
            }
        }
    }
}

/// Topics of slow sessions that are looked at in one tick for graces that are over; all of one session
/// together.
const GRACE_LOOKS: usize = 16_384;

/// Sessions above the mark for which publishers wait.
#[derive(Debug, Default)]
pub(crate) struct SlowSessions {
    sessions: BTreeSet<Key>,
    /// The one that was looked at last.
    at: Key,
}

impl SlowSessions {
    fn insert(&mut self, session: Key) {
        self.sessions.insert(session);
    }

    fn remove(&mut self, session: Key) {
        self.sessions.remove(&session);
    }

    fn len(&self) -> usize {
        self.sessions.len()
    }

    /// The next one, in turns.
    fn next(&mut self) -> Option<Key> {
        let behind = self.sessions.range((Bound::Excluded(self.at), Bound::Unbounded)).next();
        self.at = *behind.or_else(|| self.sessions.first())?;
        Some(self.at)
    }
}

/// What a publisher waits for.
#[derive(Debug, Default)]
pub(crate) struct Waits {
    destinations: Set<Destination>,
    /// How many of them let it go when a grace is over.
    limited: u32,
    allowance: Allowance,
}

impl Waits {
    /// It is to wait for one more: whether it does. Once it waits, it publishes nothing that is not under
    /// way already.
    fn begin(&mut self, now: Time, destination: &Destination, grace: Span) -> bool {
        if !grace.is_zero() {
            if self.limited == 0 && self.allowance.begin(now, grace).is_none() {
                return false;
            }
            self.limited += 1;
        }
        self.destinations.insert(destination.clone());
        true
    }

    fn end(&mut self, now: Time, destination: &Destination, grace: Span) {
        if self.destinations.remove(destination) && !grace.is_zero() {
            self.limited -= 1;
            if self.limited == 0 {
                self.allowance.end(now);
            }
        }
    }

    /// Whether it waits for nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.destinations.is_empty()
    }
}

/// A destination whose publishers wait.
#[derive(Debug, Default)]
pub(crate) struct Holding {
    /// Who waits.
    waiting: BTreeSet<SessionId>,
    /// How long a publisher waits for such destinations in any minute; zero: without end.
    grace: Span,
}

impl Holding {
    fn of(grace: Span) -> Holding {
        Holding { waiting: BTreeSet::new(), grace }
    }
}
