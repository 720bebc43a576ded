//! The report of `bench diffusion`: the article's tables, for the terminal, as JSON and as one HTML file
//! with plots over the number of clients.
//!
//! Invariant: all three are made from the same steps, so they cannot disagree.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::args::{DiffusionArgs, OutputArgs};
use crate::diffusion::figures::HEADER_BYTES;
use crate::diffusion::plots;
use crate::diffusion::published::{PUBLISHED, Row};
use crate::diffusion::step::{Load, Step};
use crate::machine::Machine;
use crate::report::html::page;
use crate::report::json::quantiles;
use crate::report::svg::escape;
use crate::report::table::{self, Table, thousands};
use crate::report::write_files;
use crate::stomp::watch::Observation;

/// Everything a run has found.
#[derive(Debug)]
pub(crate) struct Report {
    label: String,
    command: String,
    machine: Machine,
    updates: f64,
    /// In the order they were measured.
    pub(crate) steps: Vec<Step>,
    /// For each number of clients a writer that does nothing else.
    pub(crate) bare: Vec<(usize, Observation)>,
}

impl Report {
    /// A report without figures yet.
    pub(crate) fn new(args: &DiffusionArgs) -> Report {
        let label = match args.output.label.as_str() {
            "" => "tiderace bench diffusion".to_owned(),
            label => label.to_owned(),
        };
        Report {
            label,
            command: std::env::args().collect::<Vec<_>>().join(" "),
            machine: Machine::detect(),
            updates: args.updates,
            steps: Vec::new(),
            bare: Vec::new(),
        }
    }

    /// For the terminal.
    pub(crate) fn text(&self) -> String {
        let mut text =
            format!("\n{}\n{}\n\n{}\n", self.command, self.machine.summary(), self.tables());
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

    fn tables(&self) -> String {
        let mut text = String::new();
        for deltas in [false, true] {
            let steps: Vec<&Step> =
                self.steps.iter().filter(|step| step.spec.deltas == deltas).collect();
            if steps.is_empty() {
                continue;
            }
            let _ = writeln!(text, "Deltas {}", if deltas { "on" } else { "off" });
            let mut table = Table::new(&HEADER[..HEADER.len() - if deltas { 0 } else { 3 }]);
            for step in steps {
                table.row(self.row(step));
            }
            for row in PUBLISHED.iter().filter(|row| row.deltas == deltas) {
                table.row(row.cells());
            }
            text += &table.render();
            text.push('\n');
        }
        text
    }

    fn row(&self, step: &Step) -> Vec<String> {
        let figures = step.figures();
        let latency = step.level.counters.latency.total();
        let at = |quantile| match latency.is_empty() {
            true => "–".to_owned(),
            false => table::duration(latency.value_at_quantile(quantile)),
        };
        let name = match step.spec.load {
            Load::Paced => thousands(step.spec.clients as u64),
            load => format!("{}, {}", thousands(step.spec.clients as u64), load.as_str()),
        };
        let mut row = vec![
            name,
            thousands(step.subscriptions as u64),
            format!("{:.1}", figures.per_client_per_s),
            table::rate(figures.events_per_s),
            figures.cores.map_or_else(dash, |cores| format!("{cores:.2}")),
            table::microseconds(figures.us_per_event),
            figures.kernel_share.map_or_else(dash, |share| format!("{:.0} %", share * 100.0)),
            at(0.5),
            at(0.99),
            at(0.999),
            at(1.0),
            format!("{:.0} Mb/s", figures.megabits_per_s),
            format!("{:.0} B", figures.payload_bytes),
            format!("{:.0} B", figures.wire_bytes),
            step.memory
                .map_or_else(dash, |[_, _, after]| format!("{} MiB", thousands(after >> 20))),
        ];
        if step.spec.deltas {
            row.push(step.wire_saving(&self.steps).map_or_else(dash, percent));
            row.push(percent(figures.payload_saving));
            row.push(
                step.cpu_added(&self.steps)
                    .map_or_else(dash, |share| format!("{:+.1} %", share * 100.0)),
            );
        }
        row
    }

    /// What stands below the tables.
    fn lines(&self) -> Vec<String> {
        let mut lines: Vec<String> = NOTES.iter().map(|note| (*note).to_owned()).collect();
        for step in &self.steps {
            let Some([topics, subscribed, after]) = step.memory else { continue };
            let clients = step.spec.clients.max(1) as u64;
            lines.push(format!(
                "{}: server RSS {} MiB with topics alone, {} MiB with {} subscriptions made in {} ({} bytes \
                 per client), {} MiB at the end; publisher {} updates/s with {} of a core",
                self.name(step),
                thousands(topics >> 20),
                thousands(subscribed >> 20),
                thousands(clients * step.subscriptions as u64),
                table::duration(step.subscribed_ns),
                thousands(subscribed.saturating_sub(topics) / clients),
                thousands(after >> 20),
                table::rate(step.updates_per_s),
                step.publisher_cores.map_or_else(dash, percent),
            ));
        }
        for (clients, observed) in &self.bare {
            lines.push(format!(
                "bare writer, {} sockets, one small message at a time: {} messages/s, {} µs of its CPU each",
                thousands(*clients as u64),
                table::rate(observed.consumed_per_s()),
                table::microseconds(observed.server_us_per_delivery()),
            ));
        }
        lines
    }

    /// What limits the figures' meaning.
    fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        for step in &self.steps {
            let (level, counters) = (&step.level, &step.level.counters);
            let mut say = |text: String| remarks.push(format!("{}: {text}", self.name(step)));
            level.observed.bottleneck().into_iter().for_each(&mut say);
            if let Some(text) = self.full_machine(step) {
                say(text);
            }
            let figures = step.figures();
            let asked = figures
                .asked_per_s
                .filter(|asked| (figures.events_per_s / asked - 1.0).abs() > 0.02);
            if let Some(asked) = asked {
                let (reached, asked) = (table::rate(figures.events_per_s), table::rate(asked));
                say(format!("{reached} of {asked} events/s were reached"));
            }
            if step.spec.deltas && counters.deltas == 0 {
                say("the server sent no deltas: does it offer them?".to_owned());
            }
            for (count, what) in [
                (counters.skipped, "versions were left out: the policy for slow consumers"),
                (counters.untimed, "events were older than can be timed; latency is understated"),
                (counters.wrong, "values differ from what was published"),
                (level.errors, "errors"),
            ] {
                if count > 0 {
                    say(format!("{} {what}", thousands(count)));
                }
            }
            level.problem.iter().for_each(|problem| say(format!("the first error: {problem}")));
        }
        remarks
    }

