//! The report of `bench store`, for the terminal and as JSON.
//!
//! Invariant: both are made from the same figures, so they cannot disagree.

use serde_json::{Value, json};

use crate::args::StoreArgs;
use crate::machine::Machine;
use crate::report::table::thousands;

/// A value for every topic.
#[derive(Debug)]
pub(super) struct Round {
    pub(super) seconds: f64,
    pub(super) messages: u64,
    pub(super) commits: u64,
    pub(super) syncs: u64,
    pub(super) bytes: u64,
}

/// A kill and a start.
#[derive(Debug)]
pub(super) struct Restart {
    pub(super) seconds: f64,
    /// Of the store's files.
    pub(super) bytes: u64,
}

/// Everything a run has found.
#[derive(Debug)]
pub(super) struct Report {
    label: String,
    machine: Machine,
    topics: usize,
    size: usize,
    sync: String,
    rounds: Vec<Round>,
    restarts: Vec<Restart>,
}

impl Report {
    pub(super) fn new(args: &StoreArgs, rounds: Vec<Round>, restarts: Vec<Restart>) -> Report {
        Report {
            label: args.label.clone(),
            machine: Machine::detect(),
            topics: args.topics,
            size: args.size,
            sync: args.sync.clone(),
            rounds,
            restarts,
        }
    }

    /// What a person reads.
    pub(super) fn text(&self) -> String {
        let mut text = format!(
            "{}\n{} persistent topics, values of {} bytes, sync {}\n\n",
            self.machine.summary(),
            thousands(self.topics as u64),
            self.size,
            self.sync
        );
        for (number, round) in self.rounds.iter().enumerate() {
            let what = if number == 0 { "create " } else { "update " };
            text += &format!(
                "{what} {} confirmed/s, {} commits/s of {:.0} messages, {} syncs/s, {} written/s\n",
                per_second(round.messages as f64, round.seconds),
                per_second(round.commits as f64, round.seconds),
                share(round.messages, round.commits),
                per_second(round.syncs as f64, round.seconds),
                mebibytes(round.bytes as f64 / round.seconds),
            );
        }
        for restart in &self.restarts {
            text += &format!(
                "restart {:.2} s until all topics are there: {} topics/s, {} of log\n",
                restart.seconds,
                per_second(self.topics as f64, restart.seconds),
                mebibytes(restart.bytes as f64),
            );
        }
        text
    }

    /// Every figure.
    pub(super) fn json(&self) -> Value {
        let rounds = self.rounds.iter().map(|round| {
            json!({
                "seconds": round.seconds,
                "messages_per_s": round.messages as f64 / round.seconds,
                "commits": round.commits,
                "messages_per_commit": share(round.messages, round.commits),
                "syncs": round.syncs,
                "bytes_written": round.bytes,
            })
        });
        let restarts = self.restarts.iter().map(|restart| {
            json!({
                "seconds": restart.seconds,
                "topics_per_s": self.topics as f64 / restart.seconds,
                "log_bytes": restart.bytes,
            })
        });
        json!({
            "label": self.label,
            "machine": self.machine.summary(),
            "topics": self.topics,
            "value_bytes": self.size,
            "sync": self.sync,
            "rounds": rounds.collect::<Vec<_>>(),
            "restarts": restarts.collect::<Vec<_>>(),
        })
    }
}

fn per_second(count: f64, seconds: f64) -> String {
    thousands((count / seconds).round() as u64)
}

fn share(messages: u64, commits: u64) -> f64 {
    messages as f64 / commits.max(1) as f64
}

fn mebibytes(bytes: f64) -> String {
    format!("{:.1} MiB", bytes / f64::from(1 << 20))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_shares_of_what_was_measured() {
        let round = |commits| Round {
            seconds: 0.5,
            messages: 1000,
            commits,
            syncs: commits,
            bytes: 3 << 20,
        };
        let report = Report {
            label: String::new(),
            machine: Machine::detect(),
            topics: 1000,
            size: 200,
            sync: "always".to_owned(),
            rounds: vec![round(20), round(0)],
            restarts: vec![Restart { seconds: 0.25, bytes: 5 << 20 }],
        };
        let text = report.text();
        for line in [
            "create  2,000 confirmed/s, 40 commits/s of 50 messages, 40 syncs/s, 6.0 MiB written/s",
            "update  2,000 confirmed/s, 0 commits/s of 1000 messages",
            "restart 0.25 s until all topics are there: 4,000 topics/s, 5.0 MiB of log",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
        assert_eq!(report.json()["rounds"][0]["messages_per_commit"], 50.0);
        assert_eq!(report.json()["restarts"][0]["topics_per_s"], 4000.0);
    }
}
