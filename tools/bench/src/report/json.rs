//! The JSON report: stomp-benchmark's keys, so that results overlay on the published ones, and ours.
//!
//! Top level: `benchmark_settings` and, for each scenario of the first server, `p_`, `c_`, `e_`
//! (messages per one-second sample) and `p90_`, `p99_`, `p999_` (ns), each a list of
//! `[ms since 1970, value]`. Other servers have the same under `peers`. Everything stomp-benchmark
//! does not know is under `tiderace`. Invariant: a key is present only if it was measured.

use hdrhistogram::Histogram;
use serde_json::{Map, Value, json};

use crate::report::{Cell, Run};
use crate::stomp::cell::Outcome;

/// The whole document.
pub fn document(run: &Run) -> Value {
    let mut top = broker(run, 0);
    let peers: Map<String, Value> = run
        .targets
        .iter()
        .enumerate()
        .skip(1)
        .map(|(index, name)| (name.clone(), Value::Object(broker(run, index))))
        .collect();
    if !peers.is_empty() {
        top.insert("peers".into(), Value::Object(peers));
    }
    let notes: Map<String, Value> =
        run.notes.iter().map(|(name, text)| (name.clone(), json!(text))).collect();
    top.insert(
        "tiderace".into(),
        json!({
            "label": run.label,
            "command": run.command,
            "version": run.machine.version,
            "date": run.machine.date,
            "machine": {
                "cpu": run.machine.cpu,
                "cores": run.machine.cores,
                "memory_mib": run.machine.memory_mib,
                "kernel": run.machine.kernel,
            },
            "cells": run.cells.iter().map(|cell| cell_value(run, cell)).collect::<Vec<_>>(),
            "notes": notes,
        }),
    );
    Value::Object(top)
}

/// What stomp-benchmark would have written for one server.
fn broker(run: &Run, index: usize) -> Map<String, Value> {
    let mut map = Map::new();
    let specs = run.cells.first().map(|cell| &cell.spec);
    map.insert(
        "benchmark_settings".into(),
        json!({
            "broker_name": run.targets.get(index),
            "sample_count": specs.map(|spec| spec.duration_s),
            "sample_interval": 1000,
            "warm_up_count": specs.map(|spec| spec.warm_up_s),
        }),
    );
    for cell in &run.cells {
        if let Some(Ok(outcome)) = cell.outcomes.get(index) {
            scenario(&mut map, outcome);
        }
    }
    map
}

fn scenario(map: &mut Map<String, Value>, outcome: &Outcome) {
    let name = outcome.spec.scenario();
    let samples = &outcome.observed.samples;
    let mut insert = |prefix: &str, values: Vec<(u64, u64)>| {
        let pairs: Vec<Value> = values.iter().map(|(ms, value)| json!([ms, value])).collect();
        map.insert(format!("{prefix}_{name}"), Value::Array(pairs));
    };
    insert("p", samples.iter().map(|sample| (sample.unix_ms, sample.produced)).collect());
    insert("e", samples.iter().map(|sample| (sample.unix_ms, sample.errors)).collect());
    if outcome.spec.consumers == 0 {
        return;
    }
    insert("c", samples.iter().map(|sample| (sample.unix_ms, sample.consumed)).collect());
    for (prefix, quantile) in [("p90", 0.9), ("p99", 0.99), ("p999", 0.999)] {
        let seconds = samples.iter().zip(outcome.latency.seconds());
        insert(
            prefix,
            seconds
                .map(|(sample, histogram)| (sample.unix_ms, histogram.value_at_quantile(quantile)))
                .collect(),
        );
    }
}

fn cell_value(run: &Run, cell: &Cell) -> Value {
    let results: Map<String, Value> = run
        .targets
        .iter()
        .zip(&cell.outcomes)
        .map(|(name, outcome)| {
            let value = match outcome {
                Ok(outcome) => outcome_value(outcome),
                Err(error) => json!({ "failed": error }),
            };
            (name.clone(), value)
        })
        .collect();
    json!({
        "name": cell.spec.short_name(),
        "scenario": cell.spec.scenario(),
        "published": cell.published.map(|figure| json!({
            "rate_per_s": figure.rate_per_s,
            "source": figure.source,
        })),
        "results": results,
    })
}

fn outcome_value(outcome: &Outcome) -> Value {
    let observed = &outcome.observed;
    json!({
        "seconds": observed.seconds,
        "produced_per_s": observed.produced_per_s(),
        "consumed_per_s": observed.consumed_per_s(),
        "consumed_bytes": observed.consumed_bytes,
        "latency_ns": quantiles(outcome.latency.total()),
        "receipt_latency_ns": outcome.receipt_latency.as_ref().map(|latency| quantiles(latency.total())),
        "server": observed.server.as_ref().map(|server| json!({
            "pids": server.pids,
            "cpu_s": server.cpu_s,
            "cpu_us_per_message": observed.server_us_per_message(),
            "cpu_us_per_delivery": observed.server_us_per_delivery(),
            "busiest_thread": server.busiest,
            "rss_bytes_before": server.rss_bytes_before,
            "rss_bytes_after": server.rss_bytes_after,
        })),
        "generator": {
            "cpu_s": observed.own_cpu_s,
            "busiest_thread": observed.own_busiest.0,
            "busiest_role": observed.own_busiest.1,
            "bottleneck": observed.bottleneck(),
        },
        "sent": outcome.sent,
        "deliveries_expected": outcome.deliveries_expected,
        "received": outcome.received,
        "lost": outcome.lost,
        "skipped": outcome.skipped,
        "out_of_order": outcome.out_of_order,
        "duplicates": outcome.duplicates,
        "foreign": outcome.foreign,
        "errors": outcome.errors,
        "problem": outcome.problem,
    })
}

pub(crate) fn quantiles(histogram: &Histogram<u64>) -> Value {
    if histogram.is_empty() {
        return Value::Null;
    }
    let at = |quantile| histogram.value_at_quantile(quantile);
    json!({
        "count": histogram.len(),
        "min": histogram.min(),
        "mean": histogram.mean(),
        "p50": at(0.5),
        "p90": at(0.9),
        "p99": at(0.99),
        "p999": at(0.999),
        "p9999": at(0.9999),
        "max": histogram.max(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample_run;

    #[test]
    fn keys_of_stomp_benchmark() {
        let document = document(&sample_run());
        for prefix in ["p", "c", "e", "p90", "p99", "p999"] {
            let pairs = &document[format!("{prefix}_20b_10a_1topic_10")];
            assert_eq!(pairs.as_array().map(Vec::len), Some(1), "{prefix}");
            assert_eq!(pairs[0][0], 1_000);
        }
        assert_eq!(document["c_20b_10a_1topic_10"][0][1], 20);
        assert_eq!(document["benchmark_settings"]["broker_name"], "ours");
        assert_eq!(document["peers"]["theirs"]["benchmark_settings"]["broker_name"], "theirs");
        assert!(document["peers"]["theirs"].get("p_20b_10a_1topic_10").is_none());
    }

    #[test]
    fn richer_keys() {
        let document = document(&sample_run());
        let cell = &document["tiderace"]["cells"][0];
        assert_eq!(cell["name"], "topic-10-1-10");
        assert_eq!(cell["results"]["ours"]["lost"], 3);
        assert_eq!(cell["results"]["theirs"]["failed"], "no answer");
        assert_eq!(document["tiderace"]["notes"]["bare"], "3 GB/s");
    }
}
