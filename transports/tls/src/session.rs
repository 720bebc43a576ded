//! The adapter to rustls' unbuffered connections: everything that knows how they want to be driven.
//!
//! ```text
//!   receive: wire bytes ─▶ [ handshake ─▶ established ─▶ ended ] ─▶ plain bytes
//!                              └─▶ bytes to send                (close_notify)
//!   send:    plain bytes ─▶ records         finish: close_notify
//! ```
//! The unbuffered connections hold keys and nothing else: a third of what rustls' buffered ones take.
//! They leave the next major version of rustls, which has other means; then this file changes and no
//! other. Invariants: an idle session keeps no bytes; rustls is always given the bytes again that it has seen
//! and not finished with, whatever it is asked to do, for it counts on them; plain bytes are never more
//! than the wire bytes they came in; after a failure the session is of no more use.

use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{
    ConnectionState, EncodeError, EncodeTlsData, EncryptError, UnbufferedStatus, WriteTraffic,
};
use rustls::{HandshakeKind, ProtocolVersion, server::ServerConnectionData};

use crate::failure::Failure;
use crate::settings::Settings;
use crate::version::Version;

/// The server's side of one secured connection.
pub struct Session {
    inner: UnbufferedServerConnection,
    /// The beginning of a record, or of a message of the handshake.
    kept: Vec<u8>,
    is_established: bool,
    is_finished: bool,
    is_failed: bool,
}

/// What came of received bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// Plain bytes that were written.
    pub plain: usize,
    /// The client sends no more.
    pub is_ended: bool,
}

/// How a handshake ended well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Established {
    /// The version agreed on.
    pub version: Version,
    /// The client came back with a ticket, which spares both sides the costly part.
    pub is_resumed: bool,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session")
            .field("is_established", &self.is_established)
            .finish_non_exhaustive()
    }
}

impl Session {
    /// A session that waits for its client's first word.
    ///
    /// # Errors
    /// When the settings cannot be used; they have been checked, so this is a defect.
    pub fn new(settings: &Settings) -> Result<Session, Failure> {
        let inner = UnbufferedServerConnection::new(settings.config())?;
        Ok(Session {
            inner,
            kept: Vec::new(),
            is_established: false,
            is_finished: false,
            is_failed: false,
        })
    }

    /// What has been received and waits for what follows it.
    pub fn kept(&self) -> &[u8] {
        &self.kept
    }

    /// Whether plain bytes can be exchanged.
    pub fn is_established(&self) -> bool {
        self.is_established
    }

    /// How the handshake ended, once it has.
    pub fn established(&self) -> Option<Established> {
        let version = match self.inner.protocol_version() {
            _ if !self.is_established => return None,
            Some(ProtocolVersion::TLSv1_2) => Version::Tls12,
            _ => Version::Tls13,
        };
        let is_resumed = self.inner.handshake_kind() == Some(HandshakeKind::Resumed);
        Some(Established { version, is_resumed })
    }

    /// The application protocol agreed on, such as `http/1.1`.
    pub fn alpn(&self) -> Option<&[u8]> {
        self.inner.alpn_protocol()
    }

    /// The certificate the client has shown, in DER, checked against the authorities.
    pub fn client_certificate(&self) -> Option<&[u8]> {
        self.inner.peer_certificates()?.first().map(|certificate| certificate.as_ref())
    }

    /// Handles bytes of the wire, [`Session::kept`] and what has come since, and decrypts them where they
    /// are. Plain bytes go to the front of `plain`, which must be at least as long as `wire`; bytes to be
    /// sent are appended to `out`.
    ///
    /// # Errors
    /// When the connection is to end; what is in `out` by then, an alert as a rule, is still to be sent.
    /// What came before the mistake is lost, and nothing more is to be asked of the session.
    pub fn receive(
        &mut self,
        wire: &mut [u8],
        plain: &mut [u8],
        out: &mut Vec<u8>,
    ) -> Result<Received, Failure> {
        if self.is_failed {
            return Err(Failure::internal("the connection has failed before"));
        }
        let outcome = self.process(wire, plain, out);
        self.is_failed = outcome.is_err();
        outcome
    }

