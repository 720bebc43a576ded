//! What the operating system lets this process have, and how much of it is used: files, disks.
//!
//! Each disk is looked at by a thread of its own, since one may not answer: that keeps no other from being looked at, and nobody
//! waits for it. Such a thread allocates nothing, so that it costs no memory but its stack; there is none without a store
//! or large messages. Told as metrics by shards. Invariant: what cannot be told is left out, never zero.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
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
    disks: Vec<Arc<DiskUse>>,
}

struct DiskUse {
    purpose: &'static str,
    directory: String,
    free: AtomicU64,
    bytes: AtomicU64,
    /// When it has answered last, in milliseconds since it was known.
    answered_ms: AtomicU64,
    known_since: Instant,
}

/// Bytes that may be written to a disk, and bytes of all of it; none if it cannot be told.
type Ask = fn(&str) -> Option<(u64, u64)>;

/// Stands for what cannot be told.
const UNKNOWN: u64 = u64::MAX;
/// How often a disk is looked at.
const DISK_INTERVAL: Duration = Duration::from_secs(1);
/// What a disk has said so long ago counts no more.
const DISK_SILENCE_MAX: Duration = Duration::from_secs(10);
/// So many entries are counted in some milliseconds.
const COUNTED_EASILY: u64 = 10_000;
/// How often more are counted.
const COUNT_INTERVAL: Duration = Duration::from_secs(15);

/// The directories that a server with this configuration writes to, and what for.
pub(crate) fn written_to(config: &Config) -> impl Iterator<Item = (&'static str, &str)> {
    let store = config.store.directory.iter().map(|directory| ("store", directory.as_str()));
    let large = config.large_messages.directory.iter();
    store.chain(large.map(|directory| ("large-messages", directory.as_str())))
}

impl Resources {
    /// Of a process that may have so many files, and writes to what the configuration names.
    pub(crate) fn new(config: &Config, files_max: usize) -> Resources {
        let disks = written_to(config);
        Resources::of(disks.map(|(purpose, directory)| (purpose, directory.to_owned())), files_max)
    }

