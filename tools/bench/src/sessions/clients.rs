//! A network of nothing: clients that are numbers, for more sessions than one machine has sockets.
//!
//! The event loop, the broker and the protocols above are the server's own; only the system calls are
//! missing. A client asks for a WebSocket, logs in, subscribes and answers pings; what it is sent is
//! counted and thrown away. Relies on the reactor's driver contract. Invariant: a client costs
//! [`CLIENT_BYTES`] here, so that memory measured is the server's.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use hdrhistogram::Histogram;
use tiderace_base::{Key, Now, Span, Time};
use tiderace_reactor::driver::{Accepted, Driver, Event, Wake};
use tiderace_websocket::{MessageKind, encode_message, encode_pong};

/// What one client takes here: its key and its step.
pub const CLIENT_BYTES: u64 = size_of::<Key>() as u64 + 1;

/// What the clients say.
#[derive(Clone, Debug)]
pub struct Script {
    /// The request path of the WebSocket.
    pub path: &'static str,
    /// The subprotocol.
    pub subprotocol: &'static str,
    /// Login and subscription of a client, in one message.
    pub login: fn(topic: usize) -> Vec<u8>,
    /// Whether that is text.
    pub text: bool,
    /// Bytes that end a message behind its body.
    pub trailer_bytes: usize,
    /// Topics; client `n` subscribes to `n % topics`.
    pub topics: usize,
}

/// What was counted.
#[derive(Debug)]
pub struct Counts {
    /// Clients that have been accepted.
    pub accepted: usize,
    /// Messages that were written.
    pub delivered: u64,
    /// Bytes that were written.
    pub written: u64,
    /// Pings that were answered.
    pub pings: u64,
    /// From the turn that published a message to the write that held it, ns.
    pub latency: Histogram<u64>,
}

/// One shard's clients.
#[derive(Debug)]
pub struct Clients {
    script: Script,
    begun: Instant,
    wanted: usize,
    steps: Vec<Step>,
    keys: Vec<Key>,
    /// Clients that have something to be read.
    ready: VecDeque<u32>,
    /// Clients that answer a ping.
    pinged: VecDeque<u32>,
    /// What the first client is about to ask, and what it has been written since it has asked something.
    question: Option<Vec<u8>>,
    heard: Option<Vec<u8>>,
    /// Bytes of a message's body; none are looked for while it is zero.
    pub body_bytes: usize,
    /// The counts.
    pub counts: Counts,
}

/// How far a client has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// It asks for a WebSocket.
    Asks,
    /// It has asked and waits.
    Asked,
    /// It logs in.
    LogsIn,
    /// It listens.
    Listens,
}

/// Access for the shard and for the code that runs it.
#[derive(Clone, Debug)]
pub struct ClientsDriver(Rc<RefCell<Clients>>);

/// A client as the server sees it.
#[derive(Debug)]
pub struct Number(u32);

impl Clients {
    /// Nobody yet.
    ///
    /// # Errors
    /// When the histogram cannot be made, which its constants rule out.
    pub fn new(script: Script) -> anyhow::Result<Clients> {
        let counts = Counts {
            accepted: 0,
            delivered: 0,
            written: 0,
            pings: 0,
            latency: Histogram::new_with_bounds(1, 100_000_000_000, 3)?,
        };
        Ok(Clients {
            script,
            begun: Instant::now(),
            wanted: 0,
            steps: Vec::new(),
            keys: Vec::new(),
            ready: VecDeque::new(),
            pinged: VecDeque::new(),
            question: None,
            heard: None,
            body_bytes: 0,
            counts,
        })
    }

    /// Lets clients come until there are so many; their room here is made now.
    pub fn want(&mut self, clients: usize) {
        self.wanted = clients;
        self.steps.reserve_exact(clients.saturating_sub(self.steps.len()));
        self.keys.reserve_exact(clients.saturating_sub(self.keys.len()));
    }

