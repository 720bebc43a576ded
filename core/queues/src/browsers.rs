//! Who looks at the messages of a queue and takes none: which there are, and where each has come to.
//!
//! A browser belongs to the name of a queue, not to the queue: it keeps no queue, and one that follows goes on with the
//! next queue of that name. Bookkeeping only; what a browser is shown is decided in `browsing`. Invariants: the cursors of a
//! browser only rise, so it is shown a message once; what it was shown and has not written is within its window, but for
//! the last message, and counts in the memory, of which all browsers together take a part until each has one message.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;

use hashbrown::HashMap;
use tiderace_base::{Key, Memory, MemoryUse, SessionId, Slab};
use tiderace_filter::Selector;
use tiderace_topics::Path;
use tiderace_wire::{Prefetch, SubscriptionKey, rank_of, version_of};

use crate::ranks::{PerRank, last_of};
use crate::swapped::Swapped;
use crate::versions::Versions;
use crate::{Consume, Segment};

/// Bytes that a browser may have been shown and not have written, whatever its window: they may be in memory for it alone.
const SHOWN_BYTES_MAX: u32 = 256 << 10;
/// What part of the memory may be on its way to browsers, as a divisor; beyond it each has one message at a time.
const SHARE_DIVISOR: usize = 8;
/// Bytes that are read for a browser at once, however little room it has.
const READ_BYTES_MIN: u64 = 4 << 10;

/// What a browser waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stand {
    /// Its next turn.
    Turn,
    /// The store.
    Store,
    /// Its client.
    Room,
    /// Something new in its queue.
    News,
    /// Nothing: it has seen all, and has yet to write some of it.
    End,
}

/// A subscription that is shown messages.
#[derive(Debug)]
pub(crate) struct Browser {
    pub(crate) session: SessionId,
    pub(crate) key: SubscriptionKey,
    pub(crate) path: Path,
    pub(crate) selector: Option<Selector>,
    /// Nothing of a lower number.
    start: u64,
    /// In each rank the version of the next message to look at.
    cursors: PerRank<u64>,
    /// The number of the last; `u64::MAX` if it follows.
    last: u64,
    pub(crate) stand: Stand,
    /// Versions that its cursor has passed and that are ready for the first time now.
    late: Versions,
    explicit: bool,
    window: Prefetch,
    credit: Option<u64>,
    /// What it was shown and has not written: last number and bytes by the first number.
    shown: BTreeMap<u64, (u64, usize)>,
    messages: u32,
    bytes: usize,
}

impl Browser {
    /// A browser of the messages between two numbers, both included; `window` is what the queue gives those that name none.
    pub(crate) fn new(
        consume: &Consume,
        path: Path,
        (start, last): (u64, u64),
        window: Prefetch,
    ) -> Browser {
        let wanted = match consume.window {
            Prefetch { messages: 0, bytes: 0 } => window,
            wanted => wanted,
        };
        let or_most = |number: u32, most: u32| if number == 0 { most } else { number.min(most) };
        Browser {
            session: consume.session,
            key: consume.key,
            path,
            selector: consume.selector.clone(),
            start,
            cursors: PerRank::default(),
            last,
            stand: Stand::Turn,
            late: Versions::default(),
            explicit: consume.explicit,
            window: Prefetch {
                messages: or_most(wanted.messages, u32::MAX),
                bytes: or_most(wanted.bytes, SHOWN_BYTES_MAX),
            },
            credit: consume.credit,
            shown: BTreeMap::new(),
            messages: 0,
            bytes: 0,
        }
    }

    /// The version of the next message to look at in a rank.
    pub(crate) fn cursor(&self, rank: u64) -> u64 {
        self.cursors.get(rank).copied().unwrap_or_else(|| version_of(rank, self.start))
    }

    /// It goes on there in the rank of a version.
    pub(crate) fn set_cursor(&mut self, rank: u64, version: u64) {
        self.cursors.set(rank, version);
    }

    /// The version of the last message to look at in a rank.
    pub(crate) fn last_in(&self, rank: u64) -> u64 {
        last_of(rank, self.last)
    }