    /// A sentence when server and generator together had no core to spare, or had to share them.
    #[allow(clippy::cast_precision_loss)]
    fn full_machine(&self, step: &Step) -> Option<String> {
        let observed = &step.level.observed;
        let server = step.figures().cores?;
        let own = observed.own_cpu_s / observed.seconds;
        let others = step.machine_cores.unwrap_or(0.0) - server - own;
        if others > OTHERS {
            return Some(format!(
                "others used {others:.2} of {} cores meanwhile: CPU and latency are too high",
                self.machine.cores
            ));
        }
        let is_full = server + own > FULL * self.machine.cores as f64;
        is_full.then(|| {
            format!(
                "the machine was full: server {server:.2} cores, generator {own:.2} of {}",
                self.machine.cores
            )
        })
    }

    fn name(&self, step: &Step) -> String {
        let deltas = if step.spec.deltas { "on" } else { "off" };
        let clients = thousands(step.spec.clients as u64);
        format!("{clients} clients, deltas {deltas}, {}", step.spec.name(self.updates))
    }

    fn json(&self) -> Value {
        json!({
            "label": self.label,
            "command": self.command,
            "date": self.machine.date,
            "version": self.machine.version,
            "machine": self.machine.summary(),
            "updates_per_s": self.updates,
            "steps": self.steps.iter().map(|step| self.step(step)).collect::<Vec<_>>(),
            "bare": self.bare.iter().map(|(clients, observed)| json!({
                "clients": clients,
                "messages_per_s": observed.consumed_per_s(),
                "cpu_us_per_message": observed.server_us_per_delivery(),
            })).collect::<Vec<_>>(),
            "published": PUBLISHED.iter().map(Row::json).collect::<Vec<_>>(),
            "remarks": self.remarks(),
        })
    }

