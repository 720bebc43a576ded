//! Watches a run from the main thread: a sample each second, CPU of the server and of ourselves.
//!
//! Invariant: every count of an observation belongs to the same two instants.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{SystemTime, UNIX_EPOCH};

use indicatif::ProgressBar;

use crate::clock::SECOND_NS;
use crate::cpu::{self, ThreadTime, Usage, ratio};
use crate::report::table::thousands;
use crate::stomp::shared::Shared;
use crate::target::Target;

/// One second of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sample {
    /// When it ended, ms since 1970.
    pub unix_ms: u64,
    /// Messages sent in it.
    pub produced: u64,
    /// Messages received in it.
    pub consumed: u64,
    /// Errors in it.
    pub errors: u64,
}

/// What was seen in the window.
#[derive(Debug, Clone, Default)]
pub struct Observation {
    /// Its exact length, seconds.
    pub seconds: f64,
    /// Messages sent.
    pub produced: u64,
    /// Messages received.
    pub consumed: u64,
    /// Bytes received.
    pub consumed_bytes: u64,
    /// Per second.
    pub samples: Vec<Sample>,
    /// Whether consumers were there to be measured.
    pub has_consumers: bool,
    /// The server's CPU and memory, when it could be found.
    pub server: Option<ServerUsage>,
    /// CPU seconds of the generator.
    pub own_cpu_s: f64,
    /// Busy share of the generator's busiest thread, and its role.
    pub own_busiest: (f64, &'static str),
}

/// The server's account of a window.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ServerUsage {
    /// Its processes.
    pub pids: Vec<u32>,
    /// CPU seconds used.
    pub cpu_s: f64,
    /// Of them in the kernel.
    pub kernel_s: f64,
    /// Resident bytes at the start.
    pub rss_bytes_before: u64,
    /// Resident bytes at the end.
    pub rss_bytes_after: u64,
    /// Busy share of its busiest thread.
    pub busiest: f64,
}

impl Observation {
    /// Messages sent per second.
    pub fn produced_per_s(&self) -> f64 {
        per(self.produced, self.seconds)
    }

    /// Messages received per second.
    pub fn consumed_per_s(&self) -> f64 {
        per(self.consumed, self.seconds)
    }

    /// The rate a table shows: received, or sent when nobody receives.
    pub fn rate_per_s(&self) -> f64 {
        if self.has_consumers { self.consumed_per_s() } else { self.produced_per_s() }
    }

    /// Server CPU per message sent to it, µs.
    pub fn server_us_per_message(&self) -> Option<f64> {
        self.server_us_per(self.produced)
    }

    /// Server CPU per delivery, µs.
    pub fn server_us_per_delivery(&self) -> Option<f64> {
        self.server_us_per(self.consumed)
    }

    /// The generator's own CPU per message it sent or received, µs.
    pub fn own_us_per_message(&self) -> Option<f64> {
        let count = self.produced + self.consumed;
        (count > 0).then(|| self.own_cpu_s * 1e6 / to_f64(count))
    }

    fn server_us_per(&self, count: u64) -> Option<f64> {
        let server = self.server.as_ref().filter(|_| count > 0)?;
        Some(server.cpu_s * 1e6 / to_f64(count))
    }

    /// A sentence when the generator, not the server, set the pace.
    pub fn bottleneck(&self) -> Option<String> {
        let (busy, role) = self.own_busiest;
        let server = self.server.as_ref().map(|server| server.busiest);
        if busy <= BUSY || server.is_some_and(|server| server > BUSY) {
            return None;
        }
        let beside = server.map_or_else(
            || "the server's threads could not be seen".to_owned(),
            |server| format!("the server's busiest thread {:.0} %", server * 100.0),
        );
        Some(format!(
            "the generator was the bottleneck: its {role} thread was {:.0} % busy, {beside}; try --threads 2 or more cores",
            busy * 100.0
        ))
    }
}

/// Watches one run.
#[derive(Debug)]
pub struct Watch<'a> {
    shared: &'a Arc<Shared>,
    has_consumers: bool,
    pids: Vec<u32>,
}

impl<'a> Watch<'a> {
    /// Finds the server's processes.
    pub fn new(target: &Target, shared: &'a Arc<Shared>, has_consumers: bool) -> Self {
        let is_local = target.address.ip().is_loopback();
        let pids = match target.pids.as_slice() {
            [] if is_local => cpu::pids_listening_on(target.address.port()),
            pids => pids.to_vec(),
        };
        Self::of_processes(pids, shared, has_consumers)
    }

    /// Watches these processes as the server.
    pub fn of_processes(pids: Vec<u32>, shared: &'a Arc<Shared>, has_consumers: bool) -> Self {
        Self { shared, has_consumers, pids }
    }

    /// Watches the whole window; returns when it ends.
    pub fn observe(self, bar: &ProgressBar) -> Observation {
        let window = self.shared.window;
        bar.set_length(u64::try_from(window.seconds()).unwrap_or(1));
        bar.set_position(0);
        bar.set_message("warming up");
        self.shared.clock.sleep_until(window.start_ns);
        let before = self.snapshot();
        let (mut last, mut samples) = (before.counts, Vec::new());
        for second in 1..=(window.end_ns - window.start_ns) / SECOND_NS {
            self.shared.clock.sleep_until(window.start_ns + second * SECOND_NS);
            let counts = self.counts();
            samples.push(sample(last, counts));
            bar.set_position(second);
            bar.set_message(format!(
                "{} /s sent, {} /s received",
                thousands(counts.produced - last.produced),
                thousands(counts.consumed - last.consumed)
            ));
            last = counts;
        }
        let after = self.snapshot();
        self.observation(&before, &after, samples)
    }

