//! Why what the server sent cannot be used.

use tiderace_delta::DeltaError;
use tiderace_native::codec::CodecError;

/// Why what the server sent cannot be used: a defect of one of the two. Connecting again mends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClientError {
    /// A message is malformed.
    #[error(transparent)]
    Codec(#[from] CodecError),
    /// A delta is malformed.
    #[error(transparent)]
    Delta(#[from] DeltaError),
    /// A delta to a value that is not there.
    #[error("a delta came without the value that it changes")]
    NoBase,
    /// The first version of a topic was not told whole.
    #[error("a topic began without a version")]
    NoVersion,
    /// An id that was not announced, or no subscription of that id.
    #[error("an id came that is not known")]
    UnknownId,
}

/// Why a connection cannot be used, or not any longer, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum ConnectionError {
    /// The stream failed. A read that took longer than the stream's timeout is one of these; the
    /// connection may be used after it ([`ConnectionError::is_timeout`]).
    #[error("the connection broke: {0}; connect again")]
    Io(#[from] std::io::Error),
    /// The server closed it without a word.
    #[error("the server closed the connection; its log says why")]
    Closed,
    /// The server refused the login, or ended the session, and said why.
    #[error("{sentence} ({slug})")]
    Refused {
        /// The name of the code, one of `docs/close-codes.md`.
        slug: String,
        /// What to tell people.
        sentence: String,
        /// Within which random time to connect again, in milliseconds; `None` if that is no use.
        reconnect_ms: Option<u64>,
        /// Where the server sends its clients, the best first; empty if it knows no other.
        addresses: Vec<String>,
    },
    /// Whatever answers there does not speak the native protocol.
    #[error("no WebSocket at {path}: {problem}")]
    NoWebSocket {
        /// Where it was looked for.
        path: &'static str,
        /// What it said instead.
        problem: String,
    },
    /// What came breaks the rules of WebSocket.
    #[error("what the server sent cannot be read: {0}; connect again")]
    WebSocket(#[from] tiderace_websocket::CloseError),
    /// What came breaks the rules of the protocol.
    #[error("what the server sent cannot be used: {0}; connect again")]
    Client(#[from] ClientError),
}

impl ConnectionError {
    /// Whether nothing came for as long as the stream waits; another call goes on.
    pub fn is_timeout(&self) -> bool {
        use std::io::ErrorKind::{TimedOut, WouldBlock};
        matches!(self, ConnectionError::Io(error) if matches!(error.kind(), WouldBlock | TimedOut))
    }

    /// Whether another connection may do better: not if the server has refused the session for good, as it
    /// does with a wrong password.
    pub fn may_reconnect(&self) -> bool {
        !matches!(self, ConnectionError::Refused { reconnect_ms: None, .. })
    }
}
