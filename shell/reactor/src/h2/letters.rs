//! What the two ends of a remote stream tell each other.

use bytes::Bytes;
use tiderace_base::{Key, ShardId};

/// What a record takes along that a tunnel carries.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Graft {
    pub(crate) home: ShardId,
    pub(crate) tunnel: Key,
    pub(crate) is_duplex: bool,
}

/// What tunnels and branches tell each other; the key is the other's.
#[derive(Debug)]
pub(crate) enum TunnelLetter {
    /// The record has arrived; its branch is this.
    Bound { tunnel: Key, branch: Key },
    /// So many bytes have been read.
    Taken { tunnel: Key, bytes: usize },
    /// A client has logged in on the record.
    LoggedIn { tunnel: Key },
    /// These are to be sent.
    Said { tunnel: Key, bytes: Vec<Bytes> },
    /// Nothing follows them.
    Finished { tunnel: Key },
    /// The record is gone.
    Gone { tunnel: Key },
    /// These have come, and whether nothing follows.
    Came { branch: Key, bytes: Vec<u8>, is_ended: bool },
    /// So many bytes have been sent.
    Room { branch: Key, bytes: usize },
    /// The stream is over.
    Over { branch: Key },
}

impl TunnelLetter {
    /// The bytes it carries.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            TunnelLetter::Said { bytes, .. } => bytes.iter().map(Bytes::len).sum(),
            TunnelLetter::Came { bytes, .. } => bytes.len(),
            _ => 0,
        }
    }
}
