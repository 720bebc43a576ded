//! The plots of `bench rsocket`: what the published stress test's panels show, and how servers compare.
//!
//! Invariant: a plot shows what the tables state, nothing else.

use std::fmt::Write as _;

use super::Outcome;
use super::timeline::Moment;
use crate::report::html::quantity;
use crate::report::levels::{self, Series};
use crate::report::svg::{Bar, Line, LineChart, bars, escape};
use crate::report::table;

/// Sections of the page: a comparison, then each server over time.
pub(super) fn sections(outcomes: &[Outcome]) -> String {
    let names: Vec<String> = outcomes.iter().map(Outcome::name).collect();
    let levels: Vec<Vec<_>> = outcomes
        .iter()
        .map(|outcome| outcome.steps.iter().map(|step| step.level.clone()).collect())
        .collect();
    let series: Vec<Series<'_>> = outcomes
        .iter()
        .zip(&names)
        .zip(&levels)
        .map(|((outcome, name), levels)| Series { name, clients: outcome.connections, levels })
        .collect();
    let mut body = String::from("<section><div class=\"charts\">");
    figure(&mut body, "Messages per second", &levels::rate_bars(&series, &[]));
    figure(&mut body, "Messages per second of the server's processor time", &per_core(&series));
    figure(&mut body, "Latency by percentile", &levels::latency_lines(&series));
    body += "</div></section>";
    for outcome in outcomes {
        let _ = write!(body, "<section><h2>{}</h2><div class=\"charts\">", escape(&outcome.name()));
        over_time(&mut body, &outcome.timeline);
        body += "</div></section>";
    }
    body
}

fn per_core(series: &[Series<'_>]) -> String {
    let mut list = Vec::new();
    for (at, series) in series.iter().enumerate() {
        for level in series.levels {
            let Some(value) = levels::per_core(level) else { continue };
            let label = format!("{}, {}", series.name, level.name);
            list.push(Bar { label, value, text: table::rate(value), series: at });
        }
    }
    bars("messages per second of processor time", &list)
}

/// What the panels of the stress test show.
#[allow(clippy::cast_precision_loss)]
fn over_time(body: &mut String, moments: &[Moment]) {
    let chart = |title: &str, y_text: fn(f64) -> String, lines: &[Curve]| {
        let lines = lines.iter().enumerate().map(|(series, (name, of))| Line {
            name: (*name).to_owned(),
            series,
            points: moments.iter().map(|moment| (moment.at_s, of(moment))).collect(),
        });
        let last = moments.last().map_or(0.0, |moment| moment.at_s);
        let ticks = vec![(0.0, "0 s".to_owned()), (last, format!("{last:.0} s"))];
        LineChart { title, x_ticks: ticks, is_logarithmic: false, y_text, lines: lines.collect() }
            .render()
    };
    let streams: Curve = ("open", |moment| moment.streams as f64);
    figure(body, "Streams", &chart("streams", quantity, &[streams]));
    let server: Curve = ("server", |moment| moment.server_cores);
    let machine: Curve = ("machine", |moment| moment.machine_cores);
    figure(body, "Cores used", &chart("cores", cores, &[server, machine]));
    let rss: Curve = ("server", |moment| moment.rss_bytes as f64);
    figure(body, "Resident memory", &chart("memory", bytes, &[rss]));
    let received: Curve = ("received", |moment| moment.received_per_s);
    let sent: Curve = ("sent", |moment| moment.sent_per_s);
    figure(body, "Messages in each second", &chart("messages", quantity, &[received, sent]));
    let connections: Curve = ("open", |moment| moment.connections as f64);
    figure(body, "Connections", &chart("connections", quantity, &[connections]));
}

/// A name, and what it stands for at a moment.
type Curve = (&'static str, fn(&Moment) -> f64);

fn figure(body: &mut String, caption: &str, chart: &str) {
    if !chart.is_empty() {
        let _ = write!(body, "<figure><figcaption>{caption}</figcaption>{chart}</figure>");
    }
}

fn cores(cores: f64) -> String {
    format!("{cores:.1}")
}

fn bytes(bytes: f64) -> String {
    match bytes {
        _ if bytes >= 1e9 => format!("{:.1} GB", bytes / 1e9),
        _ => format!("{:.0} MB", bytes / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rsocket::report::tests::outcome;

    #[test]
    fn every_panel_is_drawn() {
        let page = sections(&[outcome("ours", 0.001), outcome("theirs", 0.005)]);
        assert_eq!(page.matches("<svg").count(), 3 + 2 * 5);
        assert_eq!(page.matches("<figcaption>Streams<").count(), 2);
    }
}