    fn process(
        &mut self,
        wire: &mut [u8],
        plain: &mut [u8],
        out: &mut Vec<u8>,
    ) -> Result<Received, Failure> {
        let mut received = Received::default();
        let mut consumed = 0;
        self.kept = Vec::new();
        loop {
            let rest = wire.get_mut(consumed..).unwrap_or_default();
            let UnbufferedStatus { discard, state } = self.inner.process_tls_records(rest);
            consumed += discard;
            match state {
                Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                    while let Some(record) = traffic.next_record() {
                        let record = record?;
                        let end = received.plain + record.payload.len();
                        let Some(room) = plain.get_mut(received.plain..end) else {
                            return Err(Failure::internal("more was decrypted than received"));
                        };
                        room.copy_from_slice(record.payload);
                        received.plain = end;
                        consumed += record.discard;
                    }
                }
                Ok(ConnectionState::EncodeTlsData(mut data)) => encode(&mut data, out)?,
                Ok(ConnectionState::TransmitTlsData(data)) => data.done(),
                Ok(ConnectionState::PeerClosed | ConnectionState::Closed) => {
                    // Nothing behind the end is looked at.
                    consumed = wire.len();
                    received.is_ended = true;
                    break;
                }
                Ok(ConnectionState::WriteTraffic(_) | ConnectionState::BlockedHandshake) => break,
                // It is off, so no client is told that it may send such.
                Ok(ConnectionState::ReadEarlyData(_)) => {
                    return Err(Failure::internal("early data is not accepted"));
                }
                Ok(_) => return Err(Failure::internal("the connection is in an unknown state")),
                Err(error) => {
                    self.collect_alert(out);
                    return Err(error.into());
                }
            }
        }
        // A server could write before it may read, but that would be for anybody: the client has not
        // shown yet that it has the keys.
        self.is_established |= !self.inner.is_handshaking();
        let rest = wire.get(consumed..).unwrap_or_default();
        if rest.len() > KEPT_BYTES_MAX {
            return Err(Failure::too_large());
        }
        self.kept = rest.to_vec();
        Ok(received)
    }

    /// What is left to be said after a failure. What has failed is not shown again, or it would fail again.
    fn collect_alert(&mut self, out: &mut Vec<u8>) {
        while self.inner.wants_write() {
            match self.inner.process_tls_records(&mut []).state {
                Ok(ConnectionState::EncodeTlsData(mut data)) => {
                    if encode(&mut data, out).is_err() {
                        return;
                    }
                }
                _ => return,
            }
        }
    }

    /// Turns plain bytes into records at the front of `sealed`, which must have room for
    /// [`sealed_bytes`] of their number, and says how long those are. What the session itself had to
    /// send is in front of them.
    ///
    /// # Errors
    /// When the session is not established, or its keys are used up.
    pub fn send(&mut self, plain: &[u8], sealed: &mut [u8]) -> Result<usize, Failure> {
        if !self.is_established || self.is_failed {
            return Err(Failure::internal("plain bytes cannot be sent before the handshake"));
        }
        let mut pending = Vec::new();
        let written =
            self.with_traffic(&mut pending, |traffic, room| traffic.encrypt(plain, room), sealed)?;
        Ok(written)
    }

    /// Appends the word that nothing more is sent; does nothing if it has been said, or before the
    /// session is established. Says whether something was appended.
    pub fn finish(&mut self, out: &mut Vec<u8>) -> bool {
        if self.is_finished || self.is_failed || !self.is_established {
            return false;
        }
        self.is_finished = true;
        let mut room = [0; FINISH_BYTES];
        let mut pending = Vec::new();
        let said = self.with_traffic(
            &mut pending,
            |traffic, room| traffic.queue_close_notify(room),
            &mut room,
        );
        let said = said.ok().and_then(|written| room.get(..written)).unwrap_or_default();
        out.extend_from_slice(said);
        !said.is_empty()
    }

    /// Writes by the connection's writing state, behind what it has to say itself.
    fn with_traffic(
        &mut self,
        pending: &mut Vec<u8>,
        write: impl FnOnce(
            &mut WriteTraffic<'_, ServerConnectionData>,
            &mut [u8],
        ) -> Result<usize, EncryptError>,
        sealed: &mut [u8],
    ) -> Result<usize, Failure> {
        let mut kept = std::mem::take(&mut self.kept);
        let mut consumed = 0;
        let outcome = self.step_to_traffic(&mut kept, &mut consumed, pending, write, sealed);
        kept.drain(..consumed.min(kept.len()));
        self.kept = kept;
        self.is_failed = outcome.is_err();
        outcome
    }

    fn step_to_traffic(
        &mut self,
        kept: &mut [u8],
        consumed: &mut usize,
        pending: &mut Vec<u8>,
        write: impl FnOnce(
            &mut WriteTraffic<'_, ServerConnectionData>,
            &mut [u8],
        ) -> Result<usize, EncryptError>,
        sealed: &mut [u8],
    ) -> Result<usize, Failure> {
        for _ in 0..STEPS_MAX {
            let rest = kept.get_mut(*consumed..).unwrap_or_default();
            let UnbufferedStatus { discard, state } = self.inner.process_tls_records(rest);
            *consumed += discard;
            match state {
                Ok(ConnectionState::EncodeTlsData(mut data)) => encode(&mut data, pending)?,
                Ok(ConnectionState::TransmitTlsData(data)) => data.done(),
                // The client's end: it still listens.
                Ok(ConnectionState::PeerClosed) => {}
                Ok(ConnectionState::WriteTraffic(mut traffic)) => {
                    let Some((front, room)) = sealed.split_at_mut_checked(pending.len()) else {
                        return Err(Failure::internal("there is no room for records"));
                    };
                    front.copy_from_slice(pending);
                    let written = write(&mut traffic, room).map_err(|error| match error {
                        EncryptError::InsufficientSize(_) => {
                            Failure::internal("there is no room for records")
                        }
                        EncryptError::EncryptExhausted => {
                            Failure::internal("the connection's keys are used up")
                        }
                    })?;
                    return Ok(pending.len() + written);
                }
                Err(error) => return Err(error.into()),
                Ok(_) => break,
            }
        }
        Err(Failure::internal("the connection cannot be written any more"))
    }
}

