//! The few things the log asks of a file system, as a trait, and the operating system's answer.
//!
//! The trait is the seam for tests: their file system forgets what was not synced, tears writes and runs
//! full. Invariants of [`Directory`]: one process at a time has it open; files and names that were synced
//! survive the loss of power, as far as the operating system and the device keep their word.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, IoSlice, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::lock::Lock;
use crate::watch::Watch;

/// A directory of files.
pub trait Disk: fmt::Debug + Send + 'static {
    /// One of its files.
    type File: DiskFile;

    /// The names of all files, in any order.
    ///
    /// # Errors
    /// When the directory cannot be read.
    fn names(&mut self) -> io::Result<Vec<String>>;

    /// Makes an empty file, in the place of one with the same name.
    ///
    /// # Errors
    /// When it cannot be made.
    fn create(&mut self, name: &str) -> io::Result<Self::File>;

    /// Opens a file that exists; what is appended comes after its end.
    ///
    /// # Errors
    /// When it cannot be opened.
    fn open(&mut self, name: &str) -> io::Result<Self::File>;

    /// Gives a file another name.
    ///
    /// # Errors
    /// When it cannot be renamed.
    fn rename(&mut self, from: &str, to: &str) -> io::Result<()>;

    /// Takes a file away.
    ///
    /// # Errors
    /// When it cannot be removed.
    fn remove(&mut self, name: &str) -> io::Result<()>;

    /// Waits until all names are on disk as they are now.
    ///
    /// # Errors
    /// When that is not certain.
    fn sync_names(&mut self) -> io::Result<()>;

    /// Where the directory is; none if it is not one of the operating system, so that no file gets a name in it but by
    /// [`Disk::create`].
    fn path(&self) -> Option<&Path> {
        None
    }

    /// Whether the directory is still in its place, with its lock and every file that was made or opened. Asked
    /// for each commit, so it must cost little when nothing has changed.
    ///
    /// # Errors
    /// What was removed or replaced.
    fn verify(&mut self) -> io::Result<()>;
}

/// A file that is open.
pub trait DiskFile: fmt::Debug + Send + 'static {
    /// Its length.
    ///
    /// # Errors
    /// When it cannot be told.
    fn bytes(&mut self) -> io::Result<u64>;

    /// Fills the buffer from `offset` on.
    ///
    /// # Errors
    /// When the file ends before, or cannot be read.
    fn read(&mut self, offset: u64, buffer: &mut [u8]) -> io::Result<()>;

    /// Writes all parts at the end, in one go where possible.
    ///
    /// # Errors
    /// When not all was written; how much was is unknown then.
    fn append(&mut self, parts: &[&[u8]]) -> io::Result<()>;

    /// Writes over bytes that exist.
    ///
    /// # Errors
    /// When not all was written.
    fn rewrite(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Cuts the end off.
    ///
    /// # Errors
    /// When that is impossible.
    fn cut(&mut self, bytes: u64) -> io::Result<()>;

    /// Waits until content and length are on disk.
    ///
    /// # Errors
    /// When that is not certain. What was written since the last success may then be lost, even if a later
    /// call succeeds.
    fn sync(&mut self) -> io::Result<()>;

    /// The operating system's file, if it is one.
    fn into_file(self) -> Option<File>
    where
        Self: Sized,
    {
        None
    }
}

/// A directory of the operating system, locked while it is open.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
    /// The directory itself, to sync its names.
    names: File,
    /// Holds the lock until it is dropped.
    _lock: Lock,
    watch: Watch,
}

impl Directory {
    /// Opens the directory, making it if it does not exist, and locks it.
    ///
    /// # Errors
    /// [`ErrorKind::WouldBlock`] when another process has it open; others from the operating system.
    pub fn open(path: &Path) -> io::Result<Directory> {
        if !path.is_dir() {
            // What clients say is nobody else's business on this machine.
            fs::DirBuilder::new().recursive(true).mode(0o700).create(path)?;
            if let Some(parent) = path.canonicalize()?.parent() {
                File::open(parent)?.sync_all()?;
            }
        }
        let lock = Lock::exclusive(path)?;
        let names = File::open(path)?;
        let watch = Watch::begin(&names, lock.file())?;
        Ok(Directory { path: path.to_owned(), names, _lock: lock, watch })
    }
}

