//! Secured connections: between the socket and everything else stands a TLS session.
//!
//! ```text
//!   socket ─▶ records ─▶ [session] ─▶ plain bytes ─▶ as any other connection
//!   socket ◀─ unsent  ◀─ [session] ◀─ plain bytes ◀─ its queue
//! ```
//! Only reading and writing know of it; what is behind sees plain bytes. The state lies beside the
//! records, so that connections without it do not grow, and goes with its connection wherever that
//! goes. Invariants: a connection is marked as secured exactly while its state is in the table; an idle
//! one holds keys and no bytes; at most [`SEALED_BYTES`] are encrypted ahead of what the socket takes.

use std::collections::HashMap;
use std::io::{self, IoSlice};
use std::panic::{AssertUnwindSafe, catch_unwind};

use tiderace_base::{Close, CloseCode, Key};
use tiderace_tls::{
    Failure, FailureKind, KEPT_BYTES_MAX, Received, Session, Settings, sealed_bytes,
};
use tiderace_wire::OutQueue;

use crate::close::Farewell;
use crate::connection::{Connection, Flags, Stage};
use crate::departure::Step;
use crate::driver::Driver;
use crate::read::READ_BYTES;
use crate::shard::Shard;

/// What one secured connection has beyond its record.
pub(crate) struct Secured {
    session: Session,
    /// Records that the socket has not taken.
    unsent: Vec<u8>,
    /// Whether its address counts it among its handshakes.
    is_counted: bool,
    /// The client has said that it sends no more.
    is_ended: bool,
    /// Nothing is decrypted or encrypted any more.
    is_failed: bool,
}

/// The secured connections of one shard, by their slots, and the buffers they share.
#[derive(Default)]
pub(crate) struct Secure {
    /// Absent: TLS is not spoken.
    pub(crate) settings: Option<Settings>,
    table: HashMap<u32, Box<Secured>>,
    wire: Vec<u8>,
    plain: Vec<u8>,
    sealed: Vec<u8>,
}

/// What a read of a socket brought.
#[derive(Debug, Default)]
pub(crate) struct Got {
    /// Bytes that came from the socket.
    pub(crate) wire: usize,
    /// Bytes for the connection's stage.
    pub(crate) plain: usize,
    /// Whether more may be there.
    pub(crate) is_full: bool,
    /// The peer has said that it sends no more.
    pub(crate) is_ended: bool,
    /// The session has ended over what came.
    pub(crate) failure: Option<Failure>,
}

impl Secure {
    pub(crate) fn new(settings: Option<Settings>) -> Secure {
        Secure { settings, ..Secure::default() }
    }

    pub(crate) fn take(&mut self, key: Key) -> Option<Box<Secured>> {
        let taken = self.table.remove(&key.slot);
        if self.table.is_empty() {
            // The next may be long in coming.
            (self.wire, self.plain, self.sealed) = Default::default();
        }
        taken
    }

    /// Whether nothing more comes from the client, which no event tells.
    pub(crate) fn is_ended(&self, key: Key) -> bool {
        self.table.get(&key.slot).is_some_and(|secured| secured.is_ended || secured.is_failed)
    }

    /// Whether client and server have agreed on HTTP/2 in the handshake.
    pub(crate) fn agreed_http2(&self, key: Key) -> bool {
        let secured = self.table.get(&key.slot);
        secured.is_some_and(|secured| secured.session.alpn() == Some(b"h2"))
    }

    pub(crate) fn put(&mut self, key: Key, secured: Option<Box<Secured>>) {
        if let Some(secured) = secured {
            self.table.insert(key.slot, secured);
        }
    }

