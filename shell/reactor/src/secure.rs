//! Secured connections: between the socket and everything else stands a TLS session.
//!
//! ```text
//!   socket ─▶ records ─▶ [session] ─▶ plain bytes ─▶ as any other connection
//!   socket ◀─ unsent  ◀─ [session] ◀─ plain bytes ◀─ its queue
//! ```
//! Only reading and writing know of it; what is behind sees plain bytes. The state lies beside the
//! records ([`crate::tls_sessions`]), so that connections without it do not grow, and goes with its connection
//! wherever that goes. Invariant: a connection is marked as secured exactly while its state is in the table.

use std::io::{self};
use std::sync::Arc;

use tiderace_base::{Close, CloseCode, Key};
use tiderace_tls::{Failure, FailureKind, Session};

use crate::connection::{CarriedBy, Connection, Flags, Stage, Transport};
use crate::departure::Step;
use crate::driver::Driver;
use crate::options::{ClientTls, Security};
use crate::outcome::Farewell;
use crate::shard::Shard;
use crate::tls_sessions::{Got, Secured};

/// Whether bytes begin like a request of HTTP: with a method and a space.
fn is_http(bytes: &[u8]) -> bool {
    let method = bytes.iter().take_while(|byte| byte.is_ascii_uppercase()).count();
    method > 0 && bytes.get(method) == Some(&b' ')
}

impl<D: Driver> Shard<D> {
    /// Whether first bytes begin TLS, or would have had to.
    pub(crate) fn sniff_tls(&mut self, key: Key, bytes: &mut [u8]) -> Option<Step> {
        let connection = self.connections.get_mut(key)?;
        if connection.flags.is_tls() || self.secure.settings.is_none() {
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
        self.secure.put(key, Some(Secured::new(session)));
        self.metrics.tls_connections.add(1);
        connection.flags.set_carrier(CarriedBy::Tls);
        connection.deadline = self.now.time + self.shared.options.deadlines.tls;
        let secured = self.secure.get_mut(key);
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
        if connection.flags.is_h2_stream() {
            let count = self.read_h2_stream(key, space)?;
            let is_full = count == space.len();
            return Ok(Got { wire: count, plain: count, is_full, ..Got::default() });
        }
        let Some(stream) = &mut connection.stream else {
            return Err(io::ErrorKind::WouldBlock.into());
        };
        // Who ends is only listened to so that nothing is lost.
        let is_closing = matches!(connection.stage, Stage::Closing { .. });
        if connection.flags.is_tls() && !is_closing {
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
        if !connection.flags.is_tls() {
            return;
        }
        let Some(secured) = self.secure.get_mut(key) else {
            return;
        };
        connection.flags.assign(Flags::PARTIAL, secured.is_partial());
        if secured.has_unsent() {
            connection.flags.set(Flags::UNSENT);
            self.lists.write(key, &mut connection.flags);
        }
        if let Some(established) = secured.take_established() {
            self.metrics.count_handshake(established);
            if connection.flags.has(Flags::OUTGOING) {
                return self.ask_for_websocket(key);
            }
            self.shared.dismiss_handshake(connection.peer.address());
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

    /// What the client of a record has shown where TLS ends: at its own socket, at that of its HTTP/2 connection, or
    /// where the requests came that carry it; nothing if it is not secured.
    pub(crate) fn client_tls(&mut self, key: Key) -> Option<Arc<ClientTls>> {
        let record = self.connections.get_mut(key)?;
        if record.flags.is_tls() {
            return self.secure.get_mut(key).map(|secured| secured.shown());
        }
        if record.flags.is_h2_stream() {
            return match self.h2_streams.h2_connection_of(key) {
                Some(h2) => self.secure.get_mut(h2).map(|secured| secured.shown()),
                None => self.h2_streams.tls_of_remote(key),
            };
        }
        match &record.live()?.transport {
            Transport::Requests(requests) => requests.tls.clone(),
            _ => None,
        }
    }

    /// Whether the connection's handshake is under way.
    pub(crate) fn is_handshaking(&self, key: Key) -> bool {
        self.secure.is_handshaking(key)
    }

    /// A secured connection ends: a handshake that has not come to its end counts as failed.
    pub(crate) fn end_tls(&mut self, key: Key, code: CloseCode) {
        let Some(secured) = self.secure.get_mut(key) else {
            return;
        };
        if secured.is_under_way() {
            match code {
                CloseCode::TlsTimeout => self.metrics.count_tls_failure(FailureKind::Timeout),
                CloseCode::PeerGone => self.metrics.count_tls_failure(FailureKind::Gone),
                _ => {}
            }
        }
    }

    /// The record of a connection goes.
    pub(crate) fn forget_tls(&mut self, key: Key, connection: &Connection<D::Stream>) {
        if !connection.flags.is_tls() {
            return;
        }
        self.metrics.tls_connections.sub(1);
        let is_counted = self.secure.take(key).is_some_and(|secured| secured.is_counted());
        if is_counted && !connection.flags.has(Flags::OUTGOING) {
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
        let secured = self.secure.get_mut(key);
        if !connection.flags.is_tls() || !secured.is_some_and(|it| it.finish()) {
            return false;
        }
        connection.flags.set(Flags::UNSENT);
        self.lists.write(key, &mut connection.flags);
        true
    }
}

/// The first byte of every record of the handshake (RFC 8446 section 5.1).
const TLS_HANDSHAKE: u8 = 0x16;
const REFUSAL: &str = "TLS is required here\n";
const REFUSAL_HTTP: &str = "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\n\
    Content-Length: 65\r\nConnection: close\r\n\r\n\
    TLS is required here: the address begins with https:// or wss://\n";
