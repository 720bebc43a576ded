//! Makes a store of a backup.
//!
//! Relies on `archive_reader` for what is taken from it, and on `inspect` for whether a server would start with it and read
//! every message. Invariant: a directory has either the whole of what was backed up or nothing.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::archive_reader::{ArchiveSink, BackupContents, read_backup};
use crate::inspect::{Look, inspect};
use crate::new_directory::NewDirectory;
use crate::transfer_error::TransferError;

/// Makes a store of a backup in a directory that is empty or not there, and examines it as `tiderace store check` does.
///
/// # Errors
/// When the directory has something in it, is a mount point, or is that of another restore; when the backup is none, is not
/// whole, or the store in it is damaged. Then no store is made.
pub fn restore(from: impl Read, directory: &Path) -> Result<BackupContents, TransferError> {
    NewDirectory::check(directory)?;
    let made = NewDirectory::begin(directory, ".restore")?;
    let mut files = Files { directory: made.path().to_owned(), open: None };
    let contents = read_backup(from, &mut files)?;
    let synced = File::open(made.path()).and_then(|directory| directory.sync_all());
    synced.map_err(|error| {
        let (what, path) = ("sync", made.path().to_owned());
        TransferError::System { what, path, error }
    })?;
    let found = inspect(made.path(), Look::AtAll)?;
    if let Some(damage) = found.recovered.report.damage.into_iter().next() {
        return Err(TransferError::DamagedBackup(damage));
    }
    made.finish()?;
    Ok(contents)
}

/// Reads a whole backup and makes nothing of it; also whether a store can be made in the directory.
///
/// # Errors
/// As [`restore`], but for the store in the backup, which is not examined.
pub fn check_backup(from: impl Read, directory: &Path) -> Result<BackupContents, TransferError> {
    NewDirectory::check(directory)?;
    Ok(read_backup(from, &mut Nowhere)?)
}

/// Writes files into a directory that is nobody else's.
struct Files {
    directory: PathBuf,
    open: Option<File>,
}

impl ArchiveSink for Files {
    fn begin(&mut self, name: &str) -> io::Result<()> {
        let mut options = OpenOptions::new();
        // None is there, and none is followed.
        options.write(true).create_new(true).mode(0o600);
        self.open = Some(options.open(self.directory.join(name))?);
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.open.as_mut().map_or(Ok(()), |file| file.write_all(bytes))
    }

    fn end(&mut self) -> io::Result<()> {
        self.open.take().map_or(Ok(()), |file| file.sync_all())
    }
}

struct Nowhere;

impl ArchiveSink for Nowhere {
    fn begin(&mut self, _: &str) -> io::Result<()> {
        Ok(())
    }

    fn write(&mut self, _: &[u8]) -> io::Result<()> {
        Ok(())
    }

    fn end(&mut self) -> io::Result<()> {
        Ok(())
    }
}
