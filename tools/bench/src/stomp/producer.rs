//! The producing thread: stamps batches and writes them, flat out, on schedule, or by receipts.
//!
//! Lives on its own thread, polls all its sockets. Invariant: a message sent on schedule carries
//! the time it was due, however late it leaves, and a batch once begun is finished.

use std::io::{self, ErrorKind, Write};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};

use crate::body::HEAD_BYTES;
use crate::clock::SECOND_NS;
use crate::latency::Recorder;
use crate::stomp::connect::Link;
use crate::stomp::counters::one_line;
use crate::stomp::frames::Sink;
use crate::stomp::inbound::Arrival;
use crate::stomp::shared::Shared;
use crate::stomp::template::{Batch, receipt_sequence};

/// When a producer may send.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// Nanoseconds between two messages of one producer; `None` for flat out.
    pub interval_ns: Option<f64>,
    /// Receipts that may be outstanding; `None` when none are asked for.
    pub receipts: Option<u64>,
    /// Deliveries that may be on their way; 0 for no limit.
    pub outstanding: u64,
    /// Deliveries each message leads to.
    pub deliveries_per_message: u64,
    /// Messages of each producer, after which it is done before the window ends; `None` for no limit.
    pub messages_max: Option<u64>,
}

/// One producing connection.
#[derive(Debug)]
pub struct Producer {
    link: Link,
    batch: Batch,
    /// Its destination's number.
    pub destination: usize,
    pace: Pace,
    /// Offset of its schedule, so that producers take turns, ns.
    phase_ns: f64,
    next_sequence: u64,
    batch_count: usize,
    written: usize,
    is_blocked: bool,
    is_dead: bool,
    /// Messages completely written.
    pub sent: u64,
    receipts: Receipts,
}

/// Receipts of one producer.
#[derive(Debug)]
struct Receipts {
    count: u64,
    /// Intended send time by sequence, modulo its length, a power of two.
    times_ns: Vec<u64>,
    latency: Option<Recorder>,
    now_ns: u64,
    /// When the last one came.
    last_ns: u64,
    error: Option<String>,
}

/// What a producing thread leaves behind.
#[derive(Debug)]
pub struct ProducerEnd {
    /// Messages sent, by destination number.
    pub sent: Vec<(usize, u64)>,
    /// Time from intended send to receipt.
    pub receipt_latency: Option<Recorder>,
    /// Receipts that came while the window was open.
    pub confirmed: u64,
    /// When the last of them came, ns.
    pub last_receipt_ns: u64,
}

impl Producer {
    /// A producer on a logged-in link.
    pub fn new(
        link: Link,
        batch: Batch,
        destination: usize,
        pace: Pace,
        phase_ns: f64,
        shared: &Shared,
    ) -> Self {
        let window = usize::try_from(pace.receipts.unwrap_or(1)).unwrap_or(1);
        let times = window.saturating_add(batch.count_max()).next_power_of_two();
        Self {
            link,
            batch,
            destination,
            pace,
            phase_ns,
            next_sequence: 0,
            batch_count: 0,
            written: 0,
            is_blocked: false,
            is_dead: false,
            sent: 0,
            receipts: Receipts {
                count: 0,
                times_ns: if pace.receipts.is_some() { vec![0; times] } else { Vec::new() },
                latency: pace.receipts.map(|_| Recorder::new(shared.window)),
                now_ns: 0,
                last_ns: 0,
                error: None,
            },
        }
    }

    /// Writes once, beginning a new batch when the last is done; false when there was nothing to do.
    fn turn(&mut self, shared: &Shared) -> bool {
        if self.is_blocked || self.is_dead {
            return false;
        }
        if self.batch_count == 0 && !self.begin_batch(shared) {
            return false;
        }
        let wire = self.batch.wire(self.batch_count);
        match self.link.stream.write(wire.get(self.written..).unwrap_or_default()) {
            Ok(written) => self.advance(written, wire.len(), shared),
            Err(error) if error.kind() == ErrorKind::WouldBlock => self.is_blocked = true,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => self.die(shared, &error.to_string()),
        }
        true
    }

    fn begin_batch(&mut self, shared: &Shared) -> bool {
        let now_ns = shared.clock.now_ns();
        let count = self.allowance(shared, now_ns).min(self.batch.count_max() as u64);
        let Some(count) = usize::try_from(count).ok().filter(|count| *count > 0) else {
            return false;
        };
        let first = self.next_sequence;
        match self.pace.interval_ns {
            Some(interval_ns) => {
                let start_ns = shared.window.send_ns;
                let phase_ns = self.phase_ns;
                let due_ns = move |sequence| due_ns(start_ns, phase_ns, interval_ns, sequence);
                self.receipts.expect(first, count, due_ns);
                self.batch.stamp_each(count, first, due_ns);
            }
            None => {
                self.receipts.expect(first, count, |_| now_ns);
                self.batch.stamp_at(count, first, now_ns);
            }
        }
        self.next_sequence += count as u64;
        (self.batch_count, self.written) = (count, 0);
        true
    }