    /// Reads a secured connection's socket and decrypts what came to the front of `space`.
    fn read<D: Driver>(
        &mut self,
        driver: &mut D,
        stream: &mut D::Stream,
        key: Key,
        space: &mut [u8],
    ) -> io::Result<Got> {
        let Some(secured) = self.table.get_mut(&key.slot) else {
            return Err(io::ErrorKind::NotConnected.into());
        };
        if secured.is_ended {
            return Ok(Got::default());
        }
        if secured.is_failed {
            return Err(io::ErrorKind::InvalidData.into());
        }
        if secured.unsent.len() > SEALED_BYTES {
            // Who asks and does not listen is not read.
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.wire.resize(READ_BYTES, 0);
        let kept = secured.session.kept().len();
        let Some((front, room)) = self.wire.split_at_mut_checked(kept) else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        front.copy_from_slice(secured.session.kept());
        // What is decrypted is never longer than what it came in.
        let most = space.len().min(READ_BYTES).saturating_sub(kept);
        let room = room.get_mut(..most).unwrap_or_default();
        let count = driver.read(stream, room)?;
        let mut got = Got { wire: count, is_full: count == most, ..Got::default() };
        if count > 0 {
            let bytes = self.wire.get_mut(..kept + count).unwrap_or_default();
            match secured.receive(bytes, space) {
                Ok(received) => {
                    secured.is_ended = received.is_ended;
                    (got.plain, got.is_ended) = (received.plain, received.is_ended);
                }
                Err(failure) => got.failure = Some(failure),
            }
        }
        Ok(got)
    }

    /// Writes what of the queue the socket takes, and says how many bytes went to the socket and whether
    /// it took all that it was given.
    fn write<D: Driver>(
        &mut self,
        driver: &mut D,
        stream: &mut D::Stream,
        key: Key,
        mut queue: Option<&mut OutQueue>,
        is_last: bool,
    ) -> io::Result<(usize, bool)> {
        let Some(secured) = self.table.get_mut(&key.slot) else {
            return Err(io::ErrorKind::NotConnected.into());
        };
        let mut written = secured.flush(driver, stream)?;
        if !secured.unsent.is_empty() {
            return Ok((written, false));
        }
        let mut budget = BLOCK_BYTES;
        while let Some(queue) = queue.as_deref_mut().filter(|queue| !queue.is_empty()) {
            if secured.is_failed || !secured.session.is_established() {
                // Nobody is there who could read it.
                queue.advance(queue.len());
                break;
            }
            if budget == 0 {
                break;
            }
            gather(queue, &mut self.plain, SEALED_BYTES.min(budget));
            self.sealed.resize(sealed_bytes(SEALED_BYTES), 0);
            let length = secured.seal(&self.plain, &mut self.sealed)?;
            queue.advance(self.plain.len());
            budget -= self.plain.len();
            let records = self.sealed.get(..length).unwrap_or_default();
            let count = match driver.write(stream, &[IoSlice::new(records)]) {
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
                Err(error) => return Err(error),
            };
            written += count;
            if let Some(rest) = records.get(count..).filter(|rest| !rest.is_empty()) {
                secured.unsent.extend_from_slice(rest);
                return Ok((written, false));
            }
        }
        if is_last && queue.is_none_or(|queue| queue.is_empty()) && secured.finish() {
            written += secured.flush(driver, stream)?;
        }
        Ok((written, secured.unsent.is_empty()))
    }
}

impl Secured {
    /// Handles bytes of the socket, the kept ones in front.
    fn receive(&mut self, bytes: &mut [u8], plain: &mut [u8]) -> Result<Received, Failure> {
        if self.is_failed {
            return Ok(Received::default());
        }
        let (session, out) = (&mut self.session, &mut self.unsent);
        let outcome = alone(|| session.receive(bytes, plain, out)).and_then(|outcome| outcome);
        self.is_failed = outcome.is_err();
        outcome
    }

    /// Encrypts, and says how long the records are.
    fn seal(&mut self, plain: &[u8], sealed: &mut [u8]) -> io::Result<usize> {
        let outcome = alone(|| self.session.send(plain, sealed)).and_then(|outcome| outcome);
        outcome.map_err(|failure| {
            self.is_failed = true;
            io::Error::other(failure)
        })
    }

    /// Says that nothing more comes; false if there was nothing to say.
    fn finish(&mut self) -> bool {
        !self.is_failed && alone(|| self.session.finish(&mut self.unsent)).unwrap_or(false)
    }

