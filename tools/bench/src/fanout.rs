//! `bench fanout`: one producer over TCP, many WebSocket subscribers of its one topic.
//!
//! Invariant: the bare baseline runs right after the servers, over as many sockets, with bodies as
//! large, read by the same code, so that the share printed is of this machine in this minute.

use crate::args::{AckMode, FanoutArgs};
use crate::bare::{self, BareSpec};
use crate::matrix;
use crate::report::table::rate;
use crate::report::{Cell, Run, text};
use crate::stomp::cell::{self, CellSpec, Kind};
use crate::stomp::watch::Observation;
use crate::target::Target;

/// Runs `bench fanout`.
///
/// # Errors
/// A sentence when no server could be measured or the baseline failed.
pub fn run(args: &FanoutArgs) -> anyhow::Result<()> {
    let targets = Target::all(&args.target)?;
    let mut run =
        Run::new(&args.output.label, targets.iter().map(|target| target.name.clone()).collect());
    let spec = spec(args);
    let bar = matrix::progress_bar();
    let mut outcomes = Vec::new();
    for target in &targets {
        bar.set_prefix(format!("fan-out {}", target.name));
        match cell::run(target, &spec, &bar) {
            Err(error) if targets.len() == 1 => return Err(error),
            outcome => outcomes.push(outcome.map_err(|error| format!("{error:#}"))),
        }
    }
    run.cells.push(Cell { spec, published: None, outcomes });
    if !args.no_bare {
        let bare = BareSpec {
            connections: args.subscribers,
            size: args.size,
            write_bytes: args.write_bytes,
            rate: None,
            warm_up_s: 1,
            duration_s: args.duration.min(5),
        };
        let observed = bare::measure(bare, &bar)?;
        note_bare(&mut run, &observed, args);
    }
    bar.finish_and_clear();
    matrix::print(&text::details(&run))?;
    run.write_files(&args.output)
}

fn spec(args: &FanoutArgs) -> CellSpec {
    CellSpec {
        kind: Kind::Topic,
        consumers: args.subscribers,
        size: args.size,
        rate: args.rate,
        outstanding: args.outstanding * args.subscribers as u64,
        ack: AckMode::Auto,
        consumer_websocket: true,
        threads: args.threads,
        warm_up_s: args.warm_up,
        duration_s: args.duration,
        // Each message becomes as many deliveries as there are subscribers: small batches.
        batch_bytes: 16 * 1024,
        ..CellSpec::default()
    }
}

fn note_bare(run: &mut Run, observed: &Observation, args: &FanoutArgs) {
    let name =
        format!("bare writer, {} sockets, {}-byte writes", args.subscribers, args.write_bytes);
    run.notes.push((name, bare::figures(observed)));
    let bare_rate = observed.consumed_per_s();
    let shares: Vec<(String, String)> = run
        .cells
        .iter()
        .flat_map(|cell| run.targets.iter().zip(&cell.outcomes))
        .filter_map(|(name, outcome)| {
            let ours = outcome.as_ref().ok()?.observed.consumed_per_s();
            let share = ours / bare_rate * 100.0;
            Some((
                format!("{name} as a share of bare"),
                format!("{share:.0} % ({} of {} deliveries/s)", rate(ours), rate(bare_rate)),
            ))
        })
        .collect();
    run.notes.extend(shares);
}