    fn of(disks: impl Iterator<Item = (&'static str, String)>, files_max: usize) -> Resources {
        let disk = |(purpose, directory)| Arc::new(DiskUse::new(purpose, directory));
        Resources {
            files_max: files_max as u64,
            files_open: AtomicU64::new(UNKNOWN),
            count_at: Mutex::new(None),
            disks: disks.map(disk).collect(),
        }
    }

    /// Looks at disks from now on, as long as the process runs.
    ///
    /// # Errors
    /// When a thread could not be started.
    pub(crate) fn watch_disks(&self) -> io::Result<()> {
        self.watch(ask)
    }

    fn watch(&self, ask: Ask) -> io::Result<()> {
        for disk in &self.disks {
            let (disk, name) = (disk.clone(), format!("disk-{}", disk.purpose));
            std::thread::Builder::new().name(name).spawn(move || {
                loop {
                    disk.look(ask);
                    std::thread::sleep(DISK_INTERVAL);
                }
            })?;
        }
        Ok(())
    }

    /// Counts open files. Not for a shard's thread.
    pub(crate) fn look(&self) {
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
        let now = Instant::now();
        self.disks.iter().filter_map(|disk| disk.told(now)).collect()
    }

    /// Brings up to date what is known of disks. One that does not answer is left as it was known: that says nothing of it.
    pub(crate) fn look_at_disks(&self, now: Instant, known: &mut Vec<Disk>) {
        for disk in &self.disks {
            let Some((free, bytes)) = disk.space(now) else { continue };
            match known.iter_mut().find(|known| known.purpose == disk.purpose) {
                Some(known) => (known.free, known.bytes) = (free, bytes),
                None => known.extend(disk.told(now)),
            }
        }
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

impl DiskUse {
    fn new(purpose: &'static str, directory: String) -> DiskUse {
        DiskUse {
            purpose,
            directory,
            free: AtomicU64::new(UNKNOWN),
            bytes: AtomicU64::new(UNKNOWN),
            answered_ms: AtomicU64::new(0),
            known_since: Instant::now(),
        }
    }

    /// Waits for the disk.
    fn look(&self, ask: Ask) {
        let (free, bytes) = ask(&self.directory).unwrap_or((UNKNOWN, UNKNOWN));
        self.free.store(free, Ordering::Relaxed);
        self.bytes.store(bytes, Ordering::Relaxed);
        let answered = u64::try_from(self.known_since.elapsed().as_millis()).unwrap_or(UNKNOWN);
        self.answered_ms.store(answered, Ordering::Relaxed);
    }

    /// What it has said, unless that is too old.
    fn told(&self, now: Instant) -> Option<Disk> {
        let (free, bytes) = self.space(now)?;
        Some(Disk { purpose: self.purpose, directory: self.directory.clone(), free, bytes })
    }

    /// Bytes that are free, and all, unless that is too old.
    fn space(&self, now: Instant) -> Option<(u64, u64)> {
        let (free, bytes) = (known(&self.free)?, known(&self.bytes)?);
        let answered = Duration::from_millis(self.answered_ms.load(Ordering::Relaxed));
        let age = now.saturating_duration_since(self.known_since).saturating_sub(answered);
        (age < DISK_SILENCE_MAX).then_some((free, bytes))
    }
}

/// Asks the operating system, which may wait for the disk.
fn ask(directory: &str) -> Option<(u64, u64)> {
    let found = rustix::fs::statvfs(directory).ok()?;
    let bytes = |blocks: u64| blocks.saturating_mul(found.f_frsize);
    Some((bytes(found.f_bavail), bytes(found.f_blocks)))
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
        resources.disks[0].look(ask);
        let disks = resources.disks();
        assert_eq!((disks.len(), disks[0].purpose), (1, "store"));
        assert!(disks[0].bytes >= disks[0].free);
        assert_eq!(resources.samples().len(), 4);
    }

    #[test]
    fn a_disk_that_cannot_be_told_is_left_out() {
        let resources = of_directory("/no/such/directory");
        resources.disks[0].look(ask);
        assert_eq!(resources.disks(), []);
    }

    #[test]
    fn nobody_waits_for_a_disk_that_does_not_answer() {
        fn ask(directory: &str) -> Option<(u64, u64)> {
            if directory == "/hangs" {
                loop {
                    std::thread::park();
                }
            }
            Some((1, 2))
        }
        let disks = [("store", "/hangs".to_owned()), ("large-messages", "/answers".to_owned())];
        let resources = Resources::of(disks.into_iter(), 1000);
        resources.watch(ask).unwrap();
        let disks = loop {
            resources.look();
            let disks = resources.disks();
            if !disks.is_empty() {
                break disks;
            }
            std::thread::yield_now();
        };
        assert_eq!((disks.len(), &*disks[0].directory), (1, "/answers"));
    }

    #[test]
    fn a_disk_that_does_not_answer_any_more_stays_as_it_was_known() {
        let resources = of_directory("/");
        let disk = &resources.disks[0];
        let at = |seconds| disk.known_since + Duration::from_secs(seconds);
        let mut known = Vec::new();
        resources.look_at_disks(at(0), &mut known);
        assert_eq!(known, [], "it has not been looked at");
        disk.look(|_| Some((3, 100)));
        resources.look_at_disks(at(1), &mut known);
        let nearly_full = known.clone();
        assert_eq!((known.len(), known[0].free, known[0].bytes), (1, 3, 100));
        // It is silent, or cannot be asked: that does not make it well.
        resources.look_at_disks(at(60), &mut known);
        assert_eq!(known, nearly_full);
        disk.look(|_| None);
        resources.look_at_disks(at(61), &mut known);
        assert_eq!(known, nearly_full);
        disk.look(|_| Some((90, 100)));
        resources.look_at_disks(at(1), &mut known);
        assert_eq!((known.len(), known[0].free), (1, 90));
    }

    #[test]
    fn what_a_disk_has_said_long_ago_counts_no_more() {
        let disk = DiskUse::new("store", "/".to_owned());
        disk.look(|_| Some((1, 2)));
        let at = |seconds| disk.told(disk.known_since + Duration::from_secs(seconds)).is_some();
        assert_eq!([0, 9, 12].map(at), [true, true, false]);
    }
}
