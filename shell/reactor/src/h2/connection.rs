//! What a connection of HTTP/2 has beyond its record.

use tiderace_base::limits::WRITE_BLOCK_BYTES;
use tiderace_base::{Key, Time};
use tiderace_http2::{Engine, Watch};

/// One connection of HTTP/2.
#[derive(Debug)]
pub(crate) struct H2Connection {
    pub(crate) engine: Engine,
    pub(crate) watch: Watch,
    /// Bytes at the front of the input that the watch has seen and the engine has not.
    pub(crate) seen: usize,
    pub(crate) streams: Vec<Key>,
    /// When it ends unless it gets a stream of HTTP/2.
    pub(crate) idle_by: Time,
    /// Whether something has begun to come and was not whole at the last look.
    pub(crate) is_within: bool,
    /// Whether it ends with its last stream.
    pub(crate) is_draining: bool,
    /// Bytes that wait to be taken by the client, over all streams.
    pub(crate) unsent: usize,
    /// Bytes of the client's windows that are used: what has come on all streams and was not read.
    pub(crate) held: usize,
    /// Whether something that it carries has logged in.
    pub(crate) is_known: bool,
    /// Records with requests that wait until those are fewer.
    pub(crate) waiting: Vec<Key>,
}

impl H2Connection {
    /// What is held of what the client has sent, and whether it has logged in.
    pub(crate) fn held(&self) -> (usize, bool) {
        (self.held, self.is_known)
    }

    /// What may wait for the client on all streams before its next request is answered.
    pub(crate) fn unsent_max(&self) -> usize {
        if self.is_known { UNSENT_BYTES_MAX } else { WRITE_BLOCK_BYTES }
    }
}

/// What may wait for a client that has logged in.
const UNSENT_BYTES_MAX: usize = 1024 * 1024;
