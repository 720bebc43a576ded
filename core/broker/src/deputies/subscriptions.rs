//! What a deputy has asked its upstream for.
//!
//! Bookkeeping only. Invariants: a key stands for one subscription until the upstream has ended it; of equal targets
//! there is one.

mod using;

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use tiderace_base::{Close, Key, Span, Time};
use tiderace_topics::{Path, PatternIndex};
use tiderace_wire::{Position, Target};

use crate::collections::{Map, Set};

/// Subscriptions that the upstream has been asked for and has not answered, at most.
const UNDER_WAY_MAX: usize = 4096;

/// A subscription at the upstream.
#[derive(Debug)]
pub(super) struct UpstreamSubscription {
    pub(super) target: Target,
    pub(super) state: State,
    /// How many topics and patterns of this node need it.
    uses: u32,
    /// How many of these are topics.
    pub(super) topics: u32,
    /// Since when none does.
    idle: Time,
    /// How often something had been told of each numbering when it was live: what came before may be missing.
    pub(super) begun: Arc<[u64]>,
    /// Where it was told to go on, when it was asked for last.
    pub(super) since: Option<Position>,
    /// Whether it was told that nothing is missing since then.
    pub(super) recovered: bool,
    /// The number of this home before it was asked for last.
    pub(super) asked_at: u64,
    /// The number of this home when it was live anew: behind what is kept from before something may be missing.
    pub(super) anew: u64,
    /// Whether subscribers here have been answered: if it has no place to go on from, what comes with it comes anew to them.
    answered: bool,
    /// From when on it may be asked for again, if it was refused.
    ask_from: Time,
    /// Whether values may be here that it had brought before it was refused.
    pub(super) unswept: bool,
    /// Those that have left messages to it, since it was to bring what is before them.
    left_by: BTreeSet<u32>,
    /// Whether it goes on once more, from `since` on, when it is live: what it has left to another one does not come.
    repeats: bool,
    /// What is not gone, as far as is known from what it has brought since then, until it is live.
    brought: Brought,
    /// Answers that wait for it.
    waiting: Vec<Key>,
}

/// What a subscription has brought since it was asked for.
#[derive(Debug, Default)]
pub(super) struct Brought {
    /// Topics whose values are not gone.
    pub(super) values: Set<Key>,
    /// Topics that are there.
    pub(super) topics: Set<Key>,
}

/// How far a subscription is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// It is to be asked for.
    Queued,
    /// It has been asked for.
    Asked,
    /// Everything from its beginning on comes.
    Live,
    /// The upstream is to end it, and is then asked for it again: nothing that it brings until then counts.
    Restarting,
    /// The upstream does not have it.
    Refused(Close),
}

/// How a subscription begins.
#[derive(Debug, Default)]
pub(super) struct Begins {
    /// Where it is to go on.
    since: Option<Position>,
    /// Whether subscribers here have been answered.
    pub(super) answered: bool,
    /// Whether it is to bring what another one has been refused.
    replaces: bool,
}

/// What a key stands for.
#[derive(Debug)]
enum Slot {
    Free,
    /// Ended here, and not yet at the upstream.
    Ending,
    Subscription(Box<UpstreamSubscription>),
    /// What was missed by clients.
    Backfill,
    /// A consumer of a client.
    Consumer,
}

/// All of a deputy.
#[derive(Debug, Default)]
pub(super) struct UpstreamSubscriptions {
    slots: Vec<Slot>,
    free: BTreeSet<u32>,
    exact: Map<Path, u32>,
    by_pattern: Map<Box<str>, u32>,
    patterns: PatternIndex<u32>,
    to_ask: VecDeque<u32>,
    /// Those that are to be asked for from some time on.
    to_ask_later: BTreeSet<(Time, u32)>,
    under_way: usize,
    count: usize,
    /// Those without uses.
    idle: VecDeque<u32>,
    /// How many are to go on where they were, and do not yet.
    resuming: usize,
    /// Whether the connection was lost, and some have not gone on since.
    is_parted: bool,
    /// The last number of this home when a subscription was ended last.
    ended_at: u64,
}

