//! The report of `bench subscriptions`, for the terminal and as JSON.
//!
//! Invariant: both are made from the same figures, so they cannot disagree.

use serde_json::{Value, json};

use crate::args::SubscriptionsArgs;
use crate::machine::Machine;
use crate::report::table::thousands;

use super::Stand;

/// Everything a run has found.
#[derive(Debug)]
pub(super) struct Report {
    label: String,
    machine: Machine,
    subscriptions: u64,
    messages: u64,
    size: usize,
    sync: String,
    seconds: f64,
    written: u64,
    grown: u64,
    settled: u64,
}

impl Report {
    pub(super) fn new(
        args: &SubscriptionsArgs,
        seconds: f64,
        (before, gathered, settled): (&Stand, &Stand, &Stand),
    ) -> Report {
        Report {
            label: args.label.clone(),
            machine: Machine::detect(),
            subscriptions: args.subscriptions,
            messages: args.messages,
            size: args.size,
            sync: args.sync.clone(),
            seconds,
            written: gathered.written.saturating_sub(before.written),
            grown: gathered.resident.saturating_sub(before.resident),
            settled: settled.written.saturating_sub(gathered.written),
        }
    }

    /// What a person reads.
    pub(super) fn text(&self) -> String {
        format!(
            "{}\n{} durable subscriptions to one topic, {} persistent messages of {} bytes, sync {}\n\n\
             {:.1} bytes written for each message and subscription\n\
             {:.0} bytes of memory for each message and subscription\n\
             {:.1} ms until a message is confirmed\n\
             {:.1} bytes written for each message and subscription when it is acknowledged\n",
            self.machine.summary(),
            thousands(self.subscriptions),
            thousands(self.messages),
            thousands(self.size as u64),
            self.sync,
            self.each(self.written),
            self.each(self.grown),
            self.milliseconds(),
            self.each(self.settled),
        )
    }

    /// Every figure.
    pub(super) fn json(&self) -> Value {
        json!({
            "label": self.label,
            "machine": self.machine.summary(),
            "subscriptions": self.subscriptions,
            "messages": self.messages,
            "size_bytes": self.size,
            "sync": self.sync,
            "written_bytes_each": self.each(self.written),
            "memory_bytes_each": self.each(self.grown),
            "confirmed_ms": self.milliseconds(),
            "acknowledged_bytes_each": self.each(self.settled),
        })
    }

    fn each(&self, bytes: u64) -> f64 {
        bytes as f64 / (self.subscriptions * self.messages) as f64
    }

    fn milliseconds(&self) -> f64 {
        self.seconds * 1e3 / self.messages as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_for_each_message_and_subscription() {
        let report = Report {
            label: String::new(),
            machine: Machine::detect(),
            subscriptions: 1_000,
            messages: 10,
            size: 1_024,
            sync: "always".to_owned(),
            seconds: 0.5,
            written: 42_000,
            grown: 3_000_000,
            settled: 30_000,
        };
        let text = report.text();
        for part in
            ["1,000 durable", "4.2 bytes written", "300 bytes of memory", "50.0 ms", "3.0 bytes"]
        {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert_eq!(report.json()["written_bytes_each"], 4.2);
    }
}
