//! The other side of the load: tells the server's own feed its rate, or publishes over connections.
//!
//! Lives on a thread of its own. Invariant: a message carries the time it was due, so that a server
//! that does not take it in time is charged for the delay.

use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, ensure};
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};

use crate::clients::client::{Client, ClientSpec, Step};
use crate::clients::counters::{Counters, unix_ns};
use crate::clients::language::Language;
use crate::cpu::{ThreadTime, thread_id, thread_time};
use crate::stomp::connect::dial;

/// What to publish.
#[derive(Debug, Clone)]
pub struct PublisherSpec {
    /// The server.
    pub address: std::net::SocketAddr,
    /// What publishes: a client on a WebSocket.
    pub client: ClientSpec,
    /// What precedes the numbers of topics.
    pub prefix: String,
    /// How many topics.
    pub topics: usize,
    /// Bytes of a body.
    pub size: usize,
    /// Publishing connections; zero where the server publishes itself.
    pub connections: usize,
}

/// What makes messages, one at a time.
pub trait Source: Send {
    /// Appends the next message, due at that time since 1970.
    fn publish(&mut self, language: &Language, due_unix_ns: u64, out: &mut Vec<u8>);
}

/// Publications per second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Rate {
    /// None.
    Stopped,
    /// So many.
    PerSecond(f64),
    /// As many as are taken.
    Unlimited,
}

/// The publishing thread.
#[derive(Debug)]
pub struct Publisher {
    orders: Arc<Orders>,
    thread: Option<JoinHandle<io::Result<()>>>,
}

#[derive(Debug)]
struct Orders {
    rate: Mutex<(u64, Rate)>,
    stop: AtomicBool,
    /// The thread's number, once it runs.
    thread: AtomicU32,
}

impl Publisher {
    /// Connects and starts the thread.
    ///
    /// # Errors
    /// A sentence when a connection fails.
    pub fn start(spec: PublisherSpec) -> anyhow::Result<Publisher> {
        let source = Timed::new(&spec);
        Publisher::of(spec, Box::new(source), 0)
    }

    /// The same with other messages, of which the first so many are published before it returns.
    ///
    /// # Errors
    /// A sentence when a connection fails.
    pub fn of(
        spec: PublisherSpec,
        mut source: Box<dyn Source>,
        first: usize,
    ) -> anyhow::Result<Publisher> {
        let mut clients = Vec::new();
        for _ in 0..spec.connections.max(1) {
            let stream = dial(spec.address, None)?;
            stream.set_nodelay(true)?;
            clients.push(greet(Client::new(stream, &spec.client, Vec::new(), NO_WITNESS))?);
        }
        if let Some(client) = clients.first_mut().filter(|_| first > 0) {
            publish_all(client, &mut *source, first).context("publishing the first values")?;
        }
        for client in &clients {
            client.stream.set_nonblocking(true)?;
        }
        let orders = Arc::new(Orders {
            rate: Mutex::new((0, Rate::Stopped)),
            stop: AtomicBool::new(false),
            thread: AtomicU32::new(0),
        });
        let shared = Arc::clone(&orders);
        let thread = thread::Builder::new()
            .name("bench-publishing".to_owned())
            .spawn(move || run(&spec, source, &mut clients, &shared))
            .context("cannot start a thread")?;
        Ok(Publisher { orders, thread: Some(thread) })
    }

    /// What the thread has taken of the processor so far; `None` where that cannot be read.
    pub fn time(&self) -> Option<ThreadTime> {
        thread_time(std::process::id(), self.orders.thread.load(Relaxed))
    }

