//! The report of `bench rsocket`: for the terminal, as JSON and as one HTML file.
//!
//! Invariant: all three are made from the same outcomes, so they cannot disagree.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::plots;
use super::{Outcome, Step};
use crate::args::{OutputArgs, RsocketArgs};
use crate::machine::Machine;
use crate::report::html::page;
use crate::report::levels::{self, Series};
use crate::report::svg::escape;
use crate::report::table::{self, Table, thousands};
use crate::report::write_files;

/// Everything a run has found.
#[derive(Debug)]
pub(super) struct Report {
    label: String,
    command: String,
    machine: Machine,
    /// What the load was.
    load: String,
    pub outcomes: Vec<Outcome>,
}

impl Report {
    /// A report without figures yet.
    pub(super) fn new(args: &RsocketArgs) -> Report {
        let label = &args.output.label;
        let rate = match args.rate > 0.0 {
            true => format!("{} messages/s for each stream", args.rate),
            false => "as many messages as go".to_owned(),
        };
        Report {
            label: if label.is_empty() { "tiderace bench rsocket".into() } else { label.clone() },
            command: std::env::args().collect::<Vec<_>>().join(" "),
            machine: Machine::detect(),
            load: format!(
                "{}, {} bytes of random payload, {rate}, {} connections",
                args.mode.as_str(),
                thousands(args.payload as u64),
                thousands(args.connections as u64)
            ),
            outcomes: Vec::new(),
        }
    }

    /// For the terminal.
    pub(super) fn text(&self) -> String {
        let mut text = format!("\n{}\n{}\n{}\n\n", self.command, self.machine.summary(), self.load);
        text += &self.table();
        text.push('\n');
        for (name, value) in self.figures() {
            let _ = writeln!(text, "{name}: {value}");
        }
        for remark in self.remarks() {
            let _ = writeln!(text, "! {remark}");
        }
        text
    }

    /// Writes the files asked for.
    pub(super) fn write_files(&self, output: &OutputArgs) -> anyhow::Result<()> {
        write_files(output, || self.json(), || self.html())
    }

    fn table(&self) -> String {
        let mut table = Table::new(&[
            "server",
            "streams",
            "messages/s",
            "cores",
            "µs each",
            "/s per core",
            "p50",
            "p99",
            "p99.9",
            "max",
            "RSS",
            "B/stream",
        ]);
        for outcome in &self.outcomes {
            for step in &outcome.steps {
                table.row(row(outcome, step));
            }
        }
        table.render()
    }

    /// What is no step: connecting, memory, and how servers compare.
    fn figures(&self) -> Vec<(String, String)> {
        let mut figures = Vec::new();
        for outcome in &self.outcomes {
            let name = outcome.name();
            let mut text = format!(
                "{} opened in {:.1} s",
                thousands(outcome.connections as u64),
                outcome.connect_s
            );
            if let Some([before, connected]) = outcome.memory {
                let each = connected.saturating_sub(before) / outcome.connections.max(1) as u64;
                let _ = write!(
                    text,
                    "; server RSS {} KiB before and {} KiB with them, {} bytes each",
                    thousands(before >> 10),
                    thousands(connected >> 10),
                    thousands(each)
                );
            }
            figures.push((format!("{name}, connections"), text));
        }
        figures.extend(self.comparisons());
        figures
    }

    /// Messages per second of processor time: the first server of each transport and step beside the others.
    fn comparisons(&self) -> Vec<(String, String)> {
        let mut figures = Vec::new();
        for (at, outcome) in self.outcomes.iter().enumerate() {
            let earlier = self.outcomes.iter().take(at);
            let first = earlier.clone().find(|other| other.transport == outcome.transport);
            let Some(first) = first else { continue };
            for step in &outcome.steps {
                let same = first.steps.iter().find(|other| other.streams == step.streams);
                let pair = same.and_then(|same| levels::per_core(&same.level));
                if let Some((ours, theirs)) = pair.zip(levels::per_core(&step.level)) {
                    figures.push((
                        format!("{}, {} beside {}", outcome.name(), step.level.name, first.server),
                        format!(
                            "{} and {} messages per second of processor time: {:.1}×",
                            table::rate(theirs),
                            table::rate(ours),
                            ours / theirs
                        ),
                    ));
                }
            }
        }
        figures
    }

