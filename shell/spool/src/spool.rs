//! The spool itself: it makes files and starts the writer thread.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};

#[cfg(target_os = "linux")]
use rustix::fs::{CWD, Mode, OFlags, openat};
use tiderace_bodies::{Charge, Maps};

use crate::blocks::Blocks;
use crate::error::SpoolError;
use crate::ledger::{Ledger, Usage};
use crate::options::Options;
use crate::upload::Upload;
use crate::work::Work;
use crate::writer;

/// Makes files for bodies and keeps account of them. Shared by all shards.
#[derive(Debug)]
pub struct Spool {
    directory: PathBuf,
    ledger: Arc<Ledger>,
    blocks: Arc<Blocks>,
    work: Sender<Work>,
    next_name: AtomicU64,
}

impl Spool {
    /// Makes the directory, tries to make a file in it and starts the writer thread, which ends when the spool and
    /// everything made by it are gone. Bodies are known by `maps`.
    ///
    /// # Errors
    /// When no file can be made there, or no thread.
    pub fn open(options: Options, maps: Arc<Maps>) -> std::io::Result<Spool> {
        std::fs::create_dir_all(&options.directory)?;
        let (work, receiver) = channel();
        let spool = Spool {
            directory: options.directory.clone(),
            ledger: Arc::new(Ledger::new(options)),
            blocks: Arc::default(),
            work,
            next_name: AtomicU64::new(0),
        };
        spool.make_file()?;
        let builder = std::thread::Builder::new().name("tiderace-spool".to_owned());
        let blocks = spool.blocks.clone();
        builder.spawn(move || writer::run(&receiver, &blocks, &maps))?;
        Ok(spool)
    }

    /// Begins a body of somebody. `wake` is called from the writer thread when an upload that was behind is so no more,
    /// and when it is whole or has failed.
    ///
    /// # Errors
    /// When too much arrives or is kept already, or no file can be made.
    pub fn begin(
        &self,
        owner: &Arc<str>,
        wake: Box<dyn Fn() + Send + Sync>,
    ) -> Result<Upload, SpoolError> {
        let place = self.ledger.begin(owner)?;
        let file = self.make_file().map_err(|error| SpoolError::Disk(error.to_string()))?;
        Ok(Upload::new(place, file, (self.work.clone(), self.blocks.clone()), wake))
    }

    /// What is in use now.
    pub fn usage(&self) -> Usage {
        self.ledger.usage()
    }

    /// Where the files are.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Counts bytes that lie in files already, kept since an earlier life of the server, as somebody's or nobody's. They
    /// may be more than there may be: then nothing new is taken until some are gone.
    pub fn charge(&self, owner: Option<Arc<str>>, bytes: u64) -> Charge {
        Arc::new(self.ledger.charge_kept(owner, bytes))
    }

    /// A file without a name, which it can be given; where the file system has no such files, one that had a name and
    /// cannot have another.
    fn make_file(&self) -> std::io::Result<File> {
        #[cfg(target_os = "linux")]
        {
            let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC;
            if let Ok(file) = openat(CWD, &self.directory, flags, Mode::RUSR | Mode::WUSR) {
                return Ok(file.into());
            }
        }
        let number = self.next_name.fetch_add(1, Ordering::Relaxed);
        let path = self.directory.join(format!("{}-{number}.body", std::process::id()));
        // What a server left behind that ended at just this place had the same name.
        let _ = std::fs::remove_file(&path);
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create_new(true).mode(0o600).open(&path)?;
        std::fs::remove_file(&path)?;
        Ok(file)
    }
}