    /// Publishes at that rate from now on.
    ///
    /// # Errors
    /// When the thread has ended.
    pub fn set(&self, rate: Rate) -> anyhow::Result<()> {
        let is_running = self.thread.as_ref().is_some_and(|thread| !thread.is_finished());
        ensure!(is_running, "the publisher has lost its connection to the server");
        let mut order = self.orders.rate.lock().map_err(|_| anyhow!("the publisher panicked"))?;
        *order = (order.0 + 1, rate);
        Ok(())
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        self.orders.stop.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Waits until the server has greeted a client.
fn greet(mut client: Client) -> anyhow::Result<Client> {
    client.stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    client.write()?;
    let mut buffer = vec![0; 64 * 1024];
    while client.step != Step::Complete {
        client.read(&mut buffer, || 0, &mut Counters::idle()).context("the publisher's login")?;
    }
    Ok(client)
}

/// Publishes so many messages and waits until the server has them all.
fn publish_all(client: &mut Client, source: &mut dyn Source, count: usize) -> anyhow::Result<()> {
    let now = unix_ns();
    let mut out = Vec::new();
    for at in 1..=count {
        source.publish(client.language(), now, &mut out);
        if out.len() >= BATCH_BYTES || at == count {
            client.send(&out);
            client.write()?;
            out.clear();
        }
    }
    // The answer to this comes when everything before it has been read.
    let last = client.language().subscriptions(&["bench/published".to_owned()]);
    last.iter().for_each(|message| client.send(message));
    client.write()?;
    let mut buffer = vec![0; 64 * 1024];
    while client.language().confirmed() == 0 {
        client.read(&mut buffer, || 0, &mut Counters::idle())?;
    }
    Ok(())
}

fn run(
    spec: &PublisherSpec,
    source: Box<dyn Source>,
    clients: &mut [Client],
    orders: &Orders,
) -> io::Result<()> {
    orders.thread.store(thread_id().unwrap_or_default(), Relaxed);
    let mut poll = Poll::new()?;
    for (index, client) in clients.iter().enumerate() {
        let file = client.stream.as_raw_fd();
        let interest = Interest::READABLE | Interest::WRITABLE;
        poll.registry().register(&mut SourceFd(&file), Token(index), interest)?;
    }
    let mut schedule = Schedule::new(spec, source);
    let (mut events, mut buffer, mut followed) = (Events::with_capacity(64), vec![0; 4096], 0);
    while !orders.stop.load(Relaxed) {
        let order = orders.rate.lock().map_or((followed, Rate::Stopped), |order| *order);
        if order.0 != followed {
            followed = order.0;
            schedule.set(order.1);
            if spec.connections == 0
                && let Some(client) = clients.first_mut()
            {
                let control = schedule.control(client.language(), order.1);
                client.send(&control);
            }
        }
        let mut has_written = false;
        for client in clients.iter_mut() {
            if spec.connections > 0 && client.is_written() {
                let batch = schedule.batch(client.language());
                if !batch.is_empty() {
                    client.send(&batch);
                    has_written = true;
                }
            }
            client.write()?;
        }
        let timeout = if has_written { Duration::ZERO } else { Duration::from_millis(1) };
        match poll.poll(&mut events, Some(timeout)) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
            _ => {}
        }
        for event in &events {
            if let Some(client) = clients.get_mut(event.token().0)
                && event.is_readable()
            {
                client.read(&mut buffer, || 0, &mut Counters::idle())?;
            }
        }
    }
    Ok(())
}

/// What is due when.
struct Schedule<'a> {
    spec: &'a PublisherSpec,
    source: Box<dyn Source>,
    rate: Rate,
    begun: Instant,
    begun_unix_ns: u64,
    taken: u64,
}

impl Schedule<'_> {
    fn new(spec: &PublisherSpec, source: Box<dyn Source>) -> Schedule<'_> {
        Schedule {
            spec,
            source,
            rate: Rate::Stopped,
            begun: Instant::now(),
            begun_unix_ns: unix_ns(),
            taken: 0,
        }
    }

    fn set(&mut self, rate: Rate) {
        (self.rate, self.begun, self.begun_unix_ns) = (rate, Instant::now(), unix_ns());
        self.taken = 0;
    }

    /// Tells the server's feed.
    fn control(&self, language: &Language, rate: Rate) -> Vec<u8> {
        let word = match rate {
            Rate::Stopped => "stop".to_owned(),
            Rate::Unlimited => "max".to_owned(),
            Rate::PerSecond(rate) => format!("{:.0}", rate.max(1.0)),
        };
        let mut out = Vec::new();
        language.publish(&mut out, &format!("{}/control", self.spec.prefix), word.as_bytes());
        out
    }

    /// Messages that are due, as much as goes into one message of the carrier.
    #[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss, clippy::cast_sign_loss)]
    fn batch(&mut self, language: &Language) -> Vec<u8> {
        let elapsed_ns = self.begun.elapsed().as_nanos() as u64;
        let mut out = Vec::new();
        while out.len() < BATCH_BYTES {
            let due_ns = match self.rate {
                Rate::Stopped => break,
                Rate::Unlimited => elapsed_ns,
                Rate::PerSecond(rate) => (self.taken as f64 * 1e9 / rate) as u64,
            };
            if due_ns > elapsed_ns {
                break;
            }
            self.source.publish(language, self.begun_unix_ns + due_ns, &mut out);
            self.taken += 1;
        }
        out
    }
}

/// Messages that begin with the time they were due, to one topic after the other.
struct Timed {
    prefix: String,
    topics: u64,
    turn: u64,
    body: Vec<u8>,
}

impl Timed {
    fn new(spec: &PublisherSpec) -> Timed {
        Timed {
            prefix: spec.prefix.clone(),
            topics: spec.topics.max(1) as u64,
            turn: 0,
            body: vec![b'.'; spec.size],
        }
    }
}

impl Source for Timed {
    fn publish(&mut self, language: &Language, due_unix_ns: u64, out: &mut Vec<u8>) {
        if let Some(head) = self.body.first_chunk_mut::<8>() {
            *head = due_unix_ns.to_be_bytes();
        }
        let topic = self.turn % self.topics;
        language.publish(out, &format!("{}/{topic}", self.prefix), &self.body);
        self.turn += 1;
    }
}

const BATCH_BYTES: usize = 48 * 1024;
/// A client's number that makes it no witness.
const NO_WITNESS: usize = 1;
