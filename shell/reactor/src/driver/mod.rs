//! The seam between the event loop and the world: every system call goes through [`Driver`].
//!
//! [`os`] is the operating system, [`sim`] a network, a clock and a fate decided by a seed. The
//! loop cannot tell them apart, so what the simulator finds is true of the server.

mod local;
mod names;
pub mod os;
pub mod sim;

use std::io::{self, IoSlice};
use std::net::SocketAddr;

use tiderace_base::{Key, Now, Span};

/// One shard's access to clock and network. Readiness is edge-triggered: an event is told once,
/// and again only after the stream would have blocked.
pub trait Driver {
    /// A connection; may move to another shard while it is not registered.
    type Stream: Send + 'static;

    /// Reads both clocks.
    fn now(&mut self) -> Now;

    /// A number nobody can guess.
    fn random(&mut self) -> u128;

    /// Waits for events, until the shard's [`Wake`] is used or for at most `timeout`.
    ///
    /// # Errors
    /// When the operating system refuses to wait; the shard cannot go on then.
    fn poll(&mut self, timeout: Span, events: &mut Vec<Event>) -> io::Result<()>;

    /// Takes the next connection of a listener.
    fn accept(&mut self, listener: u16) -> Accepted<Self::Stream>;

    /// Begins to connect; [`Driver::connected`] says what has become of it, once events tell of the stream.
    ///
    /// # Errors
    /// When the operating system refuses at once, or this driver connects to nobody.
    fn connect(&mut self, _address: SocketAddr) -> io::Result<Self::Stream> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Whether the other side has taken a connection.
    ///
    /// # Errors
    /// When it does not.
    fn connected(&mut self, _stream: &mut Self::Stream) -> io::Result<bool> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Asks for the addresses of a name; the answer may come later, from any thread, or never.
    fn resolve(&mut self, _host: &str, _port: u16, answer: NameAnswer) {
        answer(Err(io::ErrorKind::Unsupported.into()));
    }

    /// Closes all listeners of this shard.
    fn stop_accepting(&mut self);

    /// Closes one listener of this shard; false if it has none of that number that is open. One that another process
    /// holds as well stays open there: connections wait until somebody accepts from it again.
    fn close_listener(&mut self, listener: u16) -> bool;

    /// Opens a listener again that [`Driver::close_listener`] has closed, where it was.
    ///
    /// # Errors
    /// When the operating system refuses, such as if another process has taken the address meanwhile.
    fn open_listener(&mut self, listener: u16, backlog: i32) -> io::Result<()>;

    /// Asks for events of a stream under a key.
    ///
    /// # Errors
    /// When the operating system refuses.
    fn register(&mut self, stream: &mut Self::Stream, key: Key) -> io::Result<()>;

    /// Ends [`Driver::register`], so that the stream may go to another shard.
    fn deregister(&mut self, stream: &mut Self::Stream);

    /// Reads what is there; 0 when the peer has closed its side.
    ///
    /// # Errors
    /// `WouldBlock` when nothing is there; others when the connection is broken.
    fn read(&mut self, stream: &mut Self::Stream, buffer: &mut [u8]) -> io::Result<usize>;

    /// Writes as much as fits.
    ///
    /// # Errors
    /// `WouldBlock` when nothing fits; others when the connection is broken.
    fn write(&mut self, stream: &mut Self::Stream, slices: &[IoSlice<'_>]) -> io::Result<usize>;

    /// Tells the peer that no more bytes come.
    fn shutdown_write(&mut self, stream: &mut Self::Stream);

    /// Closes the connection.
    fn close(&mut self, stream: Self::Stream);
}

/// Takes the addresses of a name, best first.
pub type NameAnswer = Box<dyn FnOnce(io::Result<Vec<SocketAddr>>) + Send>;

/// Something has become possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A listener has connections to accept.
    Accept(u16),
    /// A stream changed.
    Stream {
        /// The key it was registered under.
        key: Key,
        /// Bytes, an end or an error can be read.
        readable: bool,
        /// There is room to write.
        writable: bool,
        /// The peer sends no more: reads must go on until they say so.
        ended: bool,
        /// The connection is beyond use in both directions.
        broken: bool,
    },
}

/// The outcome of [`Driver::accept`].
#[derive(Debug)]
pub enum Accepted<S> {
    /// A new connection.
    Stream(S, SocketAddr),
    /// None is waiting.
    Empty,
    /// One was waiting but no file descriptor was free; it has been closed.
    Exhausted,
    /// One was waiting but it broke.
    Failed,
}

/// Events that one poll tells of at most; more wait for the next turn, which follows at once.
pub(crate) const EVENTS_PER_POLL: usize = 1024;

/// Ends another shard's [`Driver::poll`].
pub trait Wake: Send + Sync {
    /// Makes the present poll return, or the next one if the shard is not polling.
    fn wake(&self);
}
