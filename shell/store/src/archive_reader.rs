//! Reads a backup, and checks all that is in it.
//!
//! An archive may come from anybody. Relies on `tar` for how heads and contents follow each other; nothing is unpacked by
//! it. Invariants: only files with names that a store gives its own are passed on, each once; nothing is said to be whole that
//! has not the digest that stands at the end; memory is bounded by what has come, never by a length that is said; reading
//! never panics.
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

use std::collections::BTreeMap;
use std::io::{self, Read};

use sha2::{Digest, Sha256};
use tar::{Archive, Entry, EntryType};

use crate::archive::{ABOUT, ARCHIVE_FORM, SUMS, hexadecimal};
use crate::bodies::body_number;
use crate::header::segment_number;

/// Bytes that are read at once.
const PART_BYTES: usize = 256 << 10;
/// Bytes of the file that says what the archive is, at most.
const ABOUT_BYTES_MAX: usize = 4 << 10;

/// Why an archive is no backup, or not a whole one.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// It cannot be read.
    #[error("the backup cannot be read: {0}")]
    System(io::Error),
    /// What is in it cannot be written.
    #[error("what is in the backup cannot be written: {0}")]
    Write(io::Error),
    /// It begins with something else.
    #[error("this is not what `tiderace backup` writes")]
    Foreign,
    /// A newer version of the program wrote it.
    #[error(
        "the backup has form {0}, which is that of a newer version of tiderace; this one reads forms up to {ARCHIVE_FORM}: restore it with that version"
    )]
    TooNew(u32),
    /// It ends too early.
    #[error("the backup ends before its end, at {0}; it was cut short")]
    Short(String),
    /// It does not end at its end.
    #[error("there is something behind the end of the backup")]
    Longer,
    /// It has what no backup has.
    #[error("the backup has {0}, which no backup has; nothing of it is used")]
    Unexpected(String),
    /// A file is not what was written.
    #[error("{0} is not what was written to the backup: its digest is another one")]
    Checksum(String),
    /// A file is not there.
    #[error("the backup lacks {0}")]
    Missing(String),
}

/// Takes what is in a backup.
pub trait ArchiveSink {
    /// A file begins; its name is that of a file in a store's directory.
    ///
    /// # Errors
    /// When it cannot be made.
    fn begin(&mut self, name: &str) -> io::Result<()>;

    /// These are its next bytes.
    ///
    /// # Errors
    /// When they cannot be written.
    fn write(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// The file is whole.
    ///
    /// # Errors
    /// When it is not certain that it is on disk.
    fn end(&mut self) -> io::Result<()>;
}

/// What a backup says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BackupContents {
    /// The version of the program that made it.
    pub version: String,
    /// When, in milliseconds since 1970.
    pub time_ms: u64,
    /// Segments of the log.
    pub segments: u64,
    /// Files with bodies of large messages.
    pub bodies: u64,
    /// Bytes of all these files.
    pub bytes: u64,
}

/// Reads a whole backup. What was passed on is nothing if this fails.
///
/// # Errors
/// When it is none, or is not what was written.
pub fn read_backup(
    from: impl Read,
    to: &mut impl ArchiveSink,
) -> Result<BackupContents, ArchiveError> {
    let mut archive = Archive::new(from);
    let entries = archive.entries().map_err(ArchiveError::System)?;
    let mut read = Reading::default();
    for entry in entries.raw(true) {
        let mut entry = entry.map_err(|error| read.broken(error))?;
        read.member(&mut entry, to)?;
    }
    if !read.is_over {
        return Err(match read.found.is_empty() {
            true => ArchiveError::Foreign,
            false => ArchiveError::Short(read.place()),
        });
    }
    check_end(archive.into_inner())?;
    Ok(read.contents)
}

/// How far an archive has been read.
#[derive(Default)]
struct Reading {
    contents: BackupContents,
    /// What it says how many files there are.
    promised: (u64, u64),
    /// Digests by name.
    found: BTreeMap<String, String>,
    is_over: bool,
}

impl Reading {
    fn member(
        &mut self,
        entry: &mut Entry<'_, impl Read>,
        to: &mut impl ArchiveSink,
    ) -> Result<(), ArchiveError> {
        let name = self.name(entry)?;
        if self.found.is_empty() && name != ABOUT {
            return Err(ArchiveError::Foreign);
        }
        if self.is_over {
            return Err(ArchiveError::Longer);
        }
        if self.found.contains_key(&name) {
            return Err(ArchiveError::Unexpected(format!("{name} twice")));
        }
        let digest = match &*name {
            ABOUT => {
                let about = small(entry, &name, ABOUT_BYTES_MAX)?;
                self.take_about(&about)?;
                hexadecimal(&Sha256::digest(&about))
            }
            SUMS => {
                // A line for each file that has come.
                let lines = self.found.keys().map(|name| name.len() + 70).sum();
                let sums = small(entry, &name, lines)?;
                return self.end(&sums);
            }
            _ => {
                let is_segment = segment_number(&name).is_some();
                match is_segment {
                    true => self.contents.segments += 1,
                    false => self.contents.bodies += 1,
                }
                self.copy(entry, &name, to)?
            }
        };
        self.found.insert(name, digest);
        Ok(())
    }

