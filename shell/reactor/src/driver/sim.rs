//! A network, a clock and a fate decided by a seed.
//!
//! Bytes arrive in pieces and late, sockets take part of what they are given, clients stall and
//! vanish, shards run in any order; all of it from one number, so that a failure can be had again.
//! Relies on nothing but memory. Invariant: what the operating system promises holds here as well:
//! order, edge-triggered events, and a short read or write only when there is no more to be had.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::io::{self, IoSlice};
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tiderace_base::{Key, Now, Span, Time};

use super::{Accepted, Driver, EVENTS_PER_POLL, Event, NameAnswer, Wake};

/// A client of the simulated network, or whom a shard connects to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Client(usize);

/// The server's end of a simulated connection.
#[derive(Debug)]
pub struct SimStream(usize);

/// The network, shared by all shards and the test's clients.
#[derive(Clone, Debug)]
pub struct Network(Rc<RefCell<World>>);

/// One shard's access to a [`Network`].
#[derive(Debug)]
pub struct SimDriver {
    world: Rc<RefCell<World>>,
    shard: usize,
}

#[derive(Debug)]
struct World {
    random: Random,
    now: Time,
    pipes: Vec<Pipe>,
    shards: Vec<Place>,
    accepting: bool,
    /// Listeners that are closed for a while.
    closed: Vec<u16>,
    /// Connections whose handshake is done, with the listener they are for.
    backlog: VecDeque<(u16, usize)>,
    /// Connections that shards have begun and the test has not heard of.
    dialled: Vec<(Client, SocketAddr)>,
    /// The addresses of names; none for one of which nothing is heard.
    names: HashMap<String, Option<Vec<SocketAddr>>>,
}

/// What the network knows of a shard.
#[derive(Debug)]
struct Place {
    events: Vec<Event>,
    woken: Arc<AtomicBool>,
    /// Until when it sleeps unless something happens.
    sleeps_until: Time,
    /// Its next poll is interrupted, and tells of nothing.
    is_interrupted: bool,
}

/// One connection.
#[derive(Debug, Default)]
struct Pipe {
    /// On their way to the server, with their time of arrival.
    flight: VecDeque<(Time, Parcel)>,
    arrived: VecDeque<u8>,
    /// Bytes that the server has read.
    taken: usize,
    /// The client's end has arrived.
    ended: bool,
    /// The client's reset has arrived.
    reset: bool,
    /// In the server's socket buffer.
    buffered: VecDeque<u8>,
    buffer_max: usize,
    /// The server was refused room and waits for an event.
    blocked: bool,
    shut: bool,
    closed: bool,
    registered: Option<(usize, Key)>,
    /// Begun by a shard, and not taken or refused yet.
    connecting: bool,
    refused: bool,
    received: Vec<u8>,
    stalled: bool,
}

#[derive(Debug)]
enum Parcel {
    Open(u16),
    Bytes(Vec<u8>),
    End,
    Reset,
    Taken,
    Refused,
}

impl Network {
    /// A network of a number of shards.
    pub fn new(seed: u64, shards: usize) -> Network {
        let place = |_| Place {
            events: Vec::new(),
            woken: Arc::default(),
            sleeps_until: Time::ZERO,
            is_interrupted: false,
        };
        Network(Rc::new(RefCell::new(World {
            random: Random(seed),
            now: Time::from_nanos(1),
            pipes: Vec::new(),
            shards: (0..shards).map(place).collect(),
            accepting: true,
            closed: Vec::new(),
            backlog: VecDeque::new(),
            dialled: Vec::new(),
            names: HashMap::new(),
        })))
    }

    /// The driver of one shard, and the way to wake it.
    pub fn driver(&self, shard: usize) -> (SimDriver, Arc<dyn Wake>) {
        let woken = self.0.borrow().shards.get(shard).map(|place| Arc::clone(&place.woken));
        let driver = SimDriver { world: Rc::clone(&self.0), shard };
        (driver, Arc::new(SimWake(woken.unwrap_or_default())))
    }

    /// The kernel takes so many bytes for a client before it has read any.
    pub fn set_buffer(&self, client: Client, bytes: usize) {
        if let Some(pipe) = self.0.borrow_mut().pipes.get_mut(client.0) {
            pipe.buffer_max = bytes;
        }
    }

    /// Bytes that have been written to a client, whether it has received them or not.
    pub fn written(&self, client: Client) -> usize {
        let world = self.0.borrow();
        world.pipes.get(client.0).map_or(0, |pipe| pipe.received.len() + pipe.buffered.len())
    }

    /// A client begins to connect.
    pub fn connect(&self, listener: u16) -> Client {
        let mut world = self.0.borrow_mut();
        let buffer_max = 1 + world.random.below(64 * 1024);
        let client = world.pipes.len();
        world.pipes.push(Pipe { buffer_max, ..Pipe::default() });
        world.launch(client, Parcel::Open(listener));
        Client(client)
    }

