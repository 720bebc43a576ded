//! `docs/metrics.md`, made from the tables of metrics.

use std::fmt::Write as _;

use tiderace_base::MetricRow;
use tiderace_broker::BROKER_METRICS;
use tiderace_native::NATIVE_METRICS;
use tiderace_reactor::METRICS;
use tiderace_rsocket::RSOCKET_METRICS;
use tiderace_store::STORE_METRICS;

use crate::{Finding, Tree};

/// The table of the program itself, which is no library.
#[path = "../../../../shell/server/src/metrics.rs"]
mod server;

/// The page.
pub(super) fn page() -> String {
    let mut text = String::from(
        "# Metrics\n\n\
         <!-- Made by `cargo xtask docs` from the tables of metrics in the code; do not edit. -->\n\n\
         `GET /metrics` answers in the text format of Prometheus. Each shard counts for itself; the\n\
         values are summed when they are asked for. Names end in their unit, counters in `_total`. Boards for Grafana and rules for\n\
         Prometheus are in [`deploy/monitoring`](../deploy/monitoring); [alarms.md](alarms.md) says what the rules mean.\n\n\
         | metric | kind | unit | labels | meaning |\n\
         |---|---|---|---|---|\n",
    );
    for row in rows() {
        let (kind, unit) = (row.kind.name(), row.unit().unwrap_or_default());
        let labels = match labels(row).as_str() {
            "" => String::new(),
            labels => format!("`{labels}`"),
        };
        let _ = writeln!(text, "| `{}` | {kind} | {unit} | {labels} | {} |", row.name, row.help);
    }
    text
}

/// Metrics that sources write by hand (`# TYPE name …`) and the page does not know.
pub(super) fn undocumented(tree: &Tree) -> Vec<Finding> {
    let known = rows();
    let mut findings = Vec::new();
    for file in tree.ending(".rs").filter(|file| file.path.starts_with("shell/")) {
        for (index, line) in file.text.lines().enumerate() {
            let Some((_, rest)) = line.split_once("# TYPE tiderace_") else { continue };
            let name: String =
                rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
            let name = format!("tiderace_{name}");
            if known.iter().all(|row| row.name != name) {
                let problem = format!("writes the metric `{name}`, which is in no table");
                let remedy = "add it to a table, such as that of shell/server/src/metrics.rs";
                findings.push(Finding::at_line(&file.path, index + 1, problem, remedy));
            }
        }
    }
    findings
}

/// The rows of all tables, by name and labels.
fn rows() -> Vec<&'static MetricRow> {
    let tables = [
        BROKER_METRICS,
        METRICS,
        STORE_METRICS,
        NATIVE_METRICS,
        RSOCKET_METRICS,
        server::SERVER_METRICS,
    ];
    let mut rows: Vec<_> = tables.into_iter().flatten().collect();
    rows.sort_by_key(|row| (row.name, labels(row)));
    rows
}

/// Fixed labels with their values, others by name alone.
fn labels(row: &MetricRow) -> String {
    let fixed = row.fixed.iter().map(|(name, value)| format!("{name}=\"{value}\""));
    let labels: Vec<_> = fixed.chain(row.labels.iter().map(|name| (*name).to_owned())).collect();
    labels.join(", ")
}

#[cfg(test)]
mod tests {
    use tiderace_base::MetricKind;

    use crate::monitoring;

    use super::*;

    #[test]
    fn every_metric_has_its_line_and_a_proper_name() {
        let rows = rows();
        for pair in rows.windows(2) {
            let [a, b] = pair else { continue };
            assert!((a.name, labels(a)) < (b.name, labels(b)), "{} twice", a.name);
            // Prometheus takes one help and one kind for a name.
            assert!(a.name != b.name || (a.kind, a.help) == (b.kind, b.help), "{}", a.name);
        }
        for row in rows {
            // Prometheus's own clients call what is of the process so, and dashboards expect it.
            let is_proper = ["tiderace_", "process_"].iter().any(|it| row.name.starts_with(it));
            assert!(is_proper, "{}", row.name);
            let is_counter = row.kind == MetricKind::Counter;
            assert_eq!(row.name.ends_with("_total"), is_counter, "{}", row.name);
            assert!(row.help.ends_with('.'), "{}: {}", row.name, row.help);
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

    /// Every name in a text that looks like a metric of the server.
    fn names(text: &str) -> impl Iterator<Item = &str> {
        let words = text.split(|char: char| !(char.is_alphanumeric() || char == '_'));
        words.filter(|word| ["tiderace_", "process_"].iter().any(|start| word.starts_with(start)))
    }

    #[test]
    fn boards_and_rules_name_metrics_that_there_are() {
        let is_known = |name: &str| rows().iter().any(|row| row.name == name);
        for text in [
            monitoring::overview(),
            monitoring::connections(),
            monitoring::topics(),
            monitoring::queues(),
            monitoring::store(),
            monitoring::rules(),
        ] {
            assert!(names(&text).count() > 5, "{text}");
            for name in names(&text) {
                let mut ends = ["_bucket", "_sum", "_count"].iter();
                let base = ends.find_map(|end| name.strip_suffix(end)).unwrap_or(name);
                assert!(is_known(name) || is_known(base), "no table has {name}");
            }
        }
    }
}
