//! What the operating system lets this process have, and how much of it is used: files, disks.
//!
//! Looked at by a thread that may wait, since a disk may not answer; told as metrics by shards, which may not. Invariant: what
//! cannot be told is left out, never zero.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tiderace_base::{Sample, SampleValue};
use tiderace_config::Config;

use crate::alarms::Disk;
use crate::metrics::{DISK_BYTES, DISK_FREE, OPEN_FILES, OPEN_FILES_MAX};

/// See the module's documentation.
pub(crate) struct Resources {
    files_max: u64,
    files_open: AtomicU64,
    /// When open files are counted again, if counting them takes long.
    count_at: Mutex<Option<Instant>>,
    disks: Vec<DiskUse>,
}

struct DiskUse {
    purpose: &'static str,
    directory: String,
    free: AtomicU64,
    bytes: AtomicU64,
}

/// Stands for what cannot be told.
const UNKNOWN: u64 = u64::MAX;
/// So many entries are counted in some milliseconds.
const COUNTED_EASILY: u64 = 10_000;
/// How often more are counted.
const COUNT_INTERVAL: Duration = Duration::from_secs(15);

impl Resources {
    /// Of a process that may have so many files, and writes to what the configuration names.
    pub(crate) fn new(config: &Config, files_max: usize) -> Resources {
        let store = config.store.directory.iter().map(|directory| ("store", directory));
        let large = config.large_messages.directory.iter();
        let disks = store.chain(large.map(|directory| ("large-messages", directory)));
        Resources::of(disks.map(|(purpose, directory)| (purpose, directory.clone())), files_max)
    }

    fn of(disks: impl Iterator<Item = (&'static str, String)>, files_max: usize) -> Resources {
        let disk = |(purpose, directory)| DiskUse {
            purpose,
            directory,
            free: AtomicU64::new(UNKNOWN),
            bytes: AtomicU64::new(UNKNOWN),
        };
        Resources {
            files_max: files_max as u64,
            files_open: AtomicU64::new(UNKNOWN),
            count_at: Mutex::new(None),
            disks: disks.map(disk).collect(),
        }
    }

    /// Looks how much is used. Not for a shard's thread.
    pub(crate) fn look(&self) {
        self.look_at_files();
        for disk in &self.disks {
            let (free, bytes) = match rustix::fs::statvfs(&*disk.directory) {
                Ok(found) => (
                    found.f_bavail.saturating_mul(found.f_frsize),
                    found.f_blocks.saturating_mul(found.f_frsize),
                ),
                Err(_) => (UNKNOWN, UNKNOWN),
            };
            disk.free.store(free, Ordering::Relaxed);
            disk.bytes.store(bytes, Ordering::Relaxed);
        }
    }

    fn look_at_files(&self) {
        const FILES: &str = "/proc/self/fd";
        // The size of the directory is their number from Linux 6.2 on.
        let told = std::fs::metadata(FILES).map(|data| data.len()).ok().filter(|files| *files > 0);
        if let Some(files) = told {
            return self.files_open.store(files, Ordering::Relaxed);
        }
        let mut count_at = self.count_at.lock().unwrap_or_else(PoisonError::into_inner);
        if count_at.is_some_and(|at| at > Instant::now()) {
            return;
        }
        // The one that reads the directory is not counted.
        let counted =
            std::fs::read_dir(FILES).map(|files| (files.count() as u64).saturating_sub(1));
        let files = counted.unwrap_or(UNKNOWN);
        self.files_open.store(files, Ordering::Relaxed);
        *count_at = (files > COUNTED_EASILY).then(|| Instant::now() + COUNT_INTERVAL);
    }

    /// Open files of this process, when it was looked at last.
    pub(crate) fn files_open(&self) -> Option<u64> {
        known(&self.files_open)
    }

    /// Files that this process may have open.
    pub(crate) fn files_max(&self) -> u64 {
        self.files_max
    }

    /// Disks that answer.
    pub(crate) fn disks(&self) -> Vec<Disk> {
        let disk = |disk: &DiskUse| {
            let (free, bytes) = (known(&disk.free)?, known(&disk.bytes)?);
            Some(Disk { purpose: disk.purpose, directory: disk.directory.clone(), free, bytes })
        };
        self.disks.iter().filter_map(disk).collect()
    }

    /// The metrics.
    pub(crate) fn samples(&self) -> Vec<Sample<'static>> {
        let open = self.files_open().map(|files| Sample::number(&OPEN_FILES, files));
        let most = Sample::number(&OPEN_FILES_MAX, self.files_max);
        let disks = self.disks();
        let of = |row, value: fn(&Disk) -> u64| {
            disks.iter().map(move |disk| Sample {
                row,
                labels: vec![disk.purpose],
                value: SampleValue::Number(value(disk)),
            })
        };
        let files = open.into_iter().chain([most]);
        files
            .chain(of(&DISK_FREE, |disk| disk.free))
            .chain(of(&DISK_BYTES, |disk| disk.bytes))
            .collect()
    }
}

fn known(cell: &AtomicU64) -> Option<u64> {
    Some(cell.load(Ordering::Relaxed)).filter(|value| *value != UNKNOWN)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_directory(directory: &str) -> Resources {
        Resources::of([("store", directory.to_owned())].into_iter(), 1000)
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn files_and_disks_of_this_process_are_told() {
        let resources = of_directory("/");
        assert_eq!(resources.samples().len(), 1, "nothing has been looked at");
        resources.look();
        let before = resources.files_open().unwrap();
        let held: Vec<_> = (0..50).map(|_| std::fs::File::open("/dev/null").unwrap()).collect();
        resources.look();
        // Other tests open and close some at the same time.
        assert!(resources.files_open().unwrap() + 25 > before + held.len() as u64);
        let disks = resources.disks();
        assert_eq!((disks.len(), disks[0].purpose), (1, "store"));
        assert!(disks[0].bytes >= disks[0].free);
        assert_eq!(resources.samples().len(), 4);
    }

    #[test]
    fn a_disk_that_does_not_answer_is_left_out() {
        let resources = of_directory("/no/such/directory");
        resources.look();
        assert_eq!(resources.disks(), []);
    }
}
