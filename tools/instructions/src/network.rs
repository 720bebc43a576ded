//! A network in memory for one event loop: what a client sends is there at once, and what the server
//! writes is counted.
//!
//! Nothing is random and time passes by a fixed step for each poll, so that two runs of one script
//! execute the same instructions. Relies on the driver seam of `tiderace-reactor`.

use std::cell::RefCell;
use std::io::{self, IoSlice};
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tiderace_base::{Key, Now, Span, Time};
use tiderace_reactor::driver::{Accepted, Driver, Event, Wake};

/// What a poll adds to the clock.
const STEP: Span = Span::from_micros(50);

/// A client's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClientId(usize);

/// The server's end of a connection.
#[derive(Debug)]
pub(crate) struct Stream(usize);

/// All connections, shared by the drivers of the shards.
#[derive(Clone, Debug)]
pub(crate) struct Network(Rc<RefCell<State>>);

/// One shard's access to the network.
#[derive(Debug)]
pub(crate) struct MemoryDriver {
    state: Rc<RefCell<State>>,
    shard: usize,
    woken: Arc<AtomicBool>,
}

#[derive(Debug)]
struct State {
    now: Time,
    randoms: u128,
    pipes: Vec<Pipe>,
    to_accept: Vec<usize>,
    shards: Vec<ShardState>,
}

#[derive(Debug, Default)]
struct ShardState {
    events: Vec<Event>,
    idle: bool,
}

#[derive(Debug, Default)]
struct Pipe {
    to_server: Vec<u8>,
    read: usize,
    registered: Option<(usize, Key)>,
    received: u64,
    /// What the client has received and not taken, while it wants to see it.
    inbox: Vec<u8>,
    keeps: bool,
    closed: bool,
}

impl Network {
    pub(crate) fn new(shards: usize) -> Network {
        Network(Rc::new(RefCell::new(State {
            now: Time::from_nanos(1),
            randoms: 0,
            pipes: Vec::new(),
            to_accept: Vec::new(),
            shards: (0..shards).map(|_| ShardState::default()).collect(),
        })))
    }

    pub(crate) fn driver(&self, shard: usize) -> (MemoryDriver, Arc<dyn Wake>) {
        let woken = Arc::new(AtomicBool::new(false));
        let driver = MemoryDriver { state: Rc::clone(&self.0), shard, woken: Arc::clone(&woken) };
        (driver, Arc::new(Flag(woken)))
    }

    pub(crate) fn connect(&self) -> ClientId {
        let mut state = self.0.borrow_mut();
        let id = state.pipes.len();
        state.pipes.push(Pipe { keeps: true, ..Pipe::default() });
        state.to_accept.push(id);
        if let Some(first) = state.shards.first_mut() {
            first.events.push(Event::Accept(0));
        }
        ClientId(id)
    }

    pub(crate) fn send(&self, client: ClientId, bytes: &[u8]) {
        let state = &mut *self.0.borrow_mut();
        let Some(pipe) = state.pipes.get_mut(client.0) else { return };
        if pipe.read == pipe.to_server.len() {
            pipe.to_server.clear();
            pipe.read = 0;
        }
        pipe.to_server.extend_from_slice(bytes);
        if let Some((shard, key)) = pipe.registered
            && let Some(place) = state.shards.get_mut(shard)
        {
            place.events.push(readable(key));
        }
    }

    /// Takes what a client has received.
    pub(crate) fn take(&self, client: ClientId) -> Vec<u8> {
        let mut state = self.0.borrow_mut();
        state
            .pipes
            .get_mut(client.0)
            .map(|pipe| std::mem::take(&mut pipe.inbox))
            .unwrap_or_default()
    }

    /// Counts what a client receives from now on, without keeping it.
    pub(crate) fn count_only(&self, client: ClientId) {
        if let Some(pipe) = self.0.borrow_mut().pipes.get_mut(client.0) {
            pipe.keeps = false;
            pipe.inbox = Vec::new();
        }
    }

    /// Bytes a client has received in all.
    pub(crate) fn received(&self, client: ClientId) -> u64 {
        self.0.borrow().pipes.get(client.0).map_or(0, |pipe| pipe.received)
    }

