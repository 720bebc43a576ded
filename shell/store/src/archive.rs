//! A backup as one file: a tar archive of the store's files, with their checksums at the end.
//!
//! ```text
//! tiderace-backup   what this is: its form, the version of the program, the time
//! 0000000001.log    the segments, the newest up to where it was
//! 0000000007.body   files with bodies of large messages
//! SHA256SUMS        the digests of all of these, as `sha256sum -c` reads them
//! ```
//! The log's own files, not records in a portable form: a server goes on meanwhile, and only the files of a moment stay what
//! they were without memory for what is in them. Relies on `snapshot`. Invariants: memory is bounded by what is
//! asked for at once and a line for each file; the archive is as long as was said before.

use std::fmt::Write;
use std::fs::File;
use std::io::Read;

use sha2::{Digest, Sha256};
use tar::{EntryType, Header};

use crate::backups::BackupError;
use crate::snapshot::Snapshot;

/// The first file of an archive.
pub(crate) const ABOUT: &str = "tiderace-backup";
/// The last.
pub(crate) const SUMS: &str = "SHA256SUMS";
/// The form of archives that this program writes, and the highest that it reads.
pub(crate) const ARCHIVE_FORM: u32 = 1;
/// Lengths are multiples of this.
const BLOCK_BYTES: u64 = 512;
/// Digits of a digest, two spaces, and the end of the line.
const SUM_LINE_BYTES: usize = 64 + 2 + 1;

/// An archive that is being made, a piece at a time.
pub struct BackupArchive {
    snapshot: Snapshot,
    about: String,
    /// Of all files, in seconds since 1970.
    time: u64,
    bytes: u64,
    /// The file of the snapshot that comes next.
    next: usize,
    stage: Stage,
    /// What comes before the rest of the open file.
    pending: Vec<u8>,
    open: Option<Open>,
    sums: String,
}

#[derive(Debug, PartialEq, Eq)]
enum Stage {
    About,
    Files,
    Over,
}

/// The file that is being copied.
struct Open {
    name: String,
    file: File,
    bytes: u64,
    left: u64,
    digest: Sha256,
}

impl BackupArchive {
    /// Begins the archive of a store that a program of that version has open; `time_ms` is the time of the snapshot, in
    /// milliseconds since 1970.
    pub fn new(snapshot: Snapshot, version: &str, time_ms: u64) -> BackupArchive {
        let about = format!(
            "{ABOUT}\nform {ARCHIVE_FORM}\nversion {version}\ntime_ms {time_ms}\nsegments {}\nbodies {}\n",
            snapshot.segments(),
            snapshot.bodies()
        );
        let files = snapshot.files().map(|(name, bytes)| (name.len(), bytes));
        let about_file = (ABOUT.len(), about.len() as u64);
        let (mut sums, mut bytes) = (0, 0);
        for (name, length) in files.chain([about_file]) {
            sums += (name + SUM_LINE_BYTES) as u64;
            bytes += member_bytes(length);
        }
        // Two empty blocks are the end.
        bytes += member_bytes(sums) + 2 * BLOCK_BYTES;
        BackupArchive {
            snapshot,
            about,
            time: time_ms / 1000,
            bytes,
            next: 0,
            stage: Stage::About,
            pending: Vec::new(),
            open: None,
            sums: String::new(),
        }
    }

