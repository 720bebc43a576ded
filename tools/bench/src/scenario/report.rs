//! The report of scenarios: for the terminal, as JSON and as one HTML file.
//!
//! Invariant: all three are made from the same outcomes, so they cannot disagree.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::args::OutputArgs;
use crate::bare;
use crate::machine::Machine;
use crate::report::html::page;
use crate::report::levels::{self, Series};
use crate::report::svg::escape;
use crate::report::table::{self, thousands};
use crate::report::write_files;
use crate::scenario::Outcome;
use crate::stomp::watch::Observation;

/// Everything a run has found.
#[derive(Debug)]
pub struct Report {
    label: String,
    command: String,
    machine: Machine,
    /// What others have published, as name and text.
    pub published: Vec<(&'static str, &'static str)>,
    /// Of these the rates, for a plot.
    pub published_rates: Vec<(&'static str, f64)>,
    /// Scenario by scenario.
    pub outcomes: Vec<Outcome>,
    /// What a bare writer reached in the same run.
    pub bare: Option<Observation>,
}

impl Report {
    /// A report without figures yet.
    pub fn new(scenario: &str, output: &OutputArgs) -> Report {
        let label = &output.label;
        Report {
            label: if label.is_empty() {
                format!("tiderace bench {scenario}")
            } else {
                label.clone()
            },
            command: std::env::args().collect::<Vec<_>>().join(" "),
            machine: Machine::detect(),
            published: Vec::new(),
            published_rates: Vec::new(),
            outcomes: Vec::new(),
            bare: None,
        }
    }

    /// For the terminal; the phases have been printed already.
    pub fn text(&self) -> String {
        let mut text = format!("\n{}\n{}\n\n", self.command, self.machine.summary());
        text += &levels::table(&self.series());
        text.push('\n');
        for (name, value) in self.figures() {
            let _ = writeln!(text, "{name}: {value}");
        }
        for remark in levels::remarks(&self.series()) {
            let _ = writeln!(text, "! {remark}");
        }
        text
    }

    /// Writes the files asked for.
    ///
    /// # Errors
    /// A sentence naming the file that cannot be written.
    pub fn write_files(&self, output: &OutputArgs) -> anyhow::Result<()> {
        write_files(output, || self.json(), || self.html())
    }

    fn series(&self) -> Vec<Series<'_>> {
        let series = self.outcomes.iter().map(|outcome| Series {
            name: &outcome.name,
            clients: outcome.clients,
            levels: &outcome.levels,
        });
        series.collect()
    }

    /// What is no level: memory, phases, the bare writer, Rubris.
    fn figures(&self) -> Vec<(String, String)> {
        let mut figures = Vec::new();
        for outcome in &self.outcomes {
            let name = &outcome.name;
            let count = thousands((outcome.clients * outcome.subscriptions) as u64);
            let seconds = table::duration(outcome.phases.subscribed_ns());
            figures.push((
                format!("{name}, subscribing"),
                format!("{count} subscriptions in {seconds}, first client ready to last complete"),
            ));
            if let Some([before, subscribed, after]) = outcome.memory {
                let users = outcome.clients.max(1) as u64;
                let each = |bytes: u64| thousands(bytes.saturating_sub(before) / users);
                figures.push((
                    format!("{name}, server RSS"),
                    format!(
                        "{} MiB before, {} MiB subscribed ({} bytes per client with {} subscriptions), \
                         {} MiB after the load ({} bytes per client)",
                        thousands(before >> 20),
                        thousands(subscribed >> 20),
                        each(subscribed),
                        thousands(outcome.subscriptions as u64),
                        thousands(after >> 20),
                        each(after)
                    ),
                ));
            }
        }
        if let Some(bare) = &self.bare {
            let name = "bare writer, as many sockets, 64 KiB writes".to_owned();
            figures.push((name, bare::figures(bare)));
        }
        figures.extend(self.published.iter().map(|(name, text)| ((*name).into(), (*text).into())));
        figures
    }

