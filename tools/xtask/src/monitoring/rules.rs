//! `deploy/monitoring/prometheus/`: an alert for each alarm and for each trend, and a test of each for promtool.
//!
//! Invariant: each alert has a test in which it fires and ends.

use std::fmt::Write as _;

use serde_json::{Value as Json, json};

use super::trends::{TRENDS, Trend};
use crate::alarm_table::{ALARMS, AlarmRow};

struct Alert {
    name: String,
    severity: &'static str,
    expression: String,
    minutes: u32,
    summary: String,
    remedy: &'static str,
    /// As promtool writes histories.
    series: Vec<(String, String)>,
    labels: Vec<(String, String)>,
    fires: u32,
    ends: u32,
}

/// The rules.
pub(crate) fn rules() -> String {
    let mut text = String::from(
        "# Made by `cargo xtask docs` from the tables of alarms and of trends; do not edit.\n\
         # promtool check rules alerts.yml; promtool test rules alerts.test.yml\n\
         groups:\n",
    );
    for (group, alerts) in [("tiderace-alarms", alarms()), ("tiderace-trends", trends())] {
        let _ = writeln!(text, "  - name: {group}\n    rules:");
        for alert in alerts {
            let _ = writeln!(text, "      - alert: {}", alert.name);
            let _ = writeln!(text, "        expr: {}", quoted(&alert.expression));
            if alert.minutes > 0 {
                let _ = writeln!(text, "        for: {}m", alert.minutes);
            }
            let _ = writeln!(text, "        labels:\n          severity: {}", alert.severity);
            let _ = writeln!(
                text,
                "        annotations:\n          summary: {}\n          description: {}",
                quoted(&alert.summary),
                quoted(alert.remedy)
            );
        }
    }
    text
}

/// Their tests.
pub(crate) fn rules_test() -> String {
    let mut text = String::from(
        "# Made by `cargo xtask docs`; do not edit. Each alert fires, and ends.\n\
         rule_files: [alerts.yml]\n\
         evaluation_interval: 1m\n\
         tests:\n",
    );
    for alert in alarms().into_iter().chain(trends()) {
        let _ = writeln!(text, "  - name: {}\n    interval: 1m\n    input_series:", alert.name);
        for (series, values) in &alert.series {
            let _ = writeln!(
                text,
                "      - {{series: {}, values: {}}}",
                quoted(series),
                quoted(values)
            );
        }
        let mut summary = alert.summary.clone();
        for (name, value) in &alert.labels {
            summary = summary.replace(&format!("{{{{ $labels.{name} }}}}"), value);
        }
        let mut labels: serde_json::Map<String, Json> =
            alert.labels.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
        labels.insert("severity".to_owned(), json!(alert.severity));
        let expected = json!([{
            "exp_labels": labels,
            "exp_annotations": {"summary": summary, "description": alert.remedy},
        }]);
        let _ = writeln!(text, "    alert_rule_test:");
        for (minute, expected) in [(0, json!([])), (alert.fires, expected), (alert.ends, json!([]))]
        {
            let _ = writeln!(
                text,
                "      - {{eval_time: {minute}m, alertname: {}, exp_alerts: {expected}}}",
                alert.name
            );
        }
    }
    text
}

/// A text as YAML has it, which is as JSON has it.
fn quoted(text: &str) -> String {
    json!(text).to_string()
}

fn alarms() -> Vec<Alert> {
    let alert = |row: &AlarmRow| {
        let (name, severity) = (row.name, row.severity.as_str());
        let metric = format!("tiderace_alarm{{alarm=\"{name}\"}}");
        let labels = [("alarm", name), ("instance", "a:7800"), ("job", "tiderace")];
        let series = format!(
            "tiderace_alarm{{alarm=\"{name}\",severity=\"{severity}\",instance=\"a:7800\",job=\"tiderace\"}}"
        );
        Alert {
            name: format!("Tiderace{}", camel(name)),
            severity,
            expression: format!("{metric} == 1"),
            minutes: 0,
            summary: format!("{{{{ $labels.instance }}}}: {}", row.cause),
            remedy: row.remedy,
            series: vec![(series, "0 1 1 0 0".to_owned())],
            labels: labels.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
            fires: 2,
            ends: 4,
        }
    };
    ALARMS.iter().map(alert).collect()
}

fn trends() -> Vec<Alert> {
    let owned = |pairs: &[(&str, &str)]| {
        pairs.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect()
    };
    let alert = |trend: &Trend| Alert {
        name: trend.alert.to_owned(),
        severity: trend.severity,
        expression: trend.expression.to_owned(),
        minutes: trend.minutes,
        summary: trend.cause.to_owned(),
        remedy: trend.remedy,
        series: owned(trend.series),
        labels: owned(trend.labels),
        fires: trend.fires,
        ends: trend.ends,
    };
    TRENDS.iter().map(alert).collect()
}

/// `store-full` as `StoreFull`.
fn camel(name: &str) -> String {
    let word = |word: &str| {
        let mut chars = word.chars();
        chars
            .next()
            .map(|first| first.to_ascii_uppercase())
            .into_iter()
            .chain(chars)
            .collect::<String>()
    };
    name.split('-').map(word).collect()
}
