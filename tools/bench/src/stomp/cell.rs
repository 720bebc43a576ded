//! One cell of a table: producers × destinations × consumers against one server, run and measured.
//!
//! Connects everything first, then opens the window, then stops producing, then drains.
//! Invariant: rates are of the window alone; latency is of the messages meant to be sent in it.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, anyhow, ensure};
use indicatif::ProgressBar;

use crate::args::{AckMode, StompArgs};
use crate::body::{HEAD_BYTES, PRODUCERS_MAX};
use crate::clock::{Clock, SECOND_NS, Window};
use crate::latency::Recorder;
use crate::machine;
use crate::stomp::connect::Link;
use crate::stomp::consumer::{self, Consumer};
use crate::stomp::counters::{Check, Counters};
use crate::stomp::producer::{self, Pace, Producer, ProducerEnd};
use crate::stomp::shared::Shared;
use crate::stomp::template::{Batch, SendSpec};
use crate::stomp::watch::{Observation, Watch};
use crate::target::Target;

/// Topics or queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Every consumer gets every message.
    Topic,
    /// One consumer gets each message.
    Queue,
}

impl Kind {
    /// `topic` or `queue`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Topic => "topic",
            Self::Queue => "queue",
        }
    }
}

/// What to run.
#[derive(Debug, Clone)]
pub struct CellSpec {
    /// Topics or queues.
    pub kind: Kind,
    /// Producing connections.
    pub producers: usize,
    /// Destinations.
    pub destinations: usize,
    /// Consuming connections.
    pub consumers: usize,
    /// Body bytes.
    pub size: usize,
    /// The header that marks messages persistent, when they are.
    pub persistent: Option<String>,
    /// Outstanding receipts allowed per producer, when receipts are asked for.
    pub receipts: Option<u64>,
    /// Messages per second in total.
    pub rate: Option<f64>,
    /// Deliveries that may be on their way; 0 for no limit.
    pub outstanding: u64,
    /// Acknowledgement mode.
    pub ack: AckMode,
    /// Whether producers speak WebSocket.
    pub producer_websocket: bool,
    /// Whether consumers speak WebSocket.
    pub consumer_websocket: bool,
    /// Threads for each side.
    pub threads: usize,
    /// Bytes of a batch.
    pub batch_bytes: usize,
    /// Seconds before measuring.
    pub warm_up_s: u64,
    /// Seconds measured.
    pub duration_s: u64,
    /// Seconds without progress after which draining is given up.
    pub drain_timeout_s: u64,
}

impl CellSpec {
    /// The cell a command line describes.
    pub fn from_args(args: &StompArgs, default_duration_s: u64) -> Self {
        Self {
            kind: if args.queue { Kind::Queue } else { Kind::Topic },
            producers: args.producers,
            destinations: args.destinations,
            consumers: args.consumers,
            size: args.size,
            persistent: args.persistent.then(|| args.persistent_header.clone()),
            receipts: args.receipts.then_some(args.window),
            rate: args.rate,
            outstanding: args.outstanding,
            ack: args.ack,
            producer_websocket: args.ws,
            consumer_websocket: args.ws,
            threads: args.threads,
            batch_bytes: args.batch_bytes,
            warm_up_s: args.warm_up,
            duration_s: args.duration.unwrap_or(default_duration_s),
            drain_timeout_s: args.drain_timeout,
        }
    }

    /// The name stomp-benchmark gives this cell, e.g. `20b_1a_1queue_1`.
    pub fn scenario(&self) -> String {
        let size = match self.size {
            kibibytes if kibibytes % 1024 == 0 => format!("{}k", kibibytes / 1024),
            bytes => format!("{bytes}b"),
        };
        let persistent = if self.persistent.is_some() { "p" } else { "" };
        let asynchronous = if self.receipts.is_none() { "a" } else { "" };
        format!(
            "{size}_{}{persistent}{asynchronous}_{}{}_{}",
            self.producers,
            self.destinations,
            self.kind.as_str(),
            self.consumers
        )
    }

