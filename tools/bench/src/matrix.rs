//! `bench stomp`: one cell or a table of cells, on one server or several in turn.
//!
//! For each cell all servers are run one after another, so that a ratio compares the same minute.
//! Invariant: one server's failure in one cell does not stop the table.

use std::io::{IsTerminal, Write};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::args::{Matrix, StompArgs};
use crate::report::{Cell, Published, Run, text};
use crate::stomp::cell::{self, CellSpec, Kind};
use crate::target::Target;

/// Runs `bench stomp`.
///
/// # Errors
/// A sentence when nothing could be measured or a report could not be written.
pub fn run(args: &StompArgs) -> anyhow::Result<()> {
    let targets = Target::all(&args.target)?;
    let mut run =
        Run::new(&args.output.label, targets.iter().map(|target| target.name.clone()).collect());
    let cells = cells(args)?;
    let bar = progress_bar();
    let mut failure = None;
    for (spec, published) in cells {
        let mut outcomes = Vec::new();
        for target in &targets {
            bar.set_prefix(format!("{} {}", spec.short_name(), target.name));
            match cell::run(target, &spec, &bar) {
                Ok(outcome) => outcomes.push(Ok(outcome)),
                Err(error) => {
                    outcomes.push(Err(format!("{error:#}")));
                    failure.get_or_insert(error);
                }
            }
        }
        run.cells.push(Cell { spec, published, outcomes });
    }
    bar.finish_and_clear();
    if let Some(error) =
        failure.filter(|_| run.cells.iter().flat_map(|cell| &cell.outcomes).all(Result::is_err))
    {
        return Err(error);
    }
    print(&if args.matrix.is_some() || targets.len() > 1 {
        text::summary(&run)
    } else {
        text::details(&run)
    })?;
    run.write_files(&args.output)
}

/// The cells a command line asks for.
fn cells(args: &StompArgs) -> anyhow::Result<Vec<(CellSpec, Option<Published>)>> {
    let Some(Matrix::Apollo) = args.matrix else {
        let spec = CellSpec::from_args(args, 10);
        let published = published(&spec);
        return Ok(vec![(spec, published)]);
    };
    let base = CellSpec::from_args(args, 5);
    let all = APOLLO.iter().map(|row| {
        let spec = CellSpec {
            kind: row.kind,
            producers: row.shape.0,
            destinations: row.shape.1,
            consumers: row.shape.2,
            size: row.size,
            ..base.clone()
        };
        (spec, Some(Published { rate_per_s: row.rate_per_s, source: row.source }))
    });
    let cells: Vec<_> = all
        .filter(|(spec, _)| {
            args.only.is_empty() || args.only.iter().any(|name| *name == spec.short_name())
        })
        .collect();
    anyhow::ensure!(
        !cells.is_empty(),
        "--only names no cell of the matrix; its cells are {}",
        APOLLO.iter().map(Row::short_name).collect::<Vec<_>>().join(", ")
    );
    Ok(cells)
}

/// The published figure for a cell, when it was run as published.
pub(crate) fn published(spec: &CellSpec) -> Option<Published> {
    let row = APOLLO.iter().find(|row| row.short_name() == spec.short_name())?;
    let is_same = spec.persistent.is_none() && spec.receipts.is_none() && spec.rate.is_none();
    is_same.then_some(Published { rate_per_s: row.rate_per_s, source: row.source })
}

/// A progress bar on a terminal, nothing elsewhere.
pub(crate) fn progress_bar() -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::with_draw_target(Some(1), ProgressDrawTarget::stderr());
    let style = ProgressStyle::with_template("{prefix:24} {wide_bar} {pos}/{len} s  {msg}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar
}

/// Writes to standard output; a reader that has gone away is not an error.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    match std::io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        result => Ok(result?),
    }
}

/// A row of the published table.
struct Row {
    kind: Kind,
    shape: (usize, usize, usize),
    size: usize,
    rate_per_s: f64,
    source: &'static str,
}

impl Row {
    fn short_name(&self) -> String {
        let size = match self.size {
            20 => String::new(),
            bytes => format!("-{}k", bytes / 1024),
        };
        let (producers, destinations, consumers) = self.shape;
        format!("{}-{producers}-{destinations}-{consumers}{size}", self.kind.as_str())
    }
}

const fn row(
    kind: Kind,
    shape: (usize, usize, usize),
    size: usize,
    rate_per_s: f64,
    source: &'static str,
) -> Row {
    Row { kind, shape, size, rate_per_s, source }
}

/// The last table of Apollo's documentation, then the non-persistent rest of stomp-benchmark.
const APOLLO: [Row; 14] = [
    row(Kind::Queue, (1, 1, 1), 20, 250_000.0, APOLLO_DOCS),
    row(Kind::Queue, (8, 8, 8), 20, 540_000.0, APOLLO_DOCS),
    row(Kind::Queue, (1, 1, 10), 20, 230_000.0, APOLLO_DOCS),
    row(Kind::Queue, (10, 1, 1), 20, 280_000.0, APOLLO_DOCS),
    row(Kind::Topic, (1, 1, 1), 20, 420_000.0, APOLLO_DOCS),
    row(Kind::Topic, (8, 8, 8), 20, 810_000.0, APOLLO_DOCS),
    row(Kind::Topic, (10, 1, 10), 20, 1_300_000.0, APOLLO_DOCS),
    row(Kind::Queue, (10, 10, 10), 20, 529_000.0, STOMP_BENCHMARK),
    row(Kind::Topic, (1, 1, 0), 20, 345_000.0, STOMP_BENCHMARK),
    row(Kind::Topic, (10, 10, 10), 20, 705_000.0, STOMP_BENCHMARK),
    row(Kind::Topic, (1, 1, 10), 20, 792_000.0, STOMP_BENCHMARK),
    row(Kind::Topic, (10, 1, 1), 20, 0.0, STOMP_BENCHMARK),
    row(Kind::Queue, (1, 1, 1), 1024, 134_000.0, STOMP_BENCHMARK),
    row(Kind::Topic, (1, 1, 1), 262_144, 1_600.0, STOMP_BENCHMARK),
];
const APOLLO_DOCS: &str = "Apollo's documentation of 2011, Mac Pro, 8 cores at 3 GHz";
const STOMP_BENCHMARK: &str = "stomp-benchmark, Apollo 1.0 on an i7-2600K, 8 threads at 3.4 GHz";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_names_each_cell_once() {
        let names: std::collections::BTreeSet<_> = APOLLO.iter().map(Row::short_name).collect();
        assert_eq!(names.len(), APOLLO.len());
        assert!(names.contains("topic-1-1-1-256k") && names.contains("topic-10-1-10"));
    }
}