    fn flush<D: Driver>(&mut self, driver: &mut D, stream: &mut D::Stream) -> io::Result<usize> {
        if self.unsent.is_empty() {
            return Ok(0);
        }
        let count = match driver.write(stream, &[IoSlice::new(&self.unsent)]) {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
            Err(error) => return Err(error),
        };
        if count < self.unsent.len() {
            self.unsent.drain(..count);
        } else {
            self.unsent = Vec::new();
        }
        Ok(count)
    }
}

/// A session that panics ends alone, as sessions of protocols do.
fn alone<T>(call: impl FnOnce() -> T) -> Result<T, Failure> {
    catch_unwind(AssertUnwindSafe(call)).map_err(|_| {
        tracing::error!(event = "session-panic", "a TLS session failed by a defect");
        Failure::internal("the server failed to handle this connection")
    })
}

/// Whether bytes begin like a request of HTTP: with a method and a space.
fn is_http(bytes: &[u8]) -> bool {
    let method = bytes.iter().take_while(|byte| byte.is_ascii_uppercase()).count();
    method > 0 && bytes.get(method) == Some(&b' ')
}

/// Copies the front of a queue.
fn gather(queue: &OutQueue, plain: &mut Vec<u8>, most: usize) {
    plain.clear();
    let mut slices = [IoSlice::new(&[]); SLICES_PER_RECORDS];
    let count = queue.slices(&mut slices);
    for slice in slices.get(..count).unwrap_or_default() {
        let left = most - plain.len();
        plain.extend_from_slice(slice.get(..left.min(slice.len())).unwrap_or_default());
    }
}

impl<D: Driver> Shard<D> {
    /// Whether first bytes begin TLS, or would have had to.
    pub(crate) fn sniff_tls(&mut self, key: Key, bytes: &mut [u8]) -> Option<Step> {
        let connection = self.connections.get_mut(key)?;
        if connection.flags.has(Flags::SECURED) || self.secure.settings.is_none() {
            return None;
        }
        let listener = usize::from(connection.listener);
        let security =
            self.shared.options.listeners.get(listener).map(|listener| listener.security);
        match (security.unwrap_or_default(), bytes.first()) {
            (Security::Plain, _) => None,
            (_, Some(&TLS_HANDSHAKE)) => Some(self.begin_tls(key, bytes)),
            (Security::Either, _) => None,
            (Security::Tls, _) => {
                let text = if is_http(bytes) { REFUSAL_HTTP } else { REFUSAL };
                let queue = self.pool.queue(&mut connection.outgoing);
                queue.tail().extend_from_slice(text.as_bytes());
                self.end(key, &CloseCode::TlsRequired.into(), Farewell::Full);
                Some(Step::Wait(bytes.len()))
            }
        }
    }

    fn begin_tls(&mut self, key: Key, bytes: &mut [u8]) -> Step {
        let all = Step::Wait(bytes.len());
        let Some(connection) = self.connections.get_mut(key) else {
            return all;
        };
        let Some(settings) = &self.secure.settings else { return all };
        if !self.shared.admit_handshake(connection.peer.address()) {
            self.metrics.count_tls_failure(FailureKind::TooMany);
            let reason = "the client's address has too many TLS handshakes under way";
            let close = Close::new(CloseCode::TooManyConnections, reason);
            self.end(key, &close, Farewell::Silent);
            return all;
        }
        let session = match Session::new(settings) {
            Ok(session) => session,
            Err(failure) => {
                self.shared.dismiss_handshake(connection.peer.address());
                self.fail_tls(key, &failure);
                return all;
            }
        };
        let secured = Secured {
            session,
            unsent: Vec::new(),
            is_counted: true,
            is_ended: false,
            is_failed: false,
        };
        self.secure.put(key, Some(Box::new(secured)));
        self.metrics.tls_connections.add(1);
        connection.flags.set(Flags::SECURED);
        connection.deadline = self.now.time + self.shared.options.deadlines.tls;
        let secured = self.secure.table.get_mut(&key.slot);
        // No plain bytes come before an answer of ours has been read.
        let outcome = secured.map(|secured| secured.receive(bytes, &mut []));
        let failure = outcome.and_then(Result::err);
        self.note_tls(key);
        if let Some(failure) = failure {
            self.fail_tls(key, &failure);
        }
        all
    }

    /// Reads a connection's socket, secured or not, into the front of `space`.
    pub(crate) fn read_socket(&mut self, key: Key, space: &mut [u8]) -> io::Result<Got> {
        let Some(connection) = self.connections.get_mut(key) else {
            return Ok(Got::default());
        };
        if connection.flags.has(Flags::TUNNEL) {
            let count = self.read_tunnel(key, space)?;
            let is_full = count == space.len();
            return Ok(Got { wire: count, plain: count, is_full, ..Got::default() });
        }
        let Some(stream) = &mut connection.stream else {
            return Err(io::ErrorKind::WouldBlock.into());
        };
        // Who ends is only listened to so that nothing is lost.
        let is_closing = matches!(connection.stage, Stage::Closing { .. });
        if connection.flags.has(Flags::SECURED) && !is_closing {
            return self.secure.read(&mut self.driver, stream, key, space);
        }
        let count = self.driver.read(stream, space)?;
        let is_full = count == space.len();
        Ok(Got { wire: count, plain: count, is_full, ..Got::default() })
    }

