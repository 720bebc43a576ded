//! `bench sessions`: more sessions than one machine has sockets for, in one process.
//!
//! The server's event loop, broker and protocol run as they are, on a driver without sockets. What
//! the kernel takes for ten million connections (about 46 GB) is left out; what the server takes is
//! measured. Invariant: memory is read before the first session and after the last, and what the
//! clients themselves take is taken off.

pub mod clients;
mod lists;
pub mod publisher;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use tiderace_broker::BrokerOptions;
use tiderace_reactor::{
    Answer, Deadlines, ListenerOptions, LoginClient, NoOperator, NodeControl, Options, Services,
    Shard, Verifier, drive,
};
use tiderace_wire::{Credentials, Response};

use crate::args::{SessionProtocol, SessionsArgs};
use crate::cpu::Usage;
use crate::matrix;
use crate::report::table::thousands;
use crate::report::{Run, text};
use clients::{CLIENT_BYTES, Clients, ClientsDriver, Script};
use publisher::Plan;

/// Runs `bench sessions`.
///
/// # Errors
/// A sentence when the sessions do not all come about.
pub fn run(args: &SessionsArgs) -> anyhow::Result<()> {
    ensure!(args.count > 0 && args.topics > 0, "--count and --topics must be above 0");
    let speaks_native = args.protocol == SessionProtocol::Native;
    ensure!(
        args.lists == 0 || speaks_native,
        "--lists asks by the native protocol; leave out --protocol"
    );
    ensure!(args.size >= 16, "--size must be at least 16: a message says when it was published");
    let topics = args.topics.min(args.count);
    let rate = Arc::new(AtomicU64::new(0));
    let plan = Plan { topics, body_bytes: args.size, rate: Arc::clone(&rate) };
    let clients = Rc::new(RefCell::new(Clients::new(script(args.protocol, topics))?));
    let (mut shards, control) = drive(
        vec![ClientsDriver::new(Rc::clone(&clients))],
        options(args),
        services(args.protocol, plan),
    )?;
    let mut shard = shards.pop().context("there is one shard")?;
    let mut run = Run::new(&args.output.label, vec!["sessions".to_owned()]);
    let mut note = |text: String| run.notes.push(("sessions".to_owned(), text));

    // What every server takes once is taken before the memory is read.
    let few = (args.count / 100).clamp(1, 1000);
    open(&mut shard, &control, &clients, few, false)?;
    let before = rss()?;
    let begun = Instant::now();
    open(&mut shard, &control, &clients, args.count, true)?;
    let opened = begun.elapsed();
    let grown = rss()?.saturating_sub(before);
    let sessions = (args.count - few).max(1) as u64;
    note(memory(args, topics, grown, sessions, opened));

    // One message to each topic per period reaches every session once per period.
    rate.store((topics as u64).div_ceil(args.period.max(1)), Ordering::Relaxed);
    clients.borrow_mut().body_bytes = args.size;
    spin(&mut shard, Duration::from_secs(2))?;
    clients.borrow_mut().counts.latency.reset();
    let (cpu, at) = (cpu_seconds()?, clients.borrow().counts.delivered);
    let begun = Instant::now();
    spin(&mut shard, Duration::from_secs(args.seconds))?;
    let (seconds, cpu) = (begun.elapsed().as_secs_f64(), cpu_seconds()? - cpu);
    let (until, latency) = {
        let counts = &clients.borrow().counts;
        (counts.delivered, counts.latency.clone())
    };
    let listed = match args.lists {
        0 => None,
        lists => Some(lists::measure(&mut shard, &clients, lists)?),
    };
    let clients = clients.borrow();
    let delivered = until - at;
    ensure!(delivered > 0, "nothing was delivered");
    let latency = &latency;
    let ms = |quantile: f64| latency.value_at_quantile(quantile) as f64 / 1e6;
    note(format!(
        "{:.0} messages of {} bytes per second to {} sessions for {seconds:.0} s, {:.2} µs of CPU each, \
         {} pings answered; inside the server p50 {:.3} ms, p99 {:.3} ms, p99.9 {:.3} ms, max {:.1} ms",
        delivered as f64 / seconds,
        args.size,
        thousands(args.count as u64),
        cpu * 1e6 / delivered as f64,
        thousands(clients.counts.pings),
        ms(0.5),
        ms(0.99),
        ms(0.999),
        latency.max() as f64 / 1e6,
    ));
    listed.iter().for_each(|listed| note(listed.note()));
    matrix::print(&text::details(&run))?;
    run.write_files(&args.output)
}

fn memory(
    args: &SessionsArgs,
    topics: usize,
    grown: u64,
    sessions: u64,
    opened: Duration,
) -> String {
    let own = grown.saturating_sub(sessions * CLIENT_BYTES);
    format!(
        "{} sessions over WebSocket with a subscription each to one of {} topics, opened at {:.0} /s; \
         RSS grew by {} MiB, {} bytes per session (the clients' own {} bytes each taken off)",
        thousands(args.count as u64),
        thousands(topics as u64),
        sessions as f64 / opened.as_secs_f64(),
        thousands(grown >> 20),
        own / sessions,
        CLIENT_BYTES,
    )
}

