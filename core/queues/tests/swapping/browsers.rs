//! Browsers of that queue: each is shown once and in order what is ready from its beginning until it comes by, and nothing
//! that is not ready; nobody gets less for it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use tiderace_base::SessionId;
use tiderace_filter::Selector;
use tiderace_queues::{Consume, Ending, Segment, Settlement};
use tiderace_wire::{Browsing, Prefetch, QueueStart, number_of, rank_of, version_of};

use super::{BLUE, KEY, RED, World, small};
use crate::support::{consumer, session};

/// Sessions from this number on browse.
const FIRST: u32 = 100;

/// What a browser was shown, and has to be.
#[derive(Debug)]
pub struct Shown {
    red: Option<bool>,
    follows: bool,
    messages: u32,
    /// The number with which it begins.
    from: u64,
    /// Versions that it has to be shown unless they leave the queue before.
    due: BTreeSet<u64>,
    /// By rank: the version that it was shown last.
    last: BTreeMap<u64, u64>,
    /// Numbers that it has not written.
    held: VecDeque<u64>,
}

impl Shown {
    fn selects(&self, is_red: bool) -> bool {
        self.red.is_none_or(|wanted| wanted == is_red)
    }

    /// A message has come that is ready.
    pub fn note_ready(&mut self, version: u64, is_red: bool) {
        if self.follows && self.selects(is_red) && number_of(version) >= self.from {
            self.due.insert(version);
        }
    }
}

/// The browser that a session is.
pub fn browser_of(session: SessionId) -> Option<u8> {
    session.slot.checked_sub(FIRST).map(|number| number as u8)
}

fn session_of(number: u8) -> SessionId {
    session(FIRST + u32::from(number))
}

impl World {
    pub fn browse(
        &mut self,
        number: u8,
        (messages, red, follows): (u32, Option<bool>, bool),
        from: u64,
    ) {
        if self.browsers.contains_key(&number) {
            return;
        }
        // One that has come to its end may have left some unwritten.
        self.queues.leave(self.now, session_of(number), KEY, (0, Ending::Lost), &mut Vec::new());
        let due = self.ready.iter().copied().filter(|version| number_of(*version) >= from);
        let due = due.filter(|version| red.is_none_or(|red| red == self.known[version].0));
        let shown = Shown {
            red,
            follows,
            messages,
            due: due.collect(),
            from,
            last: BTreeMap::new(),
            held: VecDeque::new(),
        };
        self.browsers.insert(number, shown);
        let selector = red.map(|red| Selector::parse(if red { RED } else { BLUE }).unwrap());
        let consume = Consume {
            session: session_of(number),
            selector,
            window: Prefetch { messages, bytes: 0 },
            browsing: Some(if follows { Browsing::Following } else { Browsing::ToEnd }),
            start: QueueStart::Version(from),
            ..consumer(0u8, 0)
        };
        let mut effects = Vec::new();
        self.queues.consume(self.now, &consume, small, &mut effects);
        self.apply(effects);
    }

    /// A browser is shown messages.
    pub fn show(&mut self, number: u8, segment: &Segment) {
        let numbers = segment.first()..=segment.last();
        for (place, version) in numbers.zip(segment.first_version()..) {
            assert!(self.ready.contains(&version), "{version} is shown and not ready");
            assert!(!self.is_expired(version));
            self.check_due(number, version);
            let is_red = self.known[&version].0;
            let shown = self.browsers.get_mut(&number).unwrap();
            assert!(shown.selects(is_red));
            assert!(number_of(version) >= shown.from);
            let last = shown.last.insert(rank_of(version), version);
            assert!(last.is_none_or(|last| version > last), "{version} behind {last:?}");
            shown.due.remove(&version);
            shown.held.push_back(place);
            assert!(shown.held.len() <= shown.messages as usize, "more than its window");
        }
    }

    /// It has been shown all before a version that it has to be.
    fn check_due(&self, number: u8, before: u64) {
        let shown = &self.browsers[&number];
        // Who follows is shown what comes into a rank that it has been through.
        let first = if shown.follows { version_of(rank_of(before), 0) } else { 0 };
        let missing = shown
            .due
            .range(first..before)
            .find(|version| self.ready.contains(version) && !self.is_expired(**version));
        assert!(self.is_damaged || missing.is_none(), "{missing:?} before {before}: {shown:?}");
    }

    fn check_all(&self, number: u8) {
        (0..10).for_each(|rank| self.check_due(number, version_of(rank + 1, 0) - 1));
    }

    /// It is told that it has seen everything.
    pub fn browsed(&mut self, number: u8) {
        self.check_all(number);
        let shown = self.browsers.remove(&number).unwrap();
        assert!(!shown.follows, "one that follows has no end");
    }

    pub fn write(&mut self, number: u8, count: u8) {
        let Some(shown) = self.browsers.get_mut(&number) else { return };
        let count = usize::from(count).min(shown.held.len());
        let written: Vec<(u64, u64)> = shown.held.drain(..count).map(|it| (it, it)).collect();
        let (who, mut effects) = (session_of(number), Vec::new());
        // Whatever it says of them.
        let said = [Settlement::Accept, Settlement::Reject][usize::from(number) % 2];
        self.queues.settle(self.now, who, KEY, &written, said, &mut effects);
        self.apply(effects);
    }

    pub fn leave_browser(&mut self, number: u8) {
        if self.browsers.remove(&number).is_some() {
            let (who, mut effects) = (session_of(number), Vec::new());
            self.queues.leave(self.now, who, KEY, (0, Ending::Lost), &mut effects);
            self.apply(effects);
        }
    }

    /// What has left the queue need not be shown any more, although it may come back.
    pub fn forget_due(&mut self) {
        for shown in self.browsers.values_mut() {
            shown.due.retain(|version| self.ready.contains(version));
        }
    }

    /// All browsers write whatever they are shown: those that have an end come to it.
    pub fn finish_browsing(&mut self) {
        self.quiesce();
        while self.browsers.values().any(|shown| !shown.held.is_empty()) {
            for number in self.browsers.keys().copied().collect::<Vec<_>>() {
                self.write(number, u8::MAX);
            }
            self.quiesce();
        }
        for number in self.browsers.keys().copied().collect::<Vec<_>>() {
            assert!(self.browsers[&number].follows, "{number} has not come to its end");
            self.check_all(number);
            self.leave_browser(number);
        }
    }
}
