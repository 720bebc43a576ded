//! The operating system: one `mio` poll per shard, non-blocking sockets, edge-triggered.
//!
//! Relies on epoll's promise that a stream read short, or written short, is told again when that
//! changes. Keeps one file descriptor in reserve so that running out of them ends as a closed
//! connection and not as a listener that spins.

use std::fs::File;
use std::io::{self, IoSlice, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use mio::event::Source;
use mio::net::{TcpListener, TcpStream, UnixListener};
use mio::{Events, Interest, Poll, Token, Waker};
use socket2::{Domain, Protocol, Socket, TcpKeepalive, Type};
use tiderace_base::{Key, Now, Span, Time};

use super::local::{SocketFile, accept_locally, listen_locally};
use super::names::Names;
use super::{Accepted, Driver, EVENTS_PER_POLL, Event, NameAnswer, Wake};
use crate::listener_at::ListenerAt;

/// How sockets are set up. Absent values leave the choice to the operating system, whose
/// autotuning is usually better than a guess.
#[derive(Clone, Copy, Debug)]
pub struct SocketOptions {
    /// `SO_SNDBUF`, in bytes.
    pub send_buffer_bytes: Option<usize>,
    /// `SO_RCVBUF`, in bytes.
    pub receive_buffer_bytes: Option<usize>,
    /// How long a peer may be unreachable: after that much silence the kernel probes it, and gives
    /// it up after as much again, or when sent bytes stay unacknowledged for that long. Without it
    /// the connections of machines that lost their power would stay.
    pub unreachable_after: Option<Span>,
    /// `TCP_NOTSENT_LOWAT`, in bytes: how much not yet sent the kernel takes before it says "full".
    pub unsent_bytes_max: Option<u32>,
}

impl Default for SocketOptions {
    fn default() -> Self {
        SocketOptions {
            send_buffer_bytes: None,
            receive_buffer_bytes: None,
            unreachable_after: Some(Span::from_secs(120)),
            unsent_bytes_max: None,
        }
    }
}

/// A socket that listens.
#[derive(Debug)]
pub struct ListeningSocket {
    /// The socket.
    pub socket: AnyListener,
    /// Whether another process holds it as well, such as systemd, so that nobody can listen there anew.
    pub is_inherited: bool,
}

/// A socket of either kind.
#[derive(Debug)]
pub enum AnyListener {
    /// One with an address.
    Address(TcpListener),
    /// The admin socket.
    Local(LocalListener),
}

/// A Unix socket that listens.
#[derive(Debug)]
pub struct LocalListener {
    socket: UnixListener,
    /// Its file, if this process has made it. It goes behind the socket, so that nobody listens there then.
    _file: Option<SocketFile>,
    path: PathBuf,
}

impl LocalListener {
    /// Opens one to which its owner alone may connect.
    ///
    /// # Errors
    /// When another server listens there, or the operating system does not allow it.
    pub fn open(path: &Path, backlog: i32) -> io::Result<LocalListener> {
        let (socket, file) = listen_locally(path, backlog)?;
        Ok(LocalListener { socket, _file: Some(file), path: path.to_owned() })
    }

    /// One that the process was given.
    pub fn inherited(socket: UnixListener, path: &Path) -> LocalListener {
        LocalListener { socket, _file: None, path: path.to_owned() }
    }
}

impl AnyListener {
    fn place(&self) -> io::Result<ListenerAt> {
        Ok(match self {
            AnyListener::Address(socket) => ListenerAt::Address(socket.local_addr()?),
            AnyListener::Local(local) => ListenerAt::Socket(local.path.clone()),
        })
    }

    fn source(&mut self) -> &mut dyn Source {
        match self {
            AnyListener::Address(socket) => socket,
            AnyListener::Local(local) => &mut local.socket,
        }
    }

    fn accept(&self) -> io::Result<Accepted<TcpStream>> {
        match self {
            AnyListener::Address(socket) => {
                socket.accept().map(|(stream, peer)| Accepted::Stream(stream, peer))
            }
            AnyListener::Local(local) => accept_locally(&local.socket),
        }
    }
}

/// A place to listen, whether or not that is done.
#[derive(Debug)]
struct Listening {
    socket: Option<AnyListener>,
    is_inherited: bool,
    /// An inherited socket that is not accepted from: connections wait in it.
    unused: Option<AnyListener>,
    /// Where it was when it was open last, with the port that was chosen.
    at: ListenerAt,
}

/// Sockets, epoll and clocks of one shard.
#[derive(Debug)]
pub struct OsDriver {
    poll: Poll,
    events: Events,
    listeners: Vec<Listening>,
    options: SocketOptions,
    reserve: Option<File>,
    names: Names,
    epoch: Instant,
}

impl OsDriver {
    /// A driver that accepts from `listeners`; all drivers of a node share the `epoch` of their
    /// clock.
    ///
    /// # Errors
    /// When the operating system has no epoll or no file descriptor left.
    pub fn new(
        sockets: Vec<ListeningSocket>,
        options: SocketOptions,
        epoch: Instant,
    ) -> io::Result<(OsDriver, Arc<dyn Wake>)> {
        let poll = Poll::new()?;
        let waker = Waker::new(poll.registry(), WAKER)?;
        let mut listeners = Vec::new();
        for (index, ListeningSocket { mut socket, is_inherited }) in sockets.into_iter().enumerate()
        {
            let token = listener_token(index);
            poll.registry().register(socket.source(), token, Interest::READABLE)?;
            let at = socket.place()?;
            let socket = Some(socket);
            listeners.push(Listening { socket, is_inherited, unused: None, at });
        }
        let driver = OsDriver {
            poll,
            events: Events::with_capacity(EVENTS_PER_POLL),
            listeners,
            options,
            reserve: File::open("/dev/null").ok(),
            names: Names::default(),
            epoch,
        };
        Ok((driver, Arc::new(OsWake(waker))))
    }

    fn prepare(&self, stream: TcpStream, is_local: bool) -> io::Result<TcpStream> {
        let socket = socket2::SockRef::from(&stream);
        if let Some(bytes) = self.options.send_buffer_bytes {
            socket.set_send_buffer_size(bytes)?;
        }
        // The rest is about networks.
        if is_local {
            return Ok(stream);
        }
        // A small message must not wait for the acknowledgement of the one before it.
        stream.set_nodelay(true)?;
        if let Some(span) = self.options.unreachable_after {
            let interval = (span / KEEPALIVE_PROBES).max(Span::from_secs(1));
            let keepalive = TcpKeepalive::new().with_time(span).with_interval(interval);
            socket.set_tcp_keepalive(&keepalive.with_retries(KEEPALIVE_PROBES))?;
            #[cfg(target_os = "linux")]
            socket.set_tcp_user_timeout(Some(span))?;
        }
        #[cfg(target_os = "linux")]
        if let Some(bytes) = self.options.unsent_bytes_max {
            socket.set_tcp_notsent_lowat(bytes)?;
        }
        Ok(stream)
    }

    /// Frees the reserve, takes the connection that cannot be served and hangs up on it, so that it
    /// does not wait in the backlog for ever.
    fn hang_up(&mut self, listener: usize) {
        self.reserve = None;
        if let Some(socket) = self.listeners.get(listener).and_then(|it| it.socket.as_ref()) {
            drop(socket.accept());
        }
        self.reserve = File::open("/dev/null").ok();
    }
}

impl Driver for OsDriver {
    type Stream = TcpStream;

    fn now(&mut self) -> Now {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH);
        Now {
            time: Time::ZERO + self.epoch.elapsed(),
            wall_ms: wall.map_or(0, |since| since.as_millis() as u64),
        }
    }

    fn random(&mut self) -> u128 {
        let mut bytes = [0; 16];
        // Without a source of random numbers no ticket could be kept secret: better to have no shard.
        let filled = getrandom::fill(&mut bytes);
        assert!(filled.is_ok(), "the operating system has no random numbers: {filled:?}");
        u128::from_ne_bytes(bytes)
    }

    fn poll(&mut self, timeout: Span, events: &mut Vec<Event>) -> io::Result<()> {
        match self.poll.poll(&mut self.events, Some(timeout)) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(()),
            Err(error) => return Err(error),
        }
        events.extend(self.events.iter().filter_map(|event| {
            let token = event.token().0 as u64;
            let (slot, generation) = (token as u32, (token >> 32) as u32);
            if slot != NO_SLOT {
                return Some(Event::Stream {
                    key: Key { slot, generation },
                    readable: event.is_readable() || event.is_read_closed() || event.is_error(),
                    writable: event.is_writable() || event.is_error(),
                    ended: event.is_read_closed() || event.is_error(),
                    broken: event.is_error() || event.is_read_closed() && event.is_write_closed(),
                });
            }
            (event.token() != WAKER).then_some(Event::Accept(generation as u16))
        }));
        Ok(())
    }

    fn accept(&mut self, listener: u16) -> Accepted<TcpStream> {
        let index = usize::from(listener);
        let Some(socket) = self.listeners.get(index).and_then(|it| it.socket.as_ref()) else {
            return Accepted::Empty;
        };
        match socket.accept() {
            Ok(Accepted::Stream(stream, peer)) => {
                match self.prepare(stream, matches!(socket, AnyListener::Local(_))) {
                    Ok(stream) => Accepted::Stream(stream, peer),
                    Err(_) => Accepted::Failed,
                }
            }
            Ok(other) => other,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Accepted::Empty,
            Err(error) => match error.raw_os_error() {
                Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM) => {
                    self.hang_up(index);
                    Accepted::Exhausted
                }
                _ => Accepted::Failed,
            },
        }
    }

    fn connect(&mut self, address: SocketAddr) -> io::Result<TcpStream> {
        self.prepare(TcpStream::connect(address)?, false)
    }

    fn connected(&mut self, stream: &mut TcpStream) -> io::Result<bool> {
        if let Some(error) = stream.take_error()? {
            return Err(error);
        }
        match stream.peer_addr() {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn resolve(&mut self, host: &str, port: u16, answer: NameAnswer) {
        self.names.ask(host, port, answer);
    }

    fn stop_accepting(&mut self) {
        for mut socket in self.listeners.drain(..).filter_map(|listener| listener.socket) {
            // Closing the socket would do as well; an error here changes nothing.
            let _ = self.poll.registry().deregister(socket.source());
        }
    }

    fn close_listener(&mut self, listener: u16) -> bool {
        let Some(listening) = self.listeners.get_mut(usize::from(listener)) else { return false };
        let Some(mut socket) = listening.socket.take() else { return false };
        let _ = self.poll.registry().deregister(socket.source());
        listening.unused = listening.is_inherited.then_some(socket);
        true
    }

    fn open_listener(&mut self, listener: u16, backlog: i32) -> io::Result<()> {
        let index = usize::from(listener);
        let Some(listening) = self.listeners.get_mut(index) else { return Ok(()) };
        if listening.socket.is_none() {
            let mut socket = match listening.unused.take() {
                Some(socket) => socket,
                None => open(&listening.at, backlog, &self.options)?,
            };
            let registry = self.poll.registry();
            registry.register(socket.source(), listener_token(index), Interest::READABLE)?;
            listening.socket = Some(socket);
        }
        Ok(())
    }

    fn register(&mut self, stream: &mut TcpStream, key: Key) -> io::Result<()> {
        let token = Token(u64::from(key.slot) as usize | (key.generation as usize) << 32);
        let interest = Interest::READABLE | Interest::WRITABLE;
        self.poll.registry().register(stream, token, interest)
    }

    fn deregister(&mut self, stream: &mut TcpStream) {
        let _ = self.poll.registry().deregister(stream);
    }

    fn read(&mut self, stream: &mut TcpStream, buffer: &mut [u8]) -> io::Result<usize> {
        retry(|| stream.read(buffer))
    }

    fn write(&mut self, stream: &mut TcpStream, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match slices {
            // The usual case, and a system call that costs less.
            [slice] => retry(|| stream.write(slice)),
            _ => retry(|| stream.write_vectored(slices)),
        }
    }

    fn shutdown_write(&mut self, stream: &mut TcpStream) {
        // It fails only if the peer is gone, and then nobody waits for the end.
        let _ = stream.shutdown(Shutdown::Write);
    }

    fn close(&mut self, mut stream: TcpStream) {
        self.deregister(&mut stream);
        drop(stream);
    }
}

/// Opens a listener.
///
/// # Errors
/// When something listens there already, or the operating system does not allow it.
pub fn open(at: &ListenerAt, backlog: i32, options: &SocketOptions) -> io::Result<AnyListener> {
    match at {
        ListenerAt::Address(address) => {
            listen(*address, backlog, options).map(AnyListener::Address)
        }
        ListenerAt::Socket(path) => LocalListener::open(path, backlog).map(AnyListener::Local),
    }
}

/// Opens a listener at an address.
///
/// `SO_REUSEPORT` is not used: with it a second server on the same port would start without an
/// error and take half of the connections.
///
/// # Errors
/// When the address is taken or not one of this machine's.
fn listen(address: SocketAddr, backlog: i32, options: &SocketOptions) -> io::Result<TcpListener> {
    let domain = Domain::for_address(address);
    let socket = Socket::new(domain, Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    if let Some(bytes) = options.receive_buffer_bytes {
        // Before `listen`, for the window scale is agreed on in the handshake.
        socket.set_recv_buffer_size(bytes)?;
    }
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(backlog)?;
    Ok(TcpListener::from_std(socket.into()))
}

struct OsWake(Waker);

impl Wake for OsWake {
    fn wake(&self) {
        // The eventfd cannot overflow and outlives the shards; a full one is awake already.
        let _ = self.0.wake();
    }
}

fn retry(mut call: impl FnMut() -> io::Result<usize>) -> io::Result<usize> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            outcome => return outcome,
        }
    }
}

fn listener_token(index: usize) -> Token {
    Token(NO_SLOT as usize | index << 32)
}

/// The slot that no connection has; marks tokens that are not connections.
const NO_SLOT: u32 = u32::MAX;
const WAKER: Token = Token(usize::MAX);
/// Probes sent before a silent peer is given up.
const KEEPALIVE_PROBES: u32 = 4;
const _: () = assert!(usize::BITS == 64, "a token holds slot and generation");
