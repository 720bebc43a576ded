//! How far the writer thread has come with a body.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bytes::Bytes;

use crate::error::SpoolError;

/// What the writer thread says of an upload.
pub(crate) struct Progress {
    written: AtomicU64,
    /// Whether the upload wants to be woken when something has been written.
    waits: AtomicBool,
    outcome: OnceLock<Result<Bytes, SpoolError>>,
    wake: Box<dyn Fn() + Send + Sync>,
}

impl Progress {
    pub(crate) fn new(wake: Box<dyn Fn() + Send + Sync>) -> Progress {
        Progress {
            written: AtomicU64::new(0),
            waits: AtomicBool::new(false),
            outcome: OnceLock::new(),
            wake,
        }
    }

    /// Bytes that are in the file.
    pub(crate) fn written(&self) -> u64 {
        self.written.load(Ordering::SeqCst)
    }

    /// The upload wants to be woken when more has been written.
    pub(crate) fn wait(&self) {
        self.waits.store(true, Ordering::SeqCst);
    }

    /// The whole body, or why there is none.
    pub(crate) fn outcome(&self) -> Option<&Result<Bytes, SpoolError>> {
        self.outcome.get()
    }

    /// Nobody waits for it any more: what has not been written is not.
    pub(crate) fn give_up(&self) {
        let _ = self.outcome.set(Err(SpoolError::GivenUp));
    }

    /// Whether it has failed or was given up, so that nothing more of it needs to be written.
    pub(crate) fn is_over(&self) -> bool {
        self.outcome.get().is_some()
    }

    /// So many bytes more are in the file.
    pub(crate) fn note_written(&self, bytes: usize) {
        self.written.fetch_add(bytes as u64, Ordering::SeqCst);
        if self.waits.swap(false, Ordering::SeqCst) {
            (self.wake)();
        }
    }

    /// It is whole, or has failed.
    pub(crate) fn end(&self, outcome: Result<Bytes, SpoolError>) {
        if self.outcome.set(outcome).is_ok() {
            (self.wake)();
        }
    }
}
