//! Messages that say when they were due, for load tests.
//!
//! ```text
//! 0      8      16           size
//! ├──────┼──────┼─────────────┤
//! │ time │ turn │ filling     │
//! └──────┴──────┴─────────────┘
//! ```
//! Time is in nanoseconds since 1970, turn counts the messages of one shard's share of the feed; both
//! are big-endian. As text it is the time alone, in 16 hexadecimal digits, before the filling.

use std::io::Write as _;

/// Makes the bodies.
#[derive(Debug)]
pub(crate) struct Timed {
    filling: Vec<u8>,
}

impl Timed {
    /// Bodies of that size, at least [`HEAD_BYTES`].
    pub(crate) fn new(size: usize) -> Timed {
        Timed { filling: vec![b'.'; size.saturating_sub(HEAD_BYTES)] }
    }

    /// Writes a body.
    pub(crate) fn write(&self, unix_ns: u64, turn: u64, body: &mut Vec<u8>) {
        body.extend_from_slice(&unix_ns.to_be_bytes());
        body.extend_from_slice(&turn.to_be_bytes());
        body.extend_from_slice(&self.filling);
    }

    /// Writes a body of text.
    pub(crate) fn write_text(&self, unix_ns: u64, body: &mut Vec<u8>) {
        // Writing to memory cannot fail.
        let _ = write!(body, "{unix_ns:016x}");
        body.extend_from_slice(&self.filling);
    }
}

/// Time and turn, or time in digits.
const HEAD_BYTES: usize = 16;
