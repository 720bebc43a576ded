//! The report of `bench edges`: for the terminal, as JSON and as one HTML file with plots over the number of edges.
//!
//! Invariant: all three are made from the same cells, so they cannot disagree.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::args::{EdgesArgs, OutputArgs};
use crate::edges::cell::Cell;
use crate::edges::figures::{Fit, source_fit};
use crate::machine::Machine;
use crate::report::html::{nanoseconds, page, quantity};
use crate::report::json::quantiles;
use crate::report::svg::{Line, LineChart, escape};
use crate::report::table::{self, Table, thousands};
use crate::report::write_files;

/// Everything a run has found.
#[derive(Debug)]
pub(crate) struct Report {
    label: String,
    command: String,
    machine: Machine,
    /// Events per second of each client.
    per_client_per_s: f64,
    cells: Vec<Cell>,
}

impl Report {
    /// A report of cells.
    pub(crate) fn new(args: &EdgesArgs, cells: Vec<Cell>) -> Report {
        let label = match args.output.label.as_str() {
            "" => "tiderace bench edges".to_owned(),
            label => label.to_owned(),
        };
        Report {
            label,
            command: std::env::args().collect::<Vec<_>>().join(" "),
            machine: Machine::detect(),
            per_client_per_s: args.updates * args.subscriptions as f64 / args.topics as f64,
            cells,
        }
    }

    /// For the terminal.
    pub(crate) fn text(&self) -> String {
        let mut text =
            format!("\n{}\n{}\n\n{}\n", self.command, self.machine.summary(), self.table());
        for line in self.lines() {
            let _ = writeln!(text, "{line}");
        }
        for remark in self.remarks() {
            let _ = writeln!(text, "! {remark}");
        }
        text
    }

    /// Writes the files asked for.
    ///
    /// # Errors
    /// A sentence naming the file that cannot be written.
    pub(crate) fn write_files(&self, output: &OutputArgs) -> anyhow::Result<()> {
        write_files(output, || self.json(), || self.html())
    }

    fn table(&self) -> String {
        let mut table = Table::new(&HEADER);
        for cell in &self.cells {
            let cores = |cores: Option<f64>| cores.map_or_else(dash, |cores| format!("{cores:.3}"));
            let latency = |quantile| cell.latency_ns(quantile).map_or_else(dash, table::duration);
            let edges = cell.front_cores().filter(|_| cell.edges > 0);
            let rss = cell.each_edge.iter().map(|used| used.rss_bytes).max();
            table.row(vec![
                cell.edges.to_string(),
                thousands(cell.clients as u64),
                table::rate(cell.updates_per_s),
                cores(cell.source.map(|source| source.cores)),
                cell.bytes_per_update.map_or_else(dash, |bytes| format!("{bytes:.1} B")),
                cores(edges),
                cell.us_per_update().map_or_else(dash, |us| table::microseconds(Some(us))),
                table::rate(cell.events_per_s),
                table::microseconds(cell.us_per_event(&self.cells)),
                latency(0.5),
                latency(0.99),
                latency(1.0),
                rss.map_or_else(dash, |bytes| format!("{} MiB", thousands(bytes >> 20))),
                thousands(cell.counters.witnessed),
            ]);
        }
        table.render()
    }

    /// What stands below the table.
    fn lines(&self) -> Vec<String> {
        let mut lines: Vec<String> = NOTES.iter().map(|note| (*note).to_owned()).collect();
        if let Some(Fit { base, each }) = source_fit(&self.cells) {
            lines.push(format!(
                "source = {base:.3} + {each:.4} × edges cores, fitted to the cells without clients; with five: {:.3}",
                base + 5.0 * each
            ));
        }
        lines.extend(self.by_clients());
        lines.extend(self.added());
        lines.extend(self.extrapolated());
        lines.push(
            "Diffusion, published: 5 edges of 16 vCPU, 50,000, 100,000 and 200,000 clients: source 1 core, edges 12, 24 and \
             48 cores, 1, 1 and 12 ms."
                .to_owned(),
        );
        lines
    }

    fn cell(&self, edges: usize, has_clients: bool) -> Option<&Cell> {
        self.cells.iter().find(|cell| cell.edges == edges && (cell.clients > 0) == has_clients)
    }

    /// What clients of edges cost the source.
    fn by_clients(&self) -> Vec<String> {
        let with = self.cells.iter().filter(|cell| cell.edges > 0 && cell.clients > 0);
        let line = |cell: &Cell| {
            let without = self.cell(cell.edges, false)?.source?.cores;
            let with = cell.source?.cores;
            Some(format!(
                "{} edges: {} clients change the source's cores by {:+.1} %",
                cell.edges,
                thousands(cell.clients as u64),
                (with / without - 1.0) * 100.0
            ))
        };
        with.filter_map(line).collect()
    }

