//! Levels of load on clients, as table, JSON and plots.
//!
//! Invariant: whatever limits the meaning of a figure is told with it.

use serde_json::{Value, json};

use crate::clients::Level;
use crate::report::html::{nanoseconds, quantity};
use crate::report::json::quantiles;
use crate::report::svg::{Bar, Line, LineChart, bars};
use crate::report::table::{self, Table, thousands};

/// A set of levels of one server and transport.
#[derive(Debug, Clone)]
pub struct Series<'a> {
    /// Its name.
    pub name: &'a str,
    /// How many clients.
    pub clients: usize,
    /// The levels.
    pub levels: &'a [Level],
}

/// Bits per second of bodies.
pub fn gigabits_per_s(level: &Level) -> f64 {
    per_s(level.counters.body_bytes * 8, level) / 1e9
}

/// Deliveries for each second of the server's processor time.
pub fn per_core(level: &Level) -> Option<f64> {
    // A server whose account did not move in that time has no such figure.
    level.observed.server_us_per_delivery().filter(|us| *us > 0.0).map(|us| 1e6 / us)
}

/// The table of levels.
pub fn table(series: &[Series<'_>]) -> String {
    let mut table = Table::new(&[
        "level",
        "deliveries/s",
        "Gb/s",
        "µs each",
        "/s per core",
        "p50",
        "p99",
        "p99.9",
        "max",
        "polls/s",
        "batch",
        "RSS",
    ]);
    for series in series {
        for level in series.levels {
            table.row(row(series, level));
        }
    }
    table.render()
}

fn row(series: &Series<'_>, level: &Level) -> Vec<String> {
    let latency = level.counters.latency.total();
    let at = |quantile| match latency.is_empty() {
        true => "–".to_owned(),
        false => table::duration(latency.value_at_quantile(quantile)),
    };
    let (polls, batch) = batches(series, level);
    let server = level.observed.server.as_ref();
    vec![
        format!("{}, {}", series.name, level.name),
        table::rate(level.observed.consumed_per_s()),
        format!("{:.2}", gigabits_per_s(level)),
        table::microseconds(level.observed.server_us_per_delivery()),
        per_core(level).map_or_else(|| "–".to_owned(), table::rate),
        at(0.5),
        at(0.99),
        at(0.999),
        at(1.0),
        polls.map_or_else(|| "–".to_owned(), |polls| format!("{polls:.1}")),
        batch.map_or_else(|| "–".to_owned(), |bytes| format!("{:.1} KB", bytes / 1e3)),
        server.map_or_else(
            || "–".to_owned(),
            |server| format!("{} MiB", thousands(server.rss_bytes_after >> 20)),
        ),
    ]
}

/// Polls per client and second, and bytes of bodies per poll, or per message of the transport.
fn batches(series: &Series<'_>, level: &Level) -> (Option<f64>, Option<f64>) {
    #[allow(clippy::cast_precision_loss)]
    let to_f64 = |count: u64| count as f64;
    let counters = &level.counters;
    let count = if counters.polls > 0 { counters.polls } else { counters.batches };
    let batch = (count > 0).then(|| to_f64(counters.body_bytes) / to_f64(count));
    let whole = to_f64(counters.received) / to_f64(level.observed.consumed.max(1));
    #[allow(clippy::cast_precision_loss)]
    let polls = (counters.polls > 0).then(|| {
        to_f64(counters.polls) / whole / level.observed.seconds / series.clients.max(1) as f64
    });
    (polls, batch)
}

/// What limits the figures' meaning.
pub fn remarks(series: &[Series<'_>]) -> Vec<String> {
    let mut remarks = Vec::new();
    for series in series {
        for level in series.levels {
            let name = format!("{}, {}", series.name, level.name);
            let mut say = |text: String| remarks.push(format!("{name}: {text}"));
            if let Some(text) = level.observed.bottleneck() {
                say(text);
            }
            let skipped = level.counters.skipped;
            if skipped > 0 {
                say(format!(
                    "{} versions were left out: the policy for slow consumers",
                    thousands(skipped)
                ));
            }
            if let Some(asked) = level.asked_per_s {
                let reached = level.observed.consumed_per_s();
                if (reached / asked - 1.0).abs() > 0.02 {
                    let (reached, asked) = (table::rate(reached), table::rate(asked));
                    say(format!("{reached} of {asked} deliveries/s were reached"));
                }
            }
            if level.errors > 0 {
                let problem = level.problem.as_deref().unwrap_or_default();
                say(format!("{} errors, the first: {problem}", thousands(level.errors)));
            }
        }
    }
    remarks
}

/// One level as JSON.
pub fn value(series: &Series<'_>, level: &Level) -> Value {
    let observed = &level.observed;
    let (polls, batch) = batches(series, level);
    json!({
        "name": level.name,
        "asked_per_s": level.asked_per_s,
        "seconds": observed.seconds,
        "deliveries_per_s": observed.consumed_per_s(),
        "gigabits_per_s": gigabits_per_s(level),
        "wire_bytes": observed.consumed_bytes,
        "latency_ns": quantiles(level.counters.latency.total()),
        "deliveries_per_server_core_second": per_core(level),
        "server": observed.server.as_ref().map(|server| json!({
            "cpu_s": server.cpu_s,
            "cpu_us_per_delivery": observed.server_us_per_delivery(),
            "busiest_thread": server.busiest,
            "rss_bytes_before": server.rss_bytes_before,
            "rss_bytes_after": server.rss_bytes_after,
        })),
        "generator": {
            "cpu_s": observed.own_cpu_s,
            "busiest_thread": observed.own_busiest.0,
            "bottleneck": observed.bottleneck(),
        },
        "polls_per_client_and_s": polls,
        "batch_bytes": batch,
        "left_out": level.counters.skipped,
        "errors": level.errors,
        "problem": level.problem,
        "per_second": observed.samples.iter().map(|sample| sample.consumed).collect::<Vec<_>>(),
    })
}

/// Rates as bars.
pub fn rate_bars(series: &[Series<'_>], published: &[(&str, f64)]) -> String {
    let mut list = Vec::new();
    for (at, series) in series.iter().enumerate() {
        for level in series.levels {
            let value = level.observed.consumed_per_s();
            let label = format!("{}, {}", series.name, level.name);
            list.push(Bar { label, value, text: table::rate(value), series: at });
        }
    }
    for (name, value) in published {
        let text = table::rate(*value);
        list.push(Bar { label: (*name).to_owned(), value: *value, text, series: 5 });
    }
    bars("deliveries per second", &list)
}

/// Latencies by percentile.
#[allow(clippy::cast_precision_loss)]
pub fn latency_lines(series: &[Series<'_>]) -> String {
    let mut lines = Vec::new();
    for series in series {
        for level in series.levels.iter().filter(|level| !level.counters.latency.total().is_empty())
        {
            let points = (0..=80).map(|step| {
                let nines = f64::from(step) / 20.0;
                let quantile = 1.0 - 10_f64.powf(-nines);
                (nines, level.counters.latency.total().value_at_quantile(quantile) as f64)
            });
            let name = format!("{}, {}", series.name, level.name);
            lines.push(Line { name, series: lines.len(), points: points.collect() });
        }
    }
    let ticks = ["0", "90", "99", "99.9", "99.99 %"].iter().zip(0..);
    LineChart {
        title: "latency by percentile",
        x_ticks: ticks.map(|(text, nines)| (f64::from(nines), (*text).to_owned())).collect(),
        is_logarithmic: true,
        y_text: nanoseconds,
        lines,
    }
    .render()
}

/// Deliveries in each second.
#[allow(clippy::cast_precision_loss)]
pub fn over_time(series: &[Series<'_>]) -> String {
    let mut lines = Vec::new();
    let mut last = 1;
    for series in series {
        for level in series.levels {
            let samples = &level.observed.samples;
            last = last.max(samples.len());
            let points = samples.iter().zip(1_u32..);
            let points = points.map(|(sample, at)| (f64::from(at), sample.consumed as f64));
            let name = format!("{}, {}", series.name, level.name);
            lines.push(Line { name, series: lines.len(), points: points.collect() });
        }
    }
    LineChart {
        title: "deliveries in each second",
        x_ticks: vec![(1.0, "1 s".to_owned()), (last as f64, format!("{last} s"))],
        is_logarithmic: false,
        y_text: quantity,
        lines,
    }
    .render()
}

fn per_s(count: u64, level: &Level) -> f64 {
    // The counters have what came in the whole level; the observation what came in its window.
    #[allow(clippy::cast_precision_loss)]
    let share = level.observed.consumed as f64 / level.counters.received.max(1) as f64;
    #[allow(clippy::cast_precision_loss)]
    let count = count as f64 * share;
    if level.observed.seconds > 0.0 { count / level.observed.seconds } else { 0.0 }
}
