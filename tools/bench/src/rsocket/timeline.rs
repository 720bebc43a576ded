//! What is seen of a run each second, from the first connection to the end of the last step.
//!
//! Invariant: the thread ends with its handle.

use std::io::{IsTerminal, Write};
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::load::Pulse;
use crate::clock::{Clock, SECOND_NS};
use crate::cpu::{self, Usage};
use crate::report::table::{rate, thousands};

/// One second.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Moment {
    /// Seconds since the beginning.
    pub at_s: f64,
    pub connections: u64,
    pub streams: u64,
    /// Messages received and sent per second.
    pub received_per_s: f64,
    pub sent_per_s: f64,
    /// Cores that the server used, and that anything did.
    pub server_cores: f64,
    pub machine_cores: f64,
    /// The server's resident bytes.
    pub rss_bytes: u64,
}

impl Moment {
    /// For a log.
    fn line(&self) -> String {
        format!(
            "{:.0} s: {} connections, {} streams, {} messages/s; server {:.2} cores, {} MiB; machine {:.2} cores",
            self.at_s,
            thousands(self.connections),
            thousands(self.streams),
            rate(self.received_per_s),
            self.server_cores,
            thousands(self.rss_bytes >> 20),
            self.machine_cores
        )
    }
}

/// A thread that looks once a second.
#[derive(Debug)]
pub(super) struct Timeline {
    moments: Arc<Mutex<Vec<Moment>>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Timeline {
    pub(super) fn start(pids: Vec<u32>, pulse: Arc<Pulse>, clock: Clock) -> Timeline {
        let moments = Arc::new(Mutex::new(Vec::new()));
        let stop = Arc::new(AtomicBool::new(false));
        let (seen, ended) = (Arc::clone(&moments), Arc::clone(&stop));
        // A terminal has a bar that moves; a log gets a line now and then.
        let is_watched = std::io::stderr().is_terminal();
        let look = move || {
            let begun_ns = clock.now_ns();
            let mut last = Sight::now(&pids, &pulse, clock);
            for second in 1.. {
                let next_ns = begun_ns + second * SECOND_NS;
                while clock.now_ns() < next_ns {
                    if ended.load(Relaxed) {
                        return;
                    }
                    thread::sleep(NAP);
                }
                let sight = Sight::now(&pids, &pulse, clock);
                let moment = sight.since(&last, begun_ns);
                if second % TELL_EVERY == 0 && !is_watched {
                    // A reader that has gone away is no reason to stop measuring.
                    let _ = writeln!(std::io::stderr(), "{}", moment.line());
                }
                if let Ok(mut seen) = seen.lock() {
                    seen.push(moment);
                }
                last = sight;
            }
        };
        let thread = thread::Builder::new().name("bench-watching".to_owned()).spawn(look).ok();
        Timeline { moments, stop, thread }
    }

    /// Ends it; what was seen.
    pub(super) fn end(self) -> Vec<Moment> {
        let moments = Arc::clone(&self.moments);
        drop(self);
        let seen = moments.lock().map(|mut seen| std::mem::take(&mut *seen));
        seen.unwrap_or_default()
    }
}

impl Drop for Timeline {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Counts at one time.
#[derive(Debug, Clone, Default)]
struct Sight {
    now_ns: u64,
    received: u64,
    sent: u64,
    connections: u64,
    streams: u64,
    server_s: f64,
    machine_s: f64,
    rss_bytes: u64,
}

impl Sight {
    fn now(pids: &[u32], pulse: &Pulse, clock: Clock) -> Sight {
        let usage = Usage::of(pids).unwrap_or_default();
        Sight {
            now_ns: clock.now_ns(),
            received: pulse.received.load(Relaxed),
            sent: pulse.sent.load(Relaxed),
            connections: pulse.connections.load(Relaxed),
            streams: pulse.streams.load(Relaxed),
            server_s: usage.cpu_s,
            machine_s: cpu::machine_s().unwrap_or_default(),
            rss_bytes: usage.rss_bytes,
        }
    }

    #[allow(clippy::cast_precision_loss)]
    fn since(&self, last: &Sight, begun_ns: u64) -> Moment {
        let seconds = (self.now_ns.saturating_sub(last.now_ns)) as f64 / 1e9;
        let per_s = |now: f64, then: f64| if seconds > 0.0 { (now - then) / seconds } else { 0.0 };
        Moment {
            at_s: self.now_ns.saturating_sub(begun_ns) as f64 / 1e9,
            connections: self.connections,
            streams: self.streams,
            received_per_s: per_s(self.received as f64, last.received as f64),
            sent_per_s: per_s(self.sent as f64, last.sent as f64),
            server_cores: per_s(self.server_s, last.server_s),
            machine_cores: per_s(self.machine_s, last.machine_s),
            rss_bytes: self.rss_bytes,
        }
    }
}

/// Seconds between lines of a log.
const TELL_EVERY: u64 = 10;
const NAP: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_what_happened_since_the_last() {
        let last = Sight { now_ns: SECOND_NS, received: 100, server_s: 1.0, ..Sight::default() };
        let now = Sight {
            now_ns: 3 * SECOND_NS,
            received: 500,
            server_s: 2.0,
            streams: 7,
            ..Sight::default()
        };
        let moment = now.since(&last, SECOND_NS);
        assert_eq!((moment.at_s, moment.received_per_s, moment.server_cores), (2.0, 200.0, 0.5));
        assert_eq!(moment.streams, 7);
        assert!(
            moment.line().starts_with("2 s: 0 connections, 7 streams, 200 messages/s; server 0.50")
        );
    }

    #[test]
    fn it_ends_with_its_handle() {
        let timeline = Timeline::start(Vec::new(), Arc::default(), Clock::start());
        assert!(timeline.end().len() < 2);
    }
}
