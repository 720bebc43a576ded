//! What follows from the cells: what an event costs at an edge, and what a source and edges of other sizes would take.
//!
//! Invariant: a figure that would need a cell that was not measured is absent.

use crate::edges::cell::Cell;

/// `a + b × edges`, fitted to the cells without clients.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Fit {
    /// Cores without edges: what publishing costs.
    pub(crate) base: f64,
    /// Cores for each edge.
    pub(crate) each: f64,
}

/// The least squares through points; absent with fewer than two places.
pub(crate) fn fit(points: &[(f64, f64)]) -> Option<Fit> {
    let count = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (x, y) = (mean(|point| point.0), mean(|point| point.1));
    let spread: f64 = points.iter().map(|point| (point.0 - x).powi(2)).sum();
    let both: f64 = points.iter().map(|point| (point.0 - x) * (point.1 - y)).sum();
    let each = both / spread;
    (spread > 0.0).then_some(Fit { base: y - each * x, each })
}

/// The source's cores by edges, of cells without clients.
pub(crate) fn source_fit(cells: &[Cell]) -> Option<Fit> {
    let idle = cells.iter().filter(|cell| cell.clients == 0);
    let points = idle.filter_map(|cell| Some((cell.edges as f64, cell.source.as_ref()?.cores)));
    fit(&points.collect::<Vec<_>>())
}

impl Cell {
    /// Cores of all edges; of the source, if there are none.
    pub(crate) fn front_cores(&self) -> Option<f64> {
        match self.edges {
            0 => self.source.map(|source| source.cores),
            edges => (self.each_edge.len() == edges)
                .then(|| self.each_edge.iter().map(|used| used.cores).sum()),
        }
    }

    /// Microseconds of processor time for each event at the servers that clients are connected to, without what they take
    /// when nobody is connected.
    pub(crate) fn us_per_event(&self, cells: &[Cell]) -> Option<f64> {
        let is_same = |cell: &&Cell| cell.edges == self.edges && cell.clients == 0;
        let without = cells.iter().find(is_same)?.front_cores()?;
        let events = Some(self.events_per_s).filter(|events| *events > 0.0)?;
        Some((self.front_cores()? - without) / events * 1e6)
    }

    /// Microseconds that an edge takes for each update that it receives, without clients.
    pub(crate) fn us_per_update(&self) -> Option<f64> {
        let is_idle = self.edges > 0 && self.clients == 0 && self.updates_per_s > 0.0;
        let received = self.updates_per_s * self.edges as f64;
        self.front_cores().filter(|_| is_idle).map(|cores| cores / received * 1e6)
    }

    /// A quantile of the latency of events, in nanoseconds.
    pub(crate) fn latency_ns(&self, quantile: f64) -> Option<u64> {
        let known = self.counters.latency.total();
        (!known.is_empty()).then(|| known.value_at_quantile(quantile))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_found_and_one_point_is_none() {
        let fit_of = fit(&[(0.0, 0.2), (1.0, 0.25), (2.0, 0.30), (5.0, 0.45)]);
        assert!(
            fit_of
                .is_some_and(|fit| (fit.base - 0.2).abs() < 1e-9 && (fit.each - 0.05).abs() < 1e-9)
        );
        assert_eq!(fit(&[(3.0, 1.0), (3.0, 2.0)]), None);
        assert_eq!(fit(&[]), None);
    }
}
