//! Messages of a queue that wait for a time, and what is due next in all queues.
//!
//! Relies on who puts messages here to enter them in [`Due`] as well, and to take them out of both. Invariant: the count
//! of messages is that of all segments together.

use std::collections::{BTreeMap, BTreeSet};

use tiderace_base::Key;

use crate::Segment;

/// The messages of one queue that wait.
#[derive(Debug, Default)]
pub(crate) struct Delayed {
    /// By the version of the first message of each.
    segments: BTreeMap<u64, Waiting>,
    messages: usize,
}

/// What waits until one time.
#[derive(Debug)]
pub(crate) struct Waiting {
    /// In milliseconds since 1970.
    pub(crate) due_ms: u64,
    pub(crate) segment: Segment,
    /// It has failed.
    pub(crate) has_failed: bool,
}

/// What is due in all queues, in the order of its time.
#[derive(Debug, Default)]
pub(crate) struct Due {
    /// When, in which queue, and the version of the first message.
    pub(crate) times: BTreeSet<(u64, Key, u64)>,
    pub(crate) messages: usize,
}

impl Delayed {
    /// How many messages wait.
    pub(crate) fn len(&self) -> usize {
        self.messages
    }

    pub(crate) fn put(&mut self, waiting: Waiting) {
        self.messages += waiting.segment.len() as usize;
        self.segments.insert(waiting.segment.first_version(), waiting);
    }

    pub(crate) fn take(&mut self, version: u64) -> Option<Waiting> {
        let waiting = self.segments.remove(&version)?;
        self.messages -= waiting.segment.len() as usize;
        Some(waiting)
    }

    /// The segments with messages between two versions, both included: when they are due, and their first versions.
    pub(crate) fn between(&self, first: u64, last: u64) -> Vec<(u64, u64)> {
        let before = self.segments.range(..=first).next_back();
        let start = before.filter(|(_, waiting)| waiting.segment.last_version() >= first);
        let start = start.map_or(first, |(start, _)| *start);
        let all = self.segments.range(start..=last);
        all.map(|(first, waiting)| (waiting.due_ms, *first)).collect()
    }

    /// When the segments are due, and their first versions.
    pub(crate) fn places(&self) -> impl Iterator<Item = (u64, u64)> {
        self.segments.iter().map(|(version, waiting)| (waiting.due_ms, *version))
    }
}
