//! One secured connection: bytes of the network in, plain bytes out, and back.
//!
//! ```text
//!   receive: wire bytes ─▶ [ handshake ─▶ established ─▶ ended ] ─▶ plain bytes
//!                              └─▶ bytes to send                (close_notify)
//!   send:    plain bytes ─▶ records         finish: close_notify
//! ```
//! Relies on [`crate::records`] to drive rustls' unbuffered connections, which hold keys and nothing else: a third of what
//! rustls' buffered ones take. They leave the next major version of rustls, which has other means; then that file and
//! this one change and no other. Invariants: an idle session keeps no bytes; rustls is always given the bytes again that
//! it has seen and not finished with, whatever it is asked to do, for it counts on them; plain bytes are never more than
//! the wire bytes they came in; after a failure the session is of no more use.

use rustls::client::UnbufferedClientConnection;
use rustls::pki_types::ServerName;
use rustls::server::UnbufferedServerConnection;
use rustls::{CommonState, HandshakeKind, ProtocolVersion};

use crate::client_settings::ClientSettings;
use crate::failure::Failure;
use crate::records::{Side as _, Taken, Words, receive, send};
use crate::settings::Settings;
use crate::version::Version;

/// One side of one secured connection.
pub struct Session {
    side: Sides,
    /// The beginning of a record, or of a message of the handshake.
    kept: Vec<u8>,
    is_established: bool,
    is_finished: bool,
    is_failed: bool,
}

/// Which side it is. There are very many of a server's, which need no second allocation, and few of a client's.
#[allow(clippy::large_enum_variant)]
enum Sides {
    Server(UnbufferedServerConnection),
    Client(Box<UnbufferedClientConnection>),
}

/// What came of received bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// Plain bytes that were written.
    pub plain: usize,
    /// The other side sends no more.
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
    /// A server's session, which waits for its client's first word.
    ///
    /// # Errors
    /// When the settings cannot be used; they have been checked, so this is a defect.
    pub fn new(settings: &Settings) -> Result<Session, Failure> {
        let inner = UnbufferedServerConnection::new(settings.config());
        Ok(Session::of(Sides::Server(inner.map_err(|error| Failure::of_server(&error))?)))
    }

    /// A client's session with the server of that name or address, which has to show a certificate for it. It has the
    /// first word: call [`Session::receive`] without bytes to get that.
    ///
    /// # Errors
    /// When `host` is neither a name nor an address.
    pub fn connect(settings: &ClientSettings, host: &str) -> Result<Session, Failure> {
        let name = ServerName::try_from(host.to_owned()).map_err(|_| {
            Failure::internal(&format!("{host:?} is neither the name of a host nor an address"))
        })?;
        let inner = UnbufferedClientConnection::new(settings.config(), name);
        let inner = inner.map_err(|error| Failure::of_client(&error))?;
        Ok(Session::of(Sides::Client(Box::new(inner))))
    }

    fn of(side: Sides) -> Session {
        let kept = Vec::new();
        Session { side, kept, is_established: false, is_finished: false, is_failed: false }
    }

    fn common(&self) -> &CommonState {
        match &self.side {
            Sides::Server(server) => server.common(),
            Sides::Client(client) => client.common(),
        }
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
        let version = match self.common().protocol_version() {
            _ if !self.is_established => return None,
            Some(ProtocolVersion::TLSv1_2) => Version::Tls12,
            _ => Version::Tls13,
        };
        let is_resumed = self.common().handshake_kind() == Some(HandshakeKind::Resumed);
        Some(Established { version, is_resumed })
    }

    /// The application protocol agreed on, such as `http/1.1`.
    pub fn alpn(&self) -> Option<&[u8]> {
        self.common().alpn_protocol()
    }

    /// The certificate the other side has shown, in DER, checked against the authorities.
    pub fn peer_certificate(&self) -> Option<&[u8]> {
        self.common().peer_certificates()?.first().map(|certificate| certificate.as_ref())
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
        self.kept = Vec::new();
        let taken = match &mut self.side {
            Sides::Server(server) => receive(server, wire, plain, out),
            Sides::Client(client) => receive(&mut **client, wire, plain, out),
        };
        let Taken { consumed, plain, is_ended } = taken?;
        // A server could write before it may read, but that would be for anybody: the client has not
        // shown yet that it has the keys.
        self.is_established |= !self.common().is_handshaking();
        let rest = wire.get(consumed..).unwrap_or_default();
        if rest.len() > KEPT_BYTES_MAX {
            return Err(Failure::too_large());
        }
        self.kept = rest.to_vec();
        Ok(Received { plain, is_ended })
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
        self.write(Words::Plain(plain), sealed)
    }

    /// Appends the word that nothing more is sent; does nothing if it has been said, or before the
    /// session is established. Says whether something was appended.
    pub fn finish(&mut self, out: &mut Vec<u8>) -> bool {
        if self.is_finished || self.is_failed || !self.is_established {
            return false;
        }
        self.is_finished = true;
        let mut room = [0; FINISH_BYTES];
        let said = self.write(Words::Finish, &mut room);
        let said = said.ok().and_then(|written| room.get(..written)).unwrap_or_default();
        out.extend_from_slice(said);
        !said.is_empty()
    }

    /// Writes records, behind what the connection has to say itself.
    fn write(&mut self, words: Words<'_>, sealed: &mut [u8]) -> Result<usize, Failure> {
        let mut kept = std::mem::take(&mut self.kept);
        let mut consumed = 0;
        let outcome = match &mut self.side {
            Sides::Server(server) => send(server, &mut kept, &mut consumed, words, sealed),
            Sides::Client(client) => send(&mut **client, &mut kept, &mut consumed, words, sealed),
        };
        kept.drain(..consumed.min(kept.len()));
        self.kept = kept;
        self.is_failed = outcome.is_err();
        outcome
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
