//! `bench stomp`: one cell or a table of cells, on one server or several in turn.
//!
//! For each cell all servers are run one after another, so that a ratio compares the same minute.
//! Invariant: one server's failure in one cell does not stop the table.

use std::io::{IsTerminal, Write};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::args::{Matrix, StompArgs};
use crate::report::table::{self, Table, thousands};
use crate::report::{Cell, Published, Run};
use crate::stomp::cell::{self, CellSpec, Kind, Outcome};
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
    print(&if args.matrix.is_some() || targets.len() > 1 { summary(&run) } else { details(&run) })?;
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

fn published(spec: &CellSpec) -> Option<Published> {
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

/// The table of a matrix.
pub(crate) fn summary(run: &Run) -> String {
    let mut header = vec!["cell".to_owned(), "published".to_owned()];
    for (index, name) in run.targets.iter().enumerate() {
        header.push(format!("{name} msg/s"));
        header.push("CPU µs/msg".to_owned());
        header.push("p99".to_owned());
        if index > 0 {
            header.push("ratio".to_owned());
        }
    }
    let mut table = Table::new(&header.iter().map(String::as_str).collect::<Vec<_>>());
    for cell in &run.cells {
        table.row(summary_row(cell));
    }
    let mut text =
        format!("{}\n{}\n{}\n\n{}", run.label, run.command, run.machine.summary(), table.render());
    text += "\nRates are of messages received (sent, where nobody receives); CPU is the server's, per\nmessage counted in the rate; ratio is the first server's rate to this one's.\n";
    let sources: std::collections::BTreeSet<_> =
        run.cells.iter().filter_map(|cell| cell.published.map(|figure| figure.source)).collect();
    for source in sources {
        text += &format!("Published: {source}\n");
    }
    for cell in &run.cells {
        for (name, outcome) in run.targets.iter().zip(&cell.outcomes) {
            for remark in remarks(outcome) {
                text += &format!("! {} on {name}: {remark}\n", cell.spec.short_name());
            }
        }
    }
    text
}

fn summary_row(cell: &Cell) -> Vec<String> {
    let published =
        cell.published.map_or_else(|| "–".to_owned(), |figure| table::rate(figure.rate_per_s));
    let mut row = vec![cell.spec.short_name(), published];
    let first = cell.outcomes.first().and_then(|outcome| outcome.as_ref().ok());
    for (index, outcome) in cell.outcomes.iter().enumerate() {
        match outcome {
            Ok(outcome) => {
                row.push(table::rate(outcome.observed.rate_per_s()));
                row.push(table::microseconds(outcome.server_us()));
                row.push(table::duration(outcome.latency.total().value_at_quantile(0.99)));
            }
            Err(_) => row.extend(["failed", "–", "–"].map(str::to_owned)),
        }
        if index > 0 {
            let other = outcome.as_ref().ok().map(|outcome| outcome.observed.rate_per_s());
            let ratio = first.zip(other.filter(|rate| *rate > 0.0));
            row.push(ratio.map_or_else(
                || "–".to_owned(),
                |(first, other)| format!("{:.1}×", first.observed.rate_per_s() / other),
            ));
        }
    }
    row
}

/// What limits a figure's meaning.
pub(crate) fn remarks(outcome: &Result<Outcome, String>) -> Vec<String> {
    let outcome = match outcome {
        Ok(outcome) => outcome,
        Err(error) => return vec![error.clone()],
    };
    let mut remarks: Vec<String> = outcome.observed.bottleneck().into_iter().collect();
    for (count, what) in [
        (outcome.lost, "deliveries never came"),
        (outcome.out_of_order, "messages out of order or repeated"),
        (outcome.duplicates, "messages delivered twice"),
        (outcome.foreign, "messages of other runs"),
        (outcome.errors, "errors"),
    ] {
        if count > 0 {
            remarks.push(format!("{} {what}", thousands(count)));
        }
    }
    remarks.extend(outcome.problem.clone());
    remarks
}

/// Everything about single cells, one figure a line.
pub(crate) fn details(run: &Run) -> String {
    let mut text = format!("{}\n{}\n{}\n", run.label, run.command, run.machine.summary());
    for (name, outcome) in run.cells.iter().flat_map(|cell| run.targets.iter().zip(&cell.outcomes))
    {
        if let Ok(outcome) = outcome {
            let lines = figures(outcome);
            let width = lines.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
            text += &format!("\n{} on {name}\n", outcome.spec.short_name());
            for (name, value) in lines {
                text += &format!("  {name:<width$}  {value}\n");
            }
        }
        for remark in remarks(outcome) {
            text += &format!("  ! {remark}\n");
        }
    }
    for (name, value) in &run.notes {
        text += &format!("  {name}: {value}\n");
    }
    text
}

fn figures(outcome: &Outcome) -> Vec<(String, String)> {
    let observed = &outcome.observed;
    let mut lines = vec![
        ("sent".to_owned(), format!("{} /s", table::rate(observed.produced_per_s()))),
        ("received".to_owned(), format!("{} /s", table::rate(observed.consumed_per_s()))),
    ];
    if let Some(published) = published(&outcome.spec).filter(|published| published.rate_per_s > 0.0)
    {
        let share = observed.rate_per_s() / published.rate_per_s;
        lines.push((
            "published".to_owned(),
            format!(
                "{} /s ({share:.1}× of it here; {})",
                table::rate(published.rate_per_s),
                published.source
            ),
        ));
    }
    let latencies =
        [("latency", Some(&outcome.latency)), ("receipts", outcome.receipt_latency.as_ref())];
    for (name, recorder) in latencies {
        let Some(histogram) =
            recorder.map(|recorder| recorder.total()).filter(|total| !total.is_empty())
        else {
            continue;
        };
        let at = |quantile| table::duration(histogram.value_at_quantile(quantile));
        lines.push((
            name.to_owned(),
            format!(
                "p50 {}  p90 {}  p99 {}  p99.9 {}  max {}  ({} messages, every one recorded)",
                at(0.5),
                at(0.9),
                at(0.99),
                at(0.999),
                table::duration(histogram.max()),
                thousands(histogram.len())
            ),
        ));
    }
    lines.push(match &observed.server {
        Some(server) => (
            "server".to_owned(),
            format!(
                "{} µs CPU per message sent to it, {} per delivery; {:.2} cores, busiest thread {:.0} %; RSS {} → {} MiB",
                table::microseconds(observed.server_us_per_message()),
                table::microseconds(observed.server_us_per_delivery()),
                server.cpu_s / observed.seconds,
                server.busiest * 100.0,
                server.rss_bytes_before >> 20,
                server.rss_bytes_after >> 20
            ),
        ),
        None => ("server".to_owned(), "no process found; name it with --server-pid".to_owned()),
    });
    lines.push((
        "generator".to_owned(),
        format!(
            "{} µs CPU per message sent or received; {:.2} cores, busiest thread {} {:.0} %",
            table::microseconds(observed.own_us_per_message()),
            observed.own_cpu_s / observed.seconds,
            observed.own_busiest.1,
            observed.own_busiest.0 * 100.0
        ),
    ));
    lines.push((
        "checked".to_owned(),
        format!(
            "{} sent, {} of {} deliveries received, {} lost, {} out of order",
            thousands(outcome.sent),
            thousands(outcome.received),
            thousands(outcome.deliveries_expected),
            thousands(outcome.lost),
            thousands(outcome.out_of_order)
        ),
    ));
    lines
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
