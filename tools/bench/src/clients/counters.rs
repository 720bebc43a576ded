//! What the clients of one thread have received: counts, and the latency of every message.
//!
//! Invariant: messages that carry the same time and were read together are recorded together.

use std::io;

use crate::clock::{Clock, Window};
use crate::latency::Recorder;

/// Counts of one thread.
#[derive(Debug, Clone)]
pub struct Counters {
    /// Messages.
    pub received: u64,
    /// Bytes of their bodies.
    pub body_bytes: u64,
    /// Versions that were left out: conflated, dropped or lost.
    pub skipped: u64,
    /// Batches: messages of the transport that hold updates.
    pub batches: u64,
    /// Answers to polls that held messages.
    pub polls: u64,
    /// Updates that were deltas.
    pub deltas: u64,
    /// Updates of which nobody remembers when they were due.
    pub untimed: u64,
    /// Values that were compared with what was published.
    pub witnessed: u64,
    /// Of them those that differed.
    pub wrong: u64,
    /// Segments of TCP that what was read takes on an Ethernet at least.
    pub segments: u64,
    /// Latencies, from the time in each message.
    pub latency: Recorder,
    /// What is to be added to a time since 1970 to have one of the run's clock, wrapping.
    unix_to_clock: u64,
    now_ns: u64,
    stamp: u64,
    count: u64,
}

impl Counters {
    /// Counters of a window, at zero.
    pub fn new(clock: Clock, window: Window) -> Counters {
        Counters {
            received: 0,
            body_bytes: 0,
            skipped: 0,
            batches: 0,
            polls: 0,
            deltas: 0,
            untimed: 0,
            witnessed: 0,
            wrong: 0,
            segments: 0,
            latency: Recorder::new(window),
            unix_to_clock: clock.now_ns().wrapping_sub(unix_ns()),
            now_ns: 0,
            stamp: 0,
            count: 0,
        }
    }

    /// Counters that measure nothing.
    pub fn idle() -> Counters {
        Counters::new(Clock::start(), Window::opening_at(0, 0, 0))
    }

    /// So many bytes were read at that time of the run's clock.
    pub fn read_at(&mut self, now_ns: u64, bytes: usize) {
        self.now_ns = now_ns;
        self.segments += bytes.div_ceil(SEGMENT_BYTES) as u64;
    }

    /// A message with that time in it.
    #[inline]
    pub fn message(&mut self, unix_ns: u64, bytes: usize) {
        self.received += 1;
        self.body_bytes += bytes as u64;
        if unix_ns != self.stamp {
            self.settle();
            self.stamp = unix_ns;
        }
        self.count += 1;
    }

    /// What was read at that time has been walked.
    pub fn settle(&mut self) {
        if self.count > 0 {
            let sent_ns = self.stamp.wrapping_add(self.unix_to_clock);
            self.latency.record(sent_ns, self.now_ns, self.count);
            self.count = 0;
        }
    }

    /// Adds another thread's.
    pub fn merge(&mut self, other: &Counters) {
        self.received += other.received;
        self.body_bytes += other.body_bytes;
        self.skipped += other.skipped;
        self.batches += other.batches;
        self.polls += other.polls;
        self.deltas += other.deltas;
        self.untimed += other.untimed;
        self.witnessed += other.witnessed;
        self.wrong += other.wrong;
        self.segments += other.segments;
        self.latency.merge(&other.latency);
    }
}

/// What a segment carries on an Ethernet: 1,500 bytes less 40 of IP and TCP and 12 of time stamps.
pub(crate) const SEGMENT_BYTES: usize = 1_448;

/// The time since 1970.
pub(crate) fn unix_ns() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    u64::try_from(since.unwrap_or_default().as_nanos()).unwrap_or(0)
}

/// An error about what a server sent.
pub(crate) fn broken(text: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text.to_owned())
}
