//! One passage of messages through a queue: producers, consumers or both, until everything has come.
//!
//! Everything is connected before the clock starts. Invariant: a passage ends, whatever the server does: sending after
//! its seconds, taking when nothing has come for a while.

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail};

use crate::args::{AckMode, QueueArgs};
use crate::body::HEAD_BYTES;
use crate::clock::{Clock, SECOND_NS, Window};
use crate::cpu::{self, Usage};
use crate::latency::Recorder;
use crate::stomp::connect::Link;
use crate::stomp::consumer::{self, Consumer};
use crate::stomp::counters::{Check, Counters, one_line};
use crate::stomp::frames::Sink;
use crate::stomp::inbound::Arrival;
use crate::stomp::producer::{self, Pace, Producer, ProducerEnd};
use crate::stomp::shared::Shared;
use crate::stomp::template::{Batch, SendSpec};
use crate::target::Target;

/// A queue of a server.
#[derive(Debug)]
pub(super) struct Stand<'a> {
    pub(super) target: &'a Target,
    pub(super) args: &'a QueueArgs,
    /// The queue, as the server names it.
    pub(super) destination: String,
    /// Tells this run's messages from others'.
    pub(super) run: u16,
}

/// Who sends.
#[derive(Debug, Clone)]
pub(super) struct Senders {
    pub(super) connections: usize,
    /// Receipts that may be outstanding of each.
    pub(super) window: u64,
    /// Messages of all together.
    pub(super) messages: u64,
    /// Bytes of a body.
    pub(super) size: usize,
    /// One message in so many has the header `pick:1`, the others `pick:0`.
    pub(super) pick_every: Option<u64>,
}

/// Who takes.
#[derive(Debug, Clone, Default)]
pub(super) struct Takers {
    /// Further headers of the subscriptions.
    pub(super) headers: Vec<String>,
    /// Messages to come; what is sent meanwhile if `None`.
    pub(super) expected: Option<u64>,
    /// Beside the fast one a consumer that takes so long for each message.
    pub(super) slow: Option<Duration>,
}

/// What has passed.
#[derive(Debug)]
pub(super) struct Passed {
    /// When the clock was started.
    pub(super) began: Instant,
    /// Messages sent, their receipts, and how many of them were taken.
    pub(super) sent: u64,
    pub(super) confirmed: u64,
    pub(super) received: u64,
    /// Of them those of the slow consumer.
    pub(super) by_slow: u64,
    pub(super) duplicates: u64,
    /// Until the last receipt, the first message and the last message, seconds.
    pub(super) confirmed_s: f64,
    pub(super) first_s: f64,
    pub(super) received_s: f64,
    /// Processor time of the server.
    pub(super) cpu_s: Option<f64>,
    pub(super) receipts: Option<Recorder>,
    /// Resident memory of the server: seconds and bytes.
    pub(super) memory: Vec<(f64, u64)>,
    pub(super) problem: Option<String>,
}

impl Passed {
    fn beginning(began: Instant) -> Passed {
        Passed {
            began,
            sent: 0,
            confirmed: 0,
            received: 0,
            by_slow: 0,
            duplicates: 0,
            confirmed_s: 0.0,
            first_s: 0.0,
            received_s: 0.0,
            cpu_s: None,
            receipts: None,
            memory: Vec::new(),
            problem: None,
        }
    }
}

