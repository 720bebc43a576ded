//! One table type for all metrics: Prometheus text, `docs/metrics.md` and tests are made of its rows.
//!
//! Relies on nothing. Invariant: everything that is counted has a row in a table; a name says its
//! unit, and a counter ends in `_total`.

/// What kind of number a metric is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// It only rises.
    Counter,
    /// It rises and falls.
    Gauge,
    /// Spans in buckets, counted in nanoseconds and told in seconds.
    Histogram,
}

impl MetricKind {
    /// As Prometheus calls it.
    pub const fn name(self) -> &'static str {
        match self {
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
            MetricKind::Histogram => "histogram",
        }
    }
}

/// One row of a table of metrics.
#[derive(Debug, PartialEq, Eq)]
pub struct MetricRow {
    /// Its name, in the manner of Prometheus.
    pub name: &'static str,
    /// What it counts, in a sentence.
    pub help: &'static str,
    /// Its kind.
    pub kind: MetricKind,
    /// The names of the labels whose values its samples bring.
    pub labels: &'static [&'static str],
    /// Labels that all its samples have, with their values: a metric may have a row for each value.
    pub fixed: &'static [(&'static str, &'static str)],
}

impl MetricRow {
    /// A row without labels.
    pub const fn new(kind: MetricKind, name: &'static str, help: &'static str) -> MetricRow {
        MetricRow { name, help, kind, labels: &[], fixed: &[] }
    }

    /// The same with labels whose values its samples bring.
    #[must_use]
    pub const fn with_labels(self, labels: &'static [&'static str]) -> MetricRow {
        MetricRow { labels, ..self }
    }

    /// The same with labels that all its samples have.
    #[must_use]
    pub const fn with_fixed(self, fixed: &'static [(&'static str, &'static str)]) -> MetricRow {
        MetricRow { fixed, ..self }
    }

    /// What it is counted in, as its name says: `bytes`, `seconds`, or nothing for a plain number.
    pub fn unit(&self) -> Option<&'static str> {
        let unit = |word| ["bytes", "seconds"].into_iter().find(|unit| *unit == word);
        self.name.split('_').find_map(unit)
    }
}

/// The value of a row at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample<'a> {
    /// What it is.
    pub row: &'static MetricRow,
    /// The values of the row's labels, in the order of their names.
    pub labels: Vec<&'a str>,
    /// The value.
    pub value: SampleValue,
}

impl Sample<'_> {
    /// A number without labels.
    pub fn number(row: &'static MetricRow, value: u64) -> Sample<'static> {
        Sample { row, labels: Vec::new(), value: SampleValue::Number(value) }
    }
}

/// The value of a [`Sample`].
#[derive(Clone, Debug, PartialEq)]
pub enum SampleValue {
    /// A counter or gauge.
    Number(u64),
    /// A counter or gauge that is not whole, such as a time in seconds.
    Decimal(f64),
    /// A histogram: how many were in each bucket, not accumulated. Bucket `n` holds spans below
    /// 2ⁿ nanoseconds that are not in an earlier one; the last holds all others.
    Histogram {
        /// The buckets.
        buckets: Vec<u64>,
        /// The sum of all spans, in nanoseconds.
        nanos: u64,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_their_unit() {
        let unit = |name| MetricRow::new(MetricKind::Gauge, name, "").unit();
        assert_eq!(unit("tiderace_store_bytes_written_total"), Some("bytes"));
        assert_eq!(unit("tiderace_store_bytes"), Some("bytes"));
        assert_eq!(unit("tiderace_turn_seconds"), Some("seconds"));
        assert_eq!(unit("process_cpu_seconds_total"), Some("seconds"));
        assert_eq!(unit("tiderace_topics"), None);
    }
}
