//! How a log is opened, and what comes of it.
//!
//! Relies on `log` and `recovered`. Values alone.

use crate::disk::Disk;
use crate::error::OpenError;
use crate::log::{Log, SegmentBytes};
use crate::recovered::Recovered;

/// How to open a log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Opening {
    pub(crate) segment_bytes: SegmentBytes,
    pub(crate) accept_damage: bool,
    /// Read every record, also where a summary says what is needed.
    pub(crate) is_thorough: bool,
    /// For a store that is new.
    pub(crate) salt: u64,
}

/// A log that is open, and what is in it.
pub(crate) struct Opened<D: Disk> {
    pub(crate) log: Log<D>,
    pub(crate) recovered: Recovered,
    /// No stream of the log has this number or a higher one.
    pub(crate) streams_below: u64,
    /// No file with bodies has this number or a higher one.
    pub(crate) bodies_below: u64,
}

/// What came of reading a log.
pub(crate) enum Attempt<D: Disk> {
    Opened(Box<Opened<D>>),
    /// Something is not as it should be.
    Damaged(D, OpenError),
}

/// How a log that was read is gone on with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Begin {
    /// In the first segment of a new one.
    New,
    /// Behind what is there.
    Behind,
    /// In new segments, which get everything that is needed.
    Again,
}