fn encode(
    data: &mut EncodeTlsData<'_, ServerConnectionData>,
    out: &mut Vec<u8>,
) -> Result<(), Failure> {
    let start = out.len();
    let size = match data.encode(&mut []) {
        Err(EncodeError::InsufficientSize(needed)) => needed.required_size,
        Ok(_) => return Ok(()),
        Err(EncodeError::AlreadyEncoded) => return Err(Failure::internal("nothing to encode")),
    };
    out.resize(start + size, 0);
    match data.encode(out.get_mut(start..).unwrap_or_default()) {
        Ok(_) => Ok(()),
        Err(_) => Err(Failure::internal("a record cannot be encoded")),
    }
}

/// The room that so many plain bytes need as records, with what a session may have to say besides.
pub const fn sealed_bytes(plain: usize) -> usize {
    plain + (plain / PLAIN_PER_RECORD + 1) * RECORD_OVERHEAD + OWN_WORDS
}

/// The largest record on the wire: RFC 8446 section 5.2 and RFC 5246 section 6.2.3.
pub const RECORD_BYTES_MAX: usize = 5 + (1 << 14) + 2048;
/// Bytes of the wire that wait for what follows them: a whole message of the handshake may, when a
/// client's chain of certificates is long; rustls takes none beyond 64 KiB.
pub const KEPT_BYTES_MAX: usize = 80 * 1024;
const PLAIN_PER_RECORD: usize = 1 << 14;
/// Header, explicit nonce of TLS 1.2, type, tag.
const RECORD_OVERHEAD: usize = 5 + 8 + 1 + 16;
/// An answer to a key update, an alert.
const OWN_WORDS: usize = 256;
/// A close_notify behind an answer to a key update.
const FINISH_BYTES: usize = 256;
/// States that are gone through on the way to the writing one; there are two of them.
const STEPS_MAX: usize = 16;
