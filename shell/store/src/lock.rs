//! The lock of a directory: one server writes to it, or several readers look at it.
//!
//! The lock belongs to the open file, of which a child process has a copy between `fork` and `exec`. Closing ours
//! alone would leave the directory locked until that child goes on, so the lock is given back explicitly.
//! Invariant: once a [`Lock`] is dropped, the directory can be locked again.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind};
use std::path::Path;

/// The file whose lock says that the directory is in use.
pub(crate) const LOCK: &str = "lock";

/// A directory's lock, held until it is dropped.
#[derive(Debug)]
pub(crate) struct Lock(File);

impl Lock {
    /// Locks a directory for the one that writes to it.
    ///
    /// # Errors
    /// [`ErrorKind::WouldBlock`] when another process has it open; others from the operating system.
    pub(crate) fn exclusive(directory: &Path) -> io::Result<Lock> {
        let mut options = OpenOptions::new();
        let file = options.write(true).create(true).truncate(false).open(directory.join(LOCK))?;
        held(file.try_lock())?;
        Ok(Lock(file))
    }

    /// Locks a directory for one that only looks at it; none if it is a copy without the file.
    ///
    /// # Errors
    /// [`ErrorKind::WouldBlock`] when a server has it open; others from the operating system.
    pub(crate) fn shared(directory: &Path) -> io::Result<Option<Lock>> {
        let file = match File::open(directory.join(LOCK)) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        held(file.try_lock_shared())?;
        Ok(Some(Lock(file)))
    }

    /// The file that is locked.
    pub(crate) fn file(&self) -> &File {
        &self.0
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Closing the file gives the lock back too, unless a child still has its copy.
        _ = self.0.unlock();
    }
}

fn held(result: Result<(), TryLockError>) -> io::Result<()> {
    match result {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => Err(ErrorKind::WouldBlock.into()),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn folder(name: &str) -> std::path::PathBuf {
        let path =
            std::env::temp_dir().join(format!("tiderace-lock-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        path
    }

    #[test]
    fn a_copy_of_the_file_in_a_child_keeps_nothing_locked() {
        let path = folder("child");
        let lock = Lock::exclusive(&path).unwrap();
        // What a child has between `fork` and `exec`.
        let of_child = lock.file().try_clone().unwrap();
        assert_eq!(Lock::shared(&path).unwrap_err().kind(), ErrorKind::WouldBlock);
        drop(lock);
        let reader = Lock::shared(&path).unwrap().unwrap();
        let of_child_too = reader.file().try_clone().unwrap();
        assert_eq!(Lock::exclusive(&path).unwrap_err().kind(), ErrorKind::WouldBlock);
        drop(reader);
        drop(Lock::exclusive(&path).unwrap());
        drop((of_child, of_child_too));
        std::fs::remove_dir_all(&path).unwrap();
    }
}
