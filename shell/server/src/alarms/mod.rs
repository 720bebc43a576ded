//! Alarms: what is wrong with the server, or will be soon, in words that say what to do.
//!
//! ```text
//!   counters that there are ─▶ sampler, once a second ─▶ watch (the table's conditions) ─▶ log
//!                              (a thread of its own)       └─▶ board ─▶ `$sys/alarms/NAME`, metrics
//! ```
//! Relies on the monitor for everything that is looked at. Invariant: shards do nothing for alarms but read the number of the
//! board.

mod board;
mod sampler;
mod shown;
mod table;
mod watch;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::Context;
use tracing::{error, info, warn};

pub(crate) use board::AlarmBoard;
pub(crate) use shown::shown;
pub(crate) use table::Disk;

use crate::monitor::Monitor;
use sampler::Sampler;
use table::Severity;
use watch::{AlarmWatch, Change, Present};

/// How often it is looked.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// Begins to look, as long as the process runs.
///
/// # Errors
/// When the thread could not be started.
pub(crate) fn start(monitor: Arc<Monitor>) -> anyhow::Result<()> {
    let look = move || {
        let mut sampler = Sampler::new();
        let mut watch = AlarmWatch::new();
        // A server that stops has no alarms any more: its shards end.
        while monitor.ready.load(Ordering::Relaxed) {
            let seen = sampler.look(&monitor);
            for change in watch.look(Instant::now(), sampler::wall_ms(), &seen) {
                tell(&change);
            }
            monitor.alarms.set(watch.present());
            std::thread::sleep(LOOK_INTERVAL);
        }
    };
    let thread = std::thread::Builder::new().name("alarms".to_owned()).spawn(look);
    thread.map(drop).context("the thread that looks for alarms could not be started")
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
