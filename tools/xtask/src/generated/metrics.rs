//! `docs/metrics.md`, made from the tables of metrics.

use std::fmt::Write as _;

use tiderace_broker::BROKER_METRICS;
use tiderace_reactor::{METRICS, MetricKind};
use tiderace_rsocket::RSOCKET_METRICS;
use tiderace_store::STORE_METRICS;

use crate::{Finding, Tree};

/// One line of the page, whichever table it comes from.
#[derive(Clone)]
struct Line {
    name: &'static str,
    kind: &'static str,
    labels: String,
    help: &'static str,
}

/// Metrics that stand in no table because the program writes them itself.
const OTHERS: &[Line] = &[
    Line {
        name: "tiderace_build_info",
        kind: "gauge",
        labels: String::new(),
        help: "The version that runs, in the label `version`; always 1.",
    },
    // These are of shell/server/src/tls.rs.
    Line {
        name: "tiderace_tls_certificate_expiry_seconds",
        kind: "gauge",
        labels: String::new(),
        help: "When the first certificate expires, in seconds since 1970.",
    },
    Line {
        name: "tiderace_tls_reloads_total",
        kind: "counter",
        labels: String::new(),
        help: "Times that changed certificates were read, by `outcome`: done or failed.",
    },
    // This is of shell/server/src/logging.rs.
    Line {
        name: "tiderace_log_lines_dropped_total",
        kind: "counter",
        labels: String::new(),
        help: "Lines of the log that were dropped because standard error was not read, or could not be written to.",
    },
    // The rest is of shell/server/src/process.rs.
    Line {
        name: "process_cpu_seconds_total",
        kind: "counter",
        labels: String::new(),
        help: "Processor time of this process, user and system; on Linux.",
    },
    Line {
        name: "process_resident_memory_bytes",
        kind: "gauge",
        labels: String::new(),
        help: "Resident memory of this process; on Linux.",
    },
    Line {
        name: "tiderace_host_cpu_seconds_total",
        kind: "counter",
        labels: String::new(),
        help: "Processor time that anything on this machine has used; on Linux.",
    },
    Line {
        name: "tiderace_host_processors",
        kind: "gauge",
        labels: String::new(),
        help: "Processors that this process may use.",
    },
];

/// The page.
pub(super) fn page() -> String {
    let mut text = String::from(
        "# Metrics\n\n\
         <!-- Made by `cargo xtask docs` from the tables of metrics in the code; do not edit. -->\n\n\
         `GET /metrics` answers in the text format of Prometheus. Each shard counts for itself; the\n\
         values are summed when they are asked for. Names end in their unit, counters in `_total`.\n\n\
         | metric | kind | labels | meaning |\n\
         |---|---|---|---|\n",
    );
    for line in lines() {
        let labels = match line.labels.as_str() {
            "" => String::new(),
            labels => format!("`{labels}`"),
        };
        let _ = writeln!(text, "| `{}` | {} | {labels} | {} |", line.name, line.kind, line.help);
    }
    text
}

/// Metrics that sources write by hand (`# TYPE name …`) and the page does not know.
pub(super) fn undocumented(tree: &Tree) -> Vec<Finding> {
    let known = lines();
    let mut findings = Vec::new();
    for file in tree.ending(".rs").filter(|file| file.path.starts_with("shell/")) {
        for (index, line) in file.text.lines().enumerate() {
            let Some((_, rest)) = line.split_once("# TYPE tiderace_") else { continue };
            let name: String =
                rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
            let name = format!("tiderace_{name}");
            if known.iter().all(|line| line.name != name) {
                let problem = format!("writes the metric `{name}`, which is in no table");
                let remedy =
                    "add it to OTHERS in tools/xtask/src/generated/metrics.rs, or to a table";
                findings.push(Finding::at_line(&file.path, index + 1, problem, remedy));
            }
        }
    }
    findings
}

fn lines() -> Vec<Line> {
    let broker = BROKER_METRICS.iter().map(|row| Line {
        name: row.name,
        kind: if row.is_counter { "counter" } else { "gauge" },
        labels: row.labels.to_owned(),
        help: row.help,
    });
    let reactor = METRICS.iter().map(|row| Line {
        name: row.name,
        kind: match row.kind {
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
            MetricKind::Histogram => "histogram",
        },
        labels: row.labels.join(", "),
        help: row.help,
    });
    let store = STORE_METRICS.iter().map(|row| Line {
        name: row.name,
        kind: if row.is_counter { "counter" } else { "gauge" },
        labels: String::new(),
        help: row.help,
    });
    let rsocket = RSOCKET_METRICS.iter().map(|row| Line {
        name: row.name,
        kind: if row.is_counter { "counter" } else { "gauge" },
        labels: row.labels.join(", "),
        help: row.help,
    });
    let mut lines: Vec<Line> =
        broker.chain(reactor).chain(store).chain(rsocket).chain(OTHERS.iter().cloned()).collect();
    lines.sort_by(|a, b| (a.name, &a.labels).cmp(&(b.name, &b.labels)));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_metric_has_its_line_and_a_proper_name() {
        let lines = lines();
        for pair in lines.windows(2) {
            let [a, b] = pair else { continue };
            assert!((a.name, &a.labels) < (b.name, &b.labels), "{} twice", a.name);
        }
        for line in lines {
            // Prometheus's own clients call what is of the process so, and dashboards expect it.
            let is_proper = ["tiderace_", "process_"].iter().any(|it| line.name.starts_with(it));
            assert!(is_proper, "{}", line.name);
            assert_eq!(line.name.ends_with("_total"), line.kind == "counter", "{}", line.name);
            assert!(line.help.ends_with('.'), "{}: {}", line.name, line.help);
        }
    }

    #[test]
    fn metrics_written_by_hand_are_found() {
        let line = |name: &str| format!("writeln!(out, \"# TYPE {name} gauge\")");
        let tree = Tree::of(&[
            ("shell/a.rs", &line("tiderace_build_info")),
            ("shell/b.rs", &line("tiderace_secret")),
        ]);
        let places: Vec<_> = undocumented(&tree).into_iter().map(|f| f.place).collect();
        assert_eq!(places, ["shell/b.rs:1"]);
    }
}