    /// What follows from a read of a secured connection, before its plain bytes are handled: by that it
    /// may move to another shard.
    pub(crate) fn note_tls(&mut self, key: Key) {
        let Some(connection) = self.connections.get_mut(key) else {
            return;
        };
        if !connection.flags.has(Flags::SECURED) {
            return;
        }
        let Some(secured) = self.secure.table.get_mut(&key.slot) else {
            return;
        };
        connection.flags.assign(Flags::PARTIAL, !secured.session.kept().is_empty());
        if !secured.unsent.is_empty() {
            connection.flags.set(Flags::UNSENT);
            self.lists.write(key, &mut connection.flags);
        }
        if secured.is_counted
            && let Some(established) = secured.session.established()
        {
            secured.is_counted = false;
            self.shared.dismiss_handshake(connection.peer.address());
            self.metrics.count_handshake(established);
            if matches!(connection.stage, Stage::Sniff) {
                let first_byte = self.shared.options.deadlines.first_byte;
                connection.deadline = self.now.time + first_byte;
            }
        }
        self.rearm(key);
    }

    /// A secured connection ends over what its client has sent.
    pub(crate) fn fail_tls(&mut self, key: Key, failure: &Failure) {
        self.metrics.count_tls_failure(failure.kind);
        let close = Close::new(CloseCode::TlsFailed, failure.to_string());
        self.end(key, &close, Farewell::Silent);
        self.drain_effects();
    }

    /// Whether the connection's handshake is under way.
    pub(crate) fn is_handshaking(&self, key: Key) -> bool {
        let secured = self.secure.table.get(&key.slot);
        secured.is_some_and(|secured| secured.is_counted)
    }

    /// A secured connection ends: a handshake that has not come to its end counts as failed.
    pub(crate) fn end_tls(&mut self, key: Key, code: CloseCode) {
        let Some(secured) = self.secure.table.get_mut(&key.slot) else {
            return;
        };
        if secured.is_counted && !secured.is_failed {
            match code {
                CloseCode::TlsTimeout => self.metrics.count_tls_failure(FailureKind::Timeout),
                CloseCode::PeerGone => self.metrics.count_tls_failure(FailureKind::Gone),
                _ => {}
            }
        }
    }

    /// The record of a connection goes.
    pub(crate) fn forget_tls(&mut self, key: Key, connection: &Connection<D::Stream>) {
        if !connection.flags.has(Flags::SECURED) {
            return;
        }
        self.metrics.tls_connections.sub(1);
        if self.secure.take(key).is_some_and(|secured| secured.is_counted) {
            self.shared.dismiss_handshake(connection.peer.address());
        }
    }

    /// Writes a secured connection; says how many bytes went to the socket.
    pub(crate) fn write_secured(&mut self, key: Key) -> io::Result<usize> {
        let Some(connection) = self.connections.get_mut(key) else {
            return Ok(0);
        };
        let Some(stream) = &mut connection.stream else {
            return Ok(0);
        };
        let queue = connection.outgoing.as_mut().map(|outgoing| &mut outgoing.queue);
        let is_last = matches!(connection.stage, Stage::Closing { .. });
        let (written, is_done) =
            self.secure.write(&mut self.driver, stream, key, queue, is_last)?;
        connection.flags.assign(Flags::UNSENT, !is_done);
        if !is_done {
            connection.flags.clear(Flags::WRITABLE);
        }
        self.metrics.write_blocks.add(1);
        self.metrics.bytes_sent.add(written as u64);
        Ok(written)
    }

    /// All is written: true if the client has still to be told so.
    pub(crate) fn finish_tls(&mut self, key: Key) -> bool {
        let Some(connection) = self.connections.get_mut(key) else {
            return false;
        };
        let secured = self.secure.table.get_mut(&key.slot);
        if !connection.flags.has(Flags::SECURED) || !secured.is_some_and(|it| it.finish()) {
            return false;
        }
        connection.flags.set(Flags::UNSENT);
        self.lists.write(key, &mut connection.flags);
        true
    }
}

/// Whether a listener's connections are secured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Security {
    /// Never: TLS is refused.
    Plain,
    /// As the client likes; its first byte says.
    #[default]
    Either,
    /// Always: plain text is refused.
    Tls,
}

/// The first byte of every record of the handshake (RFC 8446 section 5.1).
const TLS_HANDSHAKE: u8 = 0x16;
/// Plain bytes that are encrypted at a time: four records.
const SEALED_BYTES: usize = 64 * 1024;
/// Plain bytes that one connection is written in a turn.
const BLOCK_BYTES: usize = 256 * 1024;
/// Pieces of a queue that are encrypted together.
const SLICES_PER_RECORDS: usize = 64;
const REFUSAL: &str = "TLS is required here\n";
const REFUSAL_HTTP: &str = "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\n\
    Content-Length: 65\r\nConnection: close\r\n\r\n\
    TLS is required here: the address begins with https:// or wss://\n";

const _: () = assert!(KEPT_BYTES_MAX < READ_BYTES / 2, "there is always room to read");
