//! One client: a socket, what carries its frames, and its session.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use super::carrier::Carrier;
use super::frame;
use super::load::Turn;
use super::session::{Hearing, Session};
use crate::args::RsocketTransport;
use crate::clients::carrier::Place;

/// A client.
#[derive(Debug)]
pub(super) struct Client {
    /// Its socket.
    pub stream: TcpStream,
    carrier: Carrier,
    /// Its streams.
    pub session: Session,
    /// Beyond use.
    pub is_broken: bool,
    /// In the list of those to be read.
    pub is_queued: bool,
    /// When it next shows that it lives.
    keepalive_ns: u64,
}

/// The outcome of one read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Outcome {
    /// Bytes read.
    pub bytes: usize,
    /// Whether the socket may have more.
    pub has_more: bool,
}

impl Client {
    /// A client on a connected socket; its SETUP goes out with what it is carried by.
    pub(super) fn new(
        stream: TcpStream,
        (transport, place): (RsocketTransport, &Arc<Place>),
        number: u32,
        routed: bool,
        now_ns: u64,
    ) -> Client {
        let mut carrier = Carrier::new(transport, place);
        let mut setup = Vec::new();
        frame::setup(&mut setup, (KEEPALIVE_MS, LIFETIME_MS), routed);
        carrier.send(&setup);
        // Not all at once: they are spread over the interval.
        let interval_ns = u64::from(KEEPALIVE_MS) * 1_000_000;
        let first = u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15) % interval_ns;
        let session = Session::new(number);
        let keepalive_ns = now_ns + interval_ns / 2 + first / 2;
        Client { stream, carrier, session, is_broken: false, is_queued: false, keepalive_ns }
    }

    /// Whether requests can be sent.
    pub(super) fn is_open(&self) -> bool {
        self.carrier.is_open()
    }

    /// Reads once and hears what came.
    ///
    /// # Errors
    /// When the connection is over.
    pub(super) fn read(
        &mut self,
        buffer: &mut [u8],
        now: impl Fn() -> u64,
        turn: &mut Turn<'_>,
    ) -> io::Result<Outcome> {
        let bytes = match self.stream.read(buffer) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                return Ok(Outcome { bytes: 0, has_more: false });
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {
                return Ok(Outcome { bytes: 0, has_more: true });
            }
            Err(error) => return Err(error),
        };
        turn.now_ns = now();
        turn.counters.read_at(turn.now_ns, bytes);
        let read = buffer.get(..bytes).unwrap_or_default();
        let mut hearing = Hearing { session: &mut self.session, turn };
        self.carrier.read(read, &mut hearing)?;
        self.say(turn);
        self.write()?;
        // A short read has emptied the socket; the next bytes raise a new event.
        Ok(Outcome { bytes, has_more: bytes == buffer.len() })
    }

    /// Hands on what the session has said; it goes out with the next write.
    pub(super) fn say(&mut self, turn: &mut Turn<'_>) {
        if !turn.said.is_empty() {
            self.carrier.send(turn.said);
            turn.said.clear();
        }
    }

    /// Shows that it lives, if it is time to.
    pub(super) fn keep_alive(&mut self, now_ns: u64) -> io::Result<()> {
        if now_ns < self.keepalive_ns || self.is_broken || !self.is_open() {
            return Ok(());
        }
        self.keepalive_ns = now_ns + u64::from(KEEPALIVE_MS) * 1_000_000;
        let mut frame = Vec::new();
        frame::keepalive(&mut frame, frame::RESPOND, &[]);
        self.carrier.send(&frame);
        self.write()
    }

    /// Writes what waits, as far as the socket takes it.
    ///
    /// # Errors
    /// When the connection is over.
    pub(super) fn write(&mut self) -> io::Result<()> {
        let out = &mut self.carrier.out;
        while !out.is_empty() {
            match self.stream.write(out) {
                Ok(written) => {
                    out.drain(..written);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// How often a client says that it lives.
const KEEPALIVE_MS: u32 = 20_000;
/// After how much silence it is to be given up: a busy machine is no reason to.
const LIFETIME_MS: u32 = 90_000;
