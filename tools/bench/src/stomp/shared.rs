//! What the threads of one run share: the clock, the window, and a handful of counters.
//!
//! Counters are added to once per read or write, not once per message. Invariant: `sent` and
//! `received` only grow.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use crate::clock::{Clock, Window};

/// State shared by all threads of one run.
#[derive(Debug)]
pub struct Shared {
    /// The origin of all times.
    pub clock: Clock,
    /// When to send and to measure.
    pub window: Window,
    /// Messages completely written.
    pub sent: AtomicU64,
    /// Messages completely read.
    pub received: AtomicU64,
    /// Bytes read by consumers.
    pub received_bytes: AtomicU64,
    /// Receipts read by producers.
    pub receipts: AtomicU64,
    /// ERROR frames and broken connections.
    pub errors: AtomicU64,
    /// Tells consumers to end.
    pub stop: AtomicBool,
    /// The first thing that went wrong.
    problem: Mutex<Option<String>>,
    /// Kernel ids of the generator's threads, with their role.
    threads: Mutex<Vec<(u32, &'static str)>>,
}

impl Shared {
    /// Fresh state.
    pub fn new(clock: Clock, window: Window) -> Self {
        Self {
            clock,
            window,
            sent: AtomicU64::new(0),
            received: AtomicU64::new(0),
            received_bytes: AtomicU64::new(0),
            receipts: AtomicU64::new(0),
            errors: AtomicU64::new(0),
            stop: AtomicBool::new(false),
            problem: Mutex::new(None),
            threads: Mutex::new(Vec::new()),
        }
    }

    /// Counts an error and keeps the first one's text.
    pub fn fail(&self, text: impl Into<String>) {
        self.errors.fetch_add(1, Relaxed);
        if let Ok(mut problem) = self.problem.lock() {
            problem.get_or_insert_with(|| text.into());
        }
    }

    /// The first error's text.
    pub fn problem(&self) -> Option<String> {
        self.problem.lock().ok().and_then(|problem| problem.clone())
    }

    /// Announces the calling thread for CPU accounting.
    pub fn register_thread(&self, role: &'static str) {
        if let (Some(id), Ok(mut threads)) = (crate::cpu::thread_id(), self.threads.lock()) {
            threads.push((id, role));
        }
    }

    /// The announced threads.
    pub fn threads(&self) -> Vec<(u32, &'static str)> {
        self.threads.lock().map(|threads| threads.clone()).unwrap_or_default()
    }

    /// Whether consumers should end.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Relaxed)
    }
}