    /// What limits the figures' meaning.
    fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        for outcome in &self.outcomes {
            let name = outcome.name();
            for step in &outcome.steps {
                let levels = std::slice::from_ref(&step.level);
                let series = Series { name: &name, clients: outcome.connections, levels };
                remarks.extend(levels::remarks(&[series]));
                if step.open < step.streams as u64 {
                    let (open, asked) = (thousands(step.open), thousands(step.streams as u64));
                    remarks.push(format!("{name}: {open} of {asked} streams were open in the end"));
                }
            }
        }
        remarks
    }

    fn json(&self) -> Value {
        json!({
            "label": self.label,
            "command": self.command,
            "date": self.machine.date,
            "version": self.machine.version,
            "machine": self.machine.summary(),
            "load": self.load,
            "outcomes": self.outcomes.iter().map(outcome_value).collect::<Vec<_>>(),
            "remarks": self.remarks(),
        })
    }

    fn html(&self) -> String {
        let mut body = format!("<section><h2>Figures</h2><p>{}</p><dl>", escape(&self.load));
        for (name, text) in self.figures() {
            let _ = write!(body, "<dt>{}</dt><dd>{}</dd>", escape(&name), escape(&text));
        }
        let rows: Vec<String> = self.table().lines().map(escape).collect();
        let _ = write!(body, "</dl><pre class=\"scroll\">{}</pre>", rows.join("\n"));
        for remark in self.remarks() {
            let _ = write!(body, "<p class=\"remark\">{}</p>", escape(&remark));
        }
        body += "</section>";
        body += &plots::sections(&self.outcomes);
        page(&self.label, &self.command, &self.machine, &body)
    }
}

impl Outcome {
    /// Server and transport.
    pub(super) fn name(&self) -> String {
        format!("{}, {}", self.server, self.transport.as_str())
    }

    /// What a stream has added to the server's resident memory, bytes.
    #[allow(clippy::cast_precision_loss)]
    fn bytes_per_stream(&self, step: &Step) -> Option<f64> {
        let [_, connected] = self.memory?;
        let after = step.level.observed.server.as_ref()?.rss_bytes_after;
        (step.open > 0).then(|| after.saturating_sub(connected) as f64 / step.open as f64)
    }
}

/// `1,000 streams`.
pub(super) fn step_name(streams: usize) -> String {
    format!("{} streams", thousands(streams as u64))
}

/// A line for each step, told as soon as a server has been measured.
pub(super) fn line(outcome: &Outcome) -> String {
    let mut text = String::new();
    for step in &outcome.steps {
        let rate = table::rate(step.level.observed.consumed_per_s());
        let _ = writeln!(text, "{}, {}: {rate} messages/s", outcome.name(), step.level.name);
    }
    text
}

fn row(outcome: &Outcome, step: &Step) -> Vec<String> {
    let (level, none) = (&step.level, || "–".to_owned());
    let latency = level.counters.latency.total();
    let at = |quantile| match latency.is_empty() {
        true => none(),
        false => table::duration(latency.value_at_quantile(quantile)),
    };
    let server = level.observed.server.as_ref();
    let cores = server.map(|server| server.cpu_s / level.observed.seconds.max(0.001));
    vec![
        outcome.name(),
        thousands(step.open),
        table::rate(level.observed.consumed_per_s()),
        cores.map_or_else(none, |cores| format!("{cores:.2}")),
        table::microseconds(level.observed.server_us_per_delivery()),
        levels::per_core(level).map_or_else(none, table::rate),
        at(0.5),
        at(0.99),
        at(0.999),
        at(1.0),
        server.map_or_else(none, |it| format!("{} MiB", thousands(it.rss_bytes_after >> 20))),
        outcome.bytes_per_stream(step).map_or_else(none, table::rate),
    ]
}