    /// What edges add to latency and to the cost of an event, beside the single node.
    fn added(&self) -> Vec<String> {
        let Some(single) = self.cell(0, true) else { return Vec::new() };
        let with = self.cells.iter().filter(|cell| cell.edges > 0 && cell.clients > 0);
        let line = |cell: &Cell| {
            let added = |quantile| {
                let (edge, node) = (cell.latency_ns(quantile)?, single.latency_ns(quantile)?);
                Some((edge as f64 - node as f64) / 1e6)
            };
            let cost = cell.us_per_event(&self.cells)? / single.us_per_event(&self.cells)?;
            Some(format!(
                "{} edges beside the single node: {cost:.2} × its processor time per event, latency {:+.2} ms at p50, {:+.2} ms \
                 at p99",
                cell.edges,
                added(0.5)?,
                added(0.99)?
            ))
        };
        with.filter_map(line).collect()
    }

    /// The arithmetic up to the published 200,000 clients.
    fn extrapolated(&self) -> Option<String> {
        let fit = source_fit(&self.cells)?;
        let cell = self.cells.iter().rfind(|cell| cell.edges > 0 && cell.clients > 0)?;
        let (event, update) =
            (cell.us_per_event(&self.cells)?, self.cell(cell.edges, false)?.us_per_update()?);
        let events = PUBLISHED_CLIENTS * self.per_client_per_s;
        let cores = events * event / 1e6;
        let receiving = 5.0 * cell.updates_per_s * update / 1e6;
        Some(format!(
            "200,000 clients × {:.0} events/s = {} events/s × {event:.1} µs = {cores:.1} cores, and 5 edges × {} updates/s × \
             {update:.1} µs = {receiving:.1} cores, at this batch delay; source {:.2} cores",
            self.per_client_per_s,
            table::rate(events),
            table::rate(cell.updates_per_s),
            fit.base + 5.0 * fit.each
        ))
    }

    /// What limits the figures' meaning.
    fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        for cell in &self.cells {
            let name = format!("{} edges, {} clients", cell.edges, thousands(cell.clients as u64));
            let mut say = |text: String| remarks.push(format!("{name}: {text}"));
            cell.bottleneck.iter().cloned().for_each(&mut say);
            if (cell.events_per_s / cell.events_asked_per_s.max(1.0) - 1.0).abs() > 0.02
                && cell.clients > 0
            {
                say(format!(
                    "{} of {} events/s were reached",
                    table::rate(cell.events_per_s),
                    table::rate(cell.events_asked_per_s)
                ));
            }
            let counters = &cell.counters;
            for (count, what) in [
                (counters.skipped, "versions were left out"),
                (counters.untimed, "events were older than can be timed; latency is understated"),
                (counters.wrong, "values differ from what was published"),
                (cell.errors, "errors"),
            ] {
                if count > 0 {
                    say(format!("{} {what}", thousands(count)));
                }
            }
            cell.problem.iter().for_each(|problem| say(format!("the first error: {problem}")));
        }
        remarks
    }

    fn json(&self) -> Value {
        let fit = source_fit(&self.cells);
        json!({
            "label": self.label,
            "command": self.command,
            "date": self.machine.date,
            "version": self.machine.version,
            "machine": self.machine.summary(),
            "cells": self.cells.iter().map(|cell| self.cell_json(cell)).collect::<Vec<_>>(),
            "source_cores": fit.map(|fit| json!({ "base": fit.base, "each_edge": fit.each })),
            "extrapolated": self.extrapolated(),
            "remarks": self.remarks(),
        })
    }

    fn cell_json(&self, cell: &Cell) -> Value {
        json!({
            "edges": cell.edges,
            "clients": cell.clients,
            "updates_per_s": cell.updates_per_s,
            "source_cores": cell.source.map(|source| source.cores),
            "source_rss_bytes": cell.source.map(|source| source.rss_bytes),
            "edge_cores": cell.each_edge.iter().map(|used| used.cores).collect::<Vec<_>>(),
            "edge_rss_bytes": cell.each_edge.iter().map(|used| used.rss_bytes).collect::<Vec<_>>(),
            "bytes_per_update_and_edge": cell.bytes_per_update,
            "edge_us_per_update": cell.us_per_update(),
            "events_per_s": cell.events_per_s,
            "events_per_s_asked": cell.events_asked_per_s,
            "us_per_event": cell.us_per_event(&self.cells),
            "latency_ns": quantiles(cell.counters.latency.total()),
            "witnessed": cell.counters.witnessed,
            "wrong": cell.counters.wrong,
            "left_out": cell.counters.skipped,
            "untimed": cell.counters.untimed,
            "errors": cell.errors,
        })
    }

    fn html(&self) -> String {
        let table = self.table().lines().map(escape).collect::<Vec<_>>().join("\n");
        let mut body = format!("<section><pre class=\"scroll\">{table}</pre>");
        for line in self.lines() {
            let _ = write!(body, "<p>{}</p>", escape(&line));
        }
        for remark in self.remarks() {
            let _ = write!(body, "<p class=\"remark\">{}</p>", escape(&remark));
        }
        body += "</section><section><div class=\"charts\">";
        for (caption, chart) in self.charts() {
            let _ = write!(body, "<figure><figcaption>{caption}</figcaption>{chart}</figure>");
        }
        page(&self.label, &self.command, &self.machine, &(body + "</div></section>"))
    }

    fn charts(&self) -> Vec<(&'static str, String)> {
        let decimal = |value: f64| format!("{value:.2}");
        let median = |cell: &Cell| cell.latency_ns(0.5).map(|ns| ns as f64);
        let p99 = |cell: &Cell| cell.latency_ns(0.99).map(|ns| ns as f64);
        let source = |cell: &Cell| cell.source.map(|source| source.cores);
        let mut charts = vec![
            ("Source, cores", self.chart("source cores", decimal, &source)),
            ("Edges, cores", self.chart("edge cores", decimal, &|cell| cell.front_cores())),
            (
                "Events per second",
                self.chart("events per second", quantity, &|cell| Some(cell.events_per_s)),
            ),
            ("Latency, median", self.chart("median latency", nanoseconds, &median)),
            ("Latency, p99", self.chart("latency p99", nanoseconds, &p99)),
        ];
        charts.retain(|(_, chart)| !chart.is_empty());
        charts
    }

    /// Something over the number of edges, without clients and with them.
    fn chart(
        &self,
        title: &str,
        y_text: fn(f64) -> String,
        value: &dyn Fn(&Cell) -> Option<f64>,
    ) -> String {
        let line = |(series, (name, has_clients)): (usize, (&str, bool))| {
            let mine = self.cells.iter().filter(|cell| (cell.clients > 0) == has_clients);
            let points = mine.filter_map(|cell| Some((cell.edges as f64, value(cell)?)));
            Line { name: name.to_owned(), series, points: points.collect() }
        };
        let lines = [("without clients", false), ("with clients", true)].into_iter().enumerate();
        let mut edges: Vec<usize> = self.cells.iter().map(|cell| cell.edges).collect();
        edges.dedup();
        LineChart {
            title,
            x_ticks: edges.iter().map(|edges| (*edges as f64, edges.to_string())).collect(),
            is_logarithmic: false,
            y_text,
            lines: lines.map(line).filter(|line| !line.points.is_empty()).collect(),
        }
        .render()
    }
}

