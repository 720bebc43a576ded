//! What can go wrong with a directory, in sentences that say what to do.

use std::io;
use std::path::PathBuf;

use crate::frame::FrameError;
use crate::header::{FORM, HeaderError};
use crate::lost::LostRecord;

/// A store that cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process has it open.
    #[error(
        "{directory} is in use by another process; stop that one, or give this server a directory of its own (store.directory)"
    )]
    InUse {
        /// Which directory.
        directory: PathBuf,
    },
    /// A newer version of the program has written it, in a form that this one cannot read.
    #[error(
        "{directory}: {file} has form {form}, which is that of a newer version of tiderace; this one reads forms up to {FORM}. Start the newer version, or give this one a directory of its own (store.directory)"
    )]
    TooNew {
        /// Which directory.
        directory: PathBuf,
        /// The name of the file.
        file: String,
        /// The file's form.
        form: u32,
    },
    /// Bytes that were on disk are not what they were.
    #[error(
        "{directory}: {damage}; bring the directory back from a copy, or start once with store.accept_damage = true to keep what can still be read and lose the rest"
    )]
    Damaged {
        /// Which directory.
        directory: PathBuf,
        /// Where, and what.
        damage: Damage,
    },
    /// The operating system refuses something.
    #[error("{directory}: cannot {what}: {error}")]
    System {
        /// Which directory.
        directory: PathBuf,
        /// What was tried.
        what: &'static str,
        /// Its answer.
        error: io::Error,
    },
}

/// A place where the log is not what it was.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file} is damaged at byte {offset}: {what}{}", .lost.as_ref().map(|lost| format!("; lost is {lost}")).unwrap_or_default())]
pub struct Damage {
    /// The name of the file.
    pub file: String,
    /// Where in it.
    pub offset: u64,
    /// Bytes from there on that cannot be read.
    pub bytes: u64,
    /// What is wrong.
    pub what: DamageKind,
    /// What is lost with these bytes, if that is known.
    pub lost: Option<LostRecord>,
}

/// What is wrong with a file of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DamageKind {
    /// Its header.
    #[error("{0}")]
    Header(HeaderError),
    /// The header is that of another file.
    #[error("it is segment {number} of another place or another store, under a wrong name")]
    Misplaced {
        /// What the header says.
        number: u32,
    },
    /// A record.
    #[error("{0}, though it was written completely")]
    Record(FrameError),
    /// The end of the segment.
    #[error("the file ends here, though more was written")]
    Short,
    /// The segment itself.
    #[error("the file is missing")]
    Missing,
    /// The operating system gives an error instead of the bytes.
    #[error("it cannot be read: {0}")]
    Unreadable(std::io::ErrorKind),
    /// The bytes of a body.
    #[error("these are not the bytes of the message that were written")]
    Body,
    /// Messages that belong to no stream.
    #[error("messages of a stream are here whose declaration is lost")]
    Undeclared,
}

/// Why a commit has failed.
#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    /// Nothing of it is in the log, and later ones may succeed.
    #[error(
        "there is no room for persistent messages: {0}; make room, then they are accepted again"
    )]
    Full(io::Error),
    /// Nobody knows what is in the log. Nothing may be acknowledged any more.
    #[error(
        "the disk does not keep what is written ({what}: {error}); nothing is acknowledged from now on; check the device and start the server again"
    )]
    Broken {
        /// What was tried.
        what: &'static str,
        /// The operating system's answer.
        error: io::Error,
    },
}
