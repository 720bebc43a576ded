//! The report of `bench topics`, for the terminal and as JSON.
//!
//! Invariant: both are made from the same figures, so they cannot disagree.

use serde_json::{Value, json};

use crate::args::TopicsArgs;
use crate::machine::Machine;
use crate::report::table::{Table, rate, thousands};
use crate::topics::watch::Peak;

/// What creating has shown.
#[derive(Debug)]
pub(super) struct Created {
    pub(super) seconds: f64,
    pub(super) cpu_seconds: f64,
    pub(super) rss_before: u64,
    pub(super) rss_after: u64,
}

/// What subscribing has shown.
#[derive(Debug)]
pub(super) struct Snapshot {
    pub(super) seconds: f64,
    pub(super) first_seconds: f64,
    pub(super) values: u64,
    pub(super) body_bytes: u64,
    pub(super) wire_bytes: u64,
    pub(super) cpu_seconds: f64,
    pub(super) rss_before: u64,
    /// While nothing was read.
    pub(super) held: Peak,
    /// While the values were read.
    pub(super) reading: Peak,
    pub(super) is_confirmed: bool,
}

/// Everything a run has found.
#[derive(Debug)]
pub(super) struct Report {
    label: String,
    command: String,
    machine: Machine,
    topics: usize,
    size: usize,
    hold_s: u64,
    created: Created,
    snapshot: Snapshot,
}

#[allow(clippy::cast_precision_loss)]
impl Report {
    pub(super) fn new(args: &TopicsArgs, created: Created, snapshot: Snapshot) -> Report {
        Report {
            label: args.label.clone(),
            command: std::env::args().collect::<Vec<_>>().join(" "),
            machine: Machine::detect(),
            topics: args.topics,
            size: args.size,
            hold_s: args.hold,
            created,
            snapshot,
        }
    }

    fn created_per_s(&self) -> f64 {
        self.topics as f64 / self.created.seconds
    }

    fn rss_per_topic(&self) -> f64 {
        let grown = self.created.rss_after.saturating_sub(self.created.rss_before);
        grown as f64 / self.topics as f64
    }

    fn values_per_s(&self) -> f64 {
        self.snapshot.values as f64 / self.snapshot.seconds
    }

    /// How much more memory was resident than before the subscription.
    fn growth(&self, peak: Peak) -> u64 {
        peak.rss.saturating_sub(self.snapshot.rss_before)
    }

    /// For the terminal.
    pub(super) fn text(&self) -> String {
        let (created, snapshot) = (&self.created, &self.snapshot);
        let mut table = Table::new(&["figure", "value"]);
        let mut row = |name: &str, value: String| table.row(vec![name.to_owned(), value]);
        row("topics", thousands(self.topics as u64));
        row("bytes of each value", thousands(self.size as u64));
        row("created, topics/s", rate(self.created_per_s()));
        row("server CPU per created topic", micros(created.cpu_seconds, self.topics as f64));
        row("resident memory before", mebibytes(created.rss_before));
        row("resident memory after", mebibytes(created.rss_after));
        row("resident bytes per topic", rate(self.rss_per_topic()));
        row(
            "resident bytes per topic beside its value",
            rate(self.rss_per_topic() - self.size as f64),
        );
        let held = format!("growth in {} s without reading", self.hold_s);
        row(&held, mebibytes(self.growth(snapshot.held)));
        row("backlog meanwhile", kibibytes(snapshot.held.backlog));
        row("first value after", format!("{:.1} ms", snapshot.first_seconds * 1e3));
        row("all values after", format!("{:.2} s", snapshot.seconds));
        row("values/s", rate(self.values_per_s()));
        let megabytes = snapshot.wire_bytes as f64 / snapshot.seconds / 1e6;
        row("read, MB/s", format!("{megabytes:.0}"));
        row("server CPU per value", micros(snapshot.cpu_seconds, snapshot.values as f64));
        row("growth while reading", mebibytes(self.growth(snapshot.reading)));
        row("backlog while reading", kibibytes(snapshot.reading.backlog));
        let label = if self.label.is_empty() { "tiderace bench topics" } else { &self.label };
        let head = format!("\n{label}\n{}\n{}\n\n", self.command, self.machine.summary());
        let mut text = head + &table.render();
        if !snapshot.is_confirmed {
            text += "! the subscription was not confirmed\n";
        }
        if snapshot.values > self.topics as u64 {
            text += "! more values came than there are topics\n";
        }
        text
    }

    /// Every figure.
    pub(super) fn json(&self) -> Value {
        let (created, snapshot) = (&self.created, &self.snapshot);
        json!({
            "label": self.label,
            "command": self.command,
            "machine": self.machine.summary(),
            "topics": self.topics,
            "value_bytes": self.size,
            "created": {
                "seconds": created.seconds,
                "topics_per_s": self.created_per_s(),
                "server_cpu_s": created.cpu_seconds,
                "rss_before_bytes": created.rss_before,
                "rss_after_bytes": created.rss_after,
                "rss_per_topic_bytes": self.rss_per_topic(),
            },
            "snapshot": {
                "first_value_s": snapshot.first_seconds,
                "seconds": snapshot.seconds,
                "values": snapshot.values,
                "values_per_s": self.values_per_s(),
                "body_bytes": snapshot.body_bytes,
                "wire_bytes": snapshot.wire_bytes,
                "server_cpu_s": snapshot.cpu_seconds,
                "held_s": self.hold_s,
                "held_growth_bytes": self.growth(snapshot.held),
                "held_backlog_bytes": snapshot.held.backlog,
                "reading_growth_bytes": self.growth(snapshot.reading),
                "reading_backlog_bytes": snapshot.reading.backlog,
                "confirmed": snapshot.is_confirmed,
            },
        })
    }
}

fn micros(seconds: f64, count: f64) -> String {
    format!("{:.2} µs", seconds * 1e6 / count)
}

#[allow(clippy::cast_precision_loss)]
fn mebibytes(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

fn kibibytes(bytes: u64) -> String {
    format!("{} KiB", thousands(bytes >> 10))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_shares_of_what_was_measured() {
        let peak = |rss, backlog| Peak { rss, backlog };
        let report = Report {
            label: String::new(),
            command: String::new(),
            machine: Machine::detect(),
            topics: 1000,
            size: 200,
            hold_s: 2,
            created: Created {
                seconds: 0.5,
                cpu_seconds: 0.001,
                rss_before: 1000,
                rss_after: 601_000,
            },
            snapshot: Snapshot {
                seconds: 0.25,
                first_seconds: 0.001,
                values: 1000,
                body_bytes: 200_000,
                wire_bytes: 250_000,
                cpu_seconds: 0.002,
                rss_before: 601_000,
                held: peak(601_000 + (2 << 20), 1 << 20),
                reading: peak(0, 5 << 10),
                is_confirmed: true,
            },
        };
        let text = report.text();
        for line in ["2,000", "600", "400", "2.0 MiB", "1,024 KiB", "4,000", "1.00 µs", "0.0 MiB"]
        {
            assert!(text.contains(line), "{line}: {text}");
        }
        assert!(!text.contains('!'), "{text}");
        assert_eq!(report.json()["snapshot"]["values_per_s"], 4000.0);
        assert_eq!(report.json()["created"]["rss_per_topic_bytes"], 600.0);
    }
}
