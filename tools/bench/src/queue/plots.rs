//! The plots of `bench queue`.
//!
//! Invariant: a plot shows what the table states, nothing else.

use std::fmt::Write as _;

use crate::queue::figures::{Figures, Line};
use crate::queue::report::mebibytes;
use crate::report::html::nanoseconds;
use crate::report::svg::{Bar, Line as Curve, LineChart, bars, escape};
use crate::report::table;

/// Sections of the page: how servers compare in each cell, then memory over time.
pub(super) fn sections(lines: &[Line]) -> String {
    let mut body = String::from("<section><div class=\"charts\">");
    let rates = chart("messages per second", lines, |figures| Some(figures.rate()), table::rate);
    figure(&mut body, "Messages per second", &rates);
    let shares = chart("share of the bare disk", lines, Figures::share, |share| {
        format!("{:.0} %", share * 100.0)
    });
    figure(&mut body, "Share of what the bare disk does", &shares);
    let processor =
        chart("server CPU", lines, |figures| figures.cpu_us, |us| table::microseconds(Some(us)));
    figure(&mut body, "Server CPU per message, µs", &processor);
    let half = chart("receipts", lines, |figures| figures.receipt_p50_ns, nanoseconds);
    figure(&mut body, "Receipts, median", &half);
    let late = chart("late receipts", lines, |figures| figures.receipt_p99_ns, nanoseconds);
    figure(&mut body, "Receipts, 99th percentile", &late);
    body += "</div></section><section><h2>Resident memory of the server</h2><div class=\"charts\">";
    for name in ["load", "unload", "deep-in", "deep-out"] {
        figure(&mut body, name, &memory(lines, name));
    }
    body + "</div></section>"
}

/// A bar for each line that has the figure; a colour for each server.
fn chart(
    title: &str,
    lines: &[Line],
    of: impl Fn(&Figures) -> Option<f64> + Copy,
    text: impl Fn(f64) -> String,
) -> String {
    let mut servers: Vec<&str> = Vec::new();
    let mut list = Vec::new();
    for line in lines {
        if !servers.contains(&line.server.as_str()) {
            servers.push(&line.server);
        }
        let Some(value) = line.median(of) else { continue };
        let series = servers.iter().position(|name| *name == line.server).unwrap_or(0);
        let label = format!("{}, {}", line.name, line.server);
        list.push(Bar { label, value, text: text(value), series });
    }
    if list.is_empty() { String::new() } else { bars(title, &list) }
}

/// The last round of each server.
#[allow(clippy::cast_precision_loss)]
fn memory(lines: &[Line], name: &str) -> String {
    let own = lines.iter().filter(|line| line.name == name).enumerate();
    let curves: Vec<Curve> = own
        .filter_map(|(series, line)| {
            let points = &line.rounds.last()?.memory;
            let points = points.iter().map(|(at_s, bytes)| (*at_s, *bytes as f64)).collect();
            Some(Curve { name: line.server.clone(), series, points })
        })
        .collect();
    let ends = curves.iter().filter_map(|curve| curve.points.last());
    let last = ends.map(|(at_s, _)| *at_s).fold(0.0, f64::max);
    LineChart {
        title: "resident memory",
        x_ticks: vec![(0.0, "0 s".to_owned()), (last, format!("{last:.1} s"))],
        is_logarithmic: false,
        y_text: mebibytes,
        lines: curves,
    }
    .render()
}

fn figure(body: &mut String, caption: &str, chart: &str) {
    if !chart.is_empty() {
        let caption = escape(caption);
        let _ = write!(body, "<figure><figcaption>{caption}</figcaption>{chart}</figure>");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::figures::tests::line;

    #[test]
    fn what_was_not_measured_has_no_plot() {
        let page = sections(&[line("load", "ours", 2), line("load", "<theirs>", 1)]);
        // Rates, shares, receipts and memory; nobody has told CPU or the 99th percentile.
        assert_eq!(page.matches("<svg").count(), 4);
        assert!(page.contains("load, &lt;theirs&gt;") && !page.contains("<theirs>"));
        assert!(!sections(&[]).contains("<svg"));
    }
}