    /// The name of a file, if a backup may have it.
    fn name(&self, entry: &Entry<'_, impl Read>) -> Result<String, ArchiveError> {
        let path = entry.path_bytes();
        let shown = || {
            let text = String::from_utf8_lossy(&path).chars().take(80).collect::<String>();
            format!("{text:?}")
        };
        let header = entry.header();
        let is_first = self.found.is_empty();
        if header.entry_type() != EntryType::Regular {
            let what = format!("{} that is no plain file", shown());
            return Err(if is_first {
                ArchiveError::Foreign
            } else {
                ArchiveError::Unexpected(what)
            });
        }
        let name = std::str::from_utf8(&path).ok().filter(|name| {
            *name == ABOUT
                || *name == SUMS
                || segment_number(name).is_some()
                || body_number(name).is_some()
        });
        match name {
            Some(name) => Ok(name.to_owned()),
            None if is_first => Err(ArchiveError::Foreign),
            None => Err(ArchiveError::Unexpected(format!("a file with the name {}", shown()))),
        }
    }

    /// Takes what the archive says of itself.
    fn take_about(&mut self, about: &[u8]) -> Result<(), ArchiveError> {
        let text = std::str::from_utf8(about).map_err(|_| ArchiveError::Foreign)?;
        let mut lines = text.lines();
        if lines.next() != Some(ABOUT) {
            return Err(ArchiveError::Foreign);
        }
        let mut said: BTreeMap<&str, &str> = BTreeMap::new();
        said.extend(lines.filter_map(|line| line.split_once(' ')));
        let number = |name: &str| said.get(name)?.parse::<u64>().ok();
        let form = said.get("form").and_then(|form| form.parse::<u32>().ok());
        match form.filter(|form| *form > 0).ok_or(ArchiveError::Foreign)? {
            ARCHIVE_FORM => {}
            form => return Err(ArchiveError::TooNew(form)),
        }
        let promised = number("segments").zip(number("bodies"));
        self.promised = promised.ok_or(ArchiveError::Foreign)?;
        self.contents.version = said.get("version").copied().unwrap_or_default().to_owned();
        self.contents.time_ms = number("time_ms").unwrap_or(0);
        Ok(())
    }

    /// Passes a file on; its digest.
    fn copy(
        &mut self,
        entry: &mut Entry<'_, impl Read>,
        name: &str,
        to: &mut impl ArchiveSink,
    ) -> Result<String, ArchiveError> {
        to.begin(name).map_err(ArchiveError::Write)?;
        let (mut digest, mut part) = (Sha256::new(), vec![0; PART_BYTES]);
        let mut left = entry.size();
        while left > 0 {
            let bytes = entry.read(&mut part).map_err(|error| self.broken(error))?;
            let bytes = part.get(..bytes).filter(|bytes| !bytes.is_empty());
            let bytes = bytes.ok_or_else(|| ArchiveError::Short(name.to_owned()))?;
            digest.update(bytes);
            to.write(bytes).map_err(ArchiveError::Write)?;
            left = left.saturating_sub(bytes.len() as u64);
            self.contents.bytes += bytes.len() as u64;
        }
        to.end().map_err(ArchiveError::Write)?;
        Ok(hexadecimal(&digest.finalize()))
    }

    /// Compares what has come with what was written.
    fn end(&mut self, sums: &[u8]) -> Result<(), ArchiveError> {
        let text = std::str::from_utf8(sums).unwrap_or_default();
        let said: BTreeMap<&str, &str> = text
            .lines()
            .filter_map(|line| line.split_once("  "))
            .map(|(sum, name)| (name, sum))
            .collect();
        for (name, digest) in &self.found {
            match said.get(&**name) {
                Some(sum) if sum == digest => {}
                _ => return Err(ArchiveError::Checksum(name.clone())),
            }
        }
        if let Some(name) = said.keys().find(|name| !self.found.contains_key(**name)) {
            return Err(ArchiveError::Missing(name.chars().take(80).collect()));
        }
        let (segments, bodies) = self.promised;
        if (self.contents.segments, self.contents.bodies) != (segments, bodies) || segments == 0 {
            let what = format!("files: it should have {segments} segments and {bodies} bodies");
            return Err(ArchiveError::Missing(what));
        }
        self.is_over = true;
        Ok(())
    }

    /// Where reading has come to, for a message.
    fn place(&self) -> String {
        match self.found.last_key_value() {
            Some(_) => format!("file {}", self.found.len() + 1),
            None => "its beginning".to_owned(),
        }
    }

    /// Why the next head cannot be read.
    fn broken(&self, error: io::Error) -> ArchiveError {
        match error.kind() {
            // Of `tar`: that heads make no sense, or end.
            io::ErrorKind::Other | io::ErrorKind::InvalidData if self.found.is_empty() => {
                ArchiveError::Foreign
            }
            io::ErrorKind::Other | io::ErrorKind::UnexpectedEof => {
                ArchiveError::Short(self.place())
            }
            _ => ArchiveError::System(error),
        }
    }
}

/// The content of a file that has to be small.
fn small(
    entry: &mut Entry<'_, impl Read>,
    name: &str,
    bytes_max: usize,
) -> Result<Vec<u8>, ArchiveError> {
    let bytes = entry.size();
    if bytes > bytes_max as u64 {
        return Err(ArchiveError::Unexpected(format!("{bytes} bytes in {name}")));
    }
    let mut content = Vec::new();
    entry.read_to_end(&mut content).map_err(ArchiveError::System)?;
    match (content.len() as u64) < bytes {
        true => Err(ArchiveError::Short(name.to_owned())),
        false => Ok(content),
    }
}

/// Behind the end of an archive stand zeros, as many as its writer likes.
fn check_end(mut rest: impl Read) -> Result<(), ArchiveError> {
    let mut part = vec![0; PART_BYTES];
    loop {
        let bytes = rest.read(&mut part).map_err(ArchiveError::System)?;
        let bytes = part.get(..bytes).unwrap_or_default();
        if bytes.is_empty() {
            return Ok(());
        }
        if bytes.iter().any(|byte| *byte != 0) {
            return Err(ArchiveError::Longer);
        }
    }
}