impl UpstreamSubscriptions {
    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.count
    }

    pub(super) fn get(&self, key: u32) -> Option<&UpstreamSubscription> {
        match self.slots.get(key as usize)? {
            Slot::Subscription(subscription) => Some(subscription),
            _ => None,
        }
    }

    pub(super) fn get_mut(&mut self, key: u32) -> Option<&mut UpstreamSubscription> {
        match self.slots.get_mut(key as usize)? {
            Slot::Subscription(subscription) => Some(subscription),
            _ => None,
        }
    }

    /// The lowest key that is free.
    fn take_key(&mut self, slot: Slot) -> u32 {
        let key = self.free.pop_first().unwrap_or(self.slots.len() as u32);
        match self.slots.get_mut(key as usize) {
            Some(place) => *place = slot,
            None => self.slots.push(slot),
        }
        key
    }

    /// A topic needs it no more.
    pub(super) fn release_topic(&mut self, now: Time, key: u32) {
        if let Some(subscription) = self.get_mut(key) {
            subscription.topics = subscription.topics.saturating_sub(1);
        }
        self.release(now, key);
    }

    /// A topic or pattern needs it no more.
    pub(super) fn release(&mut self, now: Time, key: u32) {
        let Some(subscription) = self.get_mut(key) else { return };
        subscription.uses = subscription.uses.saturating_sub(1);
        if subscription.uses == 0 {
            subscription.idle = now;
            self.idle.push_back(key);
        }
    }

    /// One that nobody has needed for so long is forgotten: its key, which the upstream has yet to end, and what it was
    /// for. What the upstream has just refused is known for a while.
    pub(super) fn end_idle(
        &mut self,
        now: Time,
        (linger, is_linked): (Span, bool),
    ) -> Option<(u32, UpstreamSubscription)> {
        while let Some(key) = self.idle.front().copied() {
            let known = self.get(key).filter(|known| known.uses == 0);
            // What one is still to bring that goes on where it was, others may have left to it.
            let is_needed = |known: &UpstreamSubscription| {
                known.idle > now - linger
                    || known.since.is_some()
                    || known.ask_from > now
                    // Those who have gone meanwhile are answered as well; while the upstream is away, by their own times.
                    || is_linked && !known.waiting.is_empty()
            };
            if known.is_some_and(is_needed) {
                return None;
            }
            let is_over = known.is_some();
            self.idle.pop_front();
            if is_over {
                return self.forget(key).map(|subscription| (key, subscription));
            }
        }
        None
    }

    /// A subscription is ended, and has brought messages up to that number: it does not say any more what becomes of them, and
    /// others that are under way say it only if they bring these messages as well.
    pub(super) fn note_ended_at(&mut self, last: u64) {
        self.ended_at = last;
    }

    /// Up to which number of this home all that one has not brought that was asked for at a number is gone.
    pub(super) fn gone_until(&self, asked_at: u64) -> u64 {
        asked_at.max(self.ended_at)
    }

    fn forget(&mut self, key: u32) -> Option<UpstreamSubscription> {
        let slot = self.slots.get_mut(key as usize)?;
        let Slot::Subscription(subscription) = std::mem::replace(slot, Slot::Ending) else {
            return None;
        };
        match &subscription.target {
            Target::Exact(topic) => {
                self.exact.remove(&topic.path);
            }
            Target::Pattern(_, pattern) => {
                self.patterns.remove(pattern, &key);
                self.by_pattern.remove(pattern.as_str());
            }
        }
        self.count -= 1;
        self.resuming = self.resuming.saturating_sub(usize::from(subscription.since.is_some()));
        match subscription.state {
            State::Asked => self.under_way = self.under_way.saturating_sub(1),
            // It was never asked for.
            State::Queued => self.ended(key),
            State::Live | State::Restarting | State::Refused(_) => {}
        }
        Some(*subscription)
    }

    /// The upstream has ended one: its key is free, or it is to be asked for again.
    pub(super) fn ended(&mut self, key: u32) {
        match self.slots.get_mut(key as usize) {
            Some(slot @ Slot::Ending) => {
                *slot = Slot::Free;
                self.free.insert(key);
            }
            Some(Slot::Subscription(it)) if it.state == State::Restarting => {
                it.state = State::Queued;
                self.to_ask.push_back(key);
            }
            _ => {}
        }
    }

    /// A key for a consumer.
    pub(super) fn take_for_consumer(&mut self) -> u32 {
        self.take_key(Slot::Consumer)
    }

    /// A consumer ends, and the upstream has yet to end it.
    pub(super) fn end_consumer(&mut self, key: u32) {
        if let Some(slot @ Slot::Consumer) = self.slots.get_mut(key as usize) {
            *slot = Slot::Ending;
        }
    }

    /// The upstream does not have a consumer: its key is free.
    pub(super) fn free_consumer(&mut self, key: u32) {
        self.end_consumer(key);
        self.ended(key);
    }

    /// A key for what clients have missed.
    pub(super) fn take_for_backfill(&mut self) -> u32 {
        self.take_key(Slot::Backfill)
    }

    /// Ends what was asked for clients; whether there was such a key.
    pub(super) fn end_backfill(&mut self, key: u32) -> bool {
        match self.slots.get_mut(key as usize) {
            Some(slot @ Slot::Backfill) => {
                *slot = Slot::Ending;
                true
            }
            _ => false,
        }
    }

    /// One that is to be asked for now.
    pub(super) fn next_to_ask(&mut self) -> Option<u32> {
        while self.under_way < UNDER_WAY_MAX {
            let key = self.to_ask.pop_front()?;
            let is_queued = |known: &&mut UpstreamSubscription| known.state == State::Queued;
            if let Some(subscription) = self.get_mut(key).filter(is_queued) {
                subscription.state = State::Asked;
                self.under_way += 1;
                return Some(key);
            }
        }
        None
    }

    /// One that was asked for is settled: the answers that wait for it.
    pub(super) fn settle(&mut self, key: u32, state: State) -> Vec<Key> {
        let Some(subscription) = self.get_mut(key) else { return Vec::new() };
        let resumes = subscription.since.take().is_some();
        (subscription.repeats, subscription.left_by) = (false, BTreeSet::new());
        // What it has not brought now is swept otherwise.
        subscription.unswept &= state != State::Live;
        // Of what is refused nobody goes on to know anything.
        subscription.answered =
            state == State::Live || subscription.answered && !matches!(state, State::Refused(_));
        let before = std::mem::replace(&mut subscription.state, state);
        let waiting = std::mem::take(&mut subscription.waiting);
        if before == State::Asked {
            self.under_way = self.under_way.saturating_sub(1);
        }
        self.resuming = self.resuming.saturating_sub(usize::from(resumes));
        waiting
    }

    /// An answer waits for one; not if it is settled.
    pub(super) fn is_settled(&self, key: u32) -> bool {
        self.get(key).is_none_or(|known| matches!(known.state, State::Live | State::Refused(_)))
    }

    /// An answer waits for these.
    pub(super) fn wait(&mut self, keys: &[u32], held: Key) {
        for key in keys {
            if !self.is_settled(*key)
                && let Some(subscription) = self.get_mut(*key)
            {
                subscription.waiting.push(held);
            }
        }
    }

    /// The connection to the upstream is lost: all are to be asked for anew, those that were live from where they were.
    pub(super) fn unlink(&mut self, position: &Position) {
        self.to_ask.clear();
        self.to_ask_later.clear();
        (self.under_way, self.resuming, self.is_parted) = (0, 0, true);
        for (key, slot) in (0u32..).zip(&mut self.slots) {
            match slot {
                Slot::Subscription(subscription) => {
                    if subscription.state == State::Live {
                        subscription.since = Some(position.clone());
                    } else if std::mem::take(&mut subscription.repeats) {
                        // It has not brought what it begins with.
                        subscription.since = None;
                    }
                    subscription.left_by = BTreeSet::new();
                    self.resuming += usize::from(subscription.since.is_some());
                    subscription.state = State::Queued;
                    self.to_ask.push_back(key);
                }
                Slot::Ending | Slot::Backfill | Slot::Consumer => {
                    *slot = Slot::Free;
                    self.free.insert(key);
                }
                Slot::Free => {}
            }
        }
    }

    /// Whether some subscription brings a topic.
    pub(super) fn bring(&self, path: &Path) -> bool {
        let exact = self.exact.get(path).is_some_and(|key| !self.is_refused(*key));
        exact || self.pattern_that_brings(path).is_some()
    }
}

