//! Watches a server's memory and backlogs on a thread of its own.
//!
//! Invariant: the thread ends with its handle.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::cpu::Usage;
use crate::scrape;

/// The most that was seen.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Peak {
    /// Resident memory, bytes.
    pub(super) rss: u64,
    /// Bytes in sessions' backlogs.
    pub(super) backlog: u64,
}

/// A thread that looks again and again.
#[derive(Debug)]
pub(super) struct Watch {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    rss: AtomicU64,
    backlog: AtomicU64,
    stop: AtomicBool,
}

impl Watch {
    pub(super) fn start(pid: u32, address: SocketAddr) -> Watch {
        let shared = Arc::new(Shared::default());
        let seen = Arc::clone(&shared);
        let look = move || {
            for turn in 0_u32.. {
                if seen.stop.load(Relaxed) {
                    break;
                }
                let rss = Usage::of(&[pid]).map_or(0, |usage| usage.rss_bytes);
                seen.rss.fetch_max(rss, Relaxed);
                if turn.is_multiple_of(METRICS_EVERY) {
                    let backlog = scrape::metric(address, "tiderace_backlog_bytes").unwrap_or(0);
                    seen.backlog.fetch_max(backlog, Relaxed);
                }
                thread::sleep(INTERVAL);
            }
        };
        let thread = thread::Builder::new().name("bench-watching".to_owned()).spawn(look).ok();
        Watch { shared, thread }
    }

    /// The most since the last call.
    pub(super) fn take(&self) -> Peak {
        let rss = self.shared.rss.swap(0, Relaxed);
        Peak { rss, backlog: self.shared.backlog.swap(0, Relaxed) }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.shared.stop.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

const INTERVAL: Duration = Duration::from_millis(10);
/// Metrics cost the server something to tell.
const METRICS_EVERY: u32 = 10;
