//! What a session has not been sent yet: references to runs, in order, within a byte budget.
//!
//! The mechanisms of the slow-consumer policies live here; when to use which is decided in
//! `pushing.rs`. Messages of queues are bounded by their consumer's window and are never dropped.
//!
//! There is one line of entries as long as all have the default priority, and a delivery's `reached` is
//! known by its place there. With other priorities, or with updates that `throttles.rs` defers, the
//! order is not that of the numbers, and `marks.rs` keeps account of what is still to be given.
//! Invariant: messages of one topic for one subscription leave in the order in which they came.

use std::collections::VecDeque;

use tiderace_base::{Key, ShardId, prefetch};
use tiderace_topics::Path;
use tiderace_wire::{Priority, SubscriptionKey};

use crate::collections::Map;
use crate::delivery::conflate::conflated;
use crate::delivery::marks::Marks;

pub(crate) use self::removal::For;
pub use crate::delivery::pending::Pending;
pub(crate) use crate::delivery::pending::Source;

/// A session's backlog; allocated while something waits or a throttle is open.
#[derive(Debug, Default)]
pub(crate) struct Backlog {
    /// What has the default priority: mostly everything.
    ordinary: Line,
    /// What goes before and after that; allocated when it is first needed.
    ranked: Option<Box<Ranked>>,
    /// No delivery of the ordinary line has reached more of a home, by the home's number.
    highest: [u64; HOMES],
    bytes: usize,
    /// Of them, those of exchanges.
    exchange_bytes: usize,
    /// While conflating: the newest entry of each topic.
    newest: Option<Map<(SubscriptionKey, Key), Newest>>,
    /// What is still to be given, if that is not in the order of its numbers.
    marks: Option<Box<Marks>>,
    /// The open throttles: how long a subscription is to get no further update of a topic.
    throttles: Option<Box<Map<SubscriptionKey, Map<Path, Key>>>>,
    /// Messages that throttles defer, and their bytes.
    deferred: usize,
    deferred_bytes: usize,
    /// Up to where the lines were looked through for what ends in the present call.
    looked: Option<Box<[u64; 3]>>,
}

/// Entries of one priority.
#[derive(Debug, Default)]
struct Line {
    entries: VecDeque<Pending>,
    /// Entries taken since the beginning: the absolute place of the front.
    taken: u64,
}

#[derive(Debug, Default)]
struct Ranked {
    high: Line,
    low: Line,
}

impl Line {
    fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    #[inline]
    fn pop(&mut self) -> Option<Pending> {
        let pending = self.entries.pop_front()?;
        self.taken += 1;
        Some(pending)
    }
}

impl Ranked {
    fn pop_around(&mut self, ordinary: &mut Line) -> Option<Pending> {
        self.high.pop().or_else(|| ordinary.pop()).or_else(|| self.low.pop())
    }
}

/// What is left in a backlog of which deliveries are being taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// Nothing can be taken now.
    Nothing,
    /// A few deliveries.
    Few,
    /// More than a few; which subscription the one is for whose bytes have just been asked for.
    Many(SubscriptionKey),
}

/// Where the newest entry of a topic is.
#[derive(Clone, Copy, Debug)]
struct Newest {
    /// Its absolute place in its line.
    place: u64,
    /// A removal went before it, and nothing of the topic between them.
    after_removal: bool,
}

impl Backlog {
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn exchange_bytes(&self) -> usize {
        self.exchange_bytes
    }

    /// How many messages wait, deferred ones included.
    pub(crate) fn messages(&self) -> u64 {
        self.iter().map(|pending| u64::from(pending.len())).sum::<u64>() + self.deferred as u64
    }

    /// Whether nothing can be taken.
    pub(crate) fn is_empty(&self) -> bool {
        let ranked = |ranked: &Ranked| ranked.high.is_empty() && ranked.low.is_empty();
        self.ordinary.is_empty() && self.ranked.as_deref().is_none_or(ranked)
    }

