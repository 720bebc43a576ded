//! What others have published for cells of `bench stomp`.

use crate::report::Published;
use crate::stomp::cell::{CellSpec, Kind};

/// The published figure for a cell, when it was run as published.
pub(crate) fn published(spec: &CellSpec) -> Option<Published> {
    let row = APOLLO.iter().find(|row| row.short_name() == spec.short_name())?;
    let is_same = spec.persistent.is_none() && spec.receipts.is_none() && spec.rate.is_none();
    is_same.then_some(Published { rate_per_s: row.rate_per_s, source: row.source })
}

/// A row of the published table.
pub(crate) struct Row {
    pub(crate) kind: Kind,
    pub(crate) shape: (usize, usize, usize),
    pub(crate) size: usize,
    pub(crate) rate_per_s: f64,
    pub(crate) source: &'static str,
}

impl Row {
    /// The name of its cell.
    pub(crate) fn short_name(&self) -> String {
        let size = match self.size {
            20 => String::new(),
            bytes => format!("-{}k", bytes / 1024),
        };
        let (producers, destinations, consumers) = self.shape;
        format!("{}-{producers}-{destinations}-{consumers}{size}", self.kind.as_str())
    }
}

const fn row(
    kind: Kind,
    shape: (usize, usize, usize),
    size: usize,
    rate_per_s: f64,
    source: &'static str,
) -> Row {
    Row { kind, shape, size, rate_per_s, source }
}

/// The last table of Apollo's documentation, then the non-persistent rest of stomp-benchmark.
pub(crate) const APOLLO: [Row; 14] = [
    row(Kind::Queue, (1, 1, 1), 20, 250_000.0, APOLLO_DOCS),
    row(Kind::Queue, (8, 8, 8), 20, 540_000.0, APOLLO_DOCS),
    row(Kind::Queue, (1, 1, 10), 20, 230_000.0, APOLLO_DOCS),
    row(Kind::Queue, (10, 1, 1), 20, 280_000.0, APOLLO_DOCS),
    row(Kind::Topic, (1, 1, 1), 20, 420_000.0, APOLLO_DOCS),
    row(Kind::Topic, (8, 8, 8), 20, 810_000.0, APOLLO_DOCS),
    row(Kind::Topic, (10, 1, 10), 20, 1_300_000.0, APOLLO_DOCS),
    row(Kind::Queue, (10, 10, 10), 20, 529_000.0, STOMP_BENCHMARK),
    row(Kind::Topic, (1, 1, 0), 20, 345_000.0, STOMP_BENCHMARK),
    row(Kind::Topic, (10, 10, 10), 20, 705_000.0, STOMP_BENCHMARK),
    row(Kind::Topic, (1, 1, 10), 20, 792_000.0, STOMP_BENCHMARK),
    row(Kind::Topic, (10, 1, 1), 20, 0.0, STOMP_BENCHMARK),
    row(Kind::Queue, (1, 1, 1), 1024, 134_000.0, STOMP_BENCHMARK),
    row(Kind::Topic, (1, 1, 1), 262_144, 1_600.0, STOMP_BENCHMARK),
];
const APOLLO_DOCS: &str = "Apollo's documentation of 2011, Mac Pro, 8 cores at 3 GHz";
const STOMP_BENCHMARK: &str = "stomp-benchmark, Apollo 1.0 on an i7-2600K, 8 threads at 3.4 GHz";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_names_each_cell_once() {
        let names: std::collections::BTreeSet<_> = APOLLO.iter().map(Row::short_name).collect();
        assert_eq!(names.len(), APOLLO.len());
        assert!(names.contains("topic-1-1-1-256k") && names.contains("topic-10-1-10"));
    }
}
