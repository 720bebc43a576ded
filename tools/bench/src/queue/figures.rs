//! What a cell has shown, and the medians of several rounds of it.
//!
//! Invariant: what was not measured is `None`, never zero.

use serde_json::{Value, json};

use crate::queue::load::Passed;

/// A line of the table, once.
#[derive(Debug, Clone)]
pub(super) struct Figures {
    pub(super) line: &'static str,
    pub(super) server: String,
    pub(super) messages: u64,
    pub(super) seconds: f64,
    /// Processor time of the server for each message, µs.
    pub(super) cpu_us: Option<f64>,
    /// From sending to the receipt, ns: the median and the 99th percentile.
    pub(super) receipt_p50_ns: Option<f64>,
    pub(super) receipt_p99_ns: Option<f64>,
    /// Messages confirmed with each sync of our own server.
    pub(super) per_sync: Option<f64>,
    /// The same by the bare disk.
    pub(super) bare: Option<Bare>,
    /// Most resident memory of the server, bytes.
    pub(super) rss_peak: Option<f64>,
    /// The same over time: seconds and bytes.
    pub(super) memory: Vec<(f64, u64)>,
    /// After a kill.
    pub(super) restart: Option<Restart>,
    pub(super) remarks: Vec<String>,
}

/// What the disk did without a server.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bare {
    /// Records of the same size in a second.
    pub(super) per_s: f64,
    /// One `fdatasync` among them, ns: the median.
    pub(super) sync_ns: Option<f64>,
}

/// A kill and a start.
#[derive(Debug, Clone, Copy)]
pub(super) struct Restart {
    /// From the kill until connections are taken.
    pub(super) ready_s: f64,
    /// From the kill until the first message is delivered.
    pub(super) first_s: f64,
    /// Resident memory before anything is delivered.
    pub(super) rss_bytes: u64,
}

#[allow(clippy::cast_precision_loss)]
impl Figures {
    /// Nothing measured yet.
    pub(super) fn new(line: &'static str, server: &str) -> Figures {
        Figures {
            line,
            server: server.to_owned(),
            messages: 0,
            seconds: 0.0,
            cpu_us: None,
            receipt_p50_ns: None,
            receipt_p99_ns: None,
            per_sync: None,
            bare: None,
            rss_peak: None,
            memory: Vec::new(),
            restart: None,
            remarks: Vec::new(),
        }
    }

    /// So many messages in so long a time.
    pub(super) fn rated(&mut self, messages: u64, seconds: f64) {
        (self.messages, self.seconds) = (messages, seconds);
    }

    /// What a passage has cost, by so many messages.
    pub(super) fn accounted(&mut self, passed: &Passed, messages: u64) {
        let cpu_s = passed.cpu_s.filter(|_| messages > 0);
        self.cpu_us = cpu_s.map(|seconds| seconds * 1e6 / messages as f64);
        if let Some(receipts) = passed.receipts.as_ref().filter(|all| !all.total().is_empty()) {
            let at = |quantile| Some(receipts.total().value_at_quantile(quantile) as f64);
            (self.receipt_p50_ns, self.receipt_p99_ns) = (at(0.5), at(0.99));
        }
        self.rss_peak = passed.memory.iter().map(|(_, bytes)| *bytes as f64).reduce(f64::max);
        self.memory.clone_from(&passed.memory);
        if let Some(problem) = &passed.problem {
            self.remark(problem.clone());
        }
        if passed.duplicates > 0 {
            self.remark(format!("{} messages came twice", passed.duplicates));
        }
    }

    pub(super) fn remark(&mut self, text: String) {
        self.remarks.push(text);
    }

    pub(super) fn rate(&self) -> f64 {
        if self.seconds > 0.0 { self.messages as f64 / self.seconds } else { 0.0 }
    }

    /// Of what the bare disk does.
    pub(super) fn share(&self) -> Option<f64> {
        self.bare.filter(|bare| bare.per_s > 0.0).map(|bare| self.rate() / bare.per_s)
    }

