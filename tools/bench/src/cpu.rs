//! CPU time and memory of processes and threads, read from `/proc`.
//!
//! Invariant: what cannot be read is `None`, never zero.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

/// What one or several processes have used so far.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Usage {
    /// User and system time of all threads, dead ones included, seconds.
    pub cpu_s: f64,
    /// Of it the kernel's part.
    pub kernel_s: f64,
    /// Resident memory, bytes.
    pub rss_bytes: u64,
    /// Per thread: time on a core and time waiting for one, ns.
    pub threads: HashMap<u32, ThreadTime>,
}

/// A thread's scheduler account, ns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ThreadTime {
    /// On a core.
    pub running_ns: u64,
    /// Ready, waiting for a core.
    pub waiting_ns: u64,
}

impl ThreadTime {
    /// Time in which the thread had work to do.
    pub fn busy_ns(&self) -> u64 {
        self.running_ns + self.waiting_ns
    }
}

impl Usage {
    /// The sum over processes; `None` when any of them cannot be read.
    pub fn of(pids: &[u32]) -> Option<Self> {
        let mut sum = Self::default();
        for pid in pids {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
            let (cpu_s, kernel_s, rss_bytes) = parse_stat(&stat)?;
            sum.cpu_s += cpu_s;
            sum.kernel_s += kernel_s;
            sum.rss_bytes += rss_bytes;
            for thread in numbers_in(Path::new(&format!("/proc/{pid}/task"))) {
                if let Some(time) = thread_time(*pid, thread) {
                    sum.threads.insert(thread, time);
                }
            }
        }
        (!pids.is_empty()).then_some(sum)
    }

    /// Time on a core of all threads since `before`, seconds: by the scheduler's nanoseconds where it tells them, which
    /// a short time needs, but without threads that have ended.
    #[allow(clippy::cast_precision_loss)]
    pub fn running_s_since(&self, before: &Self) -> f64 {
        if self.threads.is_empty() {
            return self.cpu_s - before.cpu_s;
        }
        let since = |(id, now): (&u32, &ThreadTime)| {
            let then = before.threads.get(id).copied().unwrap_or_default();
            now.running_ns.saturating_sub(then.running_ns)
        };
        self.threads.iter().map(since).sum::<u64>() as f64 / 1e9
    }

    /// The largest share of `elapsed_ns` any one thread was busy since `before`.
    pub fn busiest_thread_since(&self, before: &Self, elapsed_ns: u64) -> f64 {
        self.threads
            .iter()
            .map(|(id, now)| {
                let then = before.threads.get(id).copied().unwrap_or_default();
                ratio(now.busy_ns().saturating_sub(then.busy_ns()), elapsed_ns)
            })
            .fold(0.0, f64::max)
    }
}

/// Processor time that anything on this machine has used so far, seconds of all cores together.
pub fn machine_s() -> Option<f64> {
    busy_s(&fs::read_to_string("/proc/stat").ok()?)
}

/// Of the first line of `/proc/stat`: all but idling, waiting for disks and what guests used, which
/// is in the others already.
#[allow(clippy::cast_precision_loss)]
fn busy_s(stat: &str) -> Option<f64> {
    let fields = stat.lines().next()?.strip_prefix("cpu ")?.split_ascii_whitespace();
    let ticks: Vec<u64> = fields.map_while(|field| field.parse().ok()).take(8).collect();
    let idle = ticks.get(3)? + ticks.get(4)?;
    Some((ticks.iter().sum::<u64>() - idle) as f64 / TICKS_PER_SECOND)
}

/// The scheduler's account of one thread.
pub fn thread_time(pid: u32, thread: u32) -> Option<ThreadTime> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{thread}/schedstat")).ok()?;
    let mut fields = text.split_ascii_whitespace().map_while(|field| field.parse().ok());
    Some(ThreadTime { running_ns: fields.next()?, waiting_ns: fields.next()? })
}

/// The kernel's id of the calling thread.
pub fn thread_id() -> Option<u32> {
    fs::read_link("/proc/thread-self").ok()?.file_name()?.to_str()?.parse().ok()
}

/// Asks the kernel to wake this thread on time instead of up to 50 µs late, where permitted.
pub fn sharpen_sleep() {
    if let Some(id) = thread_id() {
        // Without permission the schedule is a little coarser, nothing else.
        let _ = fs::write(format!("/proc/{id}/timerslack_ns"), "1000");
    }
}