    /// How many messages may be sent now.
    fn allowance(&self, shared: &Shared, now_ns: u64) -> u64 {
        let mut allowance = u64::MAX;
        if let Some(interval_ns) = self.pace.interval_ns {
            let since_ns = now_ns.saturating_sub(shared.window.send_ns) as f64 - self.phase_ns;
            let due = if since_ns < 0.0 { 0 } else { (since_ns / interval_ns) as u64 + 1 };
            allowance = due.saturating_sub(self.next_sequence);
        }
        if let Some(window) = self.pace.receipts {
            let outstanding = self.next_sequence.saturating_sub(self.receipts.count);
            allowance = allowance.min(window.saturating_sub(outstanding));
        }
        if let Some(most) = self.pace.messages_max {
            allowance = allowance.min(most.saturating_sub(self.next_sequence));
        }
        if self.pace.outstanding > 0 {
            let promised = shared.sent.load(Relaxed) * self.pace.deliveries_per_message;
            let open = promised.saturating_sub(shared.received.load(Relaxed));
            let free = self.pace.outstanding.saturating_sub(open)
                / self.pace.deliveries_per_message.max(1);
            allowance = allowance.min(free);
        }
        allowance
    }

    fn advance(&mut self, written: usize, wire_bytes: usize, shared: &Shared) {
        let frame_bytes = self.batch.wire_frame_bytes();
        let before = self.written / frame_bytes;
        self.written += written;
        let completed = (self.written / frame_bytes - before) as u64;
        self.sent += completed;
        shared.sent.fetch_add(completed, Relaxed);
        if self.written >= wire_bytes {
            self.batch_count = 0;
        }
    }

    fn read(&mut self, buffer: &mut [u8], shared: &Arc<Shared>) {
        while !self.is_dead {
            let mut sink = ReceiptSink { receipts: &mut self.receipts, shared };
            let before = sink.receipts.count;
            let read = self.link.inbound.read(&mut self.link.stream, buffer, &mut sink);
            shared.receipts.fetch_add(self.receipts.count - before, Relaxed);
            if let Some(error) = self.receipts.error.take() {
                return self.die(shared, &error);
            }
            match read {
                Ok((0, _)) => self.die(shared, "the server closed it"),
                Ok((_, true)) => {}
                Ok((_, false)) => return,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) => self.die(shared, &error.to_string()),
            }
        }
    }

    /// Whether it has sent all it may, and has every receipt.
    fn is_done(&self) -> bool {
        let is_sent = self.batch_count == 0
            && self.pace.messages_max.is_some_and(|most| self.next_sequence >= most);
        is_sent && (self.pace.receipts.is_none() || self.receipts.count >= self.next_sequence)
    }

    fn die(&mut self, shared: &Shared, reason: &str) {
        if !self.is_dead {
            shared.fail(format!("a producer lost its connection: {reason}"));
        }
        self.is_dead = true;
    }

    /// Completes the batch begun and says goodbye, which the server answers when it has read all.
    fn finish(&mut self, shared: &Shared) {
        if self.is_dead {
            return;
        }
        let wire_bytes = self.batch.wire(self.batch_count).len();
        let completed = || -> anyhow::Result<()> {
            self.link.stream.set_nonblocking(false)?;
            self.link.stream.set_write_timeout(Some(FINISH_TIMEOUT))?;
            while self.batch_count > 0 {
                let rest = self.batch.wire(self.batch_count).get(self.written..);
                let written = self.link.stream.write(rest.unwrap_or_default())?;
                self.advance(written, wire_bytes, shared);
            }
            self.link.disconnect()
        };
        if let Err(error) = { completed }() {
            shared.fail(format!("a producer could not finish: {error:#}"));
        }
    }
}

/// Runs producers until the window ends; call on a thread of its own.
///
/// # Errors
/// Only when the poller cannot be made: a producer's own failure is counted instead.
pub fn run(mut producers: Vec<Producer>, shared: &Arc<Shared>) -> io::Result<ProducerEnd> {
    shared.register_thread("producing");
    crate::cpu::sharpen_sleep();
    let mut poll = Poll::new()?;
    for (index, producer) in producers.iter().enumerate() {
        producer.link.stream.set_nonblocking(true)?;
        let file = producer.link.stream.as_raw_fd();
        let interest = Interest::READABLE | Interest::WRITABLE;
        poll.registry().register(&mut SourceFd(&file), Token(index), interest)?;
    }
    let (mut events, mut buffer) = (Events::with_capacity(256), vec![0; 64 * 1024]);
    shared.clock.sleep_until(shared.window.send_ns);
    // A thread that wakes behind the end has its first turn all the same, and sends what is due.
    for turn in 0usize.. {
        let now_ns = shared.clock.now_ns();
        let is_over = producers.iter().all(|producer| producer.is_dead || producer.is_done());
        if (now_ns >= shared.window.end_ns && turn > 0) || is_over {
            break;
        }
        let mut has_worked = false;
        for producer in &mut producers {
            has_worked |= producer.turn(shared);
        }
        let timeout = wait(&producers, shared, has_worked);
        match poll.poll(&mut events, Some(timeout)) {
            Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error),
            _ => {}
        }
        for event in &events {
            let Some(producer) = producers.get_mut(event.token().0) else {
                continue;
            };
            producer.is_blocked &= !event.is_writable();
            if event.is_readable() {
                producer.read(&mut buffer, shared);
            }
        }
    }
    for producer in &mut producers {
        producer.finish(shared);
    }
    Ok(end_of(producers))
}

