//! The messages of one queue that nobody has yet and that are in memory, in the order of their versions.
//!
//! Relies on segments not overlapping: a message is ready once or not at all. Invariants: the count of messages is that
//! of all segments together; what lies behind messages that are in the store alone ([`Ready::set_barrier`]) is not given to
//! who takes the first. What is counted in bytes is the queue's business, for what is in flight counts as well.

use std::collections::BTreeMap;

use tiderace_wire::{Flags, Message, rank_of, version_of};

use crate::Segment;

/// What a search among ready messages has come to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Search {
    /// That one is wanted.
    Found(u64),
    /// None before that version is.
    Seen(u64),
    /// None before that version is, and the budget is used up.
    Stopped(u64),
}

impl Search {
    /// The version that it has come to.
    pub(crate) fn version(self) -> u64 {
        let (Search::Found(version) | Search::Seen(version) | Search::Stopped(version)) = self;
        version
    }
}

/// Ready messages.
#[derive(Debug)]
pub(crate) struct Ready {
    /// By the version of the first message of each.
    segments: BTreeMap<u64, Segment>,
    messages: usize,
    /// The version of the first message that is in the store alone; `u64::MAX` if there is none.
    barrier: u64,
}

impl Default for Ready {
    fn default() -> Ready {
        Ready { segments: BTreeMap::new(), messages: 0, barrier: u64::MAX }
    }
}

impl Ready {
    /// How many messages there are.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.messages
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// The first segment, unless other messages come before it that are in the store alone.
    #[inline]
    pub(crate) fn first(&self) -> Option<&Segment> {
        let (start, segment) = self.segments.first_key_value()?;
        (*start < self.barrier).then_some(segment)
    }

    /// The version of the first message that is in the store alone; `u64::MAX` if there is none.
    pub(crate) fn barrier(&self) -> u64 {
        self.barrier
    }

    /// The messages from that version on wait for others that are in the store alone.
    pub(crate) fn set_barrier(&mut self, version: u64) {
        self.barrier = version;
    }

    /// The segments with messages from a version on, in order; the first of them may begin below it.
    pub(crate) fn from(&self, version: u64) -> impl DoubleEndedIterator<Item = &Segment> {
        let before = self.segments.range(..=version).next_back();
        let start = before.filter(|(_, segment)| segment.last_version() >= version);
        let start = start.map_or(version, |(start, _)| *start);
        self.segments.range(start..).map(|(_, segment)| segment)
    }

    /// The version of the first message from one on.
    pub(crate) fn next_from(&self, version: u64) -> Option<u64> {
        self.from(version).next().map(|segment| segment.first_version().max(version))
    }

    /// The version of the first message of the last rank.
    pub(crate) fn least(&self) -> Option<u64> {
        let (last, _) = self.segments.last_key_value()?;
        self.next_from(version_of(rank_of(*last), 0))
    }

    /// Looks through the ranks that have messages before a version, one after another, until something is found or the
    /// budget is used up: `search` is given a rank, and the version before which it is to look there.
    pub(crate) fn by_rank(
        &self,
        before: u64,
        mut search: impl FnMut(u64, u64) -> Search,
    ) -> Search {
        let Some((first, _)) = self.segments.first_key_value() else { return search(0, before) };
        let last = self.segments.last_key_value().map_or(0, |(last, _)| rank_of(*last));
        let mut rank = rank_of(*first);
        loop {
            let next_rank = version_of(rank + 1, 0);
            let seen = search(rank, before.min(next_rank));
            if rank >= last || before <= next_rank || !matches!(seen, Search::Seen(_)) {
                return seen;
            }
            match self.next_from(next_rank) {
                Some(next) => rank = rank_of(next),
                None => return seen,
            }
        }
    }

    /// Puts messages at their place.
    #[inline]
    pub(crate) fn put(&mut self, segment: Segment) {
        self.messages += segment.len() as usize;
        self.segments.insert(segment.first_version(), segment);
    }

    /// Takes up to `messages` and about `bytes` (at least one message) from the front of the first segment.
    #[inline]
    pub(crate) fn take_first(&mut self, messages: u32, bytes: usize) -> Option<Segment> {
        let (start, mut segment) = self.segments.pop_first()?;
        if start >= self.barrier {
            self.segments.insert(start, segment);
            return None;
        }
        let mut count = segment.len().min(messages);
        if segment.bytes() > bytes {
            count = count.min(fitting(&segment, bytes));
        }
        if let Some(rest) = segment.split_off_version(start + u64::from(count)) {
            self.segments.insert(rest.first_version(), rest);
        }
        self.messages -= segment.len() as usize;
        Some(segment)
    }

    /// Takes the first message of the last rank, also if others come before it that are in the store alone.
    pub(crate) fn take_least(&mut self) -> Option<Segment> {
        let version = self.least()?;
        self.take_one(version)
    }