fn dash() -> String {
    "–".to_owned()
}

const HEADER: [&str; 14] = [
    "edges",
    "clients",
    "updates/s",
    "source cores",
    "wire per update, edge",
    "edge cores",
    "µs per update",
    "events/s",
    "µs per event",
    "p50",
    "p99",
    "max",
    "RSS, edge",
    "checked",
];

const NOTES: [&str; 3] = [
    "Source cores include what publishing costs: full values from a connection of its own. Edges take all topics; edge cores are those \
     of all edges together.",
    "µs per update: an edge without clients, for each update that it takes. µs per event: what clients add to the servers that they \
     are connected to, by their events. With 0 edges clients are at the source.",
    "Wire: bytes that the source writes for each update and edge, without headers of TCP and IP. One client in a hundred applies every \
     delta and compares every value with what was published.",
];

/// Clients of the largest published cell.
const PUBLISHED_CLIENTS: f64 = 200_000.0;

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::clients::Counters;
    use crate::clock::{Clock, Window};
    use crate::edges::cell::Used;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: EdgesArgs,
    }

    fn cell(edges: usize, clients: usize, (source, edge): (f64, f64), latency_ns: u64) -> Cell {
        let mut counters = Counters::new(Clock::start(), Window::opening_at(0, 0, 5));
        if clients > 0 {
            counters.latency.record(1, 1 + latency_ns, 1_000);
        }
        let used = |cores| Used { cores, rss_bytes: 5 << 20 };
        Cell {
            edges,
            clients,
            updates_per_s: 20_000.0,
            source: Some(used(source)),
            each_edge: (0..edges).map(|_| used(edge)).collect(),
            bytes_per_update: Some(50.5),
            events_per_s: clients as f64 * 20.0,
            events_asked_per_s: clients as f64 * 20.0,
            counters,
            errors: 0,
            problem: None,
            bottleneck: None,
        }
    }

    #[test]
    fn all_three_forms_tell_the_same() {
        let cells = vec![
            cell(0, 0, (0.2, 0.0), 0),
            cell(0, 2_500, (0.5, 0.0), 1_000_000),
            cell(2, 0, (0.24, 0.04), 0),
            cell(2, 2_500, (0.246, 0.205), 1_400_000),
        ];
        let args = Line::parse_from(["x", "--label", "a test"]).args;
        let report = Report::new(&args, cells);
        let (text, json, html) = (report.text(), report.json(), report.html());
        // 0.3 cores for 50,000 events/s are 6 µs; 0.33 are 6.6.
        for part in [
            "source = 0.200 + 0.0200 × edges",
            "with five: 0.300",
            "2,500 clients change the source's cores by +2.5 %",
            "1.10 × its processor time per event, latency +0.40 ms at p50",
            "= 26.4 cores",
            "50.5 B",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert!((json["cells"][1]["us_per_event"].as_f64().unwrap_or(0.0) - 6.0).abs() < 1e-6);
        assert!(html.contains("<svg") && html.contains("a test"));
        assert!(report.remarks().is_empty(), "{:?}", report.remarks());
    }
}