    fn step(&self, step: &Step) -> Value {
        let (figures, observed, counters) =
            (step.figures(), &step.level.observed, &step.level.counters);
        json!({
            "clients": step.spec.clients,
            "deltas": step.spec.deltas,
            "load": step.spec.load.as_str(),
            "subscriptions_per_client": step.subscriptions,
            "updates_per_s": step.updates_per_s,
            "events_per_s": figures.events_per_s,
            "events_per_s_asked": figures.asked_per_s,
            "server": {
                "cores": figures.cores,
                "cpu_us_per_event": figures.us_per_event,
                "kernel_share": figures.kernel_share,
                "busiest_thread": observed.server.as_ref().map(|server| server.busiest),
                "writes_per_event": step.writes_per_event,
                "rss_bytes": step.memory.map(|[topics, subscribed, after]| json!({
                    "topics": topics, "subscribed": subscribed, "after": after,
                })),
            },
            "latency_ns": quantiles(counters.latency.total()),
            "value_bytes": step.value_bytes,
            "payload_bytes_per_event": figures.payload_bytes,
            "stream_bytes_per_event": figures.stream_bytes,
            "segments_per_event": figures.segments,
            "header_bytes_per_segment": HEADER_BYTES,
            "wire_bytes_per_event": figures.wire_bytes,
            "megabits_per_s": figures.megabits_per_s,
            "payload_saving": figures.payload_saving,
            "wire_saving": step.wire_saving(&self.steps),
            "cpu_added": step.cpu_added(&self.steps),
            "delta_events": counters.deltas,
            "witnessed": counters.witnessed,
            "wrong": counters.wrong,
            "left_out": counters.skipped,
            "untimed": counters.untimed,
            "errors": step.level.errors,
            "problem": step.level.problem,
            "subscribed_ns": step.subscribed_ns,
            "publisher_cores": step.publisher_cores,
            "machine_cores": step.machine_cores,
            "generator": {
                "cores": observed.own_cpu_s / observed.seconds,
                "busiest_thread": observed.own_busiest.0,
                "bottleneck": observed.bottleneck(),
            },
            "per_second": observed.samples.iter().map(|sample| sample.consumed).collect::<Vec<_>>(),
        })
    }

    fn html(&self) -> String {
        let tables = self.tables().lines().map(escape).collect::<Vec<_>>().join("\n");
        let mut body = format!("<section><pre class=\"scroll\">{tables}</pre>");
        for line in self.lines() {
            let _ = write!(body, "<p>{}</p>", escape(&line));
        }
        for remark in self.remarks() {
            let _ = write!(body, "<p class=\"remark\">{}</p>", escape(&remark));
        }
        body += "</section><section><div class=\"charts\">";
        for (caption, chart) in plots::all(&self.steps) {
            let _ = write!(body, "<figure><figcaption>{caption}</figcaption>{chart}</figure>");
        }
        page(&self.label, &self.command, &self.machine, &(body + "</div></section>"))
    }
}

impl Load {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Load::Paced => "paced",
            Load::Saturation => "saturation",
            Load::Half => "half of it",
        }
    }
}

