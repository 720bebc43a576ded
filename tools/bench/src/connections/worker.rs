//! A child of `bench connections`: some of its clients in a process of their own.
//!
//! Says `ready` when all are subscribed, then takes orders line by line: `level SECONDS` measures and
//! answers with one line of JSON; the end of its input is its end. Invariant: nothing else is printed.

use std::io::{BufRead, Write};

use hdrhistogram::Histogram;
use indicatif::ProgressBar;
use serde_json::{Value, json};

use crate::args::WorkerArgs;
use crate::clients::{Clients, ClientsSpec};
use crate::connections::{PREFIX, WARM_UP_S, client_spec};
use crate::latency::histogram;
use crate::machine;

/// Runs the child.
///
/// # Errors
/// A sentence when a connection fails.
pub(crate) fn run(args: &WorkerArgs) -> anyhow::Result<()> {
    machine::ensure_open_files(args.count)?;
    let spec = ClientsSpec {
        address: args.address,
        pids: Vec::new(),
        workers: 1,
        clients: args.count,
        source_base: args.first,
        client: client_spec(args.speech, args.transport, &args.path, args.address),
    };
    let topic = |client: usize| (args.first + client) % args.topics.max(1);
    let mut clients =
        Clients::connect(&spec, |client| vec![format!("{PREFIX}/{}", topic(client))])?;
    say("ready")?;
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let Some(seconds) = line.strip_prefix("level ").and_then(|word| word.parse().ok()) else {
            continue;
        };
        let level = clients.level("level", None, (WARM_UP_S, seconds), &ProgressBar::hidden())?;
        let latency = level.counters.latency.total();
        let values: Vec<[u64; 2]> = latency
            .iter_recorded()
            .map(|step| [step.value_iterated_to(), step.count_since_last_iteration()])
            .collect();
        let result = json!({
            "received": level.observed.consumed,
            "seconds": level.observed.seconds,
            "left_out": level.counters.skipped,
            "errors": level.errors,
            "problem": level.problem,
            "latency": values,
        });
        say(&result.to_string())?;
    }
    Ok(())
}

fn say(line: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}

/// What one child or all of them have measured.
#[derive(Debug, Clone)]
pub(crate) struct LevelResult {
    pub(crate) received: u64,
    pub(crate) seconds: f64,
    pub(crate) left_out: u64,
    pub(crate) errors: u64,
    pub(crate) problem: Option<String>,
    pub(crate) latency: Histogram<u64>,
}

impl LevelResult {
    /// Nothing yet.
    pub(crate) fn new() -> LevelResult {
        LevelResult {
            received: 0,
            seconds: 0.0,
            left_out: 0,
            errors: 0,
            problem: None,
            latency: histogram(3),
        }
    }

    /// Adds what a child has said.
    pub(crate) fn add(&mut self, said: &Value) {
        let number = |name: &str| said.get(name).and_then(Value::as_u64).unwrap_or(0);
        self.received += number("received");
        self.left_out += number("left_out");
        self.errors += number("errors");
        self.seconds = self.seconds.max(said.get("seconds").and_then(Value::as_f64).unwrap_or(0.0));
        let problem = said.get("problem").and_then(Value::as_str).map(str::to_owned);
        self.problem = self.problem.take().or(problem);
        for step in said.get("latency").and_then(Value::as_array).into_iter().flatten() {
            let part = |at: usize| step.get(at).and_then(Value::as_u64).unwrap_or(0);
            self.latency.saturating_record_n(part(0), part(1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_add_up() {
        let mut sum = LevelResult::new();
        for _ in 0..2 {
            sum.add(&json!({
                "received": 3, "seconds": 2.0, "left_out": 1, "errors": 0, "problem": null,
                "latency": [[1_000, 2], [5_000, 1]],
            }));
        }
        assert_eq!((sum.received, sum.left_out, sum.latency.len()), (6, 2, 6));
        assert!(sum.latency.max() >= 5_000 && sum.problem.is_none());
    }
}