impl UpstreamSubscriptions {
    /// A topic has been brought by one that was asked for.
    pub(super) fn note_brought(&mut self, key: u32, topic: Key) {
        if let Some(subscription) = self.get_mut(key).filter(|it| it.state == State::Asked) {
            subscription.brought.values.insert(topic);
        }
    }

    /// A topic is there that one brings. If that is to go on where it was, the upstream gives the values that have changed
    /// since then, even if it does not know all that is missing: others are as they were, unless the topic has none any more.
    pub(super) fn note_joined(&mut self, key: u32, topic: Key, is_empty: bool) {
        let Some(known) = self.get_mut(key).filter(|known| known.state == State::Asked) else {
            return;
        };
        known.brought.topics.insert(topic);
        if known.since.is_some() && !is_empty {
            known.brought.values.insert(topic);
        }
    }

    /// Subscribers have not waited any longer for one.
    pub(super) fn note_answered(&mut self, key: u32) {
        if !self.is_settled(key)
            && let Some(subscription) = self.get_mut(key)
        {
            subscription.answered = true;
        }
    }

    /// Of none is anything known from before something was told so often.
    pub(super) fn begin_all(&mut self, told: &Arc<[u64]>) {
        for slot in &mut self.slots {
            if let Slot::Subscription(subscription) = slot {
                subscription.begun = told.clone();
            }
        }
    }

