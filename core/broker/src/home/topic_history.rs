//! The recent messages of one topic.
//!
//! Invariant: every message of the topic above its `boundary` is here.

use std::collections::VecDeque;
use std::sync::Arc;

use tiderace_base::{Span, Time};
use tiderace_wire::Run;

use crate::runs::last_of;

/// A topic's recent messages.
#[derive(Debug)]
pub(crate) struct TopicHistory {
    /// Oldest first, with the time at which each was recorded.
    runs: VecDeque<(Time, Arc<Run>)>,
    bytes: usize,
    /// The highest number of the topic's messages that is not here any more or never was.
    boundary: u64,
    /// When a recoverable subscriber was last known.
    wanted: Time,
}

impl TopicHistory {
    pub(crate) fn new(boundary: u64, now: Time) -> TopicHistory {
        TopicHistory { runs: VecDeque::new(), bytes: 0, boundary, wanted: now }
    }

    pub(crate) fn boundary(&self) -> u64 {
        self.boundary
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// The runs with messages above a number, oldest first.
    pub(crate) fn after(&self, number: u64) -> impl Iterator<Item = &Arc<Run>> {
        let start = self.runs.partition_point(|(_, run)| last_of(run) <= number);
        self.runs.range(start..).map(|(_, run)| run)
    }

    /// Whether that run is here.
    pub(crate) fn has_run(&self, run: &Arc<Run>) -> bool {
        self.after(last_of(run).saturating_sub(1)).next().is_some_and(|here| Arc::ptr_eq(here, run))
    }

    pub(crate) fn newest(&self) -> Option<&Arc<Run>> {
        self.runs.back().map(|(_, run)| run)
    }

    /// The number of the oldest message, and when it was recorded.
    pub(crate) fn oldest(&self) -> Option<(u64, Time)> {
        self.runs.front().map(|(at, run)| (run.first(), *at))
    }

    /// There is a recoverable subscriber.
    pub(crate) fn want(&mut self, now: Time) {
        self.wanted = now;
    }

    /// How long no recoverable subscriber has been known.
    pub(crate) fn unwanted(&self, now: Time) -> Span {
        now.since(self.wanted)
    }

    pub(crate) fn push(&mut self, now: Time, run: Arc<Run>) {
        self.bytes += run.bytes();
        self.runs.push_back((now, run));
    }

    /// Takes the oldest run out.
    pub(crate) fn pop(&mut self) -> Option<Arc<Run>> {
        let (_, run) = self.runs.pop_front()?;
        self.bytes -= run.bytes();
        self.boundary = last_of(&run);
        Some(run)
    }

    /// Messages up to a number are not here.
    pub(crate) fn raise_boundary(&mut self, number: u64) {
        self.boundary = self.boundary.max(number);
    }
}
