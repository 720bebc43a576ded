//! What a consuming thread knows about the messages it got: count, order, loss, latency.
//!
//! Invariant: a message in order costs one comparison of its time and one of its number.

use std::sync::Arc;

use crate::body::{self, HEAD_BYTES};
use crate::latency::Recorder;
use crate::stomp::frames::{Sink, printable};
use crate::stomp::inbound::Arrival;
use crate::stomp::shared::Shared;

/// How strictly numbers are checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Check {
    /// Every consumer gets every message of its destination: numbers run without gaps.
    Topic,
    /// Consumers share the messages: numbers rise, and none is seen twice.
    Queue,
    /// Count only.
    None,
}

/// Counts of one thread.
#[derive(Debug, Clone)]
pub struct Counters {
    /// Messages of this run.
    pub received: u64,
    /// Messages of other runs or sources.
    pub foreign: u64,
    /// Numbers skipped (topics), before late ones are taken off.
    pub skipped: u64,
    /// Numbers lower than expected: reordered or repeated.
    pub out_of_order: u64,
    /// Queue messages seen twice.
    pub duplicates: u64,
    /// Latencies from intended send time.
    pub latency: Recorder,
    check: Check,
    run: u16,
    seen: Vec<Bitmap>,
    now_ns: u64,
    time_digits: u64,
    time_count: u64,
}

impl Counters {
    /// Counters for one run, at zero.
    pub fn new(shared: &Shared, check: Check, run: u16, producers: usize) -> Self {
        Self {
            received: 0,
            foreign: 0,
            skipped: 0,
            out_of_order: 0,
            duplicates: 0,
            latency: Recorder::new(shared.window),
            check,
            run,
            seen: vec![Bitmap::default(); if check == Check::Queue { producers } else { 0 }],
            now_ns: 0,
            time_digits: 0,
            time_count: 0,
        }
    }

    /// Counts one message of the connection whose next expected numbers are `expected`.
    #[inline]
    fn count(&mut self, head: &[u8; HEAD_BYTES], expected: &mut [u64]) {
        let time_digits = body::time_digits_of(head);
        if time_digits == self.time_digits {
            self.time_count += 1;
        } else {
            self.flush();
            (self.time_digits, self.time_count) = (time_digits, 1);
        }
        self.received += 1;
        if self.check == Check::None {
            return;
        }
        let producer = body::producer_of(head, self.run);
        let Some(next) = producer.and_then(|producer| expected.get_mut(producer)) else {
            self.foreign += 1;
            self.received -= 1;
            return;
        };
        let sequence = body::sequence_of(head);
        if sequence == *next {
            *next += 1;
        } else if sequence > *next {
            self.skipped += sequence - *next;
            *next = sequence + 1;
        } else {
            self.out_of_order += 1;
        }
        if let Some(seen) = producer.and_then(|producer| self.seen.get_mut(producer)) {
            self.duplicates += u64::from(seen.insert(sequence));
        }
    }

    /// Records the latency of the messages that share one time.
    fn flush(&mut self) {
        if self.time_count > 0 {
            self.latency.record(body::value(self.time_digits), self.now_ns, self.time_count);
            self.time_count = 0;
        }
    }

    /// When the last bytes came, ns.
    pub fn last_ns(&self) -> u64 {
        self.now_ns
    }

    /// Adds another thread's counters.
    pub fn merge(&mut self, other: &Self) {
        self.received += other.received;
        self.foreign += other.foreign;
        self.skipped += other.skipped;
        self.out_of_order += other.out_of_order;
        self.duplicates += other.duplicates;
        self.latency.merge(&other.latency);
        for (mine, theirs) in self.seen.iter_mut().zip(&other.seen) {
            self.duplicates += mine.merge(theirs);
        }
    }
}

/// The counters, looking at one connection for the length of one read.
#[derive(Debug)]
pub struct ConnectionCounters<'a> {
    /// The thread's counters.
    pub counters: &'a mut Counters,
    /// The connection's next expected number, by producer.
    pub expected: &'a mut [u64],
    /// Acknowledgements to send, or `None` in ack mode auto.
    pub acknowledgements: Option<&'a mut Acknowledgements>,
    /// Counters and clock.
    pub shared: &'a Arc<Shared>,
}

impl Drop for ConnectionCounters<'_> {
    fn drop(&mut self) {
        self.counters.flush();
    }
}

impl Arrival for ConnectionCounters<'_> {
    fn arrived(&mut self, _: usize) {
        self.counters.now_ns = self.shared.clock.now_ns();
    }
}