/// Lets clients come until so many have subscribed.
fn open(
    shard: &mut Shard<ClientsDriver>,
    control: &NodeControl,
    clients: &Rc<RefCell<Clients>>,
    count: usize,
    progress: bool,
) -> anyhow::Result<()> {
    let bar = matrix::progress_bar();
    bar.set_length(count as u64);
    clients.borrow_mut().want(count);
    let mut moved = Instant::now();
    let mut last = 0;
    loop {
        for _ in 0..TURNS_PER_LOOK {
            shard.turn()?;
        }
        let subscribed = subscriptions(control);
        if subscribed > last {
            (last, moved) = (subscribed, Instant::now());
            if progress {
                bar.set_position(subscribed);
            }
        }
        if subscribed >= count as u64 {
            bar.finish_and_clear();
            return Ok(());
        }
        ensure!(
            moved.elapsed() < TIMEOUT,
            "only {subscribed} of {count} sessions have subscribed, and no more come"
        );
    }
}

fn spin(shard: &mut Shard<ClientsDriver>, span: Duration) -> anyhow::Result<()> {
    let end = Instant::now() + span;
    while Instant::now() < end {
        shard.turn()?;
    }
    Ok(())
}

fn subscriptions(control: &NodeControl) -> u64 {
    let metrics = control.broker_metrics();
    let found = metrics.iter().find(|(row, _)| row.name == "tiderace_subscriptions");
    found.map_or(0, |(_, value)| *value)
}

fn rss() -> anyhow::Result<u64> {
    let usage = Usage::of(&[std::process::id()]).context("memory cannot be read from /proc")?;
    Ok(usage.rss_bytes)
}

fn cpu_seconds() -> anyhow::Result<f64> {
    let usage = Usage::of(&[std::process::id()]).context("CPU time cannot be read from /proc")?;
    Ok(usage.cpu_s)
}

fn options(args: &SessionsArgs) -> Options {
    let address = ([127, 0, 0, 1], 0).into();
    Options {
        shards: 1,
        connections_max: usize::MAX,
        listeners: vec![ListenerOptions::at(address)],
        deadlines: Deadlines {
            ping: Duration::from_secs(args.ping),
            login: Duration::from_secs(600),
            ..Deadlines::default()
        },
        ..Options::default()
    }
}

fn services(protocol: SessionProtocol, plan: Plan) -> Services {
    let stomp = || {
        let paths = vec!["/stomp".to_owned()].into();
        tiderace_stomp::protocol(Arc::new(tiderace_stomp::StompOptions::default()), paths)
    };
    let native = || {
        let paths = vec!["/tiderace".to_owned()].into();
        tiderace_native::protocol(Arc::new(tiderace_native::NativeOptions::default()), paths)
    };
    let protocols = match protocol {
        SessionProtocol::Native => vec![native()],
        SessionProtocol::Stomp => vec![stomp()],
    };
    Services {
        spool: None,
        protocols,
        http: Arc::new(|_, _| Response::new(404, "text/plain", "")),
        internal_sessions: vec![publisher::internal_session(plan)],
        operator: Arc::new(NoOperator),
        store_gateway: None,
        verifier: Arc::new(Nobody),
        broker: Arc::new(BrokerOptions::default()),
    }
}

fn script(protocol: SessionProtocol, topics: usize) -> Script {
    match protocol {
        SessionProtocol::Native => Script {
            path: "/tiderace",
            subprotocol: "tiderace.v1",
            login: native_login,
            text: false,
            trailer_bytes: 0,
            topics,
        },
        SessionProtocol::Stomp => Script {
            path: "/stomp",
            subprotocol: "v12.stomp",
            login: |topic| {
                format!(
                    "CONNECT\naccept-version:1.2\nhost:clients\n\n\0\
                     SUBSCRIBE\nid:0\ndestination:/topic/clients/{topic}\n\n\0"
                )
                .into_bytes()
            },
            text: true,
            trailer_bytes: 1,
            topics,
        },
    }
}

/// HELLO without a name, and SUBSCRIBE with request and subscription of the lowest numbers.
fn native_login(topic: usize) -> Vec<u8> {
    let path = format!("clients/{topic}");
    let mut wire = vec![0x01, 6, 1, 0, 0, 0, 0, 0];
    wire.extend_from_slice(&[0x03, 5 + path.len() as u8, 1, 0, 0, 0, path.len() as u8]);
    wire.extend_from_slice(path.as_bytes());
    wire
}

/// Logins are believed, so nobody verifies them.
struct Nobody;

impl Verifier for Nobody {
    fn submit(&self, _: Credentials, _: LoginClient, answer: Answer) {
        drop(answer);
    }
}

const TURNS_PER_LOOK: usize = 256;
/// Longest time without another subscription.
const TIMEOUT: Duration = Duration::from_secs(60);