    /// Bytes of the whole archive.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// What it is made of.
    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// The next bytes, so many of them if there are as many left; none at the end. Waits for the disk.
    ///
    /// # Errors
    /// When a file cannot be read, or may have been removed. Then the archive does not go on.
    pub fn read(&mut self, bytes_max: usize) -> Result<Vec<u8>, BackupError> {
        self.snapshot.check_room();
        let mut out = Vec::with_capacity(bytes_max);
        while out.len() < bytes_max {
            let room = bytes_max - out.len();
            if !self.pending.is_empty() {
                let bytes = room.min(self.pending.len());
                out.extend(self.pending.drain(..bytes));
            } else if let Some(open) = &mut self.open {
                let begun = out.len();
                let wanted = room.min(usize::try_from(open.left).unwrap_or(usize::MAX));
                out.resize(begun + wanted, 0);
                let part = out.get_mut(begun..).unwrap_or_default();
                let read = open.file.read_exact(part);
                read.map_err(|error| BackupError::Read { file: open.name.clone(), error })?;
                open.digest.update(part);
                open.left -= wanted as u64;
                if open.left == 0 {
                    self.end_file();
                }
            } else if !self.begin_next()? {
                break;
            }
        }
        // What was read may be part of what has another name now.
        if self.snapshot.is_given_up() {
            return Err(BackupError::GivenUp);
        }
        Ok(out)
    }

    /// Begins what comes next; whether there is anything.
    fn begin_next(&mut self) -> Result<bool, BackupError> {
        match self.stage {
            Stage::About => {
                let about = std::mem::take(&mut self.about);
                self.add_member(ABOUT, about.as_bytes());
                self.add_sum(ABOUT, &Sha256::digest(&about));
                self.stage = Stage::Files;
            }
            Stage::Files => match self.snapshot.file(self.next) {
                Some((name, bytes)) => {
                    self.next += 1;
                    let file = File::open(self.snapshot.directory().join(&name));
                    let file = file.map_err(|error| match self.snapshot.is_given_up() {
                        true => BackupError::GivenUp,
                        false => BackupError::Read { file: name.clone(), error },
                    })?;
                    self.pending = head(&name, bytes, self.time);
                    let digest = Sha256::new();
                    self.open = Some(Open { name, file, bytes, left: bytes, digest });
                }
                None => {
                    let sums = std::mem::take(&mut self.sums);
                    self.add_member(SUMS, sums.as_bytes());
                    self.pending.resize(self.pending.len() + 2 * BLOCK_BYTES as usize, 0);
                    self.stage = Stage::Over;
                }
            },
            Stage::Over => return Ok(false),
        }
        Ok(true)
    }

    fn end_file(&mut self) {
        let Some(Open { name, bytes, digest, .. }) = self.open.take() else { return };
        self.pending.resize(padding(bytes), 0);
        self.add_sum(&name, &digest.finalize());
    }

    fn add_member(&mut self, name: &str, content: &[u8]) {
        self.pending.extend(head(name, content.len() as u64, self.time));
        self.pending.extend_from_slice(content);
        self.pending.resize(self.pending.len() + padding(content.len() as u64), 0);
    }

    fn add_sum(&mut self, name: &str, digest: &[u8]) {
        self.sums.push_str(&hexadecimal(digest));
        // Writing to a String cannot fail.
        let _ = writeln!(self.sums, "  {name}");
    }
}

impl std::fmt::Debug for BackupArchive {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BackupArchive").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

/// The digits of a digest.
pub(crate) fn hexadecimal(digest: &[u8]) -> String {
    digest.iter().fold(String::with_capacity(2 * digest.len()), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// What stands before a file. Its owner alone may read it: what clients say is nobody else's business on a machine.
fn head(name: &str, bytes: u64, time: u64) -> Vec<u8> {
    let mut head = Header::new_ustar();
    let path = head.set_path(name);
    debug_assert!(path.is_ok(), "names are those of segments and bodies");
    head.set_entry_type(EntryType::Regular);
    head.set_size(bytes);
    head.set_mode(0o600);
    head.set_mtime(time);
    head.set_uid(0);
    head.set_gid(0);
    head.set_cksum();
    head.as_bytes().to_vec()
}

/// Bytes behind a file up to the next block.
fn padding(bytes: u64) -> usize {
    (bytes.next_multiple_of(BLOCK_BYTES) - bytes) as usize
}

/// Bytes that a file takes in the archive.
fn member_bytes(bytes: u64) -> u64 {
    BLOCK_BYTES + bytes.next_multiple_of(BLOCK_BYTES)
}
