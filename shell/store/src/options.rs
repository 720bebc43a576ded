//! How a store is kept.
//!
//! Relies on nothing. Invariant: offsets in a segment fit 32 bits with any options.

use std::time::Duration;

use crate::batch::BATCH_BYTES_MAX;

/// The longest segment, apart from one that a single large batch needs.
pub const SEGMENT_BYTES_MAX: u32 = 1 << 30;
/// The shortest segment.
pub const SEGMENT_BYTES_MIN: u32 = 1 << 10;

const _: () = assert!(
    SEGMENT_BYTES_MAX as u64 + BATCH_BYTES_MAX as u64 + (1 << 20) < u32::MAX as u64,
    "offsets fit 32 bits"
);

/// What an acknowledgement waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sync {
    /// The disk: what is acknowledged survives the loss of power.
    Always,
    /// The operating system, which is told to write to the disk this often: what is acknowledged survives
    /// the end of the process, and the loss of power if it is older than this.
    Interval(Duration),
    /// The operating system, which writes to the disk when it likes: what is acknowledged survives the end of
    /// the process.
    Never,
}

/// How a store is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// What an acknowledgement waits for.
    pub sync: Sync,
    /// The length of a segment, within [`SEGMENT_BYTES_MIN`] and [`SEGMENT_BYTES_MAX`].
    pub segment_bytes: u32,
    /// Bytes that are kept free for giving room back when the disk is full; 0 for none.
    pub reserve_bytes: u32,
    /// Bytes of batches of one submitter that may wait; a single larger one may wait alone.
    pub waiting_bytes_max: usize,
    /// Bytes of messages of queues beyond which [`crate::Notice::QueuesFull`] is said; 0 for none.
    pub queue_bytes_max: u64,
    /// Keep what can be read of a damaged store, and lose the rest. Every record is read for that, so opening takes
    /// longer.
    pub accept_damage: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            sync: Sync::Always,
            segment_bytes: 32 << 20,
            reserve_bytes: 32 << 20,
            waiting_bytes_max: 8 << 20,
            queue_bytes_max: 0,
            accept_damage: false,
        }
    }
}
