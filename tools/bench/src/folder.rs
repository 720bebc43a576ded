//! A directory on the disk that is measured.
//!
//! Invariant: a temporary one goes with its handle.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};

/// The directory of a server's store.
#[derive(Debug)]
pub(crate) struct Folder {
    /// Where it is.
    pub(crate) path: PathBuf,
    is_temporary: bool,
}

impl Folder {
    /// The directory that was given, which must be empty, or a temporary one, named after what it is for.
    ///
    /// # Errors
    /// A sentence that says what is wrong with it.
    pub(crate) fn new(given: Option<&Path>, purpose: &str) -> anyhow::Result<Folder> {
        let name = format!("tiderace-bench-{purpose}-{}", std::process::id());
        let path = given.map_or_else(|| std::env::temp_dir().join(name), Path::to_owned);
        fs::create_dir_all(&path).with_context(|| format!("cannot make {}", path.display()))?;
        let is_empty = fs::read_dir(&path)?.next().is_none();
        ensure!(is_empty, "{} is not empty; name a directory that is", path.display());
        Ok(Folder { path, is_temporary: given.is_none() })
    }

    /// A new one in this one, which goes with its handle.
    ///
    /// # Errors
    /// A sentence when it cannot be made.
    pub(crate) fn below(&self, name: &str) -> anyhow::Result<Folder> {
        let path = self.path.join(name);
        fs::create_dir(&path).with_context(|| format!("cannot make {}", path.display()))?;
        Ok(Folder { path, is_temporary: true })
    }

    /// Bytes of all files.
    pub(crate) fn bytes(&self) -> anyhow::Result<u64> {
        let lengths = fs::read_dir(&self.path)?.map(|entry| Ok(entry?.metadata()?.len()));
        lengths.sum()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if self.is_temporary {
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}