    /// Lets the first client send that as a message, and keep what it is written from now on.
    pub fn ask(&mut self, message: Vec<u8>) {
        self.question = Some(message);
        self.heard = Some(Vec::new());
        self.ready.push_back(0);
    }

    /// What the first client has been written since it asked, once that ends with an answer.
    pub fn answer(&mut self) -> Option<Vec<u8>> {
        let is_there = |heard: &Vec<u8>| memchr::memmem::find(heard, b"\"matched\":").is_some();
        self.heard.take_if(|heard| is_there(heard))
    }

    /// What that is so far.
    pub fn heard(&mut self) -> Vec<u8> {
        self.heard.take().unwrap_or_default()
    }

    fn say(&mut self, client: usize, buffer: &mut [u8]) -> usize {
        let Some(step) = self.steps.get_mut(client) else { return 0 };
        let mut wire = Vec::new();
        match step {
            Step::Asks => {
                let (path, subprotocol) = (self.script.path, self.script.subprotocol);
                wire.extend_from_slice(
                    format!(
                        "GET {path} HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n\
                         Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n\
                         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
                         Sec-WebSocket-Protocol: {subprotocol}\r\n\r\n"
                    )
                    .as_bytes(),
                );
                *step = Step::Asked;
            }
            Step::LogsIn => {
                let kind = if self.script.text { MessageKind::Text } else { MessageKind::Binary };
                let message = (self.script.login)(client % self.script.topics);
                encode_message(&mut wire, kind, &message, Some([1, 2, 3, 4]));
                *step = Step::Listens;
            }
            Step::Listens if client == 0 => {
                if let Some(question) = self.question.take() {
                    encode_message(&mut wire, MessageKind::Binary, &question, Some([1, 2, 3, 4]));
                }
            }
            Step::Asked | Step::Listens => {}
        }
        let count = wire.len().min(buffer.len());
        if let (Some(to), Some(from)) = (buffer.get_mut(..count), wire.get(..count)) {
            to.copy_from_slice(from);
        }
        count
    }