    /// The first stretch in the store alone that it has not looked at.
    pub(crate) fn next_stored(&self, swapped: &Swapped) -> Option<(u64, u64)> {
        swapped.ranges().find_map(|(rank, range)| {
            let first = range.first_inside(self.cursor(rank))?;
            let last = range.last.min(self.last_in(rank));
            (first <= last).then_some((first, last))
        })
    }

    /// The first of those that were delayed when its cursor passed them, and are ready.
    pub(crate) fn first_late(&self) -> Option<u64> {
        self.late.first()
    }

    /// It has looked at that one.
    pub(crate) fn pass_late(&mut self, version: u64) {
        self.late.remove(version, version);
    }

    /// Whether it goes on with what comes later.
    pub(crate) fn follows(&self) -> bool {
        self.last == u64::MAX
    }

    /// Messages and bytes that its window has room for; the last message may exceed the bytes.
    fn window_room(&self) -> (u32, usize) {
        let messages = self.window.messages.saturating_sub(self.messages);
        let credit = self.credit.map_or(u32::MAX, |it| u32::try_from(it).unwrap_or(u32::MAX));
        (messages.min(credit), (self.window.bytes as usize).saturating_sub(self.bytes))
    }

    /// Whether so much of its window is free that it is worth while to go on. That comes for sure where its session writes
    /// by itself.
    fn is_worth_while(&self) -> bool {
        self.explicit
            || self.messages <= self.window.messages / 2
                && self.bytes <= self.window.bytes as usize / 2
    }

    /// It is shown these.
    fn show(&mut self, segment: &Segment) {
        self.messages += segment.len();
        self.bytes += segment.bytes();
        self.credit = self.credit.map(|credit| credit.saturating_sub(u64::from(segment.len())));
        self.shown.insert(segment.first(), (segment.last(), segment.bytes()));
    }

    /// Its client has these, or has settled them.
    fn note_written(&mut self, first: u64, last: u64) {
        let start = self.shown.range(..=first).next_back().map_or(first, |(start, _)| *start);
        let found = self.shown.range(start..=last.max(start)).map(|(first, it)| (*first, *it));
        for (start, (end, bytes)) in found.collect::<Vec<_>>() {
            let (from, to) = (start.max(first), end.min(last));
            if from > to {
                continue;
            }
            self.shown.remove(&start);
            // Of a part it is enough to know that all parts together have all bytes.
            let all = end - start + 1;
            let share = |count: u64| (bytes as u64 * count / all) as usize;
            let (before, behind) = (share(from - start), share(end - to));
            if start < from {
                self.shown.insert(start, (from - 1, before));
            }
            if to < end {
                self.shown.insert(to + 1, (end, behind));
            }
            self.messages = self.messages.saturating_sub((to - from + 1) as u32);
            self.bytes = self.bytes.saturating_sub(bytes - before - behind);
        }
    }
}

type Map<K, V> = HashMap<K, V, foldhash::fast::RandomState>;

/// All browsers of one home.
#[derive(Debug)]
pub(crate) struct Browsers {
    memory: Rc<Memory>,
    /// Bytes that browsers were shown and have not written.
    shown_bytes: usize,
    browsers: Slab<Browser>,
    subscriptions: Map<(SessionId, SubscriptionKey), Key>,
    by_path: Map<Path, BTreeSet<Key>>,
    /// Those that go on in a later turn.
    postponed: VecDeque<Key>,
}

impl Browsers {
    pub(crate) fn new(memory: Rc<Memory>) -> Browsers {
        Browsers {
            memory,
            shown_bytes: 0,
            browsers: Slab::new(),
            subscriptions: Map::default(),
            by_path: Map::default(),
            postponed: VecDeque::new(),
        }
    }

    pub(crate) fn add(&mut self, browser: Browser) -> Key {
        let (name, path) = ((browser.session, browser.key), browser.path.clone());
        let at = self.browsers.insert(browser);
        self.subscriptions.insert(name, at);
        self.by_path.entry(path).or_default().insert(at);
        at
    }

