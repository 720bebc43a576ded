//! What native sessions count, in one table from which names, help and documentation are made.
//!
//! Relies on [`Counter`]: each shard's sessions write their own numbers and anybody reads. Invariant: counting takes loads and
//! stores, and only where something was sent as a delta.

use tiderace_base::{Counter, MetricKind, MetricRow, Sample};

/// All metrics of the native protocol.
pub const NATIVE_METRICS: &[MetricRow] = &[DELTAS, SAVED];

const DELTAS: MetricRow = MetricRow::new(
    MetricKind::Counter,
    "tiderace_deltas_sent_total",
    "Messages that the native protocol has sent as the difference to the one before.",
);
const SAVED: MetricRow = MetricRow::new(
    MetricKind::Counter,
    "tiderace_delta_saved_bytes_total",
    "Bytes by which the differences that the native protocol has sent were shorter than the messages themselves.",
);

/// The numbers of all shards.
#[derive(Debug)]
pub struct NativeMetrics(Box<[Deltas]>);

/// The numbers of one shard, in a line of their own.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(crate) struct Deltas {
    sent: Counter,
    saved: Counter,
}

impl Deltas {
    /// So many messages were sent as deltas, and so many bytes were not sent for that.
    pub(crate) fn count(&self, sent: u64, saved: u64) {
        self.sent.add(sent);
        self.saved.add(saved);
    }
}

impl NativeMetrics {
    /// For a node of so many shards.
    pub fn new(shards: usize) -> NativeMetrics {
        NativeMetrics((0..shards.max(1)).map(|_| Deltas::default()).collect())
    }

    /// The numbers that a shard's sessions write; those of the first for a shard that is not known.
    pub(crate) fn of(&self, shard: u8) -> Option<&Deltas> {
        self.0.get(usize::from(shard)).or_else(|| self.0.first())
    }

    /// Every metric with its value.
    pub fn samples(&self) -> [Sample<'static>; 2] {
        let sum = |read: fn(&Deltas) -> &Counter| {
            self.0.iter().map(|shard| read(shard).value()).fold(0, u64::wrapping_add)
        };
        [Sample::number(&DELTAS, sum(|it| &it.sent)), Sample::number(&SAVED, sum(|it| &it.saved))]
    }
}