/// Runs producers, consumers or both.
///
/// # Errors
/// A sentence when a connection cannot be made or a thread fails; a queue that does not do its work is no error.
pub(super) fn pass(
    stand: &Stand<'_>,
    senders: Option<&Senders>,
    takers: Option<&Takers>,
) -> anyhow::Result<Passed> {
    let pids = processes(stand.target);
    let connections = senders.map_or(0, |senders| senders.connections);
    let producing = (0..connections)
        .map(|_| Link::open(stand.target, false, None))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let open = |wanted| -> anyhow::Result<Option<Link>> {
        if wanted { Link::open(stand.target, false, None).map(Some) } else { Ok(None) }
    };
    let fast = open(takers.is_some())?;
    let slow = open(takers.is_some_and(|takers| takers.slow.is_some()))?;
    let before = Usage::of(&pids);
    let (began, clock) = (Instant::now(), Clock::start());
    let window = Window::opening_at(clock.now_ns(), 0, stand.args.seconds);
    let shared = Arc::new(Shared::new(clock, window));
    let empty = Counters::new(&shared, Check::Queue, stand.run, connections.max(PRODUCERS));
    let taking = takers
        .zip(fast)
        .map(|(takers, link)| start_taking(stand, takers, link, &empty, &shared))
        .transpose()?;
    let slow = match (takers, slow) {
        (Some(Takers { headers, slow: Some(pause), .. }), Some(link)) => {
            Some(start_slow(stand, headers, *pause, link, &shared)?)
        }
        _ => None,
    };
    let sending =
        senders.map(|senders| start_sending(stand, senders, producing, &shared)).transpose()?;
    let mut passed = Passed::beginning(began);
    let expected = watch(&mut passed, &pids, &shared, sending, takers)?;
    let after = Usage::of(&pids);
    shared.stop.store(true, Relaxed);
    if let Some(thread) = slow {
        passed.by_slow = thread.join().map_err(|_| anyhow!(PANICKED))?;
    }
    if let Some(thread) = taking {
        let counters = thread.join().map_err(|_| anyhow!(PANICKED))?;
        let counters = counters.context("a consumer could not poll its socket")?;
        passed.duplicates = counters.duplicates;
        passed.received = counters.received + passed.by_slow;
        passed.received_s = seconds(counters.last_ns());
    }
    passed.cpu_s = before.zip(after).map(|(before, after)| after.running_s_since(&before));
    passed.problem = shared.problem();
    let is_refused = senders.is_some() && passed.confirmed == 0;
    if let Some(problem) = passed.problem.as_ref().filter(|_| is_refused) {
        bail!("nothing was confirmed: {problem}");
    }
    if takers.is_some() && passed.received < expected {
        let missing = expected - passed.received;
        passed.problem.get_or_insert_with(|| format!("{missing} messages did not come"));
    }
    Ok(passed)
}

/// The server's processes, as far as they can be found.
pub(super) fn processes(target: &Target) -> Vec<u32> {
    match target.pids.as_slice() {
        [] if target.address.ip().is_loopback() => cpu::pids_listening_on(target.address.port()),
        pids => pids.to_vec(),
    }
}

type Sending = JoinHandle<std::io::Result<ProducerEnd>>;

/// Waits until everything has come, and looks at the server's memory meanwhile; how many messages were to come.
fn watch(
    passed: &mut Passed,
    pids: &[u32],
    shared: &Arc<Shared>,
    mut sending: Option<Sending>,
    takers: Option<&Takers>,
) -> anyhow::Result<u64> {
    let (mut looked_ns, mut last, mut moved_ns) = (None::<u64>, 0, shared.clock.now_ns());
    loop {
        let now_ns = shared.clock.now_ns();
        if looked_ns.is_none_or(|looked_ns| now_ns >= looked_ns + LOOK_NS) {
            looked_ns = Some(now_ns);
            if let Some(usage) = Usage::of(pids) {
                passed.memory.push((seconds(now_ns), usage.rss_bytes));
            }
        }
        let received = shared.received.load(Relaxed);
        if received > 0 && last == 0 {
            passed.first_s = seconds(now_ns);
        }
        if sending.as_ref().is_some_and(JoinHandle::is_finished)
            && let Some(thread) = sending.take()
        {
            let end = thread.join().map_err(|_| anyhow!(PANICKED))?;
            let end = end.context("a producer could not poll its sockets")?;
            passed.sent = end.sent.iter().map(|(_, count)| count).sum();
            passed.confirmed = end.confirmed;
            passed.confirmed_s = seconds(end.last_receipt_ns);
            passed.receipts = end.receipt_latency;
        }
        if received != last || sending.is_some() {
            (last, moved_ns) = (received, now_ns);
        }
        let expected = takers.and_then(|takers| takers.expected).unwrap_or(passed.sent);
        let is_stalled = now_ns - moved_ns > STALL_NS || now_ns > PASSAGE_NS_MAX;
        if sending.is_none() && (takers.is_none() || received >= expected || is_stalled) {
            return Ok(expected);
        }
        thread::sleep(LOOK_AGAIN);
    }
}

