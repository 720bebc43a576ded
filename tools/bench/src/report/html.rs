//! The HTML report: one file, plots inside, nothing fetched; light and dark, phone and desk.
//!
//! Invariant: every text that comes from outside is escaped.

use std::fmt::Write as _;

use crate::machine::Machine;
use crate::report::svg::{Bar, Line, LineChart, bars, escape};
use crate::report::table;
use crate::report::text;
use crate::report::{Cell, Run};
use crate::stomp::cell::Outcome;

/// The whole page.
pub fn document(run: &Run) -> String {
    let mut body = String::new();
    if !run.notes.is_empty() {
        body += "<section><h2>Figures</h2><dl>";
        for (name, text) in &run.notes {
            let _ = write!(body, "<dt>{}</dt><dd>{}</dd>", escape(name), escape(text));
        }
        body += "</dl></section>";
    }
    body += &results(run);
    for cell in &run.cells {
        body += &cell_section(run, cell);
    }
    page(&run.label, &run.command, &run.machine, &body)
}

/// A page with head and style around sections.
pub(crate) fn page(label: &str, command: &str, machine: &Machine, sections: &str) -> String {
    let (title, command) = (escape(label), escape(command));
    let machine = escape(&machine.summary());
    format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <title>{title}</title><style>{STYLE}</style></head><body>\
         <header><h1>{title}</h1><p><code>{command}</code></p><p>{machine}</p></header>\
         {sections}</body></html>\n"
    )
}

fn results(run: &Run) -> String {
    let mut text = String::from(
        "<section><h2>All cells</h2><div class=\"scroll\"><table><thead><tr><th>cell</th><th>published</th>",
    );
    for name in &run.targets {
        let _ = write!(text, "<th>{} /s</th><th>CPU µs</th><th>p99</th>", escape(name));
    }
    text += "</tr></thead><tbody>";
    for cell in &run.cells {
        let published =
            cell.published.map_or("–".to_owned(), |figure| table::rate(figure.rate_per_s));
        let _ =
            write!(text, "<tr><th>{}</th><td>{published}</td>", escape(&cell.spec.short_name()));
        for outcome in &cell.outcomes {
            match outcome {
                Ok(outcome) => {
                    let _ = write!(
                        text,
                        "<td><b>{}</b></td><td>{}</td><td>{}</td>",
                        table::rate(outcome.observed.rate_per_s()),
                        table::microseconds(outcome.server_us()),
                        table::p99(outcome.latency.total())
                    );
                }
                Err(_) => text += "<td>failed</td><td>–</td><td>–</td>",
            }
        }
        text += "</tr>";
    }
    text + "</tbody></table></div><p>Messages received per second (sent, where nobody receives); \
            server CPU per message counted in the rate; latency of every message, from the time it \
            was meant to be sent.</p></section>"
}

fn cell_section(run: &Run, cell: &Cell) -> String {
    let mut text =
        format!("<section><h2>{}</h2><div class=\"charts\">", escape(&cell.spec.short_name()));
    for (caption, chart) in [
        ("Messages per second", rates(run, cell)),
        ("Server CPU per message, µs", processor(run, cell)),
        ("Latency by percentile", latencies(run, cell)),
        ("Messages received in each second", over_time(run, cell)),
    ] {
        if !chart.is_empty() {
            let _ = write!(text, "<figure><figcaption>{caption}</figcaption>{chart}</figure>");
        }
    }
    text += "</div>";
    for (name, outcome) in run.targets.iter().zip(&cell.outcomes) {
        for remark in text::remarks(outcome) {
            let _ = write!(text, "<p class=\"remark\">{}: {}</p>", escape(name), escape(&remark));
        }
    }
    text + "</section>"
}

fn measured<'a>(
    run: &'a Run,
    cell: &'a Cell,
) -> impl Iterator<Item = (usize, &'a str, &'a Outcome)> {
    let named = run.targets.iter().zip(&cell.outcomes).enumerate();
    named.filter_map(|(series, (name, outcome))| {
        Some((series, name.as_str(), outcome.as_ref().ok()?))
    })
}

fn rates(run: &Run, cell: &Cell) -> String {
    let mut list: Vec<Bar> = measured(run, cell)
        .map(|(series, name, outcome)| {
            let value = outcome.observed.rate_per_s();
            Bar { label: name.to_owned(), value, text: table::rate(value), series }
        })
        .collect();
    if let Some(figure) = cell.published {
        let text = table::rate(figure.rate_per_s);
        list.push(Bar { label: "published".to_owned(), value: figure.rate_per_s, text, series: 5 });
    }
    bars(&format!("rates of {}", cell.spec.short_name()), &list)
}

fn processor(run: &Run, cell: &Cell) -> String {
    let list: Vec<Bar> = measured(run, cell)
        .filter_map(|(series, name, outcome)| {
            let value = outcome.server_us()?;
            let text = table::microseconds(Some(value));
            Some(Bar { label: name.to_owned(), value, text, series })
        })
        .collect();
    if list.is_empty() {
        return String::new();
    }
    bars(&format!("server CPU of {}", cell.spec.short_name()), &list)
}