    pub(crate) fn remove(&mut self, at: Key) -> Option<Browser> {
        let browser = self.browsers.remove(at)?;
        self.count(browser.bytes, 0);
        self.subscriptions.remove(&(browser.session, browser.key));
        if let Some(others) = self.by_path.get_mut(&browser.path) {
            others.remove(&at);
            if others.is_empty() {
                self.by_path.remove(&browser.path);
            }
        }
        Some(browser)
    }

    pub(crate) fn get(&self, at: Key) -> Option<&Browser> {
        self.browsers.get(at)
    }

    pub(crate) fn get_mut(&mut self, at: Key) -> Option<&mut Browser> {
        self.browsers.get_mut(at)
    }

    /// Messages and bytes that one may be shown now; the last message may exceed the bytes.
    pub(crate) fn room(&self, at: Key) -> (u32, usize) {
        let Some(browser) = self.browsers.get(at) else { return (0, 0) };
        let (messages, bytes) = browser.window_room();
        let is_crowded =
            self.memory.is_full() || self.shown_bytes > self.memory.max() / SHARE_DIVISOR;
        match is_crowded {
            true if browser.messages > 0 => (0, 0),
            true => (messages.min(1), bytes),
            false => (messages, bytes),
        }
    }

    pub(crate) fn has_room(&self, at: Key) -> bool {
        let (messages, bytes) = self.room(at);
        messages > 0 && bytes > 0
    }

    /// How many bytes are to be read for one at once, if messages have so many on average.
    pub(crate) fn read_bytes(&self, at: Key, bytes_each: u64, most: usize) -> usize {
        let (messages, bytes) = self.room(at);
        let wanted = u64::from(messages).saturating_mul(bytes_each).min(bytes as u64);
        usize::try_from(wanted.max(READ_BYTES_MIN)).unwrap_or(most).min(most)
    }

    /// One is shown these.
    pub(crate) fn show(&mut self, at: Key, segment: &Segment) {
        let Some(browser) = self.browsers.get_mut(at) else { return };
        browser.show(segment);
        self.count(0, segment.bytes());
    }

    /// One has seen all: whether it has written all, too.
    pub(crate) fn end(&mut self, at: Key) -> bool {
        let Some(browser) = self.browsers.get_mut(at) else { return false };
        browser.stand = Stand::End;
        browser.messages == 0
    }

    /// So many bytes are on their way where `before` were.
    fn count(&mut self, before: usize, after: usize) {
        self.shown_bytes = (self.shown_bytes + after).saturating_sub(before);
        self.memory.change(MemoryUse::Backlogs, before, after);
    }

    /// The browser that a subscription is.
    pub(crate) fn named(&self, name: (SessionId, SubscriptionKey)) -> Option<Key> {
        self.subscriptions.get(&name).copied()
    }