/// How long to poll; sleeps here where the poller's milliseconds would be too coarse.
fn wait(producers: &[Producer], shared: &Shared, has_worked: bool) -> Duration {
    if has_worked {
        return Duration::ZERO;
    }
    if producers.iter().all(|producer| producer.is_blocked || producer.is_dead) {
        return POLL_TIMEOUT;
    }
    if producers.iter().any(|producer| producer.pace.outstanding > 0) {
        std::thread::sleep(OUTSTANDING_PAUSE);
        return Duration::ZERO;
    }
    let next_due_ns = producers
        .iter()
        .filter_map(|producer| {
            let interval_ns = producer.pace.interval_ns?;
            let start_ns = shared.window.send_ns;
            Some(due_ns(start_ns, producer.phase_ns, interval_ns, producer.next_sequence))
        })
        .min();
    let now_ns = shared.clock.now_ns();
    match next_due_ns {
        // Due but held back by receipts: those wake the poller.
        Some(due_ns) if due_ns <= now_ns => POLL_TIMEOUT,
        Some(due_ns) if due_ns < now_ns + POLL_TIMEOUT_NS => {
            shared.clock.sleep_until(due_ns.max(now_ns + PACE_PAUSE_NS_MIN));
            Duration::ZERO
        }
        _ => POLL_TIMEOUT,
    }
}

fn end_of(producers: Vec<Producer>) -> ProducerEnd {
    let sent = producers.iter().map(|producer| (producer.destination, producer.sent)).collect();
    let confirmed = producers.iter().map(|producer| producer.receipts.count).sum();
    let last = producers.iter().map(|producer| producer.receipts.last_ns).max();
    let receipt_latency = producers
        .into_iter()
        .filter_map(|producer| producer.receipts.latency)
        .reduce(|mut sum, latency| {
            sum.merge(&latency);
            sum
        });
    ProducerEnd { sent, receipt_latency, confirmed, last_receipt_ns: last.unwrap_or(0) }
}

#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn due_ns(start_ns: u64, phase_ns: f64, interval_ns: f64, sequence: u64) -> u64 {
    start_ns + (phase_ns + sequence as f64 * interval_ns) as u64
}

impl Receipts {
    fn expect(&mut self, first: u64, count: usize, time_ns: impl Fn(u64) -> u64) {
        let mask = self.times_ns.len().wrapping_sub(1);
        for sequence in (first..).take(if self.times_ns.is_empty() { 0 } else { count }) {
            let index = usize::try_from(sequence).unwrap_or(0) & mask;
            if let Some(slot) = self.times_ns.get_mut(index) {
                *slot = time_ns(sequence);
            }
        }
    }
}

struct ReceiptSink<'a> {
    receipts: &'a mut Receipts,
    shared: &'a Arc<Shared>,
}

impl Arrival for ReceiptSink<'_> {
    fn arrived(&mut self, _: usize) {
        self.receipts.now_ns = self.shared.clock.now_ns();
    }
}

impl Sink for ReceiptSink<'_> {
    fn message(&mut self, _: &[u8; HEAD_BYTES], _: &[u8]) {}

    fn foreign(&mut self) {}

    fn receipt(&mut self, id: &[u8]) {
        let Some(sequence) = receipt_sequence(id) else {
            return;
        };
        self.receipts.count += 1;
        self.receipts.last_ns = self.receipts.now_ns;
        let index =
            usize::try_from(sequence).unwrap_or(0) & self.receipts.times_ns.len().wrapping_sub(1);
        if let (Some(time_ns), Some(latency)) =
            (self.receipts.times_ns.get(index), &mut self.receipts.latency)
        {
            latency.record(*time_ns, self.receipts.now_ns, 1);
        }
    }

    fn error(&mut self, frame: &[u8]) {
        self.receipts.error.get_or_insert_with(|| one_line(frame));
    }
}

const POLL_TIMEOUT_NS: u64 = SECOND_NS / 100;
const POLL_TIMEOUT: Duration = Duration::from_nanos(POLL_TIMEOUT_NS);
const OUTSTANDING_PAUSE: Duration = Duration::from_micros(20);
/// At high rates messages leave in groups this far apart: a wake-up per message would cost more
/// than the message.
const PACE_PAUSE_NS_MIN: u64 = 50_000;
const FINISH_TIMEOUT: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_do_not_drift() {
        let third_ns = 1e9 / 3.0;
        assert_eq!(due_ns(5, 0.0, third_ns, 0), 5);
        assert_eq!(due_ns(5, 0.0, third_ns, 3_000_000), 5 + 1_000_000 * SECOND_NS);
        assert_eq!(due_ns(0, third_ns, 1e9, 1), 1_333_333_333);
    }
}
