//! `docs/metrics.md`, made from the tables of metrics.

use std::fmt::Write as _;

use tiderace_broker::BROKER_METRICS;

/// One line of the page, whichever table it comes from.
struct Line {
    name: String,
    kind: &'static str,
    labels: String,
    help: &'static str,
}

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

fn lines() -> Vec<Line> {
    let mut lines: Vec<Line> = BROKER_METRICS
        .iter()
        .map(|row| Line {
            name: row.name.to_owned(),
            kind: if row.is_counter { "counter" } else { "gauge" },
            labels: row.labels.to_owned(),
            help: row.help,
        })
        .collect();
    lines.sort_by(|a, b| (&a.name, &a.labels).cmp(&(&b.name, &b.labels)));
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
            assert!((&a.name, &a.labels) < (&b.name, &b.labels), "{} twice", a.name);
        }
        for line in lines {
            assert!(line.name.starts_with("tiderace_"), "{}", line.name);
            assert_eq!(line.name.ends_with("_total"), line.kind == "counter", "{}", line.name);
            assert!(line.help.ends_with('.'), "{}: {}", line.name, line.help);
        }
    }
}
