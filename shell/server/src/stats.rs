//! What the node counts, as JSON: the numbers of `/metrics` for who asks by an operation, whatever its protocol.
//!
//! Relies on [`Monitor`] for the numbers. Runs on a shard when somebody asks, so nothing here waits; nothing is done while
//! nobody does. Invariant: a number that is not there is zero, or cannot be told.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value as Json, json};
use tiderace_base::{Close, CloseCode, Sample, SampleValue, SessionId};
use tiderace_reactor::{NodeAnswer, Operator};
use tiderace_wire::{AuditRecord, NodeOperation};

use crate::control::Control;
use crate::monitor::Monitor;

/// Does what is asked of the node as a whole.
pub(crate) struct Operations {
    /// Does what takes a thread that may wait.
    pub(crate) control: Control,
    /// Knows what is counted.
    pub(crate) monitor: Arc<Monitor>,
}

impl Operator for Operations {
    fn operate(&self, operation: NodeOperation, answer: NodeAnswer) {
        self.control.operate(operation, answer);
    }

    fn record(&self, record: AuditRecord) {
        self.control.record(record);
    }

    fn stats(&self) -> Result<Box<str>, Close> {
        self.monitor.stats()
    }

    fn reader_ended(&self, session: SessionId) {
        self.control.reader_ended(session);
    }
}

impl Monitor {
    /// What the node is, and all that it counts.
    fn stats(&self) -> Result<Box<str>, Close> {
        let node = self.node.get().ok_or_else(|| {
            Close::new(CloseCode::TooMuchWork, "the server is starting; try again in a second")
        })?;
        let stats = json!({
            "node": self.name,
            "version": env!("CARGO_PKG_VERSION"),
            "now": ms_of(SystemTime::now()),
            "started": ms_of(self.started),
            "shards": self.shards,
            "metrics": metrics(&self.samples(node)),
        });
        Ok(stats.to_string().into())
    }
}

/// Each metric by its name: a number, a histogram, or, of a metric with labels, a list of those that are not zero.
fn metrics(samples: &[Sample<'_>]) -> Map<String, Json> {
    let mut metrics = Map::new();
    for sample in samples {
        let row = sample.row;
        let name = row.name.to_owned();
        let value = value(&sample.value);
        if row.labels.is_empty() && row.fixed.is_empty() {
            metrics.insert(name, value);
            continue;
        }
        let list = metrics.entry(name).or_insert_with(|| json!([]));
        if value.as_f64() == Some(0.0) {
            continue;
        }
        let own = row.labels.iter().copied().zip(sample.labels.iter().copied());
        let labels = row.fixed.iter().copied().chain(own);
        let mut entry: Map<String, Json> =
            labels.map(|(name, value)| (name.to_owned(), json!(value))).collect();
        entry.insert("value".to_owned(), value);
        if let Some(list) = list.as_array_mut() {
            list.push(Json::Object(entry));
        }
    }
    metrics
}

fn value(value: &SampleValue) -> Json {
    match value {
        SampleValue::Number(number) => json!(number),
        SampleValue::Decimal(number) => json!(number),
        SampleValue::Histogram { buckets, nanos } => {
            let count: u64 = buckets.iter().sum();
            json!({"count": count, "seconds": *nanos as f64 / 1e9, "buckets": bounds(buckets)})
        }
    }
}

/// How many were below each bound, in seconds and not below an earlier one; those without any are left out.
fn bounds(buckets: &[u64]) -> Vec<Json> {
    let used = buckets.iter().enumerate().filter(|(_, count)| **count > 0);
    used.map(|(power, count)| {
        let is_last = power + 1 == buckets.len();
        let below = (!is_last).then(|| (1u64 << power.min(63)) as f64 / 1e9);
        json!([below, count])
    })
    .collect()
}

/// Milliseconds since 1970.
fn ms_of(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use tiderace_base::{MetricKind, MetricRow};

    use super::*;

    #[test]
    fn numbers_stand_by_their_names_and_lists_leave_out_zeros() {
        const PLAIN: MetricRow = MetricRow::new(MetricKind::Counter, "a_total", "Counts.");
        const ROW: MetricRow =
            MetricRow::new(MetricKind::Gauge, "b", "Counts.").with_labels(&["x", "y"]);
        const FIXED: MetricRow =
            MetricRow::new(MetricKind::Counter, "c", "Counts.").with_fixed(&[("x", "z")]);
        const TIMES: MetricRow = MetricRow::new(MetricKind::Histogram, "t_seconds", "Times.");
        let of =
            |row, labels: &[&'static str], value| Sample { row, labels: labels.to_vec(), value };
        let mut buckets = vec![0; 4];
        (buckets[1], buckets[3]) = (2, 1);
        let samples = [
            of(&PLAIN, &[], SampleValue::Number(0)),
            of(&ROW, &["1", "2"], SampleValue::Decimal(0.5)),
            of(&ROW, &["3", "4"], SampleValue::Number(0)),
            of(&FIXED, &[], SampleValue::Number(0)),
            of(&TIMES, &[], SampleValue::Histogram { buckets, nanos: 1_500_000_000 }),
        ];
        let expected = json!({
            "a_total": 0,
            "b": [{"x": "1", "y": "2", "value": 0.5}],
            "c": [],
            "t_seconds": {"count": 3, "seconds": 1.5, "buckets": [[2e-9, 2], [null, 1]]},
        });
        assert_eq!(Json::Object(metrics(&samples)), expected);
    }
}