#[allow(clippy::cast_precision_loss)]
fn latencies(run: &Run, cell: &Cell) -> String {
    let lines = measured(run, cell)
        .filter(|(_, _, outcome)| !outcome.latency.total().is_empty())
        .map(|(series, name, outcome)| Line {
            name: name.to_owned(),
            series,
            points: (0..=80)
                .map(|step| {
                    let nines = f64::from(step) / 20.0;
                    let quantile = 1.0 - 10_f64.powf(-nines);
                    (nines, outcome.latency.total().value_at_quantile(quantile) as f64)
                })
                .collect(),
        })
        .collect();
    let ticks = ["0", "90", "99", "99.9", "99.99 %"];
    LineChart {
        title: "latency by percentile",
        x_ticks: ticks
            .iter()
            .zip(0..)
            .map(|(text, nines)| (f64::from(nines), (*text).to_owned()))
            .collect(),
        is_logarithmic: true,
        y_text: |ns| nanoseconds(ns),
        lines,
    }
    .render()
}

#[allow(clippy::cast_precision_loss)]
fn over_time(run: &Run, cell: &Cell) -> String {
    let lines = measured(run, cell)
        .map(|(series, name, outcome)| Line {
            name: name.to_owned(),
            series,
            points: outcome
                .observed
                .samples
                .iter()
                .zip(1_u32..)
                .map(|(sample, second)| {
                    let has_consumers = outcome.observed.has_consumers;
                    let count = if has_consumers { sample.consumed } else { sample.produced };
                    (f64::from(second), count as f64)
                })
                .collect(),
        })
        .collect();
    let last = cell.spec.duration_s as f64;
    LineChart {
        title: "throughput over time",
        x_ticks: vec![(1.0, "1 s".to_owned()), (last, format!("{last} s"))],
        is_logarithmic: false,
        y_text: |value| quantity(value),
        lines,
    }
    .render()
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
pub(crate) fn nanoseconds(ns: f64) -> String {
    match ns {
        _ if ns < 1e3 => format!("{ns:.0} ns"),
        _ if ns < 1e6 => format!("{:.0} µs", ns / 1e3),
        _ if ns < 1e9 => format!("{:.0} ms", ns / 1e6),
        _ => format!("{:.0} s", ns / 1e9),
    }
}

pub(crate) fn quantity(value: f64) -> String {
    match value {
        _ if value >= 1e6 => format!("{:.1} M", value / 1e6),
        _ if value >= 1e3 => format!("{:.0} k", value / 1e3),
        _ => format!("{value:.0}"),
    }
}

const STYLE: &str = "\
:root{color-scheme:light dark;--ink:#1b2230;--paper:#fbfbf9;--card:#fff;--rule:#d9dce3;--s0:#0a6ebd;\
--s1:#d9822b;--s2:#2e8b57;--s3:#a0479b;--s4:#b23b3b;--s5:#9aa3b2}\
@media(prefers-color-scheme:dark){:root{--ink:#e4e8ef;--paper:#12161d;--card:#1a202a;--rule:#343c4a;\
--s0:#4aa8f0;--s1:#f0a65a;--s2:#5fc78d;--s3:#d083cb;--s4:#e37a7a;--s5:#6e7888}}\
*{box-sizing:border-box}body{margin:0 auto;padding:16px;max-width:1240px;background:var(--paper);\
color:var(--ink);font:15px/1.5 system-ui,sans-serif}h1{font-size:1.5rem;margin:0}h2{font-size:1.1rem}\
code{overflow-wrap:anywhere}section{margin:24px 0}.scroll{overflow-x:auto}table{border-collapse:collapse;\
font-variant-numeric:tabular-nums}th,td{padding:4px 10px;border-bottom:1px solid var(--rule);text-align:right;\
white-space:nowrap}th:first-child{text-align:left}.charts{display:grid;gap:16px;\
grid-template-columns:repeat(auto-fit,minmax(min(100%,340px),1fr))}figure{margin:0;padding:12px;\
background:var(--card);border:1px solid var(--rule);border-radius:8px}figcaption{font-weight:600;margin-bottom:8px}\
svg{width:100%;height:auto;display:block}.text{fill:var(--ink);font-size:12px}.end{text-anchor:end}\
.middle{text-anchor:middle}.axis{stroke:var(--rule)}.line{fill:none!important;stroke-width:2}.remark{color:var(--s4)}\
.s0{fill:var(--s0);stroke:var(--s0)}.s1{fill:var(--s1);stroke:var(--s1)}.s2{fill:var(--s2);stroke:var(--s2)}\
.s3{fill:var(--s3);stroke:var(--s3)}.s4{fill:var(--s4);stroke:var(--s4)}.s5{fill:var(--s5);stroke:var(--s5)}\
rect{stroke:none!important}";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample_run;

    #[test]
    fn self_contained_and_escaped() {
        let mut run = sample_run();
        run.label = "<script>".into();
        let page = document(&run);
        assert!(!page.contains("<script") && page.contains("&lt;script&gt;"));
        assert!(
            !page.contains("http://") && !page.contains("https://") && !page.contains("@import")
        );
        assert!(page.contains("topic-10-1-10") && page.matches("<svg").count() >= 3);
        assert!(page.contains("theirs: no answer"));
    }
}
