//! `docs/alarms.md`, made from the table of alarms.

use std::fmt::Write as _;

use crate::alarm_table::ALARMS;
use crate::monitoring::TRENDS;

/// The page.
pub(super) fn page() -> String {
    let mut text = String::from(
        "# Alarms\n\n\
         <!-- Made by `cargo xtask docs` from shell/server/src/alarms/table.rs; do not edit. -->\n\n\
         An alarm says what is wrong with a server, or will be soon, and what to do. The server looks once a second; an\n\
         alarm is there while its condition holds, and for a while behind it where it would come and go. One that is about a\n\
         level ends at another level than it begins at, so that what swings around a bound is told once.\n\n\
         ```sh\n\
         tiderace alarms           # what is wrong now, the worst first\n\
         tiderace alarms -f        # and what begins and ends from now on\n\
         tiderace alarms --json    # one line each, for programs\n\
         ```\n\n\
         Each alarm that is there is a [topic](server-topics.md) `$sys/alarms/NAME` with a value such as\n\n\
         ```json\n\
         {\"name\":\"upstream-away\",\"severity\":\"critical\",\"since\":1763740800000,\"what\":\"upstream london is away: it refuses connections\",\"cause\":\"…\",\"remedy\":\"…\"}\n\
         ```\n\n\
         `since` is in milliseconds since 1970; `what` has the figures, brought up to date every ten seconds at most. When the\n\
         alarm ends, the topic is removed. A subscription to `$sys/alarms/*` by any protocol is told of all of it: by those who\n\
         may `monitor` there, or subscribe.\n\n\
         The log has one line when an alarm begins (event `alarm-raised`, with `alarm`, `severity`, `remedy` and what was\n\
         found) and one when it ends (`alarm-cleared`). [`/metrics`](metrics.md) has `tiderace_alarm{alarm,severity}`, which\n\
         is 1 while the alarm is there and otherwise 0.\n\n\
         **critical**: clients are refused, or something may be lost; somebody should look at it now. **warning**: nothing is\n\
         lost yet; within the day. **info**: somebody should know.\n\n\
         | alarm | severity | meaning | there when | what to do |\n\
         |---|---|---|---|---|\n",
    );
    for row in ALARMS {
        let severity = row.severity.as_str();
        let end = row.level.map(|level| format!(" {}", level.end())).unwrap_or_default();
        let _ = writeln!(
            text,
            "| `{}` | {severity} | {} | {}{end} | {} |",
            row.name, row.cause, row.condition, row.remedy
        );
    }
    text.push_str(
        "\n## Prometheus and Grafana\n\n\
         [`deploy/monitoring`](../deploy/monitoring) has rules for Prometheus (`prometheus/alerts.yml`) with an alert for each alarm,\n\
         named after it: `TideraceStoreFull` of `store-full`. Their labels are those of the alarm and its `severity`. The alerts\n\
         below are there besides, since they take a history, which a server does not keep. Five boards for Grafana\n\
         (`grafana/dashboards`) show the [metrics](metrics.md); `compose.yaml` starts a server with both. The tests ask a Prometheus\n\
         that scrapes loaded servers each expression of rules and boards, and have each alert fire and end.\n\n\
         ```sh\n\
         promtool check rules deploy/monitoring/prometheus/alerts.yml\n\
         prometheus --config.file=deploy/monitoring/prometheus/prometheus.yml\n\
         ```\n\n\
         The target of that file, `tiderace:7800`, is the server of the compose file: put yours there.\n\
         The rules know servers by the name of their job in Prometheus, which has `tiderace` in it. Prometheus on another machine\n\
         wants a token whose rules allow `monitor`, or [`monitoring.metrics_access`](options.md#monitoringmetrics_access).\n\n\
         | alert | severity | meaning | fires when | what to do |\n\
         |---|---|---|---|---|\n",
    );
    for trend in TRENDS {
        let cause = trend
            .cause
            .replace("the upstream {{ $labels.upstream }}", "an upstream")
            .replace("{{ $labels.purpose }}", "store or of large messages")
            .replace(" ({{ $labels.reason }})", "")
            .replace("of {{ $labels.instance }}", "of the server")
            .replace("{{ $labels.instance }}", "The server");
        let minutes = match trend.minutes {
            0 => String::new(),
            1 => ", for a minute".to_owned(),
            minutes => format!(", for {minutes} minutes"),
        };
        let expression = trend.expression.replace('|', "\\|");
        let (alert, severity, remedy) = (trend.alert, trend.severity, trend.remedy);
        let _ = writeln!(
            text,
            "| `{alert}` | {severity} | {cause} | `{expression}`{minutes} | {remedy} |"
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_alarm_has_its_line() {
        let text = page();
        for row in ALARMS {
            assert_eq!(text.matches(&format!("\n| `{}` |", row.name)).count(), 1);
        }
        for trend in TRENDS {
            assert_eq!(text.matches(&format!("\n| `{}` |", trend.alert)).count(), 1);
        }
        assert!(!text.contains("$labels"), "{text}");
    }
}