fn outcome_value(outcome: &Outcome) -> Value {
    let name = outcome.name();
    let step = |step: &Step| {
        let series = Series { name: &name, clients: outcome.connections, levels: &[] };
        let mut value = levels::value(&series, &step.level);
        value["streams"] = json!(step.streams);
        value["streams_open"] = json!(step.open);
        value["rss_bytes_per_stream"] = json!(outcome.bytes_per_stream(step));
        value
    };
    let seconds =
        |of: fn(&super::Moment) -> f64| outcome.timeline.iter().map(of).collect::<Vec<_>>();
    #[allow(clippy::cast_precision_loss)]
    let timeline = json!({
        "seconds": seconds(|moment| moment.at_s),
        "connections": seconds(|moment| moment.connections as f64),
        "streams": seconds(|moment| moment.streams as f64),
        "messages_per_s": seconds(|moment| moment.received_per_s),
        "sent_per_s": seconds(|moment| moment.sent_per_s),
        "server_cores": seconds(|moment| moment.server_cores),
        "machine_cores": seconds(|moment| moment.machine_cores),
        "rss_bytes": seconds(|moment| moment.rss_bytes as f64),
    });
    json!({
        "server": outcome.server,
        "transport": outcome.transport.as_str(),
        "connections": outcome.connections,
        "connect_s": outcome.connect_s,
        "rss_bytes": outcome.memory.map(|[before, connected]| json!({
            "before": before, "connected": connected,
        })),
        "steps": outcome.steps.iter().map(step).collect::<Vec<_>>(),
        "timeline": timeline,
    })
}

#[cfg(test)]
pub(super) mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::RsocketTransport;
    use crate::clients::{Counters, Level};
    use crate::clock::{Clock, Window};
    use crate::rsocket::timeline::Moment;
    use crate::stomp::watch::{Observation, ServerUsage};

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: RsocketArgs,
    }

    pub(in crate::rsocket) fn outcome(server: &str, cpu_s: f64) -> Outcome {
        let mut counters = Counters::new(Clock::start(), Window::opening_at(0, 0, 5));
        counters.received = 1000;
        counters.latency.record(1, 2_000_001, 1000);
        let server_usage =
            ServerUsage { cpu_s, rss_bytes_after: 10_000_000, ..ServerUsage::default() };
        let observed = Observation {
            seconds: 1.0,
            consumed: 1000,
            server: Some(server_usage),
            ..Observation::default()
        };
        let level = Level {
            name: step_name(1000),
            asked_per_s: Some(2_000.0),
            observed,
            counters,
            errors: 0,
            problem: None,
        };
        let moment = |at_s, streams| Moment { at_s, streams, ..Moment::default() };
        Outcome {
            server: server.into(),
            transport: RsocketTransport::WsH2,
            connections: 10,
            connect_s: 0.5,
            memory: Some([1_000_000, 9_000_000]),
            steps: vec![Step { streams: 1000, open: 900, level }],
            timeline: vec![moment(1.0, 500), moment(2.0, 1000)],
        }
    }

    #[test]
    fn all_three_forms_tell_the_same() {
        let mut report = Report::new(&Line::parse_from(["x", "--connections", "10"]).args);
        report.outcomes = vec![outcome("ours", 0.001), outcome("<theirs>", 0.005)];
        let (text, json, html) = (report.text(), report.json(), report.html());
        assert!(text.contains("1,000,000 messages per second of processor time: 5.0×"), "{text}");
        assert!(text.contains("1,000 of 2,000 deliveries/s"), "{text}");
        assert!(text.contains("900 of 1,000 streams"), "{text}");
        assert!(text.contains("800,000 bytes each") && text.contains("1,111"), "{text}");
        assert_eq!(json["outcomes"][0]["steps"][0]["deliveries_per_s"], 1000.0);
        assert_eq!(json["outcomes"][1]["timeline"]["streams"][1], 1000.0);
        assert!(
            html.contains("<svg") && html.contains("&lt;theirs&gt;") && !html.contains("<theirs")
        );
    }
}
