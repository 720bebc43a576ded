//! How far the cleaning of a segment has come, and why it may stop.
//!
//! Relies on `frame` for where records end. Invariant: what has been read begins with a whole record if
//! there is one.

use std::io;

use crate::disk::{DiskFile, is_lasting};
use crate::error::{CommitError, Damage, DamageKind};
use crate::frame::{FrameError, Seed, read};
use crate::header::segment_name;

/// How far a segment has been gone through.
#[derive(Debug)]
pub(crate) struct Cleaning<F> {
    pub(crate) file: F,
    pub(crate) seed: Seed,
    pub(crate) offset: u32,
    /// Where its records end, and its summary begins if it has one.
    pub(crate) end: u32,
    pub(crate) window: Vec<u8>,
}

/// Why cleaning does not go on.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CleanError {
    /// The segment is damaged. It stays, and so do all newer ones.
    #[error(
        "{0}; the segment is kept, and nothing behind it gives room back any more: bring the directory back from a copy, or start once with store.accept_damage = true to lose what cannot be read"
    )]
    Damaged(Damage),
    /// It cannot be read.
    #[error("cannot read {file} to give room back: {error}")]
    Read { file: String, error: io::Error },
    /// What is needed cannot be written again.
    #[error(transparent)]
    Commit(#[from] CommitError),
}

impl CleanError {
    /// Whether cleaning may go on later.
    pub(crate) fn may_pass(&self) -> bool {
        match self {
            CleanError::Damaged(_) | CleanError::Commit(CommitError::Broken { .. }) => false,
            CleanError::Read { error, .. } => !is_lasting(error),
            CleanError::Commit(CommitError::Full(_)) => true,
        }
    }
}

impl<F: DiskFile> Cleaning<F> {
    /// Reads the next stretch; at least one whole record if there is one.
    pub(crate) fn fill(&mut self, number: u32, budget: usize) -> Result<(), CleanError> {
        let left = self.end.saturating_sub(self.offset) as usize;
        let mut bytes = budget.max(1).min(left);
        loop {
            self.window.resize(bytes, 0);
            let read_bytes = self.file.read(u64::from(self.offset), &mut self.window);
            read_bytes.map_err(|error| CleanError::Read { file: segment_name(number), error })?;
            match read(&self.window, self.offset, self.seed) {
                Err(FrameError::Ends { needed }) if bytes < left && needed > bytes => {
                    bytes = needed.min(left);
                }
                _ => return Ok(()),
            }
        }
    }
}

/// Why a record stops the cleaning of its segment.
pub(crate) fn damaged(number: u32, offset: u32, error: FrameError) -> CleanError {
    CleanError::Damaged(Damage {
        file: segment_name(number),
        offset: u64::from(offset),
        bytes: 0,
        what: DamageKind::Record(error),
        lost: None,
    })
}