impl Sink for ConnectionCounters<'_> {
    #[inline]
    fn message(&mut self, head: &[u8; HEAD_BYTES], ack: &[u8]) {
        self.counters.count(head, self.expected);
        if let Some(acknowledgements) = &mut self.acknowledgements {
            acknowledgements.add(ack);
        }
    }

    fn foreign(&mut self) {
        self.counters.foreign += 1;
    }

    fn receipt(&mut self, _: &[u8]) {}

    fn error(&mut self, frame: &[u8]) {
        self.shared.fail(format!("a consumer got an ERROR: {}", one_line(frame)));
    }
}

/// ACK frames waiting to be written.
#[derive(Debug, Clone, Default)]
pub struct Acknowledgements {
    /// Only the last message of a read needs one.
    pub is_cumulative: bool,
    /// Encoded frames.
    pub out: Vec<u8>,
}

impl Acknowledgements {
    fn add(&mut self, id: &[u8]) {
        if self.is_cumulative {
            self.out.clear();
        }
        self.out.extend_from_slice(b"ACK\nid:");
        self.out.extend_from_slice(id);
        self.out.extend_from_slice(b"\n\n\0");
    }
}

/// An ERROR frame on one line.
pub(crate) fn one_line(frame: &[u8]) -> String {
    let text = String::from_utf8_lossy(frame.get(..frame.len().min(300)).unwrap_or_default());
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if text.is_empty() { printable(frame) } else { text }
}

/// Which numbers have been seen; grows with the highest.
#[derive(Debug, Clone, Default)]
struct Bitmap {
    words: Vec<u64>,
}

impl Bitmap {
    /// Marks a number; true when it was marked already. Numbers beyond the limit are not checked.
    #[inline]
    fn insert(&mut self, number: u64) -> bool {
        let index = usize::try_from(number >> 6).unwrap_or(usize::MAX);
        if index >= self.words.len() {
            if index >= BITMAP_WORDS_MAX {
                return false;
            }
            self.words.resize((index + 1).next_power_of_two().max(1024), 0);
        }
        let Some(word) = self.words.get_mut(index) else {
            return false;
        };
        let bit = 1 << (number & 63);
        let was_set = *word & bit != 0;
        *word |= bit;
        was_set
    }

    /// Adds another's marks; returns how many both had.
    fn merge(&mut self, other: &Self) -> u64 {
        self.words.resize(self.words.len().max(other.words.len()), 0);
        let mut both = 0;
        for (mine, theirs) in self.words.iter_mut().zip(&other.words) {
            both += u64::from((*mine & theirs).count_ones());
            *mine |= theirs;
        }
        both
    }
}

/// 64 MiB per producer: 512 million messages.
const BITMAP_WORDS_MAX: usize = 8 * 1024 * 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::{Clock, Window};

    fn head(sequence: u64) -> [u8; HEAD_BYTES] {
        let mut head = [0; HEAD_BYTES];
        head[..4].copy_from_slice(&body::tag(1, 0));
        body::stamp(&mut head, sequence, body::digits(10));
        head
    }

    fn counters(check: Check) -> Counters {
        let shared = Shared::new(Clock::start(), Window::opening_at(0, 0, 1));
        Counters::new(&shared, check, 1, 1)
    }

    #[test]
    fn topic_counts_gaps_and_repeats() {
        let (mut counters, mut expected) = (counters(Check::Topic), [0]);
        for sequence in [0, 1, 4, 3, 5] {
            counters.count(&head(sequence), &mut expected);
        }
        counters.now_ns = 100;
        counters.flush();
        assert_eq!((counters.received, counters.skipped, counters.out_of_order), (5, 2, 1));
        assert_eq!(counters.latency.total().len(), 5);
    }

    #[test]
    fn queue_counts_duplicates_across_connections_and_threads() {
        let (mut one, mut two) = (counters(Check::Queue), counters(Check::Queue));
        one.count(&head(0), &mut [0]);
        one.count(&head(0), &mut [0]);
        two.count(&head(0), &mut [0]);
        two.count(&head(700_000), &mut [0]);
        one.merge(&two);
        assert_eq!((one.received, one.duplicates), (4, 2));
    }

    #[test]
    fn other_runs_are_foreign() {
        let mut counters = counters(Check::Topic);
        let mut other = head(0);
        other[..4].copy_from_slice(&body::tag(2, 0));
        counters.count(&other, &mut [0]);
        assert_eq!((counters.received, counters.foreign), (0, 1));
    }

    #[test]
    fn cumulative_acknowledgement_keeps_the_last() {
        let mut acknowledgements = Acknowledgements { is_cumulative: true, out: Vec::new() };
        acknowledgements.add(b"1");
        acknowledgements.add(b"2");
        assert_eq!(acknowledgements.out, b"ACK\nid:2\n\n\0");
    }
}