/// The processes that listen on a local TCP port.
pub fn pids_listening_on(port: u16) -> Vec<u32> {
    let inodes: Vec<String> = ["/proc/net/tcp", "/proc/net/tcp6"]
        .iter()
        .filter_map(|path| fs::read_to_string(path).ok())
        .flat_map(|table| listening_inodes(&table, port))
        .map(|inode| format!("socket:[{inode}]"))
        .collect();
    let mut pids: Vec<u32> = numbers_in(Path::new("/proc"))
        .filter(|pid| {
            fs::read_dir(format!("/proc/{pid}/fd")).is_ok_and(|files| {
                files.flatten().any(|file| {
                    fs::read_link(file.path()).is_ok_and(|link| {
                        inodes.iter().any(|inode| link.as_os_str() == inode.as_str())
                    })
                })
            })
        })
        .collect();
    pids.sort_unstable();
    pids
}

fn listening_inodes(table: &str, port: u16) -> Vec<u64> {
    table
        .lines()
        .skip(1)
        .filter_map(|line| {
            let fields: Vec<&str> = line.split_ascii_whitespace().collect();
            let (_, local_port) = fields.get(1)?.rsplit_once(':')?;
            let listens =
                *fields.get(3)? == "0A" && u16::from_str_radix(local_port, 16) == Ok(port);
            listens.then(|| fields.get(9)?.parse().ok()).flatten()
        })
        .collect()
}

/// CPU seconds, the kernel's part of them and resident bytes in `/proc/PID/stat`, whose second field may hold anything.
fn parse_stat(stat: &str) -> Option<(f64, f64, u64)> {
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_ascii_whitespace().collect();
    let number = |index: usize| fields.get(index)?.parse::<u64>().ok();
    #[allow(clippy::cast_precision_loss)]
    let seconds = |ticks: u64| ticks as f64 / TICKS_PER_SECOND;
    let (user, kernel) = (number(11)?, number(12)?);
    Some((seconds(user + kernel), seconds(kernel), number(21)? * PAGE_BYTES))
}

fn numbers_in(directory: &Path) -> impl Iterator<Item = u32> {
    fs::read_dir(directory)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

#[allow(clippy::cast_precision_loss)]
pub(crate) fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// USER_HZ is 100 on every Linux architecture in use.
const TICKS_PER_SECOND: f64 = 100.0;
const PAGE_BYTES: u64 = 4096;

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn stat_with_a_nasty_name() {
        let stat = "7 (a b) c) S 1 1 1 0 -1 4194560 1 0 0 0 250 50 0 0 20 0 4 0 5 1000 3 18446";
        assert_eq!(parse_stat(stat), Some((3.0, 0.5, 3 * PAGE_BYTES)));
        assert_eq!(parse_stat("7 (a"), None);
    }

    #[test]
    fn the_machine_is_busy_with_all_but_idling() {
        let stat = "cpu  100 10 50 9000 700 5 20 15 3 4\ncpu0 1 1 1 1 1 1 1 1 1 1\n";
        assert_eq!(busy_s(stat), Some(2.0));
        assert_eq!(busy_s("intr 5"), None);
        assert!(machine_s().is_some_and(|seconds| seconds > 0.0));
    }

    #[test]
    fn finds_this_process_by_its_listener() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        assert_eq!(pids_listening_on(port), [std::process::id()]);
        let usage = Usage::of(&[std::process::id()]).unwrap();
        assert!(usage.rss_bytes > 0);
        assert!(usage.threads.contains_key(&thread_id().unwrap()));
    }

    #[test]
    fn a_short_time_is_told_by_the_scheduler() {
        let usage = |running_ns| Usage {
            threads: HashMap::from([(1, ThreadTime { running_ns, waiting_ns: 9 })]),
            ..Usage::default()
        };
        assert_eq!(usage(3_000_000).running_s_since(&usage(1_000_000)), 0.002);
        assert_eq!(usage(5_000_000).running_s_since(&Usage::default()), 0.005);
        let coarse = Usage { cpu_s: 0.5, ..Usage::default() };
        assert_eq!(coarse.running_s_since(&Usage { cpu_s: 0.2, ..Usage::default() }), 0.3);
    }

    #[test]
    fn a_missing_process_is_none() {
        assert_eq!(Usage::of(&[u32::MAX]), None);
        assert_eq!(Usage::of(&[]), None);
    }
}
