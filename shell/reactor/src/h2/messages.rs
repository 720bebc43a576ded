//! What the two ends of a remote stream tell each other.

use bytes::Bytes;
use tiderace_base::{Key, ShardId};
use tiderace_http2::AnswerHead;

/// What a record takes along that a stream of HTTP/2 carries.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RemoteStreamId {
    pub(crate) home: ShardId,
    pub(crate) h2_stream: Key,
    pub(crate) is_duplex: bool,
}

/// What streams and remote streams tell each other; the key is the other's.
#[derive(Debug)]
pub(crate) enum RemoteStreamMessage {
    /// The record has arrived; its remote stream is this.
    Bound { h2_stream: Key, remote_stream: Key },
    /// So many bytes have been read.
    Taken { h2_stream: Key, bytes: usize },
    /// A client has logged in on the record.
    LoggedIn { h2_stream: Key },
    /// The node sends the record's client elsewhere: its connection takes no more requests.
    Leaving { h2_stream: Key },
    /// The head of the record's answer, and how long the body is if that is known.
    Answered { h2_stream: Key, head: Box<AnswerHead>, body_bytes: Option<u64> },
    /// These are to be sent.
    Said { h2_stream: Key, bytes: Vec<Bytes> },
    /// Nothing follows them.
    Finished { h2_stream: Key },
    /// The record is gone.
    Gone { h2_stream: Key },
    /// These have come, and whether nothing follows.
    Came { remote_stream: Key, bytes: Vec<u8>, is_ended: bool },
    /// So many bytes have been sent.
    Room { remote_stream: Key, bytes: usize },
    /// The stream is over.
    Over { remote_stream: Key },
}

impl RemoteStreamMessage {
    /// The bytes it carries.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            RemoteStreamMessage::Said { bytes, .. } => bytes.iter().map(Bytes::len).sum(),
            RemoteStreamMessage::Came { bytes, .. } => bytes.len(),
            _ => 0,
        }
    }
}
