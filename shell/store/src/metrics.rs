//! What the store counts, in one table from which names, help and documentation are made.
//!
//! Each value has one writer, the thread that owns the store or the one that reads messages back; anybody may read.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tiderace_base::{MetricKind, MetricRow, Sample, SampleValue};

macro_rules! store_metrics {
    ($($field:ident $kind:ident $name:literal $help:literal;)+) => {
        /// All metrics of the store.
        pub const STORE_METRICS: &[MetricRow] =
            &[$(MetricRow::new(MetricKind::$kind, $name, $help)),+];

        /// Their values.
        #[derive(Debug, Default)]
        pub struct StoreMetrics {
            $(pub(crate) $field: AtomicU64,)+
        }

        impl StoreMetrics {
            /// Every metric with its value.
            pub fn samples(&self) -> impl Iterator<Item = Sample<'static>> {
                let values = [$(self.$field.load(Ordering::Relaxed)),+];
                STORE_METRICS.iter().zip(values).map(|(row, value)| sample(row, value))
            }
        }
    };
}

store_metrics! {
    bytes_written Counter "tiderace_store_bytes_written_total" "Bytes written to the log, those of cleaning included.";
    records Counter "tiderace_store_records_total" "Records that were committed for shards.";
    batches Counter "tiderace_store_batches_total" "Batches that were committed for shards.";
    commits Counter "tiderace_store_commits_total" "Writes to the log, each with all batches that waited.";
    refused Counter "tiderace_store_refused_total" "Batches that were refused because the disk was full or failed.";
    syncs Counter "tiderace_store_syncs_total" "Times the log was synced to the disk.";
    sync_time Counter "tiderace_store_sync_seconds_total" "Time spent waiting for the disk to sync the log.";
    loads Counter "tiderace_store_loads_total" "Times that messages were read back from the log for a shard.";
    loaded_bytes Counter "tiderace_store_loaded_bytes_total" "Bytes of messages that were read back from the log for shards.";
    load_time Counter "tiderace_store_load_seconds_total" "Time spent reading messages back from the log.";
    damaged Counter "tiderace_store_damaged_records_total" "Records of messages that could not be read back from the log.";
    cleaned_bytes Counter "tiderace_store_cleaned_bytes_total" "Bytes of old segments gone through to give room back.";
    live_bytes Gauge "tiderace_store_live_bytes" "Bytes of records that are needed.";
    total_bytes Gauge "tiderace_store_bytes" "Bytes of all segments of the log.";
    segments Gauge "tiderace_store_segments" "Segments of the log.";
    streams Gauge "tiderace_store_streams" "Streams in the log: persistent topics and queues.";
    queue_bytes Gauge "tiderace_store_queue_bytes" "Bytes of records of messages of queues that are needed, and of files with their bodies.";
    body_files Gauge "tiderace_store_body_files" "Files beside the log with bodies of large messages.";
    body_bytes Gauge "tiderace_store_body_bytes" "Bytes of these files.";
    is_full Gauge "tiderace_store_full" "1 while the disk is full and persistent messages are refused.";
    queues_full Gauge "tiderace_store_queues_full" "1 while messages of queues have filled their share of the store (store.queue_bytes_max) and are refused.";
    is_broken Gauge "tiderace_store_broken" "1 after the disk has failed; nothing is acknowledged until the server is started again.";
}

/// Times are counted in nanoseconds and told in seconds.
fn sample(row: &'static MetricRow, value: u64) -> Sample<'static> {
    match row.unit() {
        Some("seconds") => {
            let value = SampleValue::Decimal(value as f64 / 1e9);
            Sample { row, labels: Vec::new(), value }
        }
        _ => Sample::number(row, value),
    }
}

impl StoreMetrics {
    /// Whether the store has failed for good: nothing is acknowledged until it is opened again.
    pub fn is_broken(&self) -> bool {
        self.is_broken.load(Ordering::Relaxed) != 0
    }

    /// Whether the disk is full, so that persistent messages are refused.
    pub fn is_full(&self) -> bool {
        self.is_full.load(Ordering::Relaxed) != 0
    }

    /// Whether messages of queues have filled their share and are refused.
    pub fn are_queues_full(&self) -> bool {
        self.queues_full.load(Ordering::Relaxed) != 0
    }

    /// Records that could not be read back.
    pub fn damaged(&self) -> u64 {
        self.damaged.load(Ordering::Relaxed)
    }
}

pub(crate) fn add(counter: &AtomicU64, amount: u64) {
    // Not `fetch_add`: with one writer a plain store is as good and costs no bus lock.
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(amount), Ordering::Relaxed);
}

pub(crate) fn set(gauge: &AtomicU64, value: u64) {
    gauge.store(value, Ordering::Relaxed);
}

pub(crate) fn add_time(counter: &AtomicU64, time: Duration) {
    add(counter, u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_told_in_seconds() {
        let metrics = StoreMetrics::default();
        add_time(&metrics.sync_time, Duration::from_millis(1500));
        add(&metrics.syncs, 2);
        let value = |name| metrics.samples().find(|sample| sample.row.name == name).unwrap().value;
        assert_eq!(value("tiderace_store_sync_seconds_total"), SampleValue::Decimal(1.5));
        assert_eq!(value("tiderace_store_syncs_total"), SampleValue::Number(2));
    }
}