fn dash() -> String {
    "–".to_owned()
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

impl Row {
    /// Its row of the table.
    fn cells(&self) -> Vec<String> {
        let latency = format!("{} ms", self.latency_ms);
        let mut cells = vec![
            format!("Diffusion, {}", thousands(u64::from(self.clients))),
            "100".to_owned(),
            "20".to_owned(),
            table::rate(self.events_per_s),
            format!("{:.2}", self.cores),
            table::microseconds(Some(self.cores / self.events_per_s * 1e6)),
            dash(),
            latency,
            dash(),
            dash(),
            dash(),
            format!("{:.0} Mb/s", self.megabits_per_s),
            dash(),
            format!("{:.0} B", self.megabits_per_s / self.events_per_s * 1e6 / 8.0),
            dash(),
        ];
        if self.deltas {
            let off = PUBLISHED.iter().find(|row| !row.deltas && row.clients == self.clients);
            let added = off.map_or_else(dash, |off| {
                format!("{:+.1} %", (self.cores / off.cores - 1.0) * 100.0)
            });
            cells.extend([percent(0.83), percent(0.9), added]);
        }
        cells
    }
}

const HEADER: [&str; 18] = [
    "clients",
    "topics each",
    "/s each",
    "events/s",
    "CPU cores",
    "µs per event",
    "kernel",
    "p50",
    "p99",
    "p99.9",
    "max",
    "bandwidth",
    "payload",
    "wire",
    "RSS",
    "wire saved",
    "payload saved",
    "CPU added",
];

const NOTES: [&str; 4] = [
    "CPU is the server's, with what publishing costs it. The publisher is a connection of its own that sends full values \
     over the native protocol; it looks at its schedule every millisecond, and latency counts from the time an update was due.",
    "Wire is the stream and 66 bytes of TCP, IP and Ethernet for each segment of 1,448 bytes or each write; outbound only.",
    "One client in a hundred applies every delta (of codec tiderace) and compares every value with what was published.",
    "Diffusion: published figures of a server with 16 vCPU, clients on other machines; its wire bytes are bandwidth by events.",
];

/// Cores that others may use without being named.
const OTHERS: f64 = 0.15;
/// From this share on the machine counts as full.
const FULL: f64 = 0.95;

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::clients::{Counters, Level};
    use crate::clock::{Clock, Window};
    use crate::diffusion::step::StepSpec;
    use crate::stomp::watch::{Observation, ServerUsage};

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: DiffusionArgs,
    }

    /// A second with 1,000 events, of which each took that much CPU and payload, and 4 + 66 bytes more.
    fn step(deltas: bool, cpu_us: f64, payload: u64) -> Step {
        let mut counters = Counters::new(Clock::start(), Window::opening_at(0, 0, 5));
        (counters.received, counters.body_bytes, counters.segments) =
            (1_000, 1_000 * payload, 1_000);
        counters.latency.record(1, 2_000_001, 1_000);
        let server = ServerUsage { cpu_s: cpu_us / 1e3, ..ServerUsage::default() };
        let observed = Observation {
            seconds: 1.0,
            consumed: 1_000,
            consumed_bytes: 1_000 * (payload + 4),
            server: Some(server),
            ..Observation::default()
        };
        let level = Level {
            name: String::new(),
            asked_per_s: Some(2_000.0),
            observed,
            counters,
            errors: 0,
            problem: None,
        };
        Step {
            spec: StepSpec { clients: 50, deltas, load: Load::Paced },
            subscriptions: 100,
            level,
            updates_per_s: 20.0,
            publisher_cores: Some(0.1),
            machine_cores: Some(1.0),
            value_bytes: 950.0,
            writes_per_event: Some(0.5),
            memory: Some([1 << 20, 2 << 20, 3 << 20]),
            subscribed_ns: 5,
        }
    }

    #[test]
    fn all_three_forms_tell_the_same() {
        let mut report = Report::new(&Line::parse_from(["x", "--label", "a test"]).args);
        report.steps = vec![step(false, 4.0, 950), step(true, 4.1, 32)];
        let (text, json, html) = (report.text(), report.json(), report.html());
        // 1 - (32 + 70) / (950 + 70), 1 - 32 / 950, 4.1 / 4.0 - 1.
        for part in ["90.0 %", "96.6 %", "+2.5 %", "1020 B", "102 B", "Diffusion, 20,000"] {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert!(text.contains("1,000 of 2,000 events/s were reached"), "{text}");
        assert!(text.contains("the server sent no deltas"), "{text}");
        assert!(text.contains("others used"), "{text}");
        assert_eq!(json["steps"][0]["server"]["cpu_us_per_event"], 4.0);
        assert_eq!(json["steps"][1]["wire_bytes_per_event"], 102.0);
        assert!(json["steps"][0]["wire_saving"].is_null());
        assert!(html.contains("<svg") && html.contains("Diffusion, deltas on"));
        assert!(!report.steps[0].keeps_up());
    }
}
