//! Whether a directory and its files are still those that were opened.
//!
//! A file that is open can be written to and synced after its name is gone: removing or replacing the
//! directory of a running server would lose what is acknowledged from then on, and removing its lock would let a
//! second server in. Names are looked at again when the directory's time of change says that some of them
//! have changed; otherwise a look costs one system call. Relies on the file system keeping that time, as all
//! local ones do. Invariant: a change is noticed by the first look after it.

use std::collections::BTreeMap;
use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use crate::header::segment_number;
use crate::lock::LOCK;

/// A file, whatever its name: device and inode.
type Identity = (u64, u64);

/// What was opened, by which it is known again.
#[derive(Debug)]
pub(crate) struct Watch {
    directory: Identity,
    files: BTreeMap<String, Identity>,
    /// The directory's time of change when all names were looked at last.
    looked: Option<SystemTime>,
    /// Times that all names were looked at.
    #[cfg(test)]
    looks: u32,
}

impl Watch {
    pub(crate) fn begin(directory: &File, lock: &File) -> io::Result<Watch> {
        let mut watch = Watch {
            directory: identity(&directory.metadata()?),
            files: BTreeMap::new(),
            looked: None,
            #[cfg(test)]
            looks: 0,
        };
        watch.add(LOCK, &lock.metadata()?);
        Ok(watch)
    }

    /// A file was made or opened. Only the lock and segments count: without the others nothing is lost.
    pub(crate) fn add(&mut self, name: &str, file: &Metadata) {
        if name == LOCK || segment_number(name).is_some() {
            self.files.insert(name.to_owned(), identity(file));
        }
    }

    /// A file was opened by its name, perhaps not for the first time.
    ///
    /// # Errors
    /// When it is another than before: who reads it must not hide from the next look that it was replaced.
    pub(crate) fn opened(&mut self, name: &str, file: &Metadata) -> io::Result<()> {
        match self.files.get(name) {
            Some(known) if *known != identity(file) => return Err(replaced(&name)),
            Some(_) => {}
            None => self.add(name, file),
        }
        Ok(())
    }

    pub(crate) fn remove(&mut self, name: &str) {
        self.files.remove(name);
    }

    /// Looks whether all is as it was. The clock is asked only when names were looked at.
    ///
    /// # Errors
    /// What was removed or replaced.
    pub(crate) fn verify(
        &mut self,
        path: &Path,
        clock: impl FnOnce() -> SystemTime,
    ) -> io::Result<()> {
        let shown = path.display();
        let found = fs::metadata(path).map_err(|error| gone(&shown, &error))?;
        if identity(&found) != self.directory {
            return Err(replaced(&shown));
        }
        let changed = found.modified()?;
        if self.looked == Some(changed) {
            return Ok(());
        }
        #[cfg(test)]
        {
            self.looks += 1;
        }
        for (name, known) in &self.files {
            let file = path.join(name);
            let found = fs::metadata(&file).map_err(|error| gone(&file.display(), &error))?;
            if identity(&found) != *known {
                return Err(replaced(&file.display()));
            }
        }
        // Two changes within one step of the file system's clock have the same time.
        let age = clock().duration_since(changed);
        let is_settled = age.map_or(true, |age| age > clock_step(&found));
        self.looked = is_settled.then_some(changed);
        Ok(())
    }
}

/// The longest step of the file system's clock: that of the kernel's ticks, or seconds if it keeps no more.
fn clock_step(found: &Metadata) -> Duration {
    match found.mtime_nsec() {
        0 => Duration::from_secs(2),
        _ => Duration::from_millis(20),
    }
}

fn identity(data: &Metadata) -> Identity {
    (data.dev(), data.ino())
}

fn gone(what: &dyn std::fmt::Display, error: &io::Error) -> io::Error {
    let was = "was removed, or cannot be read any more";
    io::Error::new(error.kind(), format!("{what} {was}: {error}"))
}

fn replaced(what: &dyn std::fmt::Display) -> io::Error {
    let reason = format!("{what} was replaced by another while the server ran");
    // What was written is not there any more.
    io::Error::new(io::ErrorKind::NotFound, reason)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lock::Lock;

    #[test]
    fn names_are_looked_at_only_when_some_have_changed() {
        let path = std::env::temp_dir().join(format!("tiderace-watch-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        let (names, lock) = (File::open(&path).unwrap(), Lock::exclusive(&path).unwrap());
        let mut watch = Watch::begin(&names, lock.file()).unwrap();
        let file = File::create(path.join("0000000001.log")).unwrap();
        watch.add("0000000001.log", &file.metadata().unwrap());
        let changed = names.metadata().unwrap().modified().unwrap();
        // The time since is the test's, however late this thread is.
        let mut verify = |millis| {
            let result = watch.verify(&path, || changed + Duration::from_millis(millis));
            (result, watch.looks)
        };
        for looks in 1..=3 {
            let (result, looked) = verify(1);
            result.unwrap();
            assert_eq!(looked, looks, "a change of just now may hide another one");
        }
        for _ in 0..100 {
            let (result, looked) = verify(3_000);
            result.unwrap();
            assert_eq!(looked, 4, "nothing has changed for long");
        }
        fs::remove_file(path.join("0000000001.log")).unwrap();
        // As if it was later: two changes of one step of the clock have the same time.
        names.set_modified(changed + Duration::from_secs(1)).unwrap();
        let error = verify(4_000).0.unwrap_err().to_string();
        assert!(error.contains("0000000001.log was removed"), "{error}");
        fs::remove_dir_all(&path).unwrap();
    }
}
