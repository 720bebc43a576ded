//! The report of `bench queues`, for the terminal and as JSON.
//!
//! Invariant: both are made from the same figures, so they cannot disagree.

use serde_json::{Value, json};

use crate::args::QueuesArgs;
use crate::machine::Machine;
use crate::report::table::thousands;

use super::Found;

/// Everything a run has found.
#[derive(Debug)]
pub(super) struct Report {
    args: QueuesArgs,
    machine: Machine,
    found: Found,
}

#[allow(clippy::cast_precision_loss)]
impl Report {
    pub(super) fn new(args: &QueuesArgs, found: &Found) -> Report {
        Report { args: args.clone(), machine: Machine::detect(), found: *found }
    }

    /// What a person reads.
    pub(super) fn text(&self) -> String {
        let (args, found) = (&self.args, &self.found);
        format!(
            "{}\n{} queues, {} persistent messages of {} bytes in each, sync {}\n\n\
             {} messages a second, all confirmed\n\
             {:.0} bytes of memory for each queue when all are filled, {} MiB in all, {} MiB at most\n\
             {:.2} s until the server takes connections again after a kill, {:.2} s until the first messages\n\
             {:.0} bytes of memory for each queue then, {} MiB in all\n",
            self.machine.summary(),
            thousands(args.queues),
            thousands(args.messages),
            thousands(args.size as u64),
            args.sync,
            thousands(self.rate() as u64),
            self.each(found.filled),
            found.filled >> 20,
            found.filled_peak.max(found.filled) >> 20,
            found.ready_s,
            found.first_s,
            self.each(found.restarted),
            found.restarted >> 20,
        )
    }

    /// Every figure.
    pub(super) fn json(&self) -> Value {
        let (args, found) = (&self.args, &self.found);
        json!({
            "label": args.label,
            "machine": self.machine.summary(),
            "queues": args.queues,
            "messages_each": args.messages,
            "size_bytes": args.size,
            "sync": args.sync,
            "messages_per_s": self.rate(),
            "idle_bytes": found.idle,
            "filled_bytes": found.filled,
            "filled_peak_bytes": found.filled_peak,
            "filled_bytes_each": self.each(found.filled),
            "ready_s": found.ready_s,
            "first_delivery_s": found.first_s,
            "restarted_bytes": found.restarted,
            "restarted_bytes_each": self.each(found.restarted),
        })
    }

    fn rate(&self) -> f64 {
        (self.args.queues * self.args.messages) as f64 / self.found.fill_s.max(1e-9)
    }

    /// Beyond what the server has without a queue.
    fn each(&self, bytes: u64) -> f64 {
        bytes.saturating_sub(self.found.idle) as f64 / self.args.queues as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_for_each_queue_beyond_an_idle_server() {
        let args = QueuesArgs {
            queues: 1_000,
            messages: 10,
            size: 100,
            sync: "always".to_owned(),
            directory: None,
            server: None,
            settings: Vec::new(),
            json: None,
            label: String::new(),
        };
        let found = Found {
            idle: 40 << 20,
            filled_peak: 44 << 20,
            filled: (40 << 20) + 500_000,
            fill_s: 0.5,
            ready_s: 0.25,
            first_s: 0.375,
            restarted: (40 << 20) + 300_000,
        };
        let report = Report::new(&args, &found);
        let text = report.text();
        for part in [
            "1,000 queues",
            "20,000 messages a second",
            "500 bytes of memory",
            "44 MiB at most",
            "0.25 s",
            "300 bytes",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert_eq!(report.json()["restarted_bytes_each"], 300.0);
    }
}
