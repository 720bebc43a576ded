//! `bench stomp`: one cell or a table of cells, on one server or several in turn.
//!
//! For each cell all servers are run one after another, so that a ratio compares the same minute.
//! Invariant: one server's failure in one cell does not stop the table.

use std::io::{IsTerminal, Write};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::args::{Matrix, StompArgs};
use crate::published::{APOLLO, Row, published};
use crate::report::{Cell, Published, Run, text};
use crate::stomp::cell::{self, CellSpec};
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