    pub(crate) fn subscriptions(&self) -> impl Iterator<Item = (SessionId, SubscriptionKey)> + '_ {
        self.subscriptions.keys().copied()
    }

    /// Those of a queue.
    pub(crate) fn of(&self, path: &Path) -> Vec<Key> {
        self.by_path.get(path).map_or(Vec::new(), |them| them.iter().copied().collect())
    }

    /// How many there are of a queue.
    pub(crate) fn count_of(&self, path: &Path) -> usize {
        self.by_path.get(path).map_or(0, BTreeSet::len)
    }

    /// Those of a queue that wait for something new.
    pub(crate) fn waiting(&self, path: &Path) -> Vec<Key> {
        let waits = |at: &Key| self.get(*at).is_some_and(|it| it.stand == Stand::News);
        let mut waiting = self.of(path);
        waiting.retain(waits);
        waiting
    }

    /// Messages of a queue that were delayed are ready: those that follow it and have passed their place look there again.
    pub(crate) fn note_woken(&mut self, path: &Path, (first, last): (u64, u64)) {
        for at in self.of(path) {
            let Some(browser) = self.browsers.get_mut(at).filter(|it| it.follows()) else {
                continue;
            };
            let cursor = browser.cursor(rank_of(first));
            browser.late.add(first, last.min(cursor.saturating_sub(1)));
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.subscriptions.is_empty()
    }

    /// One goes on in a later turn.
    pub(crate) fn postpone(&mut self, at: Key) {
        if let Some(browser) = self.browsers.get_mut(at) {
            browser.stand = Stand::Turn;
            self.postponed.push_back(at);
        }
    }

    pub(crate) fn has_postponed(&self) -> bool {
        !self.postponed.is_empty()
    }

    pub(crate) fn postponed(&self) -> usize {
        self.postponed.len()
    }

    pub(crate) fn next_postponed(&mut self) -> Option<Key> {
        self.postponed.pop_front()
    }

    /// A client has stretches of messages, or has settled them.
    pub(crate) fn note_written(&mut self, at: Key, ranges: &[(u64, u64)]) -> Written {
        let Some(browser) = self.browsers.get_mut(at) else { return Written::Waits };
        let before = browser.bytes;
        for (first, last) in ranges.iter().filter(|(first, last)| first <= last) {
            browser.note_written(*first, *last);
        }
        let after = browser.bytes;
        let written = match browser.stand {
            Stand::End if browser.messages == 0 => Written::Over,
            Stand::Room if browser.is_worth_while() => Written::GoesOn,
            _ => Written::Waits,
        };
        self.count(before, after);
        match written {
            Written::GoesOn if !self.has_room(at) => Written::Waits,
            written => written,
        }
    }

    /// A client wants so many messages more: whether its browser is to go on.
    pub(crate) fn add_credit(&mut self, at: Key, messages: u64) -> bool {
        let Some(browser) = self.browsers.get_mut(at) else { return false };
        browser.credit = browser.credit.map(|credit| credit.saturating_add(messages));
        browser.stand == Stand::Room && self.has_room(at)
    }
}

/// What becomes of a browser that has written something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Written {
    /// It waits on.
    Waits,
    /// It is to go on.
    GoesOn,
    /// It has seen and written all.
    Over,
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Arc;

    use proptest::prelude::*;
    use tiderace_base::{ShardId, Time};
    use tiderace_wire::{Destination, Kind, Meta, RunBuilder, Target};

    use super::*;

    fn browser() -> Browser {
        let path = Path::parse("jobs").unwrap();
        let consume = Consume {
            session: SessionId { shard: ShardId(0), slot: 0, generation: 0 },
            key: SubscriptionKey(0),
            target: Target::Exact(Destination { kind: Kind::Queue, path: path.clone() }),
            selector: None,
            window: Prefetch { messages: 1_000, bytes: 0 },
            exclusive: false,
            browsing: None,
            start: tiderace_wire::QueueStart::Version(0),
            explicit: true,
            credit: None,
            owner: None,
        };
        Browser::new(&consume, path, (0, u64::MAX), Prefetch { messages: 5, bytes: 0 })
    }

    fn segment(first: u64, count: u32) -> Segment {
        let path = Path::parse("jobs").unwrap();
        let mut builder = RunBuilder::new(Destination { kind: Kind::Queue, path }, Time::ZERO);
        for number in 0..count {
            builder.finish(&vec![b'x'; number as usize * 7], Meta::default());
        }
        let mut run = builder.build();
        run.number(ShardId(0), first);
        Segment::whole(Arc::new(run))
    }

    proptest! {
        #[test]
        fn what_is_written_makes_room_once(
            counts in proptest::collection::vec(1u32..9, 1..9),
            ranges in proptest::collection::vec((0u64..90, 0u64..20), 0..40),
        ) {
            let mut browser = browser();
            let all = browser.window_room();
            let (mut first, mut held) = (0, BTreeSet::new());
            for count in counts {
                browser.show(&segment(first, count));
                held.extend(first..first + u64::from(count));
                // Others get numbers in between.
                first += u64::from(count) + 1;
            }
            for (first, more) in ranges {
                browser.note_written(first, first + more);
                held.retain(|number| !(first..=first + more).contains(number));
                prop_assert_eq!(browser.window_room().0, all.0 - held.len() as u32);
                prop_assert!(browser.window_room().1 <= all.1);
            }
            browser.note_written(0, 200);
            prop_assert_eq!((browser.window_room(), browser.shown.len()), (all, 0));
        }
    }
}
