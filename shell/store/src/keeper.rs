//! The thread that keeps bodies of large messages, so that neither a shard nor a commit waits for them.
//!
//! ```text
//! shard ──Batch with bodies──▶ keeper: a name in the store's directory, or a copy; sync ──Batch──▶ committer
//!       ──what follows it────▶   └─ in its order behind it ─────────────────────────────Batch──▶
//! ```
//! Relies on `bodies` for numbers and on the operating system. A file that has no name yet is given one if it lies on the
//! same file system; otherwise it is copied. Invariants: a body and its name are on the disk before the batch that names it is handed
//! to the committer, whatever acknowledgements wait for otherwise; a record whose body cannot be kept is left out of its batch,
//! which is told before the batch is answered; batches of one submitter stay in their order.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

use rustix::fs::{AtFlags, CWD, linkat};
use tiderace_bodies::{BodyFile, BodyPart, Kept, checksum};

use crate::batch::{Batch, LeftOut};
use crate::bodies::{Bodies, Pin, body_name};
use crate::notice::{Notice, Report};
use crate::record::Body;
use crate::room::check_room;

/// Something to hand on, behind what was handed over before it.
pub(crate) enum Work {
    /// A batch, whose it is, what hands it on, and how many of its submitter are here.
    Batch {
        shard: u16,
        batch: Batch,
        forward: Box<dyn FnOnce(Batch) + Send>,
        here: Arc<AtomicUsize>,
    },
    /// Something that is to be done behind the batches that came before it.
    Behind(Box<dyn FnOnce() + Send>),
    /// There is no more.
    Stop,
}

/// The thread, as the committer sees it.
#[derive(Debug)]
pub(crate) struct Keeper {
    work: Sender<Work>,
    thread: Option<JoinHandle<()>>,
}

impl Keeper {
    /// Starts the thread for a store in that directory; without one there is nothing to keep bodies in. `no_room` is called
    /// when the disk has no room for one.
    ///
    /// # Errors
    /// When the operating system grants none.
    pub(crate) fn start(
        directory: Option<PathBuf>,
        bodies: Arc<Bodies>,
        report: Report<impl FnMut(Notice<'_>) + Send + 'static>,
        no_room: impl Fn() + Send + 'static,
    ) -> io::Result<Keeper> {
        let (work, waiting) = channel();
        let thread = thread::Builder::new().name("store-bodies".to_owned());
        let directory = directory.map(|path| BodyDirectory { path, bodies });
        let thread =
            thread.spawn(move || keep_all(&waiting, directory.as_ref(), &report, &no_room))?;
        Ok(Keeper { work, thread: Some(thread) })
    }

    /// Where work is handed over.
    pub(crate) fn work(&self) -> Sender<Work> {
        self.work.clone()
    }

    /// Hands on what is here, and ends.
    pub(crate) fn finish(&mut self) {
        let _ = self.work.send(Work::Stop);
        if let Some(thread) = self.thread.take() {
            // A panic of a report has been told by the panic hook already.
            let _ = thread.join();
        }
    }
}

fn keep_all(
    waiting: &Receiver<Work>,
    directory: Option<&BodyDirectory>,
    report: &Report<impl FnMut(Notice<'_>)>,
    no_room: &impl Fn(),
) {
    let mut fails = false;
    while let Ok(work) = waiting.recv() {
        let (shard, mut batch, forward, here) = match work {
            Work::Batch { shard, batch, forward, here } => (shard, batch, forward, here),
            Work::Behind(act) => {
                act();
                continue;
            }
            Work::Stop => return,
        };
        if batch.has_bodies() {
            let left_out = batch.keep_bodies(|part| match directory {
                Some(directory) => directory.keep(part),
                None => Err(io::ErrorKind::Unsupported.into()),
            });
            if let Some(LeftOut { error, .. }) = left_out.as_ref().filter(|_| !fails) {
                let what = format!(
                    "the file of a large message cannot be kept: {error}; its sender is refused"
                );
                report.tell(Notice::Trouble { what: &what, is_fatal: false });
            }
            fails = left_out.is_some();
            let full = |it: &LeftOut| it.error.kind() == io::ErrorKind::StorageFull;
            if left_out.as_ref().is_some_and(full) {
                no_room();
            }
            // Before the answer to the batch, which is about its other records.
            if let Some(LeftOut { records, .. }) = &left_out {
                report.tell(Notice::BodiesRefused { shard, records });
            }
        }
        forward(batch);
        // Behind that: who finds none here hands the next one to the committer itself.
        here.fetch_sub(1, Ordering::Release);
    }
}

/// The store's directory.
#[derive(Debug)]
pub(crate) struct BodyDirectory {
    pub(crate) path: PathBuf,
    pub(crate) bodies: Arc<Bodies>,
}

impl BodyDirectory {
    /// Keeps a body: where it lies from now on.
    ///
    /// # Errors
    /// When there is no room, or the disk fails.
    fn keep(&self, part: &BodyPart) -> io::Result<(Body, Pin)> {
        let (file, offset, length) = (&part.file, part.offset, part.body.len() as u64);
        let known = file.known().filter(|kept| {
            kept.offset <= offset && offset + length <= kept.offset.saturating_add(kept.length)
        });
        let known =
            known.and_then(|kept| Some((kept, self.bodies.pin(kept.number, file.charge())?)));
        let (kept, pin) = match known {
            Some(known) => known,
            None => {
                let kept = self.name(part)?;
                file.set_known(kept);
                // Its name is enough from now on.
                file.close();
                (kept, self.bodies.add(kept.number, file.charge()))
            }
        };
        let within = offset - kept.offset;
        let mut body = Body { file: kept.number, offset: within, length, checksum: 0 };
        match file.checksum(offset, length) {
            Some(sum) => body.checksum = sum,
            None => {
                let named = File::open(self.path.join(body_name(kept.number)))?;
                body.checksum = checksum(&named, within, length)?;
                file.set_checksum(offset, length, body.checksum);
                self.bodies.set_verified(&body);
            }
        }
        Ok((body, pin))
    }

    /// Gives the file of a body a name here, or what is in it, and makes sure that both are on the disk.
    fn name(&self, part: &BodyPart) -> io::Result<Kept> {
        let number = self.bodies.next_number();
        let path = self.path.join(body_name(number));
        let whole = Kept { number, offset: 0, length: part.file.bytes() };
        let named = link(&part.file, &path).map(|()| whole).or_else(|_| {
            // On another file system, or one that had a name before: nothing gives it another.
            check_room(&self.path, part.body.len() as u64)?;
            copy(&part.body, &path)?;
            Ok(Kept { number, offset: part.offset, length: part.body.len() as u64 })
        });
        let named = named.and_then(|kept| File::open(&self.path)?.sync_all().map(|()| kept));
        if named.is_err() {
            let _ = fs::remove_file(&path);
        }
        named
    }
}

/// Gives a file that has no name one.
fn link(file: &BodyFile, to: &Path) -> io::Result<()> {
    let file = file.open().ok_or(io::ErrorKind::NotFound)?;
    let from = format!("/proc/self/fd/{}", file.as_raw_fd());
    linkat(CWD, from, CWD, to, AtFlags::SYMLINK_FOLLOW)?;
    file.sync_all()
}

/// Writes a body to a file of its own. A page of it that cannot be read is an error of the call that writes it.
fn copy(body: &[u8], to: &Path) -> io::Result<()> {
    let _ = fs::remove_file(to);
    let mut options = OpenOptions::new();
    let mut copy = options.write(true).create_new(true).mode(0o600).open(to)?;
    copy.write_all(body)?;
    copy.sync_all()
}