    fn json(&self) -> Value {
        let series = self.series();
        let outcomes: Vec<Value> = self
            .outcomes
            .iter()
            .zip(&series)
            .map(|(outcome, series)| {
                json!({
                    "name": outcome.name,
                    "clients": outcome.clients,
                    "subscriptions_per_client": outcome.subscriptions,
                    "subscribed_ns": outcome.phases.subscribed_ns(),
                    "rss_bytes": outcome.memory.map(|[before, subscribed, after]| json!({
                        "before": before, "subscribed": subscribed, "after": after,
                    })),
                    "levels": outcome.levels.iter().map(|level| levels::value(series, level))
                        .collect::<Vec<_>>(),
                })
            })
            .collect();
        json!({
            "label": self.label,
            "command": self.command,
            "date": self.machine.date,
            "version": self.machine.version,
            "machine": self.machine.summary(),
            "outcomes": outcomes,
            "bare_messages_per_s": self.bare.as_ref().map(Observation::consumed_per_s),
            "published": self.published.iter().map(|(name, text)| json!({ "name": name, "text": text })).collect::<Vec<_>>(),
        })
    }

    fn html(&self) -> String {
        let series = self.series();
        let mut body = String::from("<section><h2>Figures</h2><dl>");
        for (name, text) in self.figures() {
            let _ = write!(body, "<dt>{}</dt><dd>{}</dd>", escape(&name), escape(&text));
        }
        let _ = write!(
            body,
            "</dl><pre class=\"scroll\">{}</pre>",
            escape_lines(&levels::table(&series))
        );
        for remark in levels::remarks(&series) {
            let _ = write!(body, "<p class=\"remark\">{}</p>", escape(&remark));
        }
        body += "</section><section><div class=\"charts\">";
        for (caption, chart) in [
            ("Deliveries per second", levels::rate_bars(&series, &self.published_rates)),
            ("Latency by percentile", levels::latency_lines(&series)),
            ("Deliveries in each second", levels::over_time(&series)),
        ] {
            let _ = write!(body, "<figure><figcaption>{caption}</figcaption>{chart}</figure>");
        }
        page(&self.label, &self.command, &self.machine, &(body + "</div></section>"))
    }
}

/// Escapes and keeps the lines.
fn escape_lines(text: &str) -> String {
    text.lines().map(escape).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clients::{Counters, Level};
    use crate::clock::{Clock, Window};
    use crate::scenario::phases::Phases;

    #[test]
    fn all_three_forms_tell_the_same() {
        let output = OutputArgs { json: None, html: None, label: "a test".into() };
        let mut report = Report::new("rubris", &output);
        report.published_rates.push(("somebody", 9.0));
        let mut counters = Counters::new(Clock::start(), Window::opening_at(0, 0, 5));
        counters.received = 500;
        counters.body_bytes = 500 * 1024;
        counters.polls = 100;
        counters.latency.record(1, 2_000_001, 500);
        let observed = Observation { seconds: 1.0, consumed: 500, ..Observation::default() };
        let level = Level {
            name: "flat out".into(),
            asked_per_s: Some(1_000.0),
            observed,
            counters,
            errors: 0,
            problem: None,
        };
        report.outcomes.push(Outcome {
            name: "polling".into(),
            clients: 1000,
            subscriptions: 1,
            phases: Phases::of(&[]),
            levels: vec![level],
            memory: Some([1 << 20, 3 << 20, 5 << 20]),
        });
        let (text, json, html) = (report.text(), report.json(), report.html());
        assert!(text.contains("polling, flat out") && text.contains("500"), "{text}");
        assert!(text.contains("5.1 KB") && text.contains("2.00 ms"), "{text}");
        assert!(text.contains("! polling, flat out: 500 of 1,000 deliveries/s"), "{text}");
        assert_eq!(json["outcomes"][0]["levels"][0]["deliveries_per_s"], 500.0);
        assert!(html.contains("<svg") && html.contains("somebody"));
    }
}