impl Disk for Directory {
    type File = OpenFile;

    fn names(&mut self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            if let Ok(name) = entry?.file_name().into_string() {
                names.push(name);
            }
        }
        Ok(names)
    }

    fn create(&mut self, name: &str) -> io::Result<OpenFile> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(true).mode(0o600);
        let file = options.open(self.path.join(name))?;
        self.watch.add(name, &file.metadata()?);
        Ok(OpenFile(file))
    }

    fn open(&mut self, name: &str) -> io::Result<OpenFile> {
        let mut file = OpenOptions::new().read(true).write(true).open(self.path.join(name))?;
        file.seek(SeekFrom::End(0))?;
        self.watch.opened(name, &file.metadata()?)?;
        Ok(OpenFile(file))
    }

    fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.path.join(from), self.path.join(to))?;
        self.watch.remove(from);
        self.watch.add(to, &fs::metadata(self.path.join(to))?);
        Ok(())
    }

    fn remove(&mut self, name: &str) -> io::Result<()> {
        fs::remove_file(self.path.join(name))?;
        self.watch.remove(name);
        Ok(())
    }

    fn sync_names(&mut self) -> io::Result<()> {
        self.names.sync_all()
    }

    fn path(&self) -> Option<&Path> {
        Some(&self.path)
    }

    fn verify(&mut self) -> io::Result<()> {
        self.watch.verify(&self.path, SystemTime::now)
    }
}

/// An open file of the operating system. Its cursor is always at its end.
#[derive(Debug)]
pub struct OpenFile(File);

impl DiskFile for OpenFile {
    fn bytes(&mut self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn read(&mut self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.0.read_exact_at(buffer, offset)
    }

    fn append(&mut self, parts: &[&[u8]]) -> io::Result<()> {
        let mut slices: Vec<IoSlice<'_>> = parts.iter().map(|part| IoSlice::new(part)).collect();
        let mut left = slices.as_mut_slice();
        // Skips empty parts, so that what is left is never all empty.
        IoSlice::advance_slices(&mut left, 0);
        while !left.is_empty() {
            match self.0.write_vectored(left) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(written) => IoSlice::advance_slices(&mut left, written),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn rewrite(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all_at(bytes, offset)
    }

    fn cut(&mut self, bytes: u64) -> io::Result<()> {
        self.0.set_len(bytes)?;
        self.0.seek(SeekFrom::Start(bytes))?;
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        // Also writes the length, which is needed to read what was appended.
        self.0.sync_data()
    }

    fn into_file(self) -> Option<File> {
        Some(self.0)
    }
}

/// Whether an error means that there is no room, which somebody may make, or that files or memory are short.
pub(crate) fn is_full(error: &io::Error) -> bool {
    let is_full = matches!(
        error.kind(),
        ErrorKind::StorageFull
            | ErrorKind::QuotaExceeded
            | ErrorKind::FileTooLarge
            | ErrorKind::OutOfMemory
    );
    is_full || error.raw_os_error().is_some_and(|error| SCARCE.contains(&error))
}

/// Too many open files: of the process, of all processes.
const SCARCE: [i32; 2] = [libc::EMFILE, libc::ENFILE];

/// Whether an error of a read is about the bytes themselves: they are not there, or the device does not give them. All
/// others, such as too many open files, may pass.
pub(crate) fn is_lasting(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::UnexpectedEof)
        || error.raw_os_error().is_some_and(|error| LASTING.contains(&error))
}

/// The device fails; what the file system keeps does not fit together.
#[cfg(target_os = "linux")]
const LASTING: [i32; 3] = [libc::EIO, libc::EBADMSG, libc::EUCLEAN];
#[cfg(not(target_os = "linux"))]
const LASTING: [i32; 2] = [libc::EIO, libc::EBADMSG];
