//! A directory that is only looked at: what is written to it is forgotten.
//!
//! So the ordinary way of opening a log says what a server would find, and changes nothing. Relies on
//! opening to read nothing that it has written itself. Invariant: no file is opened for writing, and
//! no file is made.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::disk::{Disk, DiskFile};
use crate::lock::Lock;

/// A directory of the operating system that nobody writes to meanwhile.
#[derive(Debug)]
pub(crate) struct Onlooker {
    path: PathBuf,
    /// Files that were made or opened in the mind, with their lengths.
    made: BTreeMap<String, u64>,
    removed: BTreeSet<String>,
    /// Keeps a server from starting meanwhile.
    _lock: Option<Lock>,
}

impl Onlooker {
    /// Looks at a directory.
    ///
    /// # Errors
    /// [`ErrorKind::WouldBlock`] when a server has it open; others from the operating system.
    pub(crate) fn open(path: &Path) -> io::Result<Onlooker> {
        fs::read_dir(path)?;
        let lock = Lock::shared(path)?;
        let (made, removed) = (BTreeMap::new(), BTreeSet::new());
        Ok(Onlooker { path: path.to_owned(), made, removed, _lock: lock })
    }
}

impl Disk for Onlooker {
    type File = SeenFile;

    fn names(&mut self) -> io::Result<Vec<String>> {
        let mut names: Vec<String> = self.made.keys().cloned().collect();
        for entry in fs::read_dir(&self.path)? {
            let name = entry?.file_name().into_string();
            names.extend(name.ok().filter(|name| !self.removed.contains(name)));
        }
        Ok(names)
    }

    fn create(&mut self, name: &str) -> io::Result<SeenFile> {
        self.made.insert(name.to_owned(), 0);
        Ok(SeenFile { file: None, bytes: 0 })
    }

    fn open(&mut self, name: &str) -> io::Result<SeenFile> {
        if let Some(bytes) = self.made.get(name) {
            return Ok(SeenFile { file: None, bytes: *bytes });
        }
        let file = File::open(self.path.join(name))?;
        let bytes = file.metadata()?.len();
        Ok(SeenFile { file: Some(file), bytes })
    }

    fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        let bytes = self.made.remove(from).unwrap_or(0);
        self.removed.insert(from.to_owned());
        self.made.insert(to.to_owned(), bytes);
        Ok(())
    }

    fn remove(&mut self, name: &str) -> io::Result<()> {
        self.made.remove(name);
        self.removed.insert(name.to_owned());
        Ok(())
    }

    fn sync_names(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn verify(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A file as it is, or as it would be.
#[derive(Debug)]
pub(crate) struct SeenFile {
    file: Option<File>,
    bytes: u64,
}

impl DiskFile for SeenFile {
    fn bytes(&mut self) -> io::Result<u64> {
        Ok(self.bytes)
    }

    fn read(&mut self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        match &self.file {
            Some(file) => file.read_exact_at(buffer, offset),
            None => Err(ErrorKind::UnexpectedEof.into()),
        }
    }

    fn append(&mut self, parts: &[&[u8]]) -> io::Result<()> {
        self.bytes += parts.iter().map(|part| part.len() as u64).sum::<u64>();
        Ok(())
    }

    fn rewrite(&mut self, _offset: u64, _bytes: &[u8]) -> io::Result<()> {
        Ok(())
    }

    fn cut(&mut self, bytes: u64) -> io::Result<()> {
        self.bytes = bytes;
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }
}