    /// The connections that shards have begun since the last call, with the addresses they are for. Each waits until it is
    /// taken or refused.
    pub fn dialled(&self) -> Vec<(Client, SocketAddr)> {
        std::mem::take(&mut self.0.borrow_mut().dialled)
    }

    /// Whom a shard connects to takes the connection.
    pub fn take(&self, client: Client) {
        self.0.borrow_mut().launch(client.0, Parcel::Taken);
    }

    /// Whom a shard connects to refuses the connection.
    pub fn refuse(&self, client: Client) {
        self.0.borrow_mut().launch(client.0, Parcel::Refused);
    }

    /// Gives a name its addresses; without any it is never answered. Other names are not known.
    pub fn set_name(&self, host: &str, addresses: Option<Vec<SocketAddr>>) {
        self.0.borrow_mut().names.insert(host.to_owned(), addresses);
    }

    /// A client sends bytes, which arrive in pieces.
    pub fn send(&self, client: Client, mut bytes: &[u8]) {
        let mut world = self.0.borrow_mut();
        while !bytes.is_empty() {
            let scale = 1 << world.random.below(18);
            let count = (1 + world.random.below(scale)).min(bytes.len());
            let (piece, rest) = bytes.split_at(count);
            world.launch(client.0, Parcel::Bytes(piece.to_vec()));
            bytes = rest;
        }
    }

    /// A client closes its side.
    pub fn finish(&self, client: Client) {
        self.0.borrow_mut().launch(client.0, Parcel::End);
    }

    /// A client vanishes.
    pub fn reset(&self, client: Client) {
        self.0.borrow_mut().launch(client.0, Parcel::Reset);
    }

    /// A client stops reading, or goes on.
    pub fn stall(&self, client: Client, stalled: bool) {
        if let Some(pipe) = self.0.borrow_mut().pipes.get_mut(client.0) {
            pipe.stalled = stalled;
        }
    }

    /// How many bytes the server has read of what a client has sent.
    pub fn taken(&self, client: Client) -> usize {
        self.0.borrow().pipes.get(client.0).map_or(0, |pipe| pipe.taken)
    }

    /// All a client has received.
    pub fn received(&self, client: Client) -> Vec<u8> {
        let world = self.0.borrow();
        world.pipes.get(client.0).map_or_else(Vec::new, |pipe| pipe.received.clone())
    }

    /// How many bytes a client has received.
    pub fn received_len(&self, client: Client) -> usize {
        self.0.borrow().pipes.get(client.0).map_or(0, |pipe| pipe.received.len())
    }

    /// Whether the server has closed or shut its side and the client has read everything.
    pub fn is_ended(&self, client: Client) -> bool {
        let world = self.0.borrow();
        let pipe = world.pipes.get(client.0);
        pipe.is_none_or(|pipe| (pipe.shut || pipe.closed) && pipe.buffered.is_empty())
    }

    /// The clock.
    pub fn now(&self) -> Time {
        self.0.borrow().now
    }

    /// A number below `bound`, for decisions of the test.
    pub fn random(&self, bound: usize) -> usize {
        self.0.borrow_mut().random.below(bound)
    }

    /// The server's process stands still for a time, as by SIGSTOP, while its sockets take what comes. The
    /// poll in which it was stopped is interrupted, as Linux does it.
    pub fn pause(&self, span: Span) {
        let mut world = self.0.borrow_mut();
        world.now = world.now + span;
        world.carry();
        for place in &mut world.shards {
            place.is_interrupted = true;
            place.sleeps_until = Time::ZERO;
        }
    }

    /// Lets bytes move, and says which shards have a reason to run, in the order of the seed. If
    /// none has, time passes until something happens.
    pub fn advance(&self) -> Vec<usize> {
        let mut world = self.0.borrow_mut();
        let step = world.random.below(200_000) as u64;
        world.now = world.now + Span::from_nanos(step);
        world.carry();
        let mut awake = world.awake();
        if awake.is_empty() {
            world.now = world.next_event().max(world.now);
            world.carry();
            awake = world.awake();
        }
        for index in (1..awake.len()).rev() {
            let other = world.random.below(index + 1);
            awake.swap(index, other);
        }
        awake
    }
}

impl World {
    /// Sends something on its way, behind what is under way already.
    fn launch(&mut self, client: usize, parcel: Parcel) {
        let delay = 1 << self.random.below(24);
        let arrival = self.now + Span::from_nanos(self.random.below(delay) as u64);
        if let Some(pipe) = self.pipes.get_mut(client) {
            let last = pipe.flight.back().map_or(Time::ZERO, |(time, _)| *time);
            pipe.flight.push_back((arrival.max(last), parcel));
        }
    }

