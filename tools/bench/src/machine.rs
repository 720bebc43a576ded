//! Where a run took place: processor, cores, kernel, versions, date.
//!
//! Invariant: detection never fails; what cannot be found is the word "unknown".

use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

/// A description of this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Machine {
    /// Processor model.
    pub cpu: String,
    /// Cores this process may use.
    pub cores: usize,
    /// Installed memory, MiB.
    pub memory_mib: u64,
    /// Kernel release.
    pub kernel: String,
    /// Version of this generator.
    pub version: &'static str,
    /// UTC date and time of the run.
    pub date: String,
}

impl Machine {
    /// Looks around.
    pub fn detect() -> Self {
        let cpu_info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let memory_kib = field(&memory, "MemTotal").and_then(|value| {
            value.split_ascii_whitespace().next().and_then(|number| number.parse::<u64>().ok())
        });
        Self {
            cpu: field(&cpu_info, "model name").unwrap_or("unknown").to_owned(),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory_mib: memory_kib.unwrap_or(0) / 1024,
            kernel: if kernel.is_empty() { "unknown".to_owned() } else { kernel.trim().to_owned() },
            version: env!("CARGO_PKG_VERSION"),
            date: date(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()),
        }
    }

    /// One line for a report.
    pub fn summary(&self) -> String {
        format!(
            "{} cores of {}, {} MiB, Linux {}, tiderace-bench {}, {}",
            self.cores, self.cpu, self.memory_mib, self.kernel, self.version, self.date
        )
    }
}

/// Checks that this process may open `connections` sockets and a few files more.
///
/// # Errors
/// A sentence that names the limit and how to raise it.
pub fn ensure_open_files(connections: usize) -> anyhow::Result<()> {
    let (soft, needed) = (open_files(), connections.saturating_add(FILES_SPARE));
    anyhow::ensure!(
        soft >= needed,
        "{connections} connections need {needed} open files but this process may open {soft}: run `ulimit -n {needed}` first, or ask for fewer"
    );
    Ok(())
}

/// How many files this process may open.
pub fn open_files() -> usize {
    let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let soft = limits.lines().find_map(|line| {
        let rest = line.strip_prefix("Max open files")?;
        rest.split_ascii_whitespace().next()?.parse::<usize>().ok()
    });
    soft.unwrap_or(usize::MAX)
}

fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim())
}

/// Seconds since 1970 as `YYYY-MM-DD HH:MM UTC` (civil calendar from day counts).
fn date(unix_s: u64) -> String {
    let (day, second) = (unix_s / 86_400, unix_s % 86_400);
    // Days are counted from 0000-03-01, so that the leap day ends a year.
    let shifted = day + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day_of_month = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    format!(
        "{year:04}-{month:02}-{day_of_month:02} {:02}:{:02} UTC",
        second / 3_600,
        second / 60 % 60
    )
}

/// Standard streams, pollers, reports.
const FILES_SPARE: usize = 50;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        assert_eq!(date(0), "1970-01-01 00:00 UTC");
        assert_eq!(date(951_827_696), "2000-02-29 12:34 UTC");
        assert_eq!(date(1_798_761_599), "2026-12-31 23:59 UTC");
    }

    #[test]
    fn too_many_files_are_explained() {
        let text = ensure_open_files(usize::MAX / 2).map_err(|error| error.to_string());
        assert!(text.is_err_and(|text| text.contains("ulimit -n")));
        assert!(ensure_open_files(1).is_ok());
    }

    #[test]
    fn detects_something() {
        let machine = Machine::detect();
        assert!(machine.cores > 0);
        assert!(machine.summary().contains("Linux"));
    }
}
