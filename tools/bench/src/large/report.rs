//! The report of `bench large`, for the terminal and as JSON.
//!
//! Invariant: both are made from the same figures, so they cannot disagree.

use serde_json::{Value, json};

use crate::args::LargeArgs;
use crate::machine::Machine;
use crate::report::table::{Table, duration};

use super::cell::{CELLS, Figures};

/// Everything a run has found.
#[derive(Debug)]
pub(super) struct Report {
    label: String,
    machine: Machine,
    size: u64,
    cells: Vec<(&'static str, Figures)>,
}

impl Report {
    pub(super) fn new(args: &LargeArgs) -> Report {
        Report {
            label: args.label.clone(),
            machine: Machine::detect(),
            size: args.size,
            cells: Vec::new(),
        }
    }

    pub(super) fn add(&mut self, name: &'static str, figures: Figures) {
        self.cells.push((name, figures));
    }

    /// What a person reads.
    pub(super) fn text(&self) -> String {
        let mut table = Table::new(&[
            "",
            "taken in",
            "received",
            "delivered",
            "copying",
            "of copying",
            "memory",
            "others' p99",
            "beside",
            "ratio",
        ]);
        for (name, all) in self.by_cell() {
            let of = |value: fn(&Figures) -> f64| median(all.iter().map(value).collect());
            let others = |value: f64| if value > 0.0 { nanoseconds(value) } else { String::new() };
            let ratio = of(beside_ratio);
            table.row(vec![
                name.to_owned(),
                format!("{:.2} s", of(|run| run.taken_s)),
                format!("{:.2} s", of(|run| run.received_s)),
                format!(
                    "{:.0} MiB/s",
                    of(|run| run.receivers as f64 / run.received_s) * self.mebibytes()
                ),
                format!("{:.2} s", of(|run| run.copy_s)),
                format!("{:.0} %", 100.0 * of(copy_share)),
                format!("+{:.1} MiB", most_growth(&all)),
                others(of(|run| run.alone_p99_ns as f64)),
                others(of(|run| run.beside_p99_ns as f64)),
                if ratio > 0.0 { format!("{ratio:.2}") } else { String::new() },
            ]);
        }
        format!(
            "{}\none message of {:.0} MiB; medians; memory: the most of the server's anonymous memory above what it had before\n\n{}",
            self.machine.summary(),
            self.mebibytes(),
            table.render()
        )
    }

    /// Every figure.
    pub(super) fn json(&self) -> Value {
        let cells = self.cells.iter().map(|(name, run)| {
            json!({
                "cell": name,
                "taken_s": run.taken_s,
                "received_s": run.received_s,
                "receivers": run.receivers,
                "copy_s": run.copy_s,
                "share_of_copy": copy_share(run),
                "anonymous_idle_bytes": run.idle_bytes,
                "anonymous_most_bytes": run.most_bytes,
                "others_alone_p99_ns": run.alone_p99_ns,
                "others_beside_p99_ns": run.beside_p99_ns,
            })
        });
        json!({
            "label": self.label,
            "machine": self.machine.summary(),
            "size_bytes": self.size,
            "cells": cells.collect::<Vec<_>>(),
        })
    }

    fn by_cell(&self) -> impl Iterator<Item = (&'static str, Vec<Figures>)> {
        let runs = |name: &str| {
            let of = self.cells.iter().filter(|(cell, _)| *cell == name);
            of.map(|(_, figures)| *figures).collect::<Vec<_>>()
        };
        CELLS
            .iter()
            .map(move |cell| (cell.name, runs(cell.name)))
            .filter(|(_, runs)| !runs.is_empty())
    }

    fn mebibytes(&self) -> f64 {
        self.size as f64 / f64::from(1 << 20)
    }
}

/// The rate at which messages were delivered, as a share of that at which a file is copied.
fn copy_share(run: &Figures) -> f64 {
    run.receivers as f64 * run.copy_s / run.received_s
}

fn beside_ratio(run: &Figures) -> f64 {
    if run.alone_p99_ns == 0 { 0.0 } else { run.beside_p99_ns as f64 / run.alone_p99_ns as f64 }
}

/// The most in any run, MiB: a bound is no median.
fn most_growth(all: &[Figures]) -> f64 {
    let growth = |run: &Figures| run.most_bytes.saturating_sub(run.idle_bytes);
    all.iter().map(growth).max().unwrap_or(0) as f64 / f64::from(1 << 20)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn nanoseconds(value: f64) -> String {
    duration(value as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_of_what_was_measured_beside() {
        let run = |received_s, most_bytes| Figures {
            taken_s: 0.5,
            received_s,
            copy_s: 1.0,
            receivers: 2,
            idle_bytes: 10 << 20,
            most_bytes,
            alone_p99_ns: 200_000,
            beside_p99_ns: 300_000,
        };
        let cells = vec![
            ("stomp-topic", run(4.0, 11 << 20)),
            ("stomp-topic", run(2.0, 13 << 20)),
            ("stomp-topic", run(1.0, 12 << 20)),
        ];
        let report =
            Report { label: String::new(), machine: Machine::detect(), size: 100 << 20, cells };
        let text = report.text();
        for part in ["stomp-topic", "0.50 s", "2.00 s", "100 MiB/s", "100 %", "+3.0 MiB", "1.50"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert_eq!(report.json()["cells"][2]["share_of_copy"], 2.0);
    }
}