    fn carry(&mut self) {
        for client in 0..self.pipes.len() {
            self.carry_in(client);
            self.carry_out(client);
        }
    }

    fn carry_in(&mut self, client: usize) {
        let Some(pipe) = self.pipes.get_mut(client) else {
            return;
        };
        let (mut changed, mut is_taken) = (false, false);
        while pipe.flight.front().is_some_and(|(time, _)| *time <= self.now) {
            let Some((_, parcel)) = pipe.flight.pop_front() else {
                break;
            };
            changed = true;
            match parcel {
                // The kernel refuses it.
                Parcel::Open(listener) if self.closed.contains(&listener) => pipe.closed = true,
                Parcel::Open(listener) => {
                    self.backlog.push_back((listener, client));
                    if let Some(place) = self.shards.first_mut() {
                        place.events.push(Event::Accept(listener));
                    }
                }
                Parcel::Bytes(bytes) => pipe.arrived.extend(bytes),
                Parcel::End => pipe.ended = true,
                Parcel::Reset => pipe.reset = true,
                Parcel::Taken => (pipe.connecting, is_taken) = (false, true),
                Parcel::Refused => pipe.refused = true,
            }
        }
        if changed {
            let writable = pipe.reset || is_taken;
            self.tell(client, true, writable);
        }
    }

    fn carry_out(&mut self, client: usize) {
        let Some(pipe) = self.pipes.get_mut(client) else {
            return;
        };
        if pipe.stalled || pipe.buffered.is_empty() {
            return;
        }
        let count = (1 + self.random.below(pipe.buffer_max)).min(pipe.buffered.len());
        pipe.received.extend(pipe.buffered.drain(..count));
        if std::mem::take(&mut pipe.blocked) {
            self.tell(client, false, true);
        }
    }

    fn tell(&mut self, client: usize, readable: bool, writable: bool) {
        let Some(pipe) = self.pipes.get(client) else {
            return;
        };
        let Some((shard, key)) = pipe.registered else {
            return;
        };
        let (ended, broken) = (pipe.ended || pipe.reset, pipe.reset);
        if let Some(place) = self.shards.get_mut(shard) {
            place.events.push(Event::Stream { key, readable, writable, ended, broken });
        }
    }

    fn awake(&self) -> Vec<usize> {
        let awake = |place: &Place| {
            !place.events.is_empty()
                || place.woken.load(Ordering::Relaxed)
                || place.sleeps_until <= self.now
        };
        let places = self.shards.iter().enumerate();
        places.filter(|(_, place)| awake(place)).map(|(shard, _)| shard).collect()
    }

    fn next_event(&self) -> Time {
        let flights = self.pipes.iter().filter_map(|pipe| Some(pipe.flight.front()?.0));
        let sleeps = self.shards.iter().map(|place| place.sleeps_until);
        flights.chain(sleeps).min().unwrap_or(self.now)
    }

    fn pipe(&mut self, stream: &SimStream) -> io::Result<&mut Pipe> {
        let pipe = self.pipes.get_mut(stream.0).ok_or(io::ErrorKind::NotConnected)?;
        if pipe.reset {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        Ok(pipe)
    }
}

impl Driver for SimDriver {
    type Stream = SimStream;

    fn now(&mut self) -> Now {
        let time = self.world.borrow().now;
        Now { time, wall_ms: WALL_MS + time.as_nanos() / 1_000_000 }
    }

    fn random(&mut self) -> u128 {
        let random = &mut self.world.borrow_mut().random;
        u128::from(random.next()) << 64 | u128::from(random.next())
    }

    fn poll(&mut self, timeout: Span, events: &mut Vec<Event>) -> io::Result<()> {
        let world = &mut *self.world.borrow_mut();
        if let Some(place) = world.shards.get_mut(self.shard) {
            place.sleeps_until = world.now + timeout;
            place.woken.store(false, Ordering::Relaxed);
            if std::mem::take(&mut place.is_interrupted) {
                return Ok(());
            }
            let told = place.events.len().min(EVENTS_PER_POLL);
            events.extend(place.events.drain(..told));
        }
        Ok(())
    }

    fn accept(&mut self, listener: u16) -> Accepted<SimStream> {
        let world = &mut *self.world.borrow_mut();
        let found = world.backlog.iter().position(|(wanted, _)| *wanted == listener);
        let Some((_, client)) = found.and_then(|index| world.backlog.remove(index)) else {
            return Accepted::Empty;
        };
        if !world.accepting {
            return Accepted::Empty;
        }
        let address = Ipv4Addr::from(0x0A00_0000 + client as u32 / 4);
        Accepted::Stream(SimStream(client), SocketAddr::from((address, 1024 + client as u16)))
    }