    /// Looks for the first message from a version on, and before another, that `look` wants. It says what that has cost,
    /// which is paid from a budget.
    pub(crate) fn search(
        &self,
        (from, before): (u64, u64),
        budget: &mut u32,
        mut look: impl FnMut(&Message<'_>, u64) -> (bool, u32),
    ) -> Search {
        let mut seen = from;
        for segment in self.from(from) {
            for (index, version) in (segment.from..segment.to).zip(segment.first_version()..) {
                if version >= before {
                    return Search::Seen(seen);
                }
                let Some(message) = segment.run.message(index as usize) else { continue };
                if version < from {
                    continue;
                }
                if *budget == 0 {
                    return Search::Stopped(seen);
                }
                let (is_wanted, price) = look(&message, version);
                *budget = budget.saturating_sub(price);
                if is_wanted {
                    return Search::Found(version);
                }
                seen = version + 1;
            }
        }
        Search::Seen(seen)
    }

    /// Takes one message; those around it stay where they are.
    pub(crate) fn take_one(&mut self, version: u64) -> Option<Segment> {
        let (start, known) = self.segments.range(..=version).next_back()?;
        let start = *start;
        if known.last_version() < version {
            return None;
        }
        let mut before = self.segments.remove(&start)?;
        let mut taken = before.split_off_version(version)?;
        if !before.is_empty() {
            self.segments.insert(start, before);
        }
        if let Some(rest) = taken.split_off_version(version + 1) {
            self.segments.insert(rest.first_version(), rest);
        }
        self.messages -= taken.len() as usize;
        Some(taken)
    }

    /// Takes the messages between two versions, both included, out of the segment that has the first of them: at most so
    /// many, and about so many bytes (at least one message).
    pub(crate) fn take_stretch(
        &mut self,
        from: u64,
        to: u64,
        messages: u32,
        bytes: usize,
    ) -> Option<Segment> {
        let (start, known) = self.segments.range(..=from).next_back()?;
        let start = *start;
        if known.last_version() < from {
            return None;
        }
        let mut before = self.segments.remove(&start)?;
        let mut taken = before.split_off_version(from)?;
        if !before.is_empty() {
            self.segments.insert(start, before);
        }
        let wanted = u32::try_from(to.saturating_sub(from) + 1).unwrap_or(u32::MAX);
        let mut count = taken.len().min(messages).min(wanted);
        if taken.bytes() > bytes {
            count = count.min(fitting(&taken, bytes));
        }
        if let Some(rest) = taken.split_off_version(from + u64::from(count)) {
            self.segments.insert(rest.first_version(), rest);
        }
        self.messages -= taken.len() as usize;
        Some(taken)
    }

    /// Takes the first message if its time is over.
    pub(crate) fn take_first_expired(&mut self, wall_ms: u64) -> Option<Segment> {
        let first = self.first()?;
        if !is_expired(first, first.from, wall_ms) {
            return None;
        }
        self.take_first(1, usize::MAX)
    }

    /// Takes the messages whose time is over out of the segment that begins with version `start`, in stretches.
    pub(crate) fn take_expired(&mut self, start: u64, wall_ms: u64, gone: &mut Vec<Segment>) {
        let mut rest = self.segments.remove(&start);
        while let Some(mut part) = rest {
            let expired = is_expired(&part, part.from, wall_ms);
            let alike = (part.from..part.to)
                .take_while(|index| is_expired(&part, *index, wall_ms) == expired)
                .count();
            rest = part.split_off_version(part.first_version() + alike as u64);
            if expired {
                self.messages -= alike;
                gone.push(part);
            } else {
                self.segments.insert(part.first_version(), part);
            }
        }
    }

    /// Takes all messages between two versions, both included.
    pub(crate) fn take_range(&mut self, first: u64, last: u64) -> Vec<Segment> {
        let starts: Vec<u64> = self
            .from(first)
            .map(Segment::first_version)
            .take_while(|start| *start <= last)
            .collect();
        let mut taken = Vec::with_capacity(starts.len());
        for start in starts {
            let Some(mut before) = self.segments.remove(&start) else { continue };
            if let Some(rest) = before.split_off_version(last.saturating_add(1)) {
                self.segments.insert(rest.first_version(), rest);
            }
            let inside = before.split_off_version(first);
            if !before.is_empty() {
                self.segments.insert(start, before);
            }
            taken.extend(inside);
        }
        self.messages -= taken.iter().map(|segment| segment.len() as usize).sum::<usize>();
        taken
    }
}

/// Whether a message of a segment has to be looked at for its time being over, and is past it.
pub(crate) fn has_expired(segment: &Segment, wall_ms: u64) -> bool {
    segment.run.any(Flags::EXPIRES)
        && (segment.from..segment.to).any(|index| is_expired(segment, index, wall_ms))
}

/// Whether the time of a segment's message is over.
fn is_expired(segment: &Segment, index: u32, wall_ms: u64) -> bool {
    segment.run.message(index as usize).is_some_and(|message| message.is_expired(wall_ms))
}

/// How many messages of a segment fit; at least one.
fn fitting(segment: &Segment, bytes: usize) -> u32 {
    let (mut low, mut high) = (1, segment.len());
    while low < high {
        let middle = (low + high).div_ceil(2);
        let part = Segment { to: segment.from + middle, ..segment.clone() };
        if part.bytes() <= bytes { low = middle } else { high = middle - 1 }
    }
    low
}
