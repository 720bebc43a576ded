//! What the operating system says of this process and its machine, as metrics.
//!
//! Relies on `/proc`; elsewhere there are no such metrics. Runs on a shard when metrics are asked for, so it
//! reads two small files and counts nothing. Invariant: what cannot be read is left out, never zero.

use tiderace_base::{MetricRow, Sample, SampleValue};

use crate::metrics::{HOST_CPU, HOST_PROCESSORS, PROCESS_CPU, PROCESS_MEMORY, PROCESS_START};

type Read = fn(&Account) -> Option<f64>;

const ROWS: &[(&MetricRow, Read)] = &[
    (&PROCESS_CPU, |account| account.process_seconds),
    (&PROCESS_MEMORY, |account| account.resident_bytes),
    (&PROCESS_START, |account| account.started_seconds),
    (&HOST_CPU, |account| account.host_seconds),
    (&HOST_PROCESSORS, |account| account.processors),
];

/// The metrics.
pub(crate) fn samples() -> impl Iterator<Item = Sample<'static>> {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    let account = Account::of(&read("/proc/self/stat"), &read("/proc/stat"));
    ROWS.iter().filter_map(move |(row, read)| {
        let value = SampleValue::Decimal(read(&account)?);
        Some(Sample { row, labels: Vec::new(), value })
    })
}

#[derive(Debug, Default, PartialEq)]
struct Account {
    process_seconds: Option<f64>,
    resident_bytes: Option<f64>,
    /// Since 1970.
    started_seconds: Option<f64>,
    host_seconds: Option<f64>,
    processors: Option<f64>,
}

impl Account {
    /// From `/proc/self/stat`, whose second field may hold anything, and `/proc/stat`.
    fn of(process: &str, host: &str) -> Account {
        let fields: Vec<&str> = process
            .rsplit_once(')')
            .map(|(_, rest)| rest.split_ascii_whitespace().collect())
            .unwrap_or_default();
        let number = |at: usize| fields.get(at)?.parse::<f64>().ok();
        let processors = std::thread::available_parallelism().ok();
        Account {
            process_seconds: number(11).zip(number(12)).map(|(a, b)| (a + b) / TICKS_PER_SECOND),
            resident_bytes: number(21).map(|pages| pages * PAGE_BYTES),
            started_seconds: number(19)
                .zip(boot_seconds(host))
                .map(|(ticks, boot)| boot + ticks / TICKS_PER_SECOND),
            host_seconds: host_seconds(host),
            processors: processors.and_then(|count| u32::try_from(count.get()).ok()).map(f64::from),
        }
    }
}

/// When the machine was started, in seconds since 1970.
fn boot_seconds(stat: &str) -> Option<f64> {
    stat.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()
}

/// All but idling, waiting for disks, and what guests used, which the others hold already.
fn host_seconds(stat: &str) -> Option<f64> {
    let fields = stat.lines().next()?.strip_prefix("cpu ")?.split_ascii_whitespace();
    let ticks: Vec<f64> = fields.map_while(|field| field.parse().ok()).take(8).collect();
    let idle = ticks.get(3)? + ticks.get(4)?;
    Some((ticks.iter().sum::<f64>() - idle) / TICKS_PER_SECOND)
}

/// USER_HZ is 100 on every Linux architecture in use.
const TICKS_PER_SECOND: f64 = 100.0;
const PAGE_BYTES: f64 = 4096.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_are_read_whatever_the_process_is_called() {
        let process = "7 (a b) c) S 1 1 1 0 -1 4194560 1 0 0 0 250 50 0 0 20 0 4 0 5 1000 3 18446";
        let account =
            Account::of(process, "cpu  100 10 50 9000 700 5 20 15 3 4\ncpu0 1\nbtime 1700000000\n");
        assert_eq!(account.process_seconds, Some(3.0));
        assert_eq!(account.resident_bytes, Some(3.0 * PAGE_BYTES));
        assert_eq!(account.host_seconds, Some(2.0));
        assert_eq!(account.started_seconds, Some(1_700_000_000.05));
    }

    #[test]
    fn what_cannot_be_read_is_left_out() {
        let account = Account::of("", "intr 5");
        assert_eq!((account.process_seconds, account.host_seconds), (None, None));
        assert_eq!((account.resident_bytes, account.started_seconds), (None, None));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_process_has_them_all() {
        let told: Vec<_> = samples().map(|sample| sample.row.name).collect();
        assert_eq!(told, ROWS.iter().map(|(row, _)| row.name).collect::<Vec<_>>());
    }
}
