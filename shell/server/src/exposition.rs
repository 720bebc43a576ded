//! Metrics as text for Prometheus, format version 0.0.4: whatever counts them, they are written here.
//!
//! Relies on those who add samples to add those of one name together. Invariant: the two lines about a name
//! stand once, above its samples.

use std::fmt::{Display, Write};

use tiderace_reactor::SampleValue;

/// The text so far.
#[derive(Debug, Default)]
pub(crate) struct Exposition {
    text: String,
    /// The name that the last sample had.
    name: String,
}

/// What is said of a name before its samples.
#[derive(Clone, Copy, Debug)]
pub(crate) struct About<'a> {
    pub(crate) name: &'a str,
    /// As Prometheus calls it: `counter`, `gauge` or `histogram`.
    pub(crate) kind: &'a str,
    pub(crate) help: &'a str,
}

impl<'a> About<'a> {
    /// A number that only rises, or one that also falls.
    pub(crate) fn number(name: &'a str, is_counter: bool, help: &'a str) -> About<'a> {
        About { name, kind: if is_counter { "counter" } else { "gauge" }, help }
    }
}

impl Exposition {
    pub(crate) fn with_capacity(bytes: usize) -> Exposition {
        Exposition { text: String::with_capacity(bytes), name: String::new() }
    }

    /// Adds a number. Labels are as [`labels`] writes them.
    pub(crate) fn add(&mut self, about: About<'_>, labels: &str, value: impl Display) {
        self.begin(about);
        self.line(about.name, "", labels, value);
    }

    /// Adds a number or a histogram of times.
    pub(crate) fn add_sample(&mut self, about: About<'_>, labels: &str, value: &SampleValue) {
        let (buckets, nanos) = match value {
            SampleValue::Number(value) => return self.add(about, labels, value),
            SampleValue::Histogram { buckets, nanos } => (buckets, *nanos),
        };
        self.begin(about);
        let mut count = 0;
        for (power, bucket) in buckets.iter().enumerate() {
            count += bucket;
            // Below a microsecond and between the even powers nobody looks.
            if power >= 10 && power % 2 == 0 && power + 1 < buckets.len() {
                let bound = (1u64 << power) as f64 / 1e9;
                self.line(about.name, "_bucket", &format!("le=\"{bound}\""), count);
            }
        }
        self.line(about.name, "_bucket", "le=\"+Inf\"", count);
        self.line(about.name, "_sum", "", nanos as f64 / 1e9);
        self.line(about.name, "_count", "", count);
    }

    pub(crate) fn into_text(self) -> String {
        self.text
    }

    fn begin(&mut self, about: About<'_>) {
        let About { name, kind, help } = about;
        if self.name != name {
            // Writing to a String cannot fail.
            let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
            name.clone_into(&mut self.name);
        }
    }

    fn line(&mut self, name: &str, suffix: &str, labels: &str, value: impl Display) {
        let (open, close) = if labels.is_empty() { ("", "") } else { ("{", "}") };
        let _ = writeln!(self.text, "{name}{suffix}{open}{labels}{close} {value}");
    }
}

/// Names and values of labels, as they stand in braces.
pub(crate) fn labels(names: &[&str], values: &[&str]) -> String {
    let pairs = names.iter().zip(values);
    let pairs: Vec<String> = pairs.map(|(name, value)| format!("{name}=\"{value}\"")).collect();
    pairs.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_introduced_once_and_labels_stand_in_braces() {
        let mut out = Exposition::default();
        let about = About::number("a_total", true, "Counts.");
        out.add(about, &labels(&["x", "y"], &["1", "2"]), 3);
        out.add(about, "", 4);
        out.add(About::number("b", false, "Rises and falls."), "", 0.5);
        let expected = "# HELP a_total Counts.\n# TYPE a_total counter\na_total{x=\"1\",y=\"2\"} 3\n\
                        a_total 4\n# HELP b Rises and falls.\n# TYPE b gauge\nb 0.5\n";
        assert_eq!(out.into_text(), expected);
    }

    #[test]
    fn buckets_accumulate_and_end_with_all() {
        let mut out = Exposition::default();
        let about = About { name: "t_seconds", kind: "histogram", help: "Times." };
        let buckets = vec![1; 14];
        out.add_sample(about, "", &SampleValue::Histogram { buckets, nanos: 500_000_000 });
        let expected = "# HELP t_seconds Times.\n# TYPE t_seconds histogram\n\
                        t_seconds_bucket{le=\"0.000001024\"} 11\nt_seconds_bucket{le=\"0.000004096\"} 13\n\
                        t_seconds_bucket{le=\"+Inf\"} 14\nt_seconds_sum 0.5\nt_seconds_count 14\n";
        assert_eq!(out.into_text(), expected);
    }
}