    fn json(&self) -> Value {
        json!({
            "messages": self.messages,
            "seconds": self.seconds,
            "messages_per_s": self.rate(),
            "cpu_us": self.cpu_us,
            "receipt_p50_ns": self.receipt_p50_ns,
            "receipt_p99_ns": self.receipt_p99_ns,
            "messages_per_sync": self.per_sync,
            "bare_disk_per_s": self.bare.map(|bare| bare.per_s),
            "fdatasync_p50_ns": self.bare.and_then(|bare| bare.sync_ns),
            "share_of_disk": self.share(),
            "rss_peak_bytes": self.rss_peak,
            "restart_ready_s": self.restart.map(|restart| restart.ready_s),
            "restart_first_delivery_s": self.restart.map(|restart| restart.first_s),
            "restart_rss_bytes": self.restart.map(|restart| restart.rss_bytes),
            "rss_over_time": self.memory,
            "remarks": self.remarks,
        })
    }
}

/// A line of the table over all rounds.
#[derive(Debug, Clone)]
pub(super) struct Line {
    pub(super) name: &'static str,
    pub(super) server: String,
    pub(super) rounds: Vec<Figures>,
}

impl Line {
    /// The median of a figure over the rounds that have it.
    pub(super) fn median(&self, of: impl Fn(&Figures) -> Option<f64>) -> Option<f64> {
        let mut found: Vec<f64> = self.rounds.iter().filter_map(of).collect();
        found.sort_by(f64::total_cmp);
        let middle = found.len() / 2;
        let upper = *found.get(middle)?;
        if found.len().is_multiple_of(2) {
            return Some(f64::midpoint(*found.get(middle - 1)?, upper));
        }
        Some(upper)
    }

    /// The remarks of all rounds, each once.
    pub(super) fn remarks(&self) -> Vec<&str> {
        let mut all: Vec<&str> = Vec::new();
        for remark in self.rounds.iter().flat_map(|figures| &figures.remarks) {
            if !all.contains(&remark.as_str()) {
                all.push(remark);
            }
        }
        all
    }

    /// Every figure, medians first.
    pub(super) fn json(&self) -> Value {
        json!({
            "cell": self.name,
            "server": self.server,
            "messages_per_s": self.median(|figures| Some(figures.rate())),
            "cpu_us": self.median(|figures| figures.cpu_us),
            "receipt_p50_ns": self.median(|figures| figures.receipt_p50_ns),
            "receipt_p99_ns": self.median(|figures| figures.receipt_p99_ns),
            "messages_per_sync": self.median(|figures| figures.per_sync),
            "bare_disk_per_s": self.median(|figures| figures.bare.map(|bare| bare.per_s)),
            "fdatasync_p50_ns": self.median(|figures| figures.bare?.sync_ns),
            "share_of_disk": self.median(Figures::share),
            "rss_peak_bytes": self.median(|figures| figures.rss_peak),
            "restart_ready_s": self.median(|figures| Some(figures.restart?.ready_s)),
            "restart_first_delivery_s": self.median(|figures| Some(figures.restart?.first_s)),
            "rounds": self.rounds.iter().map(Figures::json).collect::<Vec<_>>(),
        })
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A line of so many rounds, each a little faster.
    pub(in crate::queue) fn line(name: &'static str, server: &str, rounds: u64) -> Line {
        let round = |number| {
            let mut figures = Figures::new(name, server);
            figures.rated(1000 * number, 0.5);
            figures.receipt_p50_ns = Some(1e6);
            figures.bare = Some(Bare { per_s: 4000.0, sync_ns: Some(5e5) });
            figures.memory = vec![(0.0, 1 << 20), (0.5, 3 << 20)];
            figures.restart = Some(Restart { ready_s: 0.1, first_s: 0.2, rss_bytes: 2 << 20 });
            figures.remark("slowly".to_owned());
            figures
        };
        Line { name, server: server.to_owned(), rounds: (1..=rounds).map(round).collect() }
    }

    #[test]
    fn medians_are_of_the_rounds_that_have_the_figure() {
        let mut line = line("load", "ours", 3);
        assert_eq!(line.median(|figures| Some(figures.rate())), Some(4000.0));
        assert_eq!(line.median(Figures::share), Some(1.0));
        line.rounds.pop();
        assert_eq!(line.median(|figures| Some(figures.rate())), Some(3000.0));
        assert_eq!(line.median(|figures| figures.cpu_us), None);
        assert_eq!(line.remarks(), ["slowly"]);
        assert_eq!(line.json()["rounds"][1]["share_of_disk"], 1.0);
    }
}
