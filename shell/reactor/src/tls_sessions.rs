//! The TLS sessions of a shard's connections, beside their records.
//!
//! Invariant: an idle session holds keys and no bytes; at most [`SEALED_BYTES`] are encrypted ahead of what the
//! socket takes.

use std::collections::HashMap;
use std::io::{self, IoSlice};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, LazyLock};

use tiderace_base::Key;
use tiderace_tls::{
    Certificate, Established, Failure, KEPT_BYTES_MAX, Received, Session, Settings, sealed_bytes,
};
use tiderace_wire::OutQueue;

use crate::driver::Driver;
use crate::options::ClientTls;
use crate::pool::READ_BYTES;

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

    /// The session of a secured connection.
    pub(crate) fn get_mut(&mut self, key: Key) -> Option<&mut Secured> {
        self.table.get_mut(&key.slot).map(|secured| &mut **secured)
    }

    /// Whether a connection's handshake is under way.
    pub(crate) fn is_handshaking(&self, key: Key) -> bool {
        self.table.get(&key.slot).is_some_and(|secured| secured.is_counted)
    }

    /// Reads a secured connection's socket and decrypts what came to the front of `space`.
    pub(crate) fn read<D: Driver>(
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
    pub(crate) fn write<D: Driver>(
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
    /// A session whose handshake begins, and which its address counts among those that do, if it is a client's.
    pub(crate) fn new(session: Session) -> Box<Secured> {
        let unsent = Vec::new();
        Box::new(Secured { session, unsent, is_counted: true, is_ended: false, is_failed: false })
    }

    /// Whether the beginning of a record has come, and not its end.
    pub(crate) fn is_partial(&self) -> bool {
        !self.session.kept().is_empty()
    }

    /// Whether the socket has not taken all records.
    pub(crate) fn has_unsent(&self) -> bool {
        !self.unsent.is_empty()
    }

    /// Whether its address counts it among its handshakes.
    pub(crate) fn is_counted(&self) -> bool {
        self.is_counted
    }

    /// Whether it is counted and nothing has gone wrong so far.
    pub(crate) fn is_under_way(&self) -> bool {
        self.is_counted && !self.is_failed
    }

    /// What was agreed on, once, when the handshake is done.
    pub(crate) fn take_established(&mut self) -> Option<Established> {
        let established = self.session.established().filter(|_| self.is_counted)?;
        self.is_counted = false;
        Some(established)
    }

    /// What its client has shown of itself. Those without a certificate share one value.
    pub(crate) fn shown(&self) -> Arc<ClientTls> {
        static NOTHING: LazyLock<Arc<ClientTls>> = LazyLock::new(Arc::default);
        let certificate = self.session.peer_certificate().and_then(Certificate::read);
        match certificate {
            None => Arc::clone(&NOTHING),
            certificate => Arc::new(ClientTls { certificate }),
        }
    }

    /// Handles bytes of the socket, the kept ones in front.
    pub(crate) fn receive(
        &mut self,
        bytes: &mut [u8],
        plain: &mut [u8],
    ) -> Result<Received, Failure> {
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
    pub(crate) fn finish(&mut self) -> bool {
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

/// Copies the front of a queue.
fn gather(queue: &OutQueue, plain: &mut Vec<u8>, most: usize) {
    plain.clear();
    let mut slices = [IoSlice::new(&[]); SLICES_PER_RECORDS];
    let count = queue.first_slices(&mut slices, most);
    for slice in slices.get(..count).unwrap_or_default() {
        plain.extend_from_slice(slice);
    }
}

/// Plain bytes that are encrypted at a time: four records.
const SEALED_BYTES: usize = 64 * 1024;
/// Plain bytes that one connection is written in a turn.
const BLOCK_BYTES: usize = 256 * 1024;
/// Pieces of a queue that are encrypted together.
const SLICES_PER_RECORDS: usize = 64;

const _: () = assert!(KEPT_BYTES_MAX < READ_BYTES / 2, "there is always room to read");
