//! Asks an open store for what a backup has to copy.
//!
//! Relies on the committer, which answers between two commits. Invariant: who asks waits for the committer's thread, and
//! no shard does.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use crate::snapshot::Snapshot;

/// How long the committer may take: it answers behind a commit that is under way. Less than the 10 s after which the command
/// line takes a server for gone, so that the reason arrives there.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(8);

/// Why there is no backup.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// There can be only one at a time.
    #[error("another backup is under way; try again when it is over")]
    Busy,
    /// Nobody knows what is on the disk.
    #[error(
        "the store has failed, so nobody knows what is in it; start the server again, and make the backup then"
    )]
    Failed,
    /// The store lies on no file system.
    #[error("the store has no files that could be copied")]
    NoFiles,
    /// The server ends.
    #[error("the store has stopped")]
    Stopped,
    /// The disk does not answer.
    #[error("the store did not answer within 8 s; its disk may be overloaded")]
    Silent,
    /// The disk is full.
    #[error(
        "the disk is full, so the backup was given up for the files that it kept from being removed; make room, or make the backup when less is written"
    )]
    GivenUp,
    /// A file cannot be read.
    #[error("cannot read {file}: {error}")]
    Read {
        /// Its name.
        file: String,
        /// The operating system's answer.
        error: io::Error,
    },
}

/// The way to an open store. Cheap to clone.
#[derive(Clone)]
pub struct Backups(Arc<dyn Fn(Asked) -> bool + Send + Sync>);

/// Somebody waits for a snapshot.
#[derive(Debug)]
pub(crate) struct Asked {
    answer: SyncSender<Result<Snapshot, BackupError>>,
    is_held: bool,
}

impl Asked {
    /// Answers with what is made, given whether the files are to be kept from being removed.
    pub(crate) fn answer(self, make: impl FnOnce(bool) -> Result<Snapshot, BackupError>) {
        // Who waits no more gets none, and what it would have held is free.
        let _ = self.answer.send(make(self.is_held));
    }
}

impl Backups {
    pub(crate) fn new(ask: impl Fn(Asked) -> bool + Send + Sync + 'static) -> Backups {
        Backups(Arc::new(ask))
    }

    /// The files of the store as they are now; they stay until this goes. Waits for a commit that is under way.
    ///
    /// # Errors
    /// When there is another, or the store cannot be copied.
    pub fn begin(&self) -> Result<Snapshot, BackupError> {
        self.ask(true)
    }

    /// The same to look at; the files may go at any time.
    ///
    /// # Errors
    /// When the store cannot be copied.
    pub fn look(&self) -> Result<Snapshot, BackupError> {
        self.ask(false)
    }

    fn ask(&self, is_held: bool) -> Result<Snapshot, BackupError> {
        let (answer, wait) = sync_channel(1);
        if !(self.0)(Asked { answer, is_held }) {
            return Err(BackupError::Stopped);
        }
        match wait.recv_timeout(ANSWER_TIME_MAX) {
            Ok(result) => result,
            Err(RecvTimeoutError::Timeout) => Err(BackupError::Silent),
            Err(RecvTimeoutError::Disconnected) => Err(BackupError::Stopped),
        }
    }
}

impl fmt::Debug for Backups {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Backups").finish_non_exhaustive()
    }
}
