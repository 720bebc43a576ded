//! The report of `bench queue`: for the terminal, as JSON and as one HTML file.
//!
//! Invariant: all three are made from the same lines, so they cannot disagree.

use anyhow::bail;
use serde_json::{Value, json};

use crate::args::{OutputArgs, QueueArgs};
use crate::machine::Machine;
use crate::queue::disk::{Commit, Sequential};
use crate::queue::figures::{Figures, Line};
use crate::queue::plots;
use crate::report::html::page;
use crate::report::table::{self, Table, thousands};
use crate::report::write_files;

/// Everything a run has found.
#[derive(Debug)]
pub(super) struct Report {
    label: String,
    command: String,
    machine: Machine,
    settings: String,
    /// The bare disk in each round: long files, and records synced one by one.
    pub(super) disk: Vec<(Sequential, Commit)>,
    lines: Vec<Line>,
    /// What could not be measured, and why.
    failures: Vec<String>,
}

impl Report {
    /// Without figures yet.
    pub(super) fn new(args: &QueueArgs) -> Report {
        let label = &args.output.label;
        let kind = if args.volatile { "not persistent" } else { "persistent, with receipts" };
        Report {
            label: if label.is_empty() { "tiderace bench queue".to_owned() } else { label.clone() },
            command: std::env::args().collect::<Vec<_>>().join(" "),
            machine: Machine::detect(),
            settings: format!(
                "bodies of {} bytes, {kind}, store.sync {}, median of {}",
                thousands(args.size as u64),
                args.sync,
                args.rounds
            ),
            disk: Vec::new(),
            lines: Vec::new(),
            failures: Vec::new(),
        }
    }

    /// Notes what could not be measured, once.
    pub(super) fn fail(&mut self, text: String) {
        if !self.failures.contains(&text) {
            self.failures.push(text);
        }
    }

    /// Whether there is something to report.
    ///
    /// # Errors
    /// The first failure, when nothing was measured.
    pub(super) fn ensure_figures(&self) -> anyhow::Result<()> {
        match self.failures.first() {
            Some(failure) if self.lines.is_empty() => bail!("{failure}"),
            _ => Ok(()),
        }
    }

    /// Adds what a cell has found in a round.
    pub(super) fn add(&mut self, found: Vec<Figures>) {
        for figures in found {
            let is_same =
                |line: &&mut Line| line.name == figures.line && line.server == figures.server;
            match self.lines.iter_mut().find(is_same) {
                Some(line) => line.rounds.push(figures),
                None => self.lines.push(Line {
                    name: figures.line,
                    server: figures.server.clone(),
                    rounds: vec![figures],
                }),
            }
        }
    }

    /// Puts the lines into the order of the cells, each with its servers side by side.
    pub(super) fn sort(&mut self, cells: &[&str], servers: &[&str]) {
        let place = |line: &Line| {
            let server = servers.iter().position(|name| *name == line.server);
            // What is taken again follows what was sent.
            let (cell, part) = match line.name {
                "unload" => ("load", 1),
                "browser" => ("selectors", 1),
                "deep-in" => ("deep", 0),
                "deep-out" => ("deep", 1),
                name => (name, 0),
            };
            (cells.iter().position(|name| *name == cell), part, server)
        };
        self.lines.sort_by_key(place);
    }

    /// For the terminal.
    pub(super) fn text(&self) -> String {
        let mut text = format!("{}\n{}\n{}\n", self.command, self.machine.summary(), self.settings);
        text += &self.disk_text();
        text.push('\n');
        let mut rows = Table::new(&[
            "cell",
            "server",
            "messages/s",
            "µs each",
            "receipt p50",
            "p99",
            "one sync",
            "per sync",
            "bare disk/s",
            "share",
            "RSS peak",
        ]);
        for line in &self.lines {
            let duration = |of: fn(&Figures) -> Option<f64>| line.median(of).map(nanoseconds);
            let cells = [
                Some(line.name.to_owned()),
                Some(line.server.clone()),
                line.median(|figures| Some(figures.rate())).map(table::rate),
                line.median(|figures| figures.cpu_us).map(|us| table::microseconds(Some(us))),
                duration(|figures| figures.receipt_p50_ns),
                duration(|figures| figures.receipt_p99_ns),
                duration(|figures| figures.bare?.sync_ns),
                line.median(|figures| figures.per_sync).map(|count| format!("{count:.1}")),
                line.median(|figures| Some(figures.bare?.per_s)).map(table::rate),
                line.median(Figures::share).map(percent),
                line.median(|figures| figures.rss_peak).map(mebibytes),
            ];
            rows.row(cells.map(|cell| cell.unwrap_or_else(|| "–".to_owned())).to_vec());
        }
        text += &rows.render();
        for line in &self.lines {
            if let Some(restart) = restart(line) {
                text += &format!("{} {}: {restart}\n", line.server, line.name);
            }
            for remark in line.remarks() {
                text += &format!("! {} {}: {remark}\n", line.server, line.name);
            }
        }
        for failure in &self.failures {
            text += &format!("! {failure}\n");
        }
        text
    }

