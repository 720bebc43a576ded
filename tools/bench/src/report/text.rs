//! The reports for the terminal: a table for many cells, a list of figures for one.
//!
//! Invariant: whatever limits the meaning of a figure stands below it, marked with `!`.

use std::collections::BTreeSet;

use crate::published::published;
use crate::report::table::{self, Table, thousands};
use crate::report::{Cell, Run};
use crate::stomp::cell::Outcome;

/// The table of a matrix.
pub fn summary(run: &Run) -> String {
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
    let sources: BTreeSet<_> =
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
pub fn remarks(outcome: &Result<Outcome, String>) -> Vec<String> {
    let outcome = match outcome {
        Ok(outcome) => outcome,
        Err(error) => return vec![error.clone()],
    };
    let mut remarks: Vec<String> = outcome.observed.bottleneck().into_iter().collect();
    for (count, what) in [
        (outcome.lost, "deliveries never came"),
        (outcome.skipped, "of them missing between others that came: the server dropped them"),
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
pub fn details(run: &Run) -> String {
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
    lines.push(("server".to_owned(), server(outcome)));
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

fn server(outcome: &Outcome) -> String {
    let observed = &outcome.observed;
    let Some(server) = &observed.server else {
        return "no process found; name it with --server-pid".to_owned();
    };
    format!(
        "{} µs CPU per message sent to it, {} per delivery; {:.2} cores, busiest thread {:.0} %; RSS {} → {} MiB",
        table::microseconds(observed.server_us_per_message()),
        table::microseconds(observed.server_us_per_delivery()),
        server.cpu_s / observed.seconds,
        server.busiest * 100.0,
        server.rss_bytes_before >> 20,
        server.rss_bytes_after >> 20
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample_run;

    #[test]
    fn table_shows_rates_failures_and_remarks() {
        let text = summary(&sample_run());
        assert!(text.contains("topic-10-1-10"), "{text}");
        assert!(text.contains("failed") && text.contains("! topic-10-1-10 on theirs: no answer"));
        assert!(text.contains("! topic-10-1-10 on ours: 3 deliveries never came"));
        assert!(text.contains("Published: someone"));
    }

    #[test]
    fn details_show_every_figure() {
        let text = details(&sample_run());
        for part in ["20 /s", "max 1.0 µs", "25000.0 per delivery", "3 lost", "bare: 3 GB/s"] {
            assert!(text.contains(part), "{part} in {text}");
        }
    }
}