fn start_sending(
    stand: &Stand<'_>,
    senders: &Senders,
    links: Vec<Link>,
    shared: &Arc<Shared>,
) -> anyhow::Result<Sending> {
    let args = stand.args;
    let each = senders.messages.div_ceil(senders.connections.max(1) as u64);
    let producers = links.into_iter().enumerate().map(|(index, link)| {
        let spec = SendSpec {
            destination: stand.destination.clone(),
            size: senders.size,
            header: (!args.volatile).then(|| args.persistent_header.clone()),
            receipts: true,
            pick_every: senders.pick_every,
            websocket: false,
            run: stand.run,
            producer: u16::try_from(index).unwrap_or(u16::MAX),
        };
        let pace = Pace {
            interval_ns: None,
            receipts: Some(senders.window),
            outstanding: 0,
            deliveries_per_message: 1,
            messages_max: Some(each),
        };
        Producer::new(link, Batch::new(&spec, BATCH_BYTES), 0, pace, 0.0, shared)
    });
    let (producers, shared) = (producers.collect(), Arc::clone(shared));
    spawn("producing", move || producer::run(producers, &shared))
}

fn start_taking(
    stand: &Stand<'_>,
    takers: &Takers,
    mut link: Link,
    empty: &Counters,
    shared: &Arc<Shared>,
) -> anyhow::Result<JoinHandle<std::io::Result<Counters>>> {
    link.begin_subscription(&stand.destination, stand.args.ack, &takers.headers)?;
    let consumer = Consumer::new(link, PRODUCERS, stand.args.ack);
    let (counters, shared) = (empty.clone(), Arc::clone(shared));
    spawn("consuming", move || consumer::run(vec![consumer], counters, &shared))
}

/// A consumer that is given what its window holds, and takes its time for each message.
fn start_slow(
    stand: &Stand<'_>,
    headers: &[String],
    pause: Duration,
    mut link: Link,
    shared: &Arc<Shared>,
) -> anyhow::Result<JoinHandle<u64>> {
    link.begin_subscription(&stand.destination, AckMode::ClientIndividual, headers)?;
    link.stream.set_read_timeout(Some(pause.max(Duration::from_millis(1))))?;
    let shared = Arc::clone(shared);
    spawn("slow", move || {
        let mut buffer = vec![0; 256 * 1024];
        let mut held = Held { ids: VecDeque::new(), count: 0, shared: &shared };
        while !shared.is_stopped() {
            // The read waits as long as a message takes.
            match link.inbound.read(&mut link.stream, &mut buffer, &mut held) {
                Ok((0, _)) => break,
                Ok(_) => thread::sleep(pause),
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                Err(_) => break,
            }
            if let Some(id) = held.ids.pop_front() {
                let frame = [b"ACK\nid:", id.as_slice(), b"\n\n\0"].concat();
                if link.send(&frame).is_err() {
                    break;
                }
            }
        }
        held.count
    })
}

/// What the slow consumer has not settled yet.
struct Held<'a> {
    ids: VecDeque<Vec<u8>>,
    count: u64,
    shared: &'a Arc<Shared>,
}

impl Arrival for Held<'_> {
    fn arrived(&mut self, _: usize) {}
}

impl Sink for Held<'_> {
    fn message(&mut self, _: &[u8; HEAD_BYTES], ack: &[u8]) {
        self.ids.push_back(ack.to_vec());
        self.count += 1;
        self.shared.received.fetch_add(1, Relaxed);
    }

    fn foreign(&mut self) {}

    fn receipt(&mut self, _: &[u8]) {}

    fn error(&mut self, frame: &[u8]) {
        self.shared.fail(format!("the slow consumer got an ERROR: {}", one_line(frame)));
    }
}

fn spawn<T: Send + 'static>(
    role: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> anyhow::Result<JoinHandle<T>> {
    let thread = thread::Builder::new().name(format!("bench-{role}")).spawn(work);
    thread.context("cannot start a thread")
}

#[allow(clippy::cast_precision_loss)]
fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

const PANICKED: &str = "a generator thread panicked; please report it";
/// Whose numbers are told apart by consumers.
pub(super) const PRODUCERS: usize = 100;
const BATCH_BYTES: usize = 128 * 1024;
/// Between two looks at the server's memory.
const LOOK_NS: u64 = SECOND_NS / 50;
const LOOK_AGAIN: Duration = Duration::from_millis(1);
/// Without a message, after which no more is waited for.
const STALL_NS: u64 = 5 * SECOND_NS;
const PASSAGE_NS_MAX: u64 = 300 * SECOND_NS;
