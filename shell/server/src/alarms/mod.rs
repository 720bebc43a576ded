//! Alarms: what is wrong with the server, or will be soon, in words that say what to do.
//!
//! ```text
//!   counters that there are ─▶ sampler, once a second ─▶ watch (the table's conditions) ─▶ log
//!                              (the main thread)           └─▶ board ─▶ `$sys/alarms/NAME`, metrics
//! ```
//! The main thread looks, while it waits for the end of the server: it has nothing else to do then, a thread of its own would
//! have a heap of its own, and the control thread may wait for a disk that an alarm is about. Relies on the monitor for
//! everything that is looked at. Invariants: a look waits for no disk, and ends nothing if it fails; shards do nothing for alarms but
//! read the number of the board.

mod board;
mod sampler;
mod shown;
mod table;
mod watch;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tracing::{error, info, warn};

pub(crate) use board::AlarmBoard;
pub(crate) use shown::shown;
pub(crate) use table::{Disk, Holds};

use crate::monitor::Monitor;
use sampler::Sampler;
use table::Severity;
use watch::{AlarmWatch, Change, Present};

/// How often it is looked.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// Who looks.
pub(crate) struct Lookout {
    monitor: Arc<Monitor>,
    sampler: Sampler,
    watch: AlarmWatch,
}

impl Lookout {
    pub(crate) fn new(monitor: Arc<Monitor>) -> Lookout {
        Lookout { monitor, sampler: Sampler::new(), watch: AlarmWatch::new() }
    }

    /// Looks once a second until `wait` has a result, which is asked for one again and again and may take so long for it.
    pub(crate) fn look_until<T>(&mut self, mut wait: impl FnMut(Duration) -> Option<T>) -> T {
        let mut next = Instant::now();
        loop {
            let now = Instant::now();
            if next <= now {
                let failures = self.monitor.alarm_failures.clone();
                carefully(&failures, || self.look(now));
                next = now + LOOK_INTERVAL;
            }
            if let Some(result) = wait(next.saturating_duration_since(Instant::now())) {
                return result;
            }
        }
    }

    fn look(&mut self, now: Instant) {
        let seen = self.sampler.look(&self.monitor);
        for change in self.watch.look(now, sampler::wall_ms(), seen) {
            tell(&change);
        }
        self.monitor.alarms.set(self.watch.present());
    }
}

/// Does one thing of those that the main thread does while it waits for the end of the server. A defect in it ends nothing else: it
/// is told and counted, and the next time it is tried again.
fn carefully(failures: &AtomicU64, act: impl FnOnce()) {
    // The log has the line of the panic, with its place.
    if catch_unwind(AssertUnwindSafe(act)).is_err() {
        failures.fetch_add(1, Ordering::Relaxed);
        error!(
            event = "alarms-not-looked-for",
            "looking for alarms has failed by a defect of the server; they are as they were, and it goes on; please report \
             the line `panic` before this one"
        );
    }
}

fn tell(change: &Change) {
    match change {
        Change::Begun(Present { row, what, .. }) => {
            let (alarm, severity, remedy) = (row.name, row.severity.as_str(), row.remedy);
            match row.severity {
                Severity::Info => {
                    info!(event = "alarm-raised", alarm, severity, remedy, "{what}");
                }
                Severity::Warning => {
                    warn!(event = "alarm-raised", alarm, severity, remedy, "{what}");
                }
                Severity::Critical => {
                    error!(event = "alarm-raised", alarm, severity, remedy, "{what}");
                }
            }
        }
        Change::Ended(Present { row, since_ms, .. }) => {
            let seconds = sampler::wall_ms().saturating_sub(*since_ms) / 1000;
            info!(event = "alarm-cleared", alarm = row.name, seconds, "the alarm is over");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_that_fails_is_counted_and_ends_nothing() {
        let failures = AtomicU64::new(0);
        let mut looks = 0;
        for look in 0..3 {
            carefully(&failures, || {
                looks += 1;
                assert_ne!(look, 1, "a defect");
            });
        }
        assert_eq!((looks, failures.into_inner()), (3, 1));
    }
}