    /// Whether what waits goes out in the order in which it came.
    pub(crate) fn is_in_order(&self) -> bool {
        self.marks.is_none() && self.ranked.is_none() && self.deferred == 0
    }

    /// Whether it can be forgotten.
    pub(crate) fn is_idle(&self) -> bool {
        self.is_empty() && self.throttles.is_none()
    }

    /// Whether it can serve again as if it were new, and is small enough to wait for that.
    pub(crate) fn is_worth_keeping(&self) -> bool {
        let plain = self.ranked.is_none() && self.newest.is_none() && self.marks.is_none();
        let small = self.ordinary.entries.capacity() <= SPARE_ENTRIES_MAX;
        plain && small && self.is_idle() && self.deferred == 0 && self.looked.is_none()
    }

    /// In the order in which they are taken.
    fn lines(&self) -> impl Iterator<Item = &Line> {
        let ranked = self.ranked.as_deref();
        let high = ranked.map(|ranked| &ranked.high);
        high.into_iter().chain([&self.ordinary]).chain(ranked.map(|ranked| &ranked.low))
    }

    fn lines_mut(&mut self) -> impl Iterator<Item = &mut Line> {
        let (high, low) = match self.ranked.as_deref_mut() {
            Some(Ranked { high, low }) => (Some(high), Some(low)),
            None => (None, None),
        };
        high.into_iter().chain([&mut self.ordinary]).chain(low)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Pending> {
        self.lines().flat_map(|line| &line.entries)
    }

    /// How many entries wait to be taken.
    pub(crate) fn entries(&self) -> usize {
        self.lines().map(|line| line.entries.len()).sum()
    }

    fn line(&mut self, priority: Priority) -> &mut Line {
        match priority {
            Priority::Default => &mut self.ordinary,
            Priority::High => &mut self.ranked.get_or_insert_default().high,
            Priority::Low => &mut self.ranked.get_or_insert_default().low,
        }
    }

    /// Adds what an entry counts for, in bytes, and says how much that is.
    #[inline]
    fn count(&mut self, pending: &Pending) -> usize {
        let bytes = pending.bytes();
        self.bytes += bytes;
        if pending.source.is_exchange() {
            self.exchange_bytes += bytes;
        }
        bytes
    }

    #[inline]
    fn discount(&mut self, pending: &Pending) {
        let bytes = pending.bytes();
        self.bytes -= bytes;
        if pending.source.is_exchange() {
            self.exchange_bytes -= bytes;
        }
    }

    /// The account of what is still to be given, from now on until nothing is.
    pub(crate) fn marks(&mut self) -> &mut Marks {
        if self.marks.is_none() {
            let mut marks = Box::new(Marks::default());
            for pending in self.iter().filter(|pending| pending.source == Source::Topic) {
                marks.wait(pending.run.run().home(), pending.first(), pending.reached);
            }
            self.marks = Some(marks);
        }
        self.marks.get_or_insert_default()
    }

    /// Messages of topics are to be given, or were given up.
    #[inline]
    pub(crate) fn mark(&mut self, pending: &Pending, waits: bool) {
        let Some(marks) = &mut self.marks else { return };
        if pending.source == Source::Topic {
            let (home, first) = (pending.run.run().home(), pending.first());
            if waits {
                marks.wait(home, first, pending.reached);
            } else {
                marks.end(home, first);
            }
        }
    }

    /// Appends; `topic` is where it comes from, if from a topic. Says what it counts for, in bytes.
    #[inline]
    pub(crate) fn push(
        &mut self,
        pending: Pending,
        topic: Option<Key>,
        priority: Priority,
    ) -> usize {
        if priority != Priority::Default {
            self.marks();
        }
        let bytes = self.count(&pending);
        if self.marks.is_none() {
            self.limit_reached(&pending);
        } else {
            self.mark(&pending, true);
        }
        self.note_reached(pending.run.run().home(), pending.reached);
        let line = self.line(priority);
        let place = line.taken + line.entries.len() as u64;
        let key = pending.key;
        line.entries.push_back(pending);
        // While conflating, a later message must not take a place before this one.
        if let (Some(newest), Some(topic)) = (&mut self.newest, topic) {
            newest.insert((key, topic), Newest { place, after_removal: false });
        }
        bytes
    }

    /// The same messages for another subscription: they have not been given before both are.
    #[inline]
    fn limit_reached(&mut self, pending: &Pending) {
        let (home, first) = (pending.run.run().home(), pending.first());
        let reaches_behind = |waiting: &Pending| {
            waiting.reached >= first
                && waiting.source == Source::Topic
                && waiting.run.run().home() == home
        };
        let entries = &mut self.ordinary.entries;
        if self.highest.get(slot(home)).is_some_and(|highest| *highest < first) {
            debug_assert!(!entries.iter().rev().take(REACH_WITHIN).any(reaches_behind));
            return;
        }
        let newest = entries.iter_mut().rev().take(REACH_WITHIN);
        let conflates = self.newest.is_some();
        // They were put there just before, or one of the newest reaches behind them too.
        let before = |waiting: &&mut Pending| conflates || waiting.reached >= first;
        for waiting in newest.take_while(before).filter(|waiting| reaches_behind(waiting)) {
            waiting.reached = first.saturating_sub(1);
        }
    }

    #[inline]
    fn note_reached(&mut self, home: ShardId, number: u64) {
        if let Some(highest) = self.highest.get_mut(slot(home)) {
            *highest = number.max(*highest);
        }
    }

    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Pending> {
        let mut pending = match &mut self.ranked {
            None => self.ordinary.pop()?,
            Some(ranked) => ranked.pop_around(&mut self.ordinary)?,
        };
        self.look_further();
        self.discount(&pending);
        if let Some(marks) = self.marks.as_mut().filter(|_| pending.source == Source::Topic) {
            pending.reached = marks.end(pending.run.run().home(), pending.first());
            if self.deferred == 0 && self.is_empty() {
                self.marks = None;
            }
        }
        Some(pending)
    }

    /// Asks memory for what the first entries refer to. One alone is asked for too: where thousands of sessions get
    /// one delivery each, the wait for its run is most of what a delivery costs.
    pub(crate) fn look_ahead(&self) {
        let entries = &self.ordinary.entries;
        entries.iter().take(RECORD_AHEAD).for_each(|pending| prefetch(&*pending.run));
        entries.iter().take(RUN_AHEAD).for_each(|pending| pending.run.expect());
        entries.iter().take(BODY_AHEAD).for_each(Pending::expect_bytes);
    }

    /// An entry has been taken: asks for what others refer to that come a few later, each time one step
    /// further on the way from the entry to the bytes. What they refer to was written long before and
    /// has left the near caches.
    #[inline]
    fn look_further(&self) {
        let entries = &self.ordinary.entries;
        if let Some(pending) = entries.get(BODY_AHEAD) {
            pending.expect_bytes();
            if let Some(pending) = entries.get(RUN_AHEAD) {
                pending.run.expect();
            }
            if let Some(pending) = entries.get(RECORD_AHEAD) {
                prefetch(&*pending.run);
            }
        }
    }

    /// What is left when a delivery has been taken.
    pub(crate) fn left(&self) -> Left {
        match self.ordinary.entries.get(BODY_AHEAD) {
            Some(pending) => Left::Many(pending.key),
            None if self.is_empty() => Left::Nothing,
            None => Left::Few,
        }
    }

    /// What is taken next.
    #[inline]
    pub(crate) fn front(&self) -> Option<&Pending> {
        match &self.ranked {
            None => self.ordinary.entries.front(),
            Some(_) => self.iter().next(),
        }
    }

    /// Drops topic messages until `room` more bytes fit under `high`, the oldest first, and those of a
    /// low priority before all others; how many messages that were, and in `given_up` of which
    /// subscriptions.
    pub(crate) fn drop_oldest(
        &mut self,
        room: usize,
        high: usize,
        given_up: &mut Vec<(SubscriptionKey, u64)>,
    ) -> u64 {
        let mut dropped = 0;
        for priority in [Priority::Low, Priority::Default, Priority::High] {
            if priority == Priority::Default || self.ranked.is_some() {
                dropped += self.drop_oldest_of(priority, room, high, given_up);
            }
        }
        dropped
    }

    fn drop_oldest_of(
        &mut self,
        priority: Priority,
        room: usize,
        high: usize,
        given_up: &mut Vec<(SubscriptionKey, u64)>,
    ) -> u64 {
        let mut dropped = 0;
        let mut kept = VecDeque::new();
        let mut kept_bytes = 0;
        while self.bytes + kept_bytes + room > high {
            let line = self.line(priority);
            let Some(pending) = line.entries.pop_front() else { break };
            line.taken += 1;
            self.discount(&pending);
            if pending.source == Source::Topic {
                dropped += u64::from(pending.len());
                given_up.push((pending.key, u64::from(pending.len())));
                self.mark(&pending, false);
            } else {
                kept_bytes += pending.bytes();
                kept.push_back(pending);
            }
        }
        while let Some(pending) = kept.pop_back() {
            self.count(&pending);
            let line = self.line(priority);
            line.taken -= 1;
            line.entries.push_front(pending);
        }
        dropped
    }

    /// Puts the newest messages of a topic in the place of the one that waits already, merged with it
    /// if they are to be; how many messages were given up for that.
    pub(crate) fn conflate(
        &mut self,
        topic: Key,
        pending: Pending,
        merge: bool,
        priority: Priority,
    ) -> u64 {
        if priority != Priority::Default {
            self.marks();
        }
        let key = (pending.key, topic);
        let known = self.newest.get_or_insert_default().get(&key).copied();
        let line = self.line(priority);
        let index = known.and_then(|newest| newest.place.checked_sub(line.taken));
        let index = index.and_then(|index| usize::try_from(index).ok());
        // Dropping the oldest may have moved a queue's message to that place.
        let waiting = index.and_then(|index| line.entries.get(index)).filter(|waiting| {
            waiting.source == Source::Topic
                && waiting.key == pending.key
                && waiting.run.run().destination() == pending.run.run().destination()
        });
        let Some((waiting, index)) = waiting.zip(index) else {
            let both = conflated(None, pending, merge);
            let after_removal = both.removal.is_some();
            if let Some(removal) = both.removal {
                self.push(removal, None, priority);
            }
            self.push_newest(key, both.last, after_removal, priority);
            return both.given_up;
        };
        let both = conflated(Some(waiting), pending, merge);
        // A removal that has gone before says it already.
        let said = known.is_some_and(|newest| newest.after_removal);
        match both.removal.filter(|_| !said) {
            Some(removal) => {
                self.replace(index, removal, priority);
                self.push_newest(key, both.last, true, priority);
                both.given_up
            }
            None => {
                self.replace(index, both.last, priority);
                both.given_up
            }
        }
    }

    fn push_newest(
        &mut self,
        key: (SubscriptionKey, Key),
        last: Pending,
        after_removal: bool,
        priority: Priority,
    ) {
        let line = self.line(priority);
        let place = line.taken + line.entries.len() as u64;
        self.newest.get_or_insert_default().insert(key, Newest { place, after_removal });
        self.push(last, None, priority);
    }

    /// Puts an entry in the place of another of the same topic.
    fn replace(&mut self, index: usize, mut pending: Pending, priority: Priority) {
        let (home, number) = (pending.run.run().home(), pending.reached);
        if self.marks.is_none()
            && let Some(waiting) = self.ordinary.entries.get(index)
        {
            // What waits behind it is older than it.
            pending.reached = waiting.reached;
        }
        self.count(&pending);
        self.mark(&pending, true);
        self.note_reached(home, number.max(pending.reached));
        let line = self.line(priority);
        let Some(waiting) = line.entries.get_mut(index) else { return };
        let before = std::mem::replace(waiting, pending);
        self.discount(&before);
        self.mark(&before, false);
        if self.marks.is_none() {
            raise(self.ordinary.entries.iter_mut().rev().take(REACH_WITHIN), home, number);
        }
    }

    /// Everything of a home up to a number has been given once all that waits has been; whether
    /// anything of that home waits.
    pub(crate) fn reach(&mut self, home: ShardId, number: u64) -> bool {
        self.note_reached(home, number);
        match &mut self.marks {
            Some(marks) => marks.offer(home, number),
            None => raise(self.ordinary.entries.iter_mut().rev(), home, number),
        }
    }

    /// Older messages of a home are about to be appended, but none up to a number; the highest number
    /// that was reached until now.
    pub(crate) fn lower(&mut self, home: ShardId, number: u64) -> u64 {
        // With an account, they count from when they are there.
        if self.marks.is_some() {
            return 0;
        }
        let mut highest = 0;
        for waiting in &mut self.ordinary.entries {
            if waiting.source == Source::Topic && waiting.run.run().home() == home {
                highest = highest.max(waiting.reached);
                waiting.reached = waiting.reached.min(number);
            }
        }
        highest
    }

    /// Whether messages are given up for newer ones of their topics.
    pub(crate) fn is_conflating(&self) -> bool {
        self.newest.is_some()
    }

    /// The backlog is short again: conflation starts afresh when it is next needed.
    pub(crate) fn forget_newest(&mut self) {
        self.newest = None;
    }

    /// A topic has another priority from now on: what waits of it goes where what comes will go.
    pub(crate) fn move_topic(&mut self, path: &Path, priority: Priority) {
        let of_topic = |pending: &Pending| {
            pending.source == Source::Topic && pending.run.run().destination().path == *path
        };
        if !self.iter().any(of_topic) {
            return;
        }
        self.marks();
        self.newest = None;
        let mut moved = VecDeque::new();
        for line in self.lines_mut() {
            let entries = std::mem::take(&mut line.entries);
            let (of, others): (VecDeque<_>, VecDeque<_>) = entries.into_iter().partition(of_topic);
            line.entries = others;
            // Those behind keep their places.
            line.taken += of.len() as u64;
            moved.extend(of);
        }
        self.line(priority).entries.extend(moved);
    }
}

/// The room of a backlog that is kept for later.
const SPARE_ENTRIES_MAX: usize = 64;
/// How many deliveries ahead a message's bytes are asked for: in the time of these they come, and what
/// is asked for of one more would push out what was asked for first.
const BODY_AHEAD: usize = 4;
/// How many ahead the run is asked for, which says where the bytes are.
const RUN_AHEAD: usize = 8;
/// How many ahead the shared record is asked for, which says where the run is.
const RECORD_AHEAD: usize = 12;
/// Homes that are told apart in the quick look at whether anything of a home has been reached.
const HOMES: usize = 4;
/// How many of the newest entries are looked at for one that can tell how far a client has come;
/// if there is none, a client that comes back gets some messages twice.
const REACH_WITHIN: usize = 64;

/// A home's place among those that are told apart.
fn slot(home: ShardId) -> usize {
    home.index() % HOMES
}

/// Lets the first of these entries that is of a home reach to a number; whether there is one.
fn raise<'a>(
    mut newest: impl Iterator<Item = &'a mut Pending>,
    home: ShardId,
    number: u64,
) -> bool {
    let of_home = |waiting: &&mut Pending| {
        waiting.source == Source::Topic && waiting.run.run().home() == home
    };
    match newest.find(of_home) {
        Some(waiting) => {
            waiting.reached = waiting.reached.max(number);
            true
        }
        None => false,
    }
}

mod removal;
mod throttles;

#[cfg(test)]
mod tests;