    /// The same of those that bring a topic.
    pub(super) fn begin_those_of(&mut self, path: &Path, told: &Arc<[u64]>) {
        for key in self.those_of(path) {
            if let Some(subscription) = self.get_mut(key) {
                subscription.begun = told.clone();
            }
        }
    }

    /// Those that bring a topic, or would if they were not refused.
    fn those_of(&self, path: &Path) -> Vec<u32> {
        let mut keys: Vec<u32> = self.exact.get(path).copied().into_iter().collect();
        self.patterns.matches(path, &mut |pattern| keys.push(*pattern));
        keys
    }

    /// Whether the last has gone on just now of those that were to.
    pub(super) fn has_become_whole(&mut self) -> bool {
        let has = self.is_parted && self.are_whole();
        self.is_parted &= !has;
        has
    }

    /// Whether all go on that were to go on where they were.
    pub(super) fn are_whole(&self) -> bool {
        self.resuming == 0
    }

    /// Whether one that begins with values leaves a topic to others, which are to go on where they were and do not yet.
    pub(super) fn leave_to_others(&mut self, key: u32, path: &Path) -> bool {
        let Some(known) = self.get(key).filter(|_| !self.are_whole()) else { return false };
        if known.since.is_some() {
            return known.repeats;
        }
        let mut leaves = false;
        for other in self.those_of(path) {
            if let Some(other) = self.get_mut(other).filter(|other| other.since.is_some()) {
                other.left_by.insert(key);
                leaves = true;
            }
        }
        leaves
    }

    /// One that was to go on does not: those that have left messages to it go on in its place from where it was. Which of
    /// them are to be ended for that now; the others are when they are live.
    ///
    /// As long as one does not go on, nothing counts as reached, so that all that are to go on do so from one place.
    pub(super) fn go_on_for(&mut self, key: u32) -> Vec<u32> {
        let Some(refused) = self.get_mut(key) else { return Vec::new() };
        let (since, left_by) = (refused.since.clone(), std::mem::take(&mut refused.left_by));
        let mut ended = Vec::new();
        for key in left_by {
            let Some(known) = self.get_mut(key).filter(|known| known.since.is_none()) else {
                continue;
            };
            match known.state {
                State::Live => {
                    known.state = State::Restarting;
                    ended.push(key);
                }
                State::Asked => known.repeats = true,
                State::Queued | State::Restarting | State::Refused(_) => continue,
            }
            known.since = since.clone();
            self.resuming += usize::from(since.is_some());
        }
        ended
    }

    /// One that has brought what it begins with is to go on once more: it is to be ended for that.
    pub(super) fn repeat(&mut self, key: u32) -> bool {
        let Some(known) = self.get_mut(key) else { return false };
        if !std::mem::take(&mut known.repeats) {
            return false;
        }
        if std::mem::replace(&mut known.state, State::Restarting) == State::Asked {
            self.under_way = self.under_way.saturating_sub(1);
        }
        true
    }

    /// None is to go on where it was: their values are to come anew.
    pub(super) fn forget_positions(&mut self) {
        self.resuming = 0;
        for slot in &mut self.slots {
            if let Slot::Subscription(subscription) = slot {
                (subscription.since, subscription.repeats) = (None, false);
            }
        }
    }

    /// Whether some are to go on where they were.
    pub(super) fn resume_some(&self) -> bool {
        self.slots.iter().any(|slot| match slot {
            Slot::Subscription(subscription) => subscription.since.is_some(),
            Slot::Free | Slot::Ending | Slot::Backfill | Slot::Consumer => false,
        })
    }
}

impl UpstreamSubscription {
    /// How one begins that is to bring the same in its place, if everything has come up to `reached`.
    pub(super) fn begins(&self, reached: Option<Position>) -> Begins {
        let since = self.since.clone().or(reached);
        Begins { since, answered: self.answered, replaces: true }
    }

    /// How many patterns of this node need it.
    pub(super) fn of_patterns(&self) -> usize {
        self.uses.saturating_sub(self.topics) as usize
    }

    /// It is asked for, when that number was given last here. Whether its values come anew to subscribers that know others,
    /// between which and the new ones something may be missing.
    pub(super) fn begin_asking(&mut self, last: u64) -> bool {
        self.asked_at = last;
        self.recovered = false;
        self.brought = Brought::default();
        self.answered && self.since.is_none() && self.uses > 0
    }

    /// Whether what it brings counts.
    pub(super) fn counts(&self) -> bool {
        self.state != State::Restarting
    }

    /// What was brought since it was asked for.
    pub(super) fn take_brought(&mut self) -> Brought {
        std::mem::take(&mut self.brought)
    }
}