    /// Whether the server has closed the connection.
    pub(crate) fn is_closed(&self, client: ClientId) -> bool {
        self.0.borrow().pipes.get(client.0).is_none_or(|pipe| pipe.closed)
    }

    /// Whether no shard found anything to do when it last polled.
    pub(crate) fn is_idle(&self) -> bool {
        let state = self.0.borrow();
        state.shards.iter().all(|shard| shard.idle && shard.events.is_empty())
    }
}

fn readable(key: Key) -> Event {
    Event::Stream { key, readable: true, writable: false, ended: false, broken: false }
}

impl Driver for MemoryDriver {
    type Stream = Stream;

    fn now(&mut self) -> Now {
        Now { time: self.state.borrow().now, wall_ms: 1_800_000_000_000 }
    }

    fn random(&mut self) -> u128 {
        let mut state = self.state.borrow_mut();
        state.randoms += 1;
        // Distinct and spread over all bits; nobody attacks this network.
        state.randoms.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835)
    }

    fn poll(&mut self, timeout: Span, events: &mut Vec<Event>) -> io::Result<()> {
        let state = &mut *self.state.borrow_mut();
        state.now = state.now + STEP;
        let woken = self.woken.swap(false, Ordering::Relaxed);
        if let Some(place) = state.shards.get_mut(self.shard) {
            place.idle = !woken && !timeout.is_zero() && place.events.is_empty();
            events.append(&mut place.events);
        }
        Ok(())
    }

    fn accept(&mut self, _: u16) -> Accepted<Stream> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 40_000));
        let next = self.state.borrow_mut().to_accept.pop();
        next.map_or(Accepted::Empty, |id| Accepted::Stream(Stream(id), address))
    }

    fn stop_accepting(&mut self) {}

    fn close_listener(&mut self, _: u16) -> bool {
        false
    }

    fn open_listener(&mut self, _: u16, _: i32) -> io::Result<()> {
        Ok(())
    }

    fn register(&mut self, stream: &mut Stream, key: Key) -> io::Result<()> {
        let state = &mut *self.state.borrow_mut();
        if let Some(pipe) = state.pipes.get_mut(stream.0) {
            pipe.registered = Some((self.shard, key));
            if pipe.read < pipe.to_server.len()
                && let Some(place) = state.shards.get_mut(self.shard)
            {
                place.events.push(readable(key));
            }
        }
        Ok(())
    }

    fn deregister(&mut self, stream: &mut Stream) {
        if let Some(pipe) = self.state.borrow_mut().pipes.get_mut(stream.0) {
            pipe.registered = None;
        }
    }

    fn read(&mut self, stream: &mut Stream, buffer: &mut [u8]) -> io::Result<usize> {
        let mut state = self.state.borrow_mut();
        let pipe = state.pipes.get_mut(stream.0).ok_or(io::ErrorKind::NotConnected)?;
        let waiting = pipe.to_server.get(pipe.read..).unwrap_or_default();
        let count = waiting.len().min(buffer.len());
        if count == 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        for (to, from) in buffer.chunks_mut(count).zip(waiting.chunks(count)).take(1) {
            to.copy_from_slice(from);
        }
        pipe.read += count;
        Ok(count)
    }

    fn write(&mut self, stream: &mut Stream, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut state = self.state.borrow_mut();
        let pipe = state.pipes.get_mut(stream.0).ok_or(io::ErrorKind::NotConnected)?;
        let mut count = 0;
        for slice in slices {
            count += slice.len();
            if pipe.keeps {
                pipe.inbox.extend_from_slice(slice);
            }
        }
        pipe.received += count as u64;
        Ok(count)
    }

    fn shutdown_write(&mut self, stream: &mut Stream) {
        if let Some(pipe) = self.state.borrow_mut().pipes.get_mut(stream.0) {
            pipe.closed = true;
        }
    }

    fn close(&mut self, stream: Stream) {
        if let Some(pipe) = self.state.borrow_mut().pipes.get_mut(stream.0) {
            pipe.closed = true;
        }
    }
}

struct Flag(Arc<AtomicBool>);

impl Wake for Flag {
    fn wake(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
