//! Plots over the number of clients, with deltas and without, beside what Diffusion published.

use crate::diffusion::published::{PUBLISHED, Row};
use crate::diffusion::step::{Load, Step};
use crate::report::html::{nanoseconds, quantity};
use crate::report::svg::{Line, LineChart};

/// Captions and drawings; those without a point are left out.
pub(crate) fn all(steps: &[Step]) -> Vec<(&'static str, String)> {
    let latency = |quantile: f64| {
        move |step: &Step| {
            let known = step.level.counters.latency.total();
            #[allow(clippy::cast_precision_loss)]
            (!known.is_empty()).then(|| known.value_at_quantile(quantile) as f64)
        }
    };
    let mut charts = vec![
        (
            "Events per second",
            chart(
                "events per second",
                steps,
                quantity,
                |step| Some(step.figures().events_per_s),
                None,
            ),
        ),
        (
            "Server CPU, cores",
            chart(
                "server cores",
                steps,
                decimal,
                |step| step.figures().cores,
                Some(|row| row.cores),
            ),
        ),
        (
            "Server CPU per event, µs",
            chart(
                "server CPU per event",
                steps,
                decimal,
                |step| step.figures().us_per_event,
                Some(|row| row.cores / row.events_per_s * 1e6),
            ),
        ),
        (
            "Bandwidth, outbound, Mb/s",
            chart(
                "bandwidth",
                steps,
                quantity,
                |step| Some(step.figures().megabits_per_s),
                Some(|row| row.megabits_per_s),
            ),
        ),
        ("Latency, median", chart("median latency", steps, nanoseconds, latency(0.5), None)),
        ("Latency, p99", chart("latency p99", steps, nanoseconds, latency(0.99), None)),
    ];
    charts.retain(|(_, chart)| !chart.is_empty());
    charts
}

#[allow(clippy::cast_precision_loss)]
fn chart(
    title: &str,
    steps: &[Step],
    y_text: fn(f64) -> String,
    value: impl Fn(&Step) -> Option<f64>,
    published: Option<fn(&Row) -> f64>,
) -> String {
    let mut lines = Vec::new();
    for (series, deltas) in [false, true].into_iter().enumerate() {
        let name = if deltas { "deltas on" } else { "deltas off" };
        let mine =
            steps.iter().filter(|step| step.spec.deltas == deltas && step.spec.load == Load::Paced);
        let points = mine.filter_map(|step| Some((step.spec.clients as f64, value(step)?)));
        lines.push(Line { name: name.to_owned(), series, points: points.collect() });
        if let Some(of) = published {
            let theirs = PUBLISHED.iter().filter(|row| row.deltas == deltas);
            let points = theirs.map(|row| (f64::from(row.clients), of(row))).collect();
            lines.push(Line { name: format!("Diffusion, {name}"), series: series + 3, points });
        }
    }
    lines.retain(|line| !line.points.is_empty());
    let mut clients: Vec<f64> =
        lines.iter().flat_map(|line| &line.points).map(|point| point.0).collect();
    clients.sort_by(f64::total_cmp);
    let ticks = clients.first().into_iter().chain(clients.last());
    LineChart {
        title,
        x_ticks: ticks.map(|clients| (*clients, quantity(*clients))).collect(),
        is_logarithmic: false,
        y_text,
        lines,
    }
    .render()
}

fn decimal(value: f64) -> String {
    format!("{value:.1}")
}
