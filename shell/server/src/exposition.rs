//! Metrics as text for Prometheus, format version 0.0.4: whatever counts them, they are written here.
//!
//! Relies on the one type of rows, and on those who add samples to add those of one name together. Invariant:
//! the two lines about a name stand once, above its samples.

use std::fmt::{Display, Write};

use tiderace_base::{MetricRow, Sample, SampleValue};

/// The text so far.
#[derive(Debug, Default)]
pub(crate) struct Exposition {
    text: String,
    /// The name that the last sample had.
    name: &'static str,
}

impl Exposition {
    pub(crate) fn with_capacity(bytes: usize) -> Exposition {
        Exposition { text: String::with_capacity(bytes), name: "" }
    }

    /// Adds samples.
    pub(crate) fn extend<'a>(&mut self, samples: impl IntoIterator<Item = Sample<'a>>) {
        for sample in samples {
            self.add(&sample);
        }
    }

    /// Adds a number or a histogram of times.
    pub(crate) fn add(&mut self, sample: &Sample<'_>) {
        let row = sample.row;
        if self.name != row.name {
            // Writing to a String cannot fail.
            let (name, help, kind) = (row.name, row.help, row.kind.name());
            let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
            self.name = row.name;
        }
        let labels = labels(sample);
        let (buckets, nanos) = match &sample.value {
            SampleValue::Number(value) => return self.line(row, "", &labels, value),
            SampleValue::Decimal(value) => return self.line(row, "", &labels, value),
            SampleValue::Histogram { buckets, nanos } => (buckets, *nanos),
        };
        let mut count = 0;
        for (power, bucket) in buckets.iter().enumerate() {
            count += bucket;
            // Below a microsecond and between the even powers nobody looks.
            if power >= 10 && power % 2 == 0 && power + 1 < buckets.len() {
                let bound = (1u64 << power) as f64 / 1e9;
                self.line(row, "_bucket", &format!("le=\"{bound}\""), count);
            }
        }
        self.line(row, "_bucket", "le=\"+Inf\"", count);
        self.line(row, "_sum", "", nanos as f64 / 1e9);
        self.line(row, "_count", "", count);
    }

    pub(crate) fn into_text(self) -> String {
        self.text
    }

    fn line(&mut self, row: &MetricRow, suffix: &str, labels: &str, value: impl Display) {
        let (open, close) = if labels.is_empty() { ("", "") } else { ("{", "}") };
        let _ = writeln!(self.text, "{}{suffix}{open}{labels}{close} {value}", row.name);
    }
}

/// Names and values of labels, as they stand in braces.
fn labels(sample: &Sample<'_>) -> String {
    let fixed = sample.row.fixed.iter().copied();
    let own = sample.row.labels.iter().copied().zip(sample.labels.iter().copied());
    let pairs: Vec<String> =
        fixed.chain(own).map(|(name, value)| format!("{name}=\"{value}\"")).collect();
    pairs.join(",")
}

#[cfg(test)]
mod tests {
    use tiderace_base::MetricKind;

    use super::*;

    const COUNTER: MetricRow =
        MetricRow::new(MetricKind::Counter, "a_total", "Counts.").with_labels(&["x", "y"]);
    const FIXED: MetricRow =
        MetricRow::new(MetricKind::Counter, "a_total", "Counts.").with_fixed(&[("x", "z")]);
    const GAUGE: MetricRow = MetricRow::new(MetricKind::Gauge, "b", "Rises and falls.");
    const TIMES: MetricRow = MetricRow::new(MetricKind::Histogram, "t_seconds", "Times.");

    #[test]
    fn a_name_is_introduced_once_and_labels_stand_in_braces() {
        let mut out = Exposition::default();
        let value = SampleValue::Number(3);
        out.add(&Sample { row: &COUNTER, labels: vec!["1", "2"], value });
        out.add(&Sample::number(&FIXED, 4));
        out.add(&Sample { row: &GAUGE, labels: vec![], value: SampleValue::Decimal(0.5) });
        let expected = "# HELP a_total Counts.\n# TYPE a_total counter\na_total{x=\"1\",y=\"2\"} 3\n\
                        a_total{x=\"z\"} 4\n# HELP b Rises and falls.\n# TYPE b gauge\nb 0.5\n";
        assert_eq!(out.into_text(), expected);
    }

    #[test]
    fn buckets_accumulate_and_end_with_all() {
        let mut out = Exposition::default();
        let value = SampleValue::Histogram { buckets: vec![1; 14], nanos: 500_000_000 };
        out.add(&Sample { row: &TIMES, labels: vec![], value });
        let expected = "# HELP t_seconds Times.\n# TYPE t_seconds histogram\n\
                        t_seconds_bucket{le=\"0.000001024\"} 11\nt_seconds_bucket{le=\"0.000004096\"} 13\n\
                        t_seconds_bucket{le=\"+Inf\"} 14\nt_seconds_sum 0.5\nt_seconds_count 14\n";
        assert_eq!(out.into_text(), expected);
    }
}