    /// A short name for tables and `--only`, e.g. `topic-10-1-10` or `queue-1-1-1-1k`.
    pub fn short_name(&self) -> String {
        let size = match self.size {
            20 => String::new(),
            kibibytes if kibibytes % 1024 == 0 => format!("-{}k", kibibytes / 1024),
            bytes => format!("-{bytes}b"),
        };
        let kind = self.kind.as_str();
        format!("{kind}-{}-{}-{}{size}", self.producers, self.destinations, self.consumers)
    }

    /// Consumers of one destination.
    fn consumers_of(&self, destination: usize) -> usize {
        (0..self.consumers).filter(|consumer| consumer % self.destinations == destination).count()
    }

    /// Deliveries that sending `sent` messages to a destination leads to.
    fn deliveries(&self, destination: usize, sent: u64) -> u64 {
        let consumers = self.consumers_of(destination) as u64;
        match self.kind {
            Kind::Topic => sent * consumers,
            Kind::Queue => sent * consumers.min(1),
        }
    }

    fn validate(&self) -> anyhow::Result<()> {
        ensure!(
            self.size >= HEAD_BYTES,
            "--size must be at least {HEAD_BYTES} bytes: a body carries a number and a time"
        );
        ensure!(
            self.destinations > 0 && self.producers > 0,
            "--producers and --destinations must be at least 1"
        );
        ensure!(self.producers <= PRODUCERS_MAX, "--producers must be at most {PRODUCERS_MAX}");
        ensure!(
            self.producers + self.consumers <= CONNECTIONS_MAX,
            "at most {CONNECTIONS_MAX} connections fit one process; start several"
        );
        ensure!(self.duration_s > 0, "--duration must be at least one second");
        ensure!(self.rate.is_none_or(|rate| rate > 0.0), "--rate must be above zero");
        machine::ensure_open_files(self.producers + self.consumers)
    }
}

impl Default for CellSpec {
    /// Topic 1-1-1, 20 bytes, flat out.
    fn default() -> Self {
        Self {
            kind: Kind::Topic,
            producers: 1,
            destinations: 1,
            consumers: 1,
            size: HEAD_BYTES,
            persistent: None,
            receipts: None,
            rate: None,
            outstanding: 0,
            ack: AckMode::Auto,
            producer_websocket: false,
            consumer_websocket: false,
            threads: 1,
            batch_bytes: 128 * 1024,
            warm_up_s: 2,
            duration_s: 5,
            drain_timeout_s: 3,
        }
    }
}

/// What came out of a cell.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The server's name.
    pub target: String,
    /// What was run.
    pub spec: CellSpec,
    /// Seconds, rates, CPU of the window.
    pub observed: Observation,
    /// Latency of deliveries.
    pub latency: Recorder,
    /// Time to receipts, when asked for.
    pub receipt_latency: Option<Recorder>,
    /// Messages sent in the whole run, and the deliveries they should have led to.
    pub sent: u64,
    /// See `sent`.
    pub deliveries_expected: u64,
    /// Deliveries of the whole run, drained ones included.
    pub received: u64,
    /// Deliveries that never came, repeats not counted against them.
    pub lost: u64,
    /// Numbers missing in the middle of a topic's stream: what the server dropped.
    pub skipped: u64,
    /// Messages out of order or repeated on one connection.
    pub out_of_order: u64,
    /// Queue messages delivered twice.
    pub duplicates: u64,
    /// Messages of other runs.
    pub foreign: u64,
    /// Errors counted, and the first one's text.
    pub errors: u64,
    /// See `errors`.
    pub problem: Option<String>,
}

impl Outcome {
    /// Server CPU per message counted in the rate, µs.
    pub fn server_us(&self) -> Option<f64> {
        if self.observed.has_consumers {
            self.observed.server_us_per_delivery()
        } else {
            self.observed.server_us_per_message()
        }
    }
}

