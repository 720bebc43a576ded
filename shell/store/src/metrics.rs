//! What the store counts, in one table from which names, help and documentation are made.
//!
//! One writer, the thread that owns the store; anybody may read.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// One line of the table of metrics.
#[derive(Debug, PartialEq, Eq)]
pub struct StoreMetric {
    /// Prometheus name.
    pub name: &'static str,
    /// Whether it only rises.
    pub is_counter: bool,
    /// Whether it is a time, which is counted in nanoseconds and told in seconds.
    pub is_time: bool,
    /// What it counts, with its unit.
    pub help: &'static str,
}

macro_rules! store_metrics {
    ($($field:ident $counter:literal $time:literal $name:literal $help:literal;)+) => {
        /// All metrics of the store.
        pub const STORE_METRICS: &[StoreMetric] = &[$(StoreMetric {
            name: $name, is_counter: $counter, is_time: $time, help: $help,
        }),+];

        /// Their values.
        #[derive(Debug, Default)]
        pub struct StoreMetrics {
            $(pub(crate) $field: AtomicU64,)+
        }

        impl StoreMetrics {
            /// Every metric with its value.
            pub fn values(&self) -> impl Iterator<Item = (&'static StoreMetric, f64)> {
                let values = [$(self.$field.load(Ordering::Relaxed)),+];
                STORE_METRICS.iter().zip(values).map(|(metric, value)| {
                    (metric, if metric.is_time { value as f64 / 1e9 } else { value as f64 })
                })
            }
        }
    };
}

store_metrics! {
    bytes_written true false "tiderace_store_bytes_written_total" "Bytes written to the log, those of cleaning included.";
    records true false "tiderace_store_records_total" "Records that were committed for shards.";
    batches true false "tiderace_store_batches_total" "Batches that were committed for shards.";
    commits true false "tiderace_store_commits_total" "Writes to the log, each with all batches that waited.";
    refused true false "tiderace_store_refused_total" "Batches that were refused because the disk was full or failed.";
    syncs true false "tiderace_store_syncs_total" "Times the log was synced to the disk.";
    sync_time true true "tiderace_store_sync_seconds_total" "Time spent waiting for the disk to sync the log.";
    cleaned_bytes true false "tiderace_store_cleaned_bytes_total" "Bytes of old segments gone through to give room back.";
    live_bytes false false "tiderace_store_live_bytes" "Bytes of records that are needed.";
    total_bytes false false "tiderace_store_bytes" "Bytes of all segments of the log.";
    segments false false "tiderace_store_segments" "Segments of the log.";
    streams false false "tiderace_store_streams" "Streams in the log: persistent topics and queues.";
    is_full false false "tiderace_store_full" "1 while the disk is full and persistent messages are refused.";
    is_broken false false "tiderace_store_broken" "1 after the disk has failed; nothing is acknowledged until the server is started again.";
}

impl StoreMetrics {
    /// Whether the store has failed for good: nothing is acknowledged until it is opened again.
    pub fn is_broken(&self) -> bool {
        self.is_broken.load(Ordering::Relaxed) != 0
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
        let value = |name| metrics.values().find(|(row, _)| row.name == name).unwrap().1;
        assert_eq!(value("tiderace_store_sync_seconds_total"), 1.5);
        assert_eq!(value("tiderace_store_syncs_total"), 2.0);
    }
}