    fn hear(&mut self, client: u32, slices: &[IoSlice<'_>], total: usize) {
        let first = slices.first().and_then(|slice| slice.first()).copied();
        let Some(step) = self.steps.get_mut(client as usize) else { return };
        self.counts.written += total as u64;
        if let Some(heard) = self.heard.as_mut().filter(|_| client == 0) {
            slices.iter().for_each(|slice| heard.extend_from_slice(slice));
        }
        match step {
            Step::Asked => {
                *step = Step::LogsIn;
                self.ready.push_back(client);
            }
            Step::Listens if first == Some(0x89) && total <= 127 => {
                self.counts.pings += 1;
                self.pinged.push_back(client);
            }
            Step::Listens if self.body_bytes > 0 && total > self.body_bytes => self.message(slices),
            _ => {}
        }
    }

    /// The body is the end of what was written; its first bytes say when it was published.
    fn message(&mut self, slices: &[IoSlice<'_>]) {
        let now = self.begun.elapsed().as_nanos() as u64;
        let Some(last) = slices.last() else { return };
        let stamp = last
            .len()
            .checked_sub(self.body_bytes + self.script.trailer_bytes)
            .and_then(|start| last.get(start..)?.first_chunk::<8>().copied());
        if let Some(stamp) = stamp.map(u64::from_be_bytes) {
            self.counts.delivered += 1;
            self.counts.latency.saturating_record(now.saturating_sub(stamp).max(1));
        }
    }
}

impl ClientsDriver {
    /// A shard's access, and the way to wake it.
    pub fn new(clients: Rc<RefCell<Clients>>) -> (ClientsDriver, std::sync::Arc<dyn Wake>) {
        (ClientsDriver(clients), std::sync::Arc::new(Awake))
    }
}

impl Driver for ClientsDriver {
    type Stream = Number;

    fn now(&mut self) -> Now {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let time = Time::ZERO + self.0.borrow().begun.elapsed();
        Now { time, wall_ms: wall.as_millis() as u64 }
    }

    fn random(&mut self) -> u128 {
        // Nobody comes back to these sessions.
        u128::from(self.0.borrow().steps.len() as u64)
    }

    fn poll(&mut self, timeout: Span, events: &mut Vec<Event>) -> io::Result<()> {
        let clients = &mut *self.0.borrow_mut();
        if clients.steps.len() < clients.wanted && clients.ready.is_empty() {
            events.push(Event::Accept(0));
        }
        let count = clients.ready.len().min(EVENTS_PER_POLL);
        let pinged = clients.pinged.len().min(EVENTS_PER_POLL);
        for client in
            clients.ready.drain(..count).chain(clients.pinged.iter().copied().take(pinged))
        {
            if let Some(key) = clients.keys.get(client as usize) {
                events.push(Event::Stream {
                    key: *key,
                    readable: true,
                    writable: false,
                    ended: false,
                    broken: false,
                });
            }
        }
        if events.is_empty() && !timeout.is_zero() {
            std::thread::sleep(timeout.min(SLEEP_MAX));
        }
        Ok(())
    }

    fn accept(&mut self, _listener: u16) -> Accepted<Number> {
        let clients = &mut *self.0.borrow_mut();
        if clients.steps.len() >= clients.wanted || clients.ready.len() >= EVENTS_PER_POLL {
            return Accepted::Empty;
        }
        let client = clients.steps.len() as u32;
        clients.steps.push(Step::Asks);
        clients.keys.push(Key::default());
        clients.counts.accepted += 1;
        let address = Ipv4Addr::from(0x7f00_0000 | client & 0x00ff_ffff);
        Accepted::Stream(Number(client), SocketAddr::from((address, 40_000)))
    }

    fn stop_accepting(&mut self) {
        self.0.borrow_mut().wanted = 0;
    }

    fn close_listener(&mut self, _: u16) -> bool {
        false
    }

    fn open_listener(&mut self, _: u16, _: i32) -> io::Result<()> {
        Ok(())
    }

    fn register(&mut self, stream: &mut Number, key: Key) -> io::Result<()> {
        let clients = &mut *self.0.borrow_mut();
        if let Some(slot) = clients.keys.get_mut(stream.0 as usize) {
            *slot = key;
        }
        clients.ready.push_back(stream.0);
        Ok(())
    }

    fn deregister(&mut self, _stream: &mut Number) {}

    fn read(&mut self, stream: &mut Number, buffer: &mut [u8]) -> io::Result<usize> {
        let clients = &mut *self.0.borrow_mut();
        if clients.pinged.front() == Some(&stream.0) {
            clients.pinged.pop_front();
            let mut wire = Vec::new();
            encode_pong(&mut wire, b"", Some([1, 2, 3, 4]));
            let count = wire.len().min(buffer.len());
            if let (Some(to), Some(from)) = (buffer.get_mut(..count), wire.get(..count)) {
                to.copy_from_slice(from);
            }
            return Ok(count);
        }
        match clients.say(stream.0 as usize, buffer) {
            0 => Err(io::ErrorKind::WouldBlock.into()),
            count => Ok(count),
        }
    }

    fn write(&mut self, stream: &mut Number, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let total = slices.iter().map(|slice| slice.len()).sum();
        self.0.borrow_mut().hear(stream.0, slices, total);
        Ok(total)
    }

    fn shutdown_write(&mut self, _stream: &mut Number) {}

    fn close(&mut self, _stream: Number) {}
}

/// The shard never sleeps for long.
struct Awake;

impl Wake for Awake {
    fn wake(&self) {}
}

const EVENTS_PER_POLL: usize = 1024;
const SLEEP_MAX: Duration = Duration::from_micros(100);