    fn observation(
        &self,
        before: &Snapshot,
        after: &Snapshot,
        samples: Vec<Sample>,
    ) -> Observation {
        let elapsed_ns = after.counts.now_ns - before.counts.now_ns;
        let server =
            before.server.as_ref().zip(after.server.as_ref()).map(|(before, after)| ServerUsage {
                pids: self.pids.clone(),
                cpu_s: after.cpu_s - before.cpu_s,
                kernel_s: after.kernel_s - before.kernel_s,
                rss_bytes_before: before.rss_bytes,
                rss_bytes_after: after.rss_bytes,
                busiest: after.busiest_thread_since(before, elapsed_ns).min(1.0),
            });
        let busy = |(id, role, then): &(u32, &'static str, ThreadTime)| {
            let now = cpu_of(&after.own_threads, *id).unwrap_or(*then);
            (ratio(now.busy_ns().saturating_sub(then.busy_ns()), elapsed_ns).min(1.0), *role)
        };
        Observation {
            seconds: to_f64(elapsed_ns) / 1e9,
            produced: after.counts.produced - before.counts.produced,
            consumed: after.counts.consumed - before.counts.consumed,
            consumed_bytes: after.counts.bytes - before.counts.bytes,
            samples,
            has_consumers: self.has_consumers,
            server,
            own_cpu_s: after.own_cpu_s - before.own_cpu_s,
            own_busiest: before
                .own_threads
                .iter()
                .map(busy)
                .fold((0.0, "idle"), |most, next| if next.0 > most.0 { next } else { most }),
        }
    }

    fn counts(&self) -> Counts {
        Counts {
            now_ns: self.shared.clock.now_ns(),
            produced: self.shared.sent.load(Relaxed),
            consumed: self.shared.received.load(Relaxed),
            bytes: self.shared.received_bytes.load(Relaxed),
            errors: self.shared.errors.load(Relaxed),
        }
    }

    fn snapshot(&self) -> Snapshot {
        let own = std::process::id();
        let server = Usage::of(&self.pids);
        let own_threads = self
            .shared
            .threads()
            .into_iter()
            .filter_map(|(id, role)| Some((id, role, cpu::thread_time(own, id)?)))
            .collect();
        let own_cpu_s = Usage::of(&[own]).unwrap_or_default().cpu_s;
        Snapshot { counts: self.counts(), server, own_cpu_s, own_threads }
    }
}

#[derive(Debug, Clone, Copy)]
struct Counts {
    now_ns: u64,
    produced: u64,
    consumed: u64,
    bytes: u64,
    errors: u64,
}

struct Snapshot {
    counts: Counts,
    server: Option<Usage>,
    own_cpu_s: f64,
    own_threads: Vec<(u32, &'static str, ThreadTime)>,
}

fn cpu_of(threads: &[(u32, &'static str, ThreadTime)], id: u32) -> Option<ThreadTime> {
    threads.iter().find(|(other, ..)| *other == id).map(|(.., time)| *time)
}

fn sample(before: Counts, after: Counts) -> Sample {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Sample {
        unix_ms: u64::try_from(since_epoch.as_millis()).unwrap_or(0),
        produced: after.produced - before.produced,
        consumed: after.consumed - before.consumed,
        errors: after.errors - before.errors,
    }
}

fn per(count: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { to_f64(count) / seconds } else { 0.0 }
}

#[allow(clippy::cast_precision_loss)]
fn to_f64(count: u64) -> f64 {
    count as f64
}

/// From this share on a thread counts as the limit.
const BUSY: f64 = 0.9;

#[cfg(test)]
mod tests {
    use super::*;

    fn observation(own: f64, server: Option<f64>) -> Observation {
        let server =
            server.map(|busiest| ServerUsage { busiest, cpu_s: 2.0, ..ServerUsage::default() });
        Observation {
            server,
            own_busiest: (own, "consuming"),
            consumed: 4_000_000,
            ..Observation::default()
        }
    }

    #[test]
    fn names_the_bottleneck_only_when_it_is_ours() {
        assert!(
            observation(0.95, Some(0.5)).bottleneck().is_some_and(|text| text.contains("95 %"))
        );
        assert!(observation(0.95, Some(0.95)).bottleneck().is_none());
        assert!(observation(0.5, Some(0.1)).bottleneck().is_none());
        assert!(observation(0.95, None).bottleneck().is_some());
    }

    #[test]
    fn cpu_per_delivery_needs_a_server_and_a_delivery() {
        assert_eq!(observation(0.0, Some(0.0)).server_us_per_delivery(), Some(0.5));
        assert_eq!(observation(0.0, None).server_us_per_delivery(), None);
        assert_eq!(observation(0.0, Some(0.0)).server_us_per_message(), None);
    }
}
