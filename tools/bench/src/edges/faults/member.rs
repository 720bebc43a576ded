//! One client of the faults: its socket, its conversation, what it has seen and since when it is away.
//!
//! Invariant: what it has seen outlives its connections.

use std::fmt;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use mio::net::TcpStream;
use mio::{Registry, Token};

use super::checker::{Counters, Seen};
use super::events::Events;
use super::fleet::INTEREST;
use super::native::Native;
use super::socketio::SocketIo;
use super::speech::{Change, Speech, Told};

/// What a client speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Native,
    SocketIo,
    Events,
}

impl Kind {
    /// Of the client of that number: a third of each.
    pub(super) fn of(number: usize) -> Kind {
        match number % 3 {
            0 => Kind::Native,
            1 => Kind::SocketIo,
            _ => Kind::Events,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Native => "native",
            Kind::SocketIo => "Socket.IO",
            Kind::Events => "SSE",
        })
    }
}

/// A client.
#[derive(Debug)]
pub(super) struct Member {
    name: String,
    pub(super) kind: Kind,
    /// The server that it is at, or goes to.
    pub(super) at: usize,
    pub(super) topics: Vec<String>,
    pub(super) seen: Seen,
    speech: Box<dyn Speech>,
    stream: Option<TcpStream>,
    input: Vec<u8>,
    out: Vec<u8>,
    due: Instant,
    is_ready: bool,
    /// Since when it is away, and for how long of that it has waited on purpose.
    away: Option<(Instant, Duration)>,
    /// It has come back, and the gaps since then are not counted.
    has_returned: bool,
}

/// What came of reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Read {
    Nothing,
    /// It has all its subscriptions again: what that took without its pauses, and whether something was missing after it had come
    /// back the time before.
    Returned {
        took: Duration,
        has_gap: bool,
    },
}

impl Member {
    /// A client that connects to a server as soon as it may.
    pub(super) fn new(number: usize, kind: Kind, at: usize, topics: Vec<String>) -> Member {
        let speech: Box<dyn Speech> = match kind {
            Kind::Native => Box::new(Native::new(&topics)),
            Kind::SocketIo => Box::new(SocketIo::new(&topics)),
            Kind::Events => Box::new(Events::new(&topics)),
        };
        Member {
            name: format!("client {number} ({kind})"),
            kind,
            at,
            topics,
            seen: Seen::default(),
            speech,
            stream: None,
            input: Vec::new(),
            out: Vec::new(),
            due: Instant::now(),
            is_ready: false,
            away: None,
            has_returned: false,
        }
    }

    /// For people.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Whether it has all its subscriptions.
    pub(super) fn is_ready(&self) -> bool {
        self.is_ready
    }

    /// Whether it is to connect now.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.stream.is_none() && now >= self.due
    }

    /// Connects.
    ///
    /// # Errors
    /// When that fails at once.
    pub(super) fn connect(
        &mut self,
        address: SocketAddr,
        token: Token,
        registry: &Registry,
    ) -> io::Result<()> {
        let mut stream = TcpStream::connect(address)?;
        registry.register(&mut stream, token, INTEREST)?;
        // Without it an answer may wait for the server's acknowledgement; nothing else depends on it.
        let _ = stream.set_nodelay(true);
        self.stream = Some(stream);
        self.input.clear();
        self.out.clear();
        self.speech.open(&address.to_string(), &mut self.out);
        Ok(())
    }

    /// Its connection is lost; it connects again after a pause.
    pub(super) fn lose(&mut self, now: Instant, registry: &Registry, pause: Duration) {
        if let Some(mut stream) = self.stream.take() {
            // A closed socket is forgotten by the poller anyway.
            let _ = registry.deregister(&mut stream);
        }
        self.is_ready = false;
        self.due = now + pause;
        let (since, paused) = self.away.unwrap_or((now, Duration::ZERO));
        self.away = Some((since, paused + pause));
    }

    /// Changes one subscription.
    pub(super) fn change(&mut self, from: &str, to: &str, now: Instant, registry: &Registry) {
        let Some(place) = self.topics.iter().position(|topic| topic == from) else { return };
        if let Some(topic) = self.topics.get_mut(place) {
            to.clone_into(topic);
        }
        self.is_ready = false;
        match self.speech.change(from, to, &mut self.out) {
            Change::Asked => {
                self.seen.forget(from);
                // A failure shows when the socket is read.
                let _ = self.write();
            }
            Change::Reconnect => {
                self.seen.forget_all();
                self.lose(now, registry, Duration::ZERO);
            }
        }
    }

    /// Writes and reads what it can.
    ///
    /// # Errors
    /// When the connection is over: why.
    pub(super) fn read(&mut self, counters: &mut Counters) -> io::Result<Read> {
        self.write()?;
        let mut outcome = Read::Nothing;
        let mut block = [0; BLOCK_BYTES];
        loop {
            let Some(stream) = &mut self.stream else { return Ok(outcome) };
            match stream.read(&mut block) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(read) => self.input.extend_from_slice(block.get(..read).unwrap_or_default()),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(outcome),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::NotConnected => return Ok(outcome),
                Err(error) => return Err(error),
            }
            if self.take(counters)? {
                outcome = self.returned(outcome);
            }
            self.write()?;
        }
    }

    /// Takes in what was read; whether it has all its subscriptions now.
    fn take(&mut self, counters: &mut Counters) -> io::Result<bool> {
        let Member { speech, seen, input, out, name, .. } = self;
        let mut is_ready = false;
        let taken = speech.take(input, out, &mut |told| match told {
            Told::Value(message) => seen.check(name, &message, counters),
            Told::Removed(topic) => seen.forget(topic),
            Told::Gap(topic) => seen.gap(topic),
            Told::Ready => is_ready = true,
        })?;
        self.input.drain(..taken);
        Ok(is_ready)
    }

    fn returned(&mut self, before: Read) -> Read {
        self.is_ready = true;
        let Some((since, paused)) = self.away.take() else { return before };
        let has_gap = self.take_gap().is_some();
        self.has_returned = true;
        Read::Returned { took: since.elapsed().saturating_sub(paused), has_gap }
    }

    /// Something was missing since it has come back, which is not counted twice.
    pub(super) fn take_gap(&mut self) -> Option<()> {
        let has_gap = std::mem::take(&mut self.seen.has_gap);
        (has_gap && std::mem::take(&mut self.has_returned)).then_some(())
    }

    fn write(&mut self) -> io::Result<()> {
        let Some(stream) = &mut self.stream else { return Ok(()) };
        while !self.out.is_empty() {
            match stream.write(&self.out) {
                Ok(written) => {
                    self.out.drain(..written);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error)
                    if [ErrorKind::WouldBlock, ErrorKind::NotConnected].contains(&error.kind()) =>
                {
                    return Ok(());
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

const BLOCK_BYTES: usize = 64 << 10;
