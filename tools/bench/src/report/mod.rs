//! Reports of a run: for the terminal, as JSON, and as one HTML file with its plots inside.
//!
//! Invariant: all three are made from the same [`Run`], so they cannot disagree.

pub mod html;
pub mod json;
pub mod levels;
pub mod svg;
pub mod table;
pub mod text;

use std::fs;
use std::path::Path;

use anyhow::Context;
use serde_json::Value;

use crate::args::OutputArgs;
use crate::machine::Machine;
use crate::stomp::cell::{CellSpec, Outcome};

/// Everything a report states.
#[derive(Debug, Clone)]
pub struct Run {
    /// Title.
    pub label: String,
    /// The command line.
    pub command: String,
    /// Where it ran.
    pub machine: Machine,
    /// Names of the servers, in order.
    pub targets: Vec<String>,
    /// The cells, in order.
    pub cells: Vec<Cell>,
    /// Further figures, as name and text: bare baselines, memory per connection.
    pub notes: Vec<(String, String)>,
}

/// One cell, on every server.
#[derive(Debug, Clone)]
pub struct Cell {
    /// What was run.
    pub spec: CellSpec,
    /// What others have published for it.
    pub published: Option<Published>,
    /// One per server: the outcome, or why there is none.
    pub outcomes: Vec<Result<Outcome, String>>,
}

/// A published figure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Published {
    /// Messages per second.
    pub rate_per_s: f64,
    /// Who measured it, where.
    pub source: &'static str,
}

impl Run {
    /// A run that has not measured anything yet.
    pub fn new(label: &str, targets: Vec<String>) -> Self {
        let command = std::env::args().collect::<Vec<_>>().join(" ");
        let label = if label.is_empty() { "tiderace bench".to_owned() } else { label.to_owned() };
        Self {
            label,
            command,
            machine: Machine::detect(),
            targets,
            cells: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Writes the files asked for.
    ///
    /// # Errors
    /// A sentence naming the file that cannot be written.
    pub fn write_files(&self, output: &OutputArgs) -> anyhow::Result<()> {
        write_files(output, || json::document(self), || html::document(self))
    }
}

/// Writes the files that are asked for, of a report in both forms.
///
/// # Errors
/// A sentence naming the file that cannot be written.
pub(crate) fn write_files(
    output: &OutputArgs,
    json: impl FnOnce() -> Value,
    html: impl FnOnce() -> String,
) -> anyhow::Result<()> {
    if let Some(path) = &output.json {
        write(path, &format!("{:#}\n", json()))?;
    }
    if let Some(path) = &output.html {
        write(path, &html())?;
    }
    Ok(())
}

pub(crate) fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    fs::write(path, text).with_context(|| {
        format!("cannot write {}: does its folder exist and may it be written?", path.display())
    })
}

/// A small run for the tests of the reports.
#[cfg(test)]
pub(crate) fn sample_run() -> Run {
    use crate::clock::Window;
    use crate::latency::Recorder;
    use crate::stomp::watch::{Observation, Sample, ServerUsage};

    let spec = CellSpec { producers: 10, consumers: 10, duration_s: 1, ..CellSpec::default() };
    let mut latency = Recorder::new(Window::opening_at(0, 0, 1));
    latency.record(1, 1_001, 20);
    let observed = Observation {
        seconds: 1.0,
        produced: 2,
        consumed: 20,
        samples: vec![Sample { unix_ms: 1_000, produced: 2, consumed: 20, errors: 0 }],
        has_consumers: true,
        server: Some(ServerUsage { cpu_s: 0.5, ..ServerUsage::default() }),
        ..Observation::default()
    };
    let outcome = Outcome {
        target: "ours".into(),
        spec: spec.clone(),
        observed,
        latency,
        receipt_latency: None,
        sent: 2,
        deliveries_expected: 23,
        received: 20,
        lost: 3,
        skipped: 1,
        out_of_order: 0,
        duplicates: 0,
        foreign: 0,
        errors: 0,
        problem: None,
    };
    let outcomes = vec![Ok(outcome), Err("no answer".to_owned())];
    let mut run = Run::new("sample", vec!["ours".into(), "theirs".into()]);
    let published = Some(Published { rate_per_s: 10.0, source: "someone" });
    run.cells.push(Cell { spec, published, outcomes });
    run.notes.push(("bare".into(), "3 GB/s".into()));
    run
}