    fn connect(&mut self, address: SocketAddr) -> io::Result<SimStream> {
        let world = &mut *self.world.borrow_mut();
        let buffer_max = 1 + world.random.below(64 * 1024);
        let client = world.pipes.len();
        world.pipes.push(Pipe { buffer_max, connecting: true, ..Pipe::default() });
        world.dialled.push((Client(client), address));
        Ok(SimStream(client))
    }

    fn connected(&mut self, stream: &mut SimStream) -> io::Result<bool> {
        let world = &mut *self.world.borrow_mut();
        let pipe = world.pipe(stream)?;
        if pipe.refused {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        Ok(!pipe.connecting)
    }

    fn resolve(&mut self, host: &str, _port: u16, answer: NameAnswer) {
        let known = self.world.borrow().names.get(host).cloned();
        match known {
            Some(Some(addresses)) => answer(Ok(addresses)),
            Some(None) => {}
            None => answer(Err(io::ErrorKind::NotFound.into())),
        }
    }

    fn stop_accepting(&mut self) {
        let world = &mut *self.world.borrow_mut();
        world.accepting = false;
        for (_, client) in world.backlog.drain(..) {
            if let Some(pipe) = world.pipes.get_mut(client) {
                pipe.closed = true;
            }
        }
    }

    fn close_listener(&mut self, listener: u16) -> bool {
        let world = &mut *self.world.borrow_mut();
        if self.shard > 0 || world.closed.contains(&listener) {
            return false;
        }
        world.closed.push(listener);
        let pipes = &mut world.pipes;
        world.backlog.retain(|(wanted, client)| {
            let is_refused = *wanted == listener;
            if let Some(pipe) = pipes.get_mut(*client).filter(|_| is_refused) {
                pipe.closed = true;
            }
            !is_refused
        });
        true
    }

    fn open_listener(&mut self, listener: u16, _: i32) -> io::Result<()> {
        self.world.borrow_mut().closed.retain(|closed| *closed != listener);
        Ok(())
    }

    fn register(&mut self, stream: &mut SimStream, key: Key) -> io::Result<()> {
        let world = &mut *self.world.borrow_mut();
        if let Some(pipe) = world.pipes.get_mut(stream.0) {
            pipe.registered = Some((self.shard, key));
            let readable = !pipe.arrived.is_empty() || pipe.ended || pipe.reset;
            let writable = !pipe.blocked && !pipe.connecting;
            if readable || writable {
                world.tell(stream.0, readable, writable);
            }
        }
        Ok(())
    }

    fn deregister(&mut self, stream: &mut SimStream) {
        if let Some(pipe) = self.world.borrow_mut().pipes.get_mut(stream.0) {
            pipe.registered = None;
        }
    }

    fn read(&mut self, stream: &mut SimStream, buffer: &mut [u8]) -> io::Result<usize> {
        let world = &mut *self.world.borrow_mut();
        let pipe = world.pipe(stream)?;
        let count = pipe.arrived.len().min(buffer.len());
        if count == 0 {
            return if pipe.ended { Ok(0) } else { Err(io::ErrorKind::WouldBlock.into()) };
        }
        io::Read::read_exact(&mut pipe.arrived, buffer.get_mut(..count).unwrap_or_default())?;
        pipe.taken += count;
        Ok(count)
    }

    fn write(&mut self, stream: &mut SimStream, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let world = &mut *self.world.borrow_mut();
        let pipe = world.pipe(stream)?;
        if pipe.shut {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let room = pipe.buffer_max.saturating_sub(pipe.buffered.len());
        let offered: usize = slices.iter().map(|slice| slice.len()).sum();
        let mut left = room;
        for slice in slices {
            let taken = slice.get(..left.min(slice.len())).unwrap_or_default();
            pipe.buffered.extend(taken);
            left -= taken.len();
        }
        pipe.blocked |= offered > room;
        if room == 0 && offered > 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(offered.min(room))
    }

    fn shutdown_write(&mut self, stream: &mut SimStream) {
        if let Some(pipe) = self.world.borrow_mut().pipes.get_mut(stream.0) {
            pipe.shut = true;
        }
    }

    fn close(&mut self, stream: SimStream) {
        let world = &mut *self.world.borrow_mut();
        if let Some(pipe) = world.pipes.get_mut(stream.0) {
            // As the kernel does: closing with unread bytes resets, and what was not sent is lost.
            if !pipe.arrived.is_empty() {
                pipe.buffered.clear();
            }
            pipe.closed = true;
            pipe.registered = None;
            pipe.arrived = VecDeque::new();
        }
    }
}

struct SimWake(Arc<AtomicBool>);

impl Wake for SimWake {
    fn wake(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// SplitMix64: small, and good enough to decide fates.
#[derive(Debug)]
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }
}

/// The simulated wall clock begins at the turn of 2026.
const WALL_MS: u64 = 1_767_225_600_000;
