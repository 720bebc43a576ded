//! The report of `bench rubris`, with what Rubris published beside it.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::args::{OutputArgs, RubrisArgs};
use crate::bare;
use crate::machine::Machine;
use crate::report::html::page;
use crate::report::levels::{self, Series};
use crate::report::svg::escape;
use crate::report::table::{self, thousands};
use crate::report::write;
use crate::rubris::Outcome;
use crate::stomp::watch::Observation;

/// Everything a run has found.
#[derive(Debug)]
pub(crate) struct Report {
    label: String,
    command: String,
    machine: Machine,
    users: usize,
    subscriptions: usize,
    /// By transport.
    pub outcomes: Vec<Outcome>,
    /// What a bare writer reached in the same run.
    pub bare: Option<Observation>,
}

impl Report {
    /// A report without figures yet.
    pub(crate) fn new(args: &RubrisArgs, machine: Machine) -> Report {
        let label = &args.output.label;
        Report {
            label: if label.is_empty() { "tiderace bench rubris" } else { label }.to_owned(),
            command: std::env::args().collect::<Vec<_>>().join(" "),
            machine,
            users: args.instances * args.users,
            subscriptions: args.subscriptions,
            outcomes: Vec::new(),
            bare: None,
        }
    }

    /// For the terminal; the phases have been printed already.
    pub(crate) fn text(&self) -> String {
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
    pub(crate) fn write_files(&self, output: &OutputArgs) -> anyhow::Result<()> {
        if let Some(path) = &output.json {
            write(path, &format!("{:#}\n", self.json()))?;
        }
        if let Some(path) = &output.html {
            write(path, &self.html())?;
        }
        Ok(())
    }

    fn series(&self) -> Vec<Series<'_>> {
        let series = self.outcomes.iter().map(|outcome| Series {
            name: outcome.transport.as_str(),
            clients: self.users,
            levels: &outcome.levels,
        });
        series.collect()
    }

    /// What is no level: memory, phases, the bare writer, Rubris.
    fn figures(&self) -> Vec<(String, String)> {
        let mut figures = Vec::new();
        for outcome in &self.outcomes {
            let name = outcome.transport.as_str();
            let count = thousands((self.users * self.subscriptions) as u64);
            let seconds = table::duration(outcome.phases.subscribed_ns());
            figures.push((
                format!("{name}, subscribing"),
                format!("{count} subscriptions in {seconds}, first client ready to last complete"),
            ));
            if let Some([before, subscribed, after]) = outcome.memory {
                let users = self.users.max(1) as u64;
                let each = |bytes: u64| thousands(bytes.saturating_sub(before) / users / 1024);
                figures.push((
                    format!("{name}, server RSS"),
                    format!(
                        "{} MiB before, {} MiB subscribed ({} KiB per user with {} subscriptions), \
                         {} MiB after the load ({} KiB per user)",
                        thousands(before >> 20),
                        thousands(subscribed >> 20),
                        each(subscribed),
                        thousands(self.subscriptions as u64),
                        thousands(after >> 20),
                        each(after)
                    ),
                ));
            }
        }
        if let Some(bare) = &self.bare {
            let name = format!("bare writer, {} sockets, 64 KiB writes", self.users);
            figures.push((name, bare::figures(bare)));
        }
        figures.extend(PUBLISHED.map(|(name, text)| (name.to_owned(), text.to_owned())));
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
                    "transport": outcome.transport.as_str(),
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
            "users": self.users,
            "subscriptions_per_user": self.subscriptions,
            "outcomes": outcomes,
            "bare_messages_per_s": self.bare.as_ref().map(Observation::consumed_per_s),
            "published": PUBLISHED.map(|(name, text)| json!({ "name": name, "text": text })),
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
            ("Deliveries per second", levels::rate_bars(&series, &PUBLISHED_RATES)),
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

/// Rubris's own figures: the same workload, client and server on one machine.
const PUBLISHED: [(&str, &str); 3] = [
    (
        "Rubris 2016, m4.4xlarge (16 vCPU), 1,000 users polling, 2 modules",
        "1,409,985 messages/s, 1,000,000 subscriptions in 2.2 s, about 7 polls/s per client of 200 kB, \
         nearly all latencies below 700 ms",
    ),
    (
        "Rubris 2016, m4.4xlarge, 2,000 users polling, 4 modules",
        "1,779,948 messages/s with 10.8 cores of the server: 165,000 per core; 6.7 GB resident",
    ),
    (
        "Rubris 2016, c3.8xlarge (32 vCPU), 2,000 users polling, 4 modules",
        "1,953,369 messages/s with 12.25 cores of the server: 159,000 per core",
    ),
];
const PUBLISHED_RATES: [(&str, f64); 2] =
    [("Rubris, 16 vCPU", 1_779_948.0), ("Rubris, 32 vCPU", 1_953_369.0)];

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::RubrisTransport;
    use crate::clock::{Clock, Window};
    use crate::crowd::{Level, Tally};
    use crate::rubris::phases::Phases;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: RubrisArgs,
    }

    #[test]
    fn all_three_forms_tell_the_same() {
        let mut report = Report::new(&Line::parse_from(["x"]).args, Machine::detect());
        let mut tally = Tally::new(Clock::start(), Window::opening_at(0, 0, 5));
        tally.received = 500;
        tally.body_bytes = 500 * 1024;
        tally.polls = 100;
        tally.latency.record(1, 2_000_001, 500);
        let observed = Observation { seconds: 1.0, consumed: 500, ..Observation::default() };
        let level = Level {
            name: "flat out".into(),
            asked_per_s: Some(1_000.0),
            observed,
            tally,
            errors: 0,
            problem: None,
        };
        report.outcomes.push(Outcome {
            transport: RubrisTransport::Polling,
            phases: Phases::of(&[]),
            levels: vec![level],
            memory: Some([1 << 20, 3 << 20, 5 << 20]),
        });
        let (text, json, html) = (report.text(), report.json(), report.html());
        assert!(text.contains("polling, flat out") && text.contains("500"), "{text}");
        assert!(text.contains("5.1 KB") && text.contains("2.00 ms"), "{text}");
        assert!(text.contains("! polling, flat out: 500 of 1,000 deliveries/s"), "{text}");
        assert_eq!(json["outcomes"][0]["levels"][0]["deliveries_per_s"], 500.0);
        assert!(html.contains("<svg") && html.contains("Rubris, 16 vCPU"));
    }
}
