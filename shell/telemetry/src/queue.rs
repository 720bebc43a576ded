//! Spans on their way from shards to the exporter.
//!
//! Relies on the channel of the standard library, whose senders do not wait. Invariant: no more spans wait than the queue
//! may hold; each that is offered is counted once, as exported, as dropped or as waiting.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

use crate::span::Span;

/// What became of spans.
#[derive(Debug, Default)]
pub struct SpanCounters {
    exported: AtomicU64,
    full: AtomicU64,
    failed: AtomicU64,
    rejected: AtomicU64,
    requests_failed: AtomicU64,
}

impl SpanCounters {
    /// Spans that the collector has taken.
    pub fn exported(&self) -> u64 {
        self.exported.load(Ordering::Relaxed)
    }

    /// Spans dropped because too many waited.
    pub fn full(&self) -> u64 {
        self.full.load(Ordering::Relaxed)
    }

    /// Spans dropped because they could not be posted.
    pub fn failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }

    /// Spans that the collector has said it did not take.
    pub fn rejected(&self) -> u64 {
        self.rejected.load(Ordering::Relaxed)
    }

    /// Requests that failed, those that were repeated included.
    pub fn requests_failed(&self) -> u64 {
        self.requests_failed.load(Ordering::Relaxed)
    }

    pub(crate) fn add_exported(&self, spans: u64) {
        self.exported.fetch_add(spans, Ordering::Relaxed);
    }

    pub(crate) fn add_failed(&self, spans: u64) {
        self.failed.fetch_add(spans, Ordering::Relaxed);
    }

    pub(crate) fn add_rejected(&self, spans: u64) {
        self.rejected.fetch_add(spans, Ordering::Relaxed);
    }

    pub(crate) fn add_failed_request(&self) {
        self.requests_failed.fetch_add(1, Ordering::Relaxed);
    }
}

/// Where shards put spans.
#[derive(Debug)]
pub struct SpanQueue {
    sender: Sender<Vec<Span>>,
    waiting: AtomicUsize,
    waiting_max: usize,
    counters: SpanCounters,
}

impl SpanQueue {
    /// A queue for so many spans, and its other end.
    pub fn new(waiting_max: usize) -> (SpanQueue, Receiver<Vec<Span>>) {
        let (sender, receiver) = channel();
        let (waiting, counters) = (AtomicUsize::new(0), SpanCounters::default());
        (SpanQueue { sender, waiting, waiting_max, counters }, receiver)
    }

    /// Takes the spans of a turn; what there is no room for is dropped and counted. Never waits.
    pub fn offer(&self, mut spans: Vec<Span>) {
        if spans.is_empty() {
            return;
        }
        let wanted = spans.len();
        let room = |waiting: usize| self.waiting_max.saturating_sub(waiting).min(wanted);
        let taking = |waiting| Some(waiting + room(waiting));
        let before = self.waiting.fetch_update(Ordering::Relaxed, Ordering::Relaxed, taking);
        let room = room(before.unwrap_or_else(|waiting| waiting));
        self.leave_out(wanted - room);
        if room == 0 {
            return;
        }
        if room < wanted {
            spans.truncate(room);
            // What waits takes no more memory than it needs.
            spans.shrink_to_fit();
        }
        // If nobody receives any more, the server ends.
        if self.sender.send(spans).is_err() {
            self.take(room);
            self.leave_out(room);
        }
    }

    /// So many spans are dropped because there is no room for them.
    pub fn leave_out(&self, spans: usize) {
        self.counters.full.fetch_add(spans as u64, Ordering::Relaxed);
    }

    /// What became of the spans.
    pub fn counters(&self) -> &SpanCounters {
        &self.counters
    }

    /// Spans that wait, those that are being posted included.
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// So many spans wait no longer.
    pub(crate) fn take(&self, spans: usize) {
        self.waiting.fetch_sub(spans, Ordering::Relaxed);
    }

    /// Wakes the other end.
    pub(crate) fn wake(&self) {
        // It has ended by itself if it cannot be woken.
        let _ = self.sender.send(Vec::new());
    }
}