    /// The bare disk in a line.
    fn disk_text(&self) -> String {
        let median = |of: fn(&(Sequential, Commit)) -> Option<f64>| {
            let mut found: Vec<f64> = self.disk.iter().filter_map(of).collect();
            found.sort_by(f64::total_cmp);
            found.get(found.len() / 2).copied()
        };
        let Some(write) = median(|(long, _)| Some(long.write_per_s)) else {
            return String::new();
        };
        #[allow(clippy::cast_precision_loss)]
        let sync = |of: fn(&(Sequential, Commit)) -> Option<f64>| {
            median(of).map_or(String::new(), nanoseconds)
        };
        let read = median(|(long, _)| long.read_per_s);
        let read = read
            .map_or_else(|| "not to be measured here".to_owned(), |rate| mebibytes(rate) + "/s");
        format!(
            "the bare disk: one fdatasync of a message {} (p50), {} (p99); written {}/s, read {read}\n",
            sync(|(_, commit)| Some(commit.sync_p50_ns as f64)),
            sync(|(_, commit)| Some(commit.sync_p99_ns as f64)),
            mebibytes(write),
        )
    }

    /// Writes the files asked for.
    ///
    /// # Errors
    /// A sentence naming the file that cannot be written.
    pub(super) fn write_files(&self, output: &OutputArgs) -> anyhow::Result<()> {
        let html =
            || page(&self.label, &self.command, &self.machine, &plots::sections(&self.lines));
        write_files(output, || self.json(), html)
    }

    fn json(&self) -> Value {
        let disk = self.disk.iter().map(|(long, commit)| {
            json!({
                "write_bytes_per_s": long.write_per_s,
                "read_bytes_per_s": long.read_per_s,
                "fdatasync_p50_ns": commit.sync_p50_ns,
                "fdatasync_p99_ns": commit.sync_p99_ns,
                "synced_records_per_s": commit.records_per_s,
            })
        });
        json!({
            "label": self.label,
            "command": self.command,
            "machine": self.machine.summary(),
            "settings": self.settings,
            "disk": disk.collect::<Vec<_>>(),
            "failures": self.failures,
            "lines": self.lines.iter().map(Line::json).collect::<Vec<_>>(),
        })
    }
}

/// What a kill has shown.
fn restart(line: &Line) -> Option<String> {
    #[allow(clippy::cast_precision_loss)]
    let rss = line.median(|figures| Some(figures.restart?.rss_bytes as f64))?;
    Some(format!(
        "killed and started again in {:.3} s, first delivery after {:.3} s, {} resident then",
        line.median(|figures| Some(figures.restart?.ready_s))?,
        line.median(|figures| Some(figures.restart?.first_s))?,
        mebibytes(rss)
    ))
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn nanoseconds(ns: f64) -> String {
    table::duration(ns.max(0.0) as u64)
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

pub(super) fn mebibytes(bytes: f64) -> String {
    format!("{:.1} MiB", bytes / f64::from(1 << 20))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::figures::tests::line;
    use clap::Parser;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        queue: QueueArgs,
    }

    #[test]
    fn lines_stand_in_the_order_of_the_cells_with_their_shares() {
        let mut report = Report::new(&Command::parse_from(["queue"]).queue);
        for (name, server) in [("deep-out", "ours"), ("unload", "ours"), ("load", "theirs")] {
            report.add(line(name, server, 1).rounds);
        }
        report.add(line("load", "ours", 3).rounds);
        report.sort(&["load", "deep"], &["ours", "theirs"]);
        let names: Vec<_> =
            report.lines.iter().map(|line| (line.name, line.server.as_str())).collect();
        assert_eq!(
            names,
            [("load", "ours"), ("load", "theirs"), ("unload", "ours"), ("deep-out", "ours")]
        );
        report.disk.push((
            Sequential { write_per_s: f64::from(1 << 30), read_per_s: None },
            Commit { records_per_s: 1.0, sync_p50_ns: 500_000, sync_p99_ns: 2_000_000 },
        ));
        let text = report.text();
        for part in [
            "one fdatasync of a message 500.0 µs (p50), 2.00 ms (p99); written 1024.0 MiB/s, read not",
            "100 %",
            "killed and started again in 0.100 s, first delivery after 0.200 s, 2.0 MiB resident",
            "! ours load: slowly",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert_eq!(report.json()["lines"][0]["messages_per_s"], 4000.0);
    }
}
