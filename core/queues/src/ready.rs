//! The messages of one queue that nobody has yet, in the order of their numbers.
//!
//! Relies on segments not overlapping: a message is ready once or not at all. Invariant: the count of messages is that
//! of all segments together. What is counted in bytes is the queue's business, for what is in flight counts as well.

use std::collections::BTreeMap;

use tiderace_wire::Flags;

use crate::Segment;

/// Ready messages.
#[derive(Debug, Default)]
pub(crate) struct Ready {
    /// By the number of the first message of each.
    segments: BTreeMap<u64, Segment>,
    messages: usize,
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

    /// The first segment.
    #[inline]
    pub(crate) fn first(&self) -> Option<&Segment> {
        self.segments.first_key_value().map(|(_, segment)| segment)
    }

    /// The segments with messages from a number on, in order; the first of them may begin below it.
    pub(crate) fn from(&self, number: u64) -> impl Iterator<Item = &Segment> {
        let before = self.segments.range(..=number).next_back();
        let start = before.filter(|(_, segment)| segment.last() >= number);
        let start = start.map_or(number, |(start, _)| *start);
        self.segments.range(start..).map(|(_, segment)| segment)
    }

    /// Puts messages at their place.
    #[inline]
    pub(crate) fn put(&mut self, segment: Segment) {
        self.messages += segment.len() as usize;
        self.segments.insert(segment.first(), segment);
    }

    /// Takes up to `messages` and about `bytes` (at least one message) from the front of the first segment.
    #[inline]
    pub(crate) fn take_first(&mut self, messages: u32, bytes: usize) -> Option<Segment> {
        let (start, mut segment) = self.segments.pop_first()?;
        let mut count = segment.len().min(messages);
        if segment.bytes() > bytes {
            count = count.min(fitting(&segment, bytes));
        }
        if let Some(rest) = segment.split_off(start + u64::from(count)) {
            self.segments.insert(rest.first(), rest);
        }
        self.messages -= segment.len() as usize;
        Some(segment)
    }

    /// Takes one message; those around it stay where they are.
    pub(crate) fn take_one(&mut self, number: u64) -> Option<Segment> {
        let (start, known) = self.segments.range(..=number).next_back()?;
        let start = *start;
        if known.last() < number {
            return None;
        }
        let mut before = self.segments.remove(&start)?;
        let mut taken = before.split_off(number)?;
        if !before.is_empty() {
            self.segments.insert(start, before);
        }
        if let Some(rest) = taken.split_off(number + 1) {
            self.segments.insert(rest.first(), rest);
        }
        self.messages -= taken.len() as usize;
        Some(taken)
    }

    /// Takes the messages between two numbers, both included, out of the segment that has the first of them: at most so
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
        if known.last() < from {
            return None;
        }
        let mut before = self.segments.remove(&start)?;
        let mut taken = before.split_off(from)?;
        if !before.is_empty() {
            self.segments.insert(start, before);
        }
        let wanted = u32::try_from(to.saturating_sub(from) + 1).unwrap_or(u32::MAX);
        let mut count = taken.len().min(messages).min(wanted);
        if taken.bytes() > bytes {
            count = count.min(fitting(&taken, bytes));
        }
        if let Some(rest) = taken.split_off(from + u64::from(count)) {
            self.segments.insert(rest.first(), rest);
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

    /// Takes the messages whose time is over out of the segment that begins with number `start`, in stretches.
    pub(crate) fn take_expired(&mut self, start: u64, wall_ms: u64, gone: &mut Vec<Segment>) {
        let mut rest = self.segments.remove(&start);
        while let Some(mut part) = rest {
            let expired = is_expired(&part, part.from, wall_ms);
            let alike = (part.from..part.to)
                .take_while(|index| is_expired(&part, *index, wall_ms) == expired)
                .count();
            rest = part.split_off(part.first() + alike as u64);
            if expired {
                self.messages -= alike;
                gone.push(part);
            } else {
                self.segments.insert(part.first(), part);
            }
        }
    }

    /// Takes all messages between two numbers, both included.
    pub(crate) fn take_range(&mut self, first: u64, last: u64) -> Vec<Segment> {
        let starts: Vec<u64> =
            self.from(first).map(Segment::first).take_while(|start| *start <= last).collect();
        let mut taken = Vec::with_capacity(starts.len());
        for start in starts {
            let Some(mut before) = self.segments.remove(&start) else { continue };
            if let Some(rest) = before.split_off(last.saturating_add(1)) {
                self.segments.insert(rest.first(), rest);
            }
            let inside = before.split_off(first);
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
