//! Why what is in a store is not taken out of it or put into one, in sentences that say what to do.

use std::io;
use std::path::PathBuf;

use crate::archive_reader::ArchiveError;
use crate::error::{CommitError, Damage, OpenError};
use crate::inspect::InspectError;
use crate::portable::PortableError;

/// Why a store was not exported, imported, restored or compacted.
#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    /// It cannot be looked at.
    #[error(transparent)]
    Inspect(#[from] InspectError),
    /// Some of it cannot be read: then nothing is exported in silence.
    #[error("{0}; start the server once with store.accept_damage = true to keep what can be read")]
    Damaged(Damage),
    /// The portable form cannot be read or written.
    #[error(transparent)]
    Portable(#[from] PortableError),
    /// A backup cannot be read, or is not what was written.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// The store in a backup was damaged when that was made.
    #[error(
        "the store was damaged already when the backup was made: {0}; take an older backup, or take the files out of this one with tar and start a server on them once with store.accept_damage = true"
    )]
    DamagedBackup(Damage),
    /// There is something already where a store should be made.
    #[error("{directory} is not empty; a store is made in a directory that is new or empty")]
    NotEmpty {
        /// Which directory.
        directory: PathBuf,
    },
    /// The new store cannot be made.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The new store does not take something.
    #[error(transparent)]
    Commit(#[from] CommitError),
    /// Compacting does not go on. What was done until then stays done.
    #[error("{0}")]
    Compact(String),
    /// It has a place of its own among the file systems, so a new directory cannot take its name.
    #[error("{directory} is a mount point; name a new directory inside it")]
    MountPoint {
        /// Which directory.
        directory: PathBuf,
    },
    /// Another import or restore has not ended, or did not come to its end.
    #[error(
        "{directory} is there already; it is that of another import or restore, which is still going on or was stopped: remove it if none is going on"
    )]
    Unfinished {
        /// Which directory.
        directory: PathBuf,
    },
    /// A record that no export writes there.
    #[error("record {number} of the file is none that is exported: {what}")]
    Unexpected {
        /// Which record, from 0.
        number: u64,
        /// What is wrong with it.
        what: &'static str,
    },
    /// The directory cannot be made.
    #[error("cannot {what} {path}: {error}")]
    System {
        /// What was tried.
        what: &'static str,
        /// With what.
        path: PathBuf,
        /// The operating system's answer.
        error: io::Error,
    },
}
