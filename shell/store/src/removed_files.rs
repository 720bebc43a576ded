//! Files that were removed and are left open, and how many these are.
//!
//! Relies on nothing. Invariant: a file counts from when it comes until it is closed.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Files that were removed and are left open: their space is free when this is dropped, which may take long.
#[derive(Debug)]
pub struct RemovedFiles<F> {
    files: Vec<F>,
    /// Those of all groups that are open.
    opened: Arc<AtomicUsize>,
}

impl<F> RemovedFiles<F> {
    /// No file so far; those that come are counted there.
    pub(crate) fn none(opened: Arc<AtomicUsize>) -> RemovedFiles<F> {
        RemovedFiles { files: Vec::new(), opened }
    }

    pub(crate) fn push(&mut self, file: F) {
        self.opened.fetch_add(1, Ordering::Relaxed);
        self.files.push(file);
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.files.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }
}

impl<F> Drop for RemovedFiles<F> {
    fn drop(&mut self) {
        for file in self.files.drain(..) {
            drop(file);
            self.opened.fetch_sub(1, Ordering::Relaxed);
        }
    }
}