/// Runs one cell.
///
/// # Errors
/// A sentence when a connection cannot be made or a thread fails; losses are not errors.
pub fn run(target: &Target, spec: &CellSpec, bar: &ProgressBar) -> anyhow::Result<Outcome> {
    spec.validate()?;
    let stage = Stage::connect(target, spec)?;
    let clock = Clock::start();
    let window =
        Window::opening_at(clock.now_ns() + START_DELAY_NS, spec.warm_up_s, spec.duration_s);
    let shared = Arc::new(Shared::new(clock, window));
    let check = match spec.kind {
        Kind::Topic => Check::Topic,
        Kind::Queue => Check::Queue,
    };
    let empty = Counters::new(&shared, check, stage.run, spec.producers);
    let consumers = start_consumers(stage.consumers, spec, &empty, &shared)?;
    let producers =
        start_producers(stage.producers, spec, stage.run, &shared, &stage.destinations)?;

    let observed = Watch::new(target, &shared, spec.consumers > 0).observe(bar);

    let (mut sent, mut deliveries_expected, mut receipt_latency) = (0, 0, None::<Recorder>);
    for thread in producers {
        let end = join(thread)?;
        for (destination, count) in end.sent {
            sent += count;
            deliveries_expected += spec.deliveries(destination, count);
        }
        match (&mut receipt_latency, end.receipt_latency) {
            (Some(sum), Some(latency)) => sum.merge(&latency),
            (sum, latency) => *sum = sum.take().or(latency),
        }
    }
    drain(&shared, deliveries_expected, spec.drain_timeout_s, bar);
    shared.stop.store(true, Relaxed);
    let mut counters = empty;
    for thread in consumers {
        counters.merge(&join(thread)?);
    }
    let distinct = counters.received.saturating_sub(counters.duplicates);
    Ok(Outcome {
        target: target.name.clone(),
        spec: spec.clone(),
        observed,
        latency: counters.latency,
        receipt_latency,
        sent,
        deliveries_expected,
        received: counters.received,
        lost: deliveries_expected.saturating_sub(distinct),
        skipped: if spec.kind == Kind::Topic { counters.skipped } else { 0 },
        out_of_order: counters.out_of_order,
        duplicates: counters.duplicates,
        foreign: counters.foreign,
        errors: shared.errors.load(Relaxed),
        problem: shared.problem(),
    })
}

/// All connections of a cell, logged in and subscribed.
struct Stage {
    run: u16,
    destinations: Vec<String>,
    producers: Vec<Link>,
    consumers: Vec<Link>,
}

impl Stage {
    fn connect(target: &Target, spec: &CellSpec) -> anyhow::Result<Self> {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let run = u16::try_from((since_epoch.as_micros() ^ u128::from(std::process::id())) & 0xFFF)
            .unwrap_or(0);
        let prefix = match spec.kind {
            Kind::Topic => &target.topic_prefix,
            Kind::Queue => &target.queue_prefix,
        };
        // A name of its own for every run: no message of another one is in the way.
        let destinations: Vec<String> = (0..spec.destinations)
            .map(|index| {
                format!("{prefix}bench.{:x}.{index}", since_epoch.as_millis() & 0xFFFF_FFFF)
            })
            .collect();
        let spread = spec.consumers > SOURCE_SPREAD_MIN && target.address.ip().is_loopback();
        let mut consumers = Vec::with_capacity(spec.consumers);
        for index in 0..spec.consumers {
            let source = spread.then(|| source_address(index));
            let mut link = Link::open(target, spec.consumer_websocket, source)?;
            let destination =
                destinations.get(index % spec.destinations).context("no destination")?;
            link.subscribe(destination, spec.ack)?;
            consumers.push(link);
        }
        let producers = (0..spec.producers)
            .map(|_| Link::open(target, spec.producer_websocket, None))
            .collect::<anyhow::Result<_>>()?;
        Ok(Self { run, destinations, producers, consumers })
    }
}

/// Loopback source addresses in turn, so that many connections do not run out of ports.
pub fn source_address(index: usize) -> Ipv4Addr {
    Ipv4Addr::new(127, 0, 0, u8::try_from(2 + index % 200).unwrap_or(2))
}

fn start_consumers(
    links: Vec<Link>,
    spec: &CellSpec,
    empty: &Counters,
    shared: &Arc<Shared>,
) -> anyhow::Result<Vec<JoinHandle<std::io::Result<Counters>>>> {
    let consumers = links.into_iter().map(|link| Consumer::new(link, spec.producers, spec.ack));
    deal(consumers, spec.threads)
        .into_iter()
        .map(|group| {
            let (counters, shared) = (empty.clone(), Arc::clone(shared));
            spawn("consuming", move || consumer::run(group, counters, &shared))
        })
        .collect()
}

