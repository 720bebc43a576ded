//! The thread that reads messages back, so that no commit waits for a read; nor for a sync that no acknowledgement waits for.
//!
//! Relies on `load` and `notice`. The committer's thread finds the places and hands them over, some loads ahead: each that
//! waits here may hold files open. Invariant: requests are answered once each and in their order.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use crate::disk::DiskFile;
use crate::load::PendingLoad;
use crate::log::SyncedTo;
use crate::metrics::{StoreMetrics, add, add_time};
use crate::notice::{Notice, Report};
use crate::removed_files::RemovedFiles;

/// Bytes that a submitter has asked for; it may ask for others when this is dropped.
#[derive(Debug)]
pub(crate) struct Loading {
    of: Arc<AtomicUsize>,
    bytes: usize,
}

impl Loading {
    pub(crate) fn new(of: &Arc<AtomicUsize>, bytes: usize) -> Loading {
        of.fetch_add(bytes, Ordering::Relaxed);
        Loading { of: Arc::clone(of), bytes }
    }

    /// The answer is larger than what was asked for: a single record is.
    pub(crate) fn grow(&mut self, bytes: usize) {
        if let Some(more) = bytes.checked_sub(self.bytes) {
            self.of.fetch_add(more, Ordering::Relaxed);
            self.bytes = bytes;
        }
    }
}

impl Drop for Loading {
    fn drop(&mut self) {
        self.of.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// What the thread is asked to do.
#[derive(Debug)]
enum Request<F> {
    Load(PendingLoad<F>, Loading),
    /// These files were removed.
    Close(RemovedFiles<F>),
    /// The log is to be synced up to there, by this file.
    Sync(F, SyncedTo),
}

/// What the thread has done.
#[derive(Debug)]
pub(crate) enum ReaderDone {
    /// It has read a load.
    Read,
    /// It has synced the log, or not.
    Synced(SyncedTo, io::Result<()>),
}

/// The thread, as the committer sees it.
#[derive(Debug)]
pub(crate) struct Reader<F> {
    requests: Option<Sender<Request<F>>>,
    thread: Option<JoinHandle<()>>,
}

impl<F: DiskFile> Reader<F> {
    /// Starts the thread; `done` is called when something was done.
    ///
    /// # Errors
    /// When the operating system grants none.
    pub(crate) fn start(
        report: Report<impl FnMut(Notice<'_>) + Send + 'static>,
        metrics: Arc<StoreMetrics>,
        done: impl Fn(ReaderDone) + Send + 'static,
    ) -> io::Result<Reader<F>> {
        let (requests, waiting) = channel();
        let thread = thread::Builder::new().name("store-reader".to_owned());
        let thread = thread.spawn(move || read_all(&waiting, &report, &metrics, done))?;
        Ok(Reader { requests: Some(requests), thread: Some(thread) })
    }

    /// Hands a load over.
    pub(crate) fn read(&self, load: PendingLoad<F>, loading: Loading) {
        if let Some(requests) = &self.requests {
            // Only after a panic of a report, which has been told.
            let _ = requests.send(Request::Load(load, loading));
        }
    }

    /// Closes files that were removed, so that their space is free.
    pub(crate) fn close(&self, files: RemovedFiles<F>) {
        if let Some(requests) = &self.requests {
            let _ = requests.send(Request::Close(files));
        }
    }
}

impl<F> Reader<F> {
    /// Syncs the log up to there by this file, which no commit waits for.
    pub(crate) fn sync(&self, file: F, to: SyncedTo) {
        if let Some(requests) = &self.requests {
            let _ = requests.send(Request::Sync(file, to));
        }
    }

    /// Waits until everything that was handed over is answered.
    pub(crate) fn finish(&mut self) {
        self.requests = None;
        if let Some(thread) = self.thread.take() {
            // A panic of a report has been told by the panic hook already.
            let _ = thread.join();
        }
    }
}

impl<F> Drop for Reader<F> {
    fn drop(&mut self) {
        self.finish();
    }
}

fn read_all<F: DiskFile>(
    waiting: &Receiver<Request<F>>,
    report: &Report<impl FnMut(Notice<'_>)>,
    metrics: &StoreMetrics,
    done: impl Fn(ReaderDone),
) {
    while let Ok(request) = waiting.recv() {
        let (load, loading) = match request {
            Request::Load(load, loading) => (load, loading),
            Request::Close(files) => {
                drop(files);
                continue;
            }
            Request::Sync(mut file, to) => {
                done(ReaderDone::Synced(to, file.sync()));
                continue;
            }
        };
        let begun = Instant::now();
        let loaded = load.read();
        done(ReaderDone::Read);
        let bytes: usize = loaded.messages.iter().map(|messages| messages.bytes.len()).sum();
        add(&metrics.loads, 1);
        add(&metrics.loaded_bytes, bytes as u64);
        add(&metrics.damaged, loaded.damaged.len() as u64);
        add_time(&metrics.load_time, begun.elapsed());
        // Before the report, so that the shard that hears of it finds the room.
        drop(loading);
        report.tell(Notice::Loaded(loaded));
    }
}