fn start_producers(
    links: Vec<Link>,
    spec: &CellSpec,
    run: u16,
    shared: &Arc<Shared>,
    destinations: &[String],
) -> anyhow::Result<Vec<JoinHandle<std::io::Result<ProducerEnd>>>> {
    #[allow(clippy::cast_precision_loss)]
    let count = spec.producers as f64;
    let interval_ns = spec.rate.map(|rate| 1e9 * count / rate);
    let producers = links.into_iter().enumerate().map(|(index, link)| {
        let destination = index % spec.destinations;
        let send = SendSpec {
            destination: destinations.get(destination).cloned().unwrap_or_default(),
            size: spec.size,
            header: spec.persistent.clone(),
            receipts: spec.receipts.is_some(),
            pick_every: None,
            websocket: spec.producer_websocket,
            run,
            producer: u16::try_from(index).unwrap_or(u16::MAX),
        };
        let pace = Pace {
            interval_ns,
            receipts: spec.receipts,
            outstanding: spec.outstanding,
            deliveries_per_message: spec.deliveries(destination, 1),
            messages_max: None,
        };
        #[allow(clippy::cast_precision_loss)]
        let phase_ns = interval_ns.unwrap_or(0.0) * index as f64 / count;
        Producer::new(
            link,
            Batch::new(&send, spec.batch_bytes),
            destination,
            pace,
            phase_ns,
            shared,
        )
    });
    deal(producers, spec.threads)
        .into_iter()
        .map(|group| {
            let shared = Arc::clone(shared);
            spawn("producing", move || producer::run(group, &shared))
        })
        .collect()
}

/// Deals items to at most `hands` non-empty groups in turn.
fn deal<T>(items: impl Iterator<Item = T>, hands: usize) -> Vec<Vec<T>> {
    let mut groups: Vec<Vec<T>> = (0..hands.max(1)).map(|_| Vec::new()).collect();
    let count = groups.len();
    for (index, item) in items.enumerate() {
        if let Some(group) = groups.get_mut(index % count) {
            group.push(item);
        }
    }
    groups.retain(|group| !group.is_empty());
    groups
}

fn spawn<T: Send + 'static>(
    role: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> anyhow::Result<JoinHandle<T>> {
    thread::Builder::new()
        .name(format!("bench-{role}"))
        .spawn(work)
        .context("cannot start a thread")
}

fn join<T>(thread: JoinHandle<std::io::Result<T>>) -> anyhow::Result<T> {
    let result =
        thread.join().map_err(|_| anyhow!("a generator thread panicked; please report it"))?;
    result.context("a generator thread could not poll its sockets")
}

/// Waits until everything sent has been received, or nothing has come for a while.
fn drain(shared: &Shared, expected: u64, timeout_s: u64, bar: &ProgressBar) {
    let (mut last, mut still_since_ns) = (0, shared.clock.now_ns());
    let begun_ns = still_since_ns;
    loop {
        let (received, now_ns) = (shared.received.load(Relaxed), shared.clock.now_ns());
        if received != last {
            (last, still_since_ns) = (received, now_ns);
        }
        let stalled = now_ns - still_since_ns > timeout_s * SECOND_NS;
        if received >= expected || stalled || now_ns - begun_ns > DRAIN_NS_MAX {
            // What arrives now would be too much: give it a moment to show itself.
            thread::sleep(Duration::from_millis(20));
            return;
        }
        bar.set_message(format!("draining, {} to come", expected - received));
        thread::sleep(Duration::from_millis(5));
    }
}

/// Below the 20,000 files a process may open on many systems.
pub const CONNECTIONS_MAX: usize = 19_000;
const SOURCE_SPREAD_MIN: usize = 500;
const START_DELAY_NS: u64 = 20_000_000;
const DRAIN_NS_MAX: u64 = 60 * SECOND_NS;
