//! `bench diffusion`: Diffusion's published test. 100,000 topics hold a kilobyte of JSON each, a publisher
//! updates 20,000 of them a second, and more and more clients subscribe to 100 of them, without deltas and
//! with them; then everything is driven to saturation.
//!
//! A separate connection publishes full values over the native protocol, as in the article, so what
//! publishing costs the server is in its figures. Invariant: deltas off and on are measured one after
//! the other for each number of clients, so that they compare.

mod figures;
mod plots;
mod published;
pub(crate) mod quotes;
mod report;
mod step;

use anyhow::{Context, ensure};
use indicatif::ProgressBar;

use crate::args::DiffusionArgs;
use crate::bare::{self, BareSpec};
use crate::body::HEAD_BYTES;
use crate::machine;
use crate::matrix;
use crate::stomp::watch::Observation;

use report::Report;
use step::{Load, Step};

/// Runs `bench diffusion`.
///
/// # Errors
/// A sentence when the server, a connection or an argument is at fault.
pub fn run(args: &DiffusionArgs) -> anyhow::Result<()> {
    ensure!(
        args.topics > 0 && args.subscriptions > 0,
        "--topics and --subscriptions must be above 0"
    );
    ensure!(args.subscriptions <= args.topics, "more --subscriptions than --topics");
    ensure!(args.updates > 0.0 && args.rounds > 0, "--updates and --rounds must be above 0");
    let most = machine::open_files().saturating_sub(FILES_SPARE);
    for clients in args.clients.iter().chain(&args.saturation_clients) {
        ensure!(*clients > 0, "--clients must be above 0");
        machine::ensure_open_files(*clients)?;
    }
    let bar = matrix::progress_bar();
    let mut report = Report::new(args);
    let mut kept_up = None;
    for clients in ladder(args, most) {
        let steps = rounds(args, clients, &bar)?;
        let keeps_up = steps.iter().all(Step::keeps_up);
        if let Some(step) = steps.last().filter(|_| !args.no_bare) {
            let asked = step.level.asked_per_s.unwrap_or_default();
            report.bare.push((clients, bare(args, clients, asked, &bar)?));
        }
        report.steps.extend(steps);
        if keeps_up {
            kept_up = Some(clients);
        } else if args.clients.is_empty() {
            break;
        }
    }
    if !args.no_saturation {
        let clients = args.saturation_clients.or(kept_up).or(args.clients.first().copied());
        for deltas in args.deltas.modes() {
            let spec = (clients.unwrap_or(1).min(most), *deltas);
            report.steps.extend(step::measure(args, spec, &[Load::Saturation, Load::Half], &bar)?);
        }
    }
    bar.finish_and_clear();
    matrix::print(&report.text())?;
    report.write_files(&args.output)
}

/// What a writer of as many small messages to as many sockets takes that does nothing else.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn bare(
    args: &DiffusionArgs,
    clients: usize,
    events_per_s: f64,
    bar: &ProgressBar,
) -> anyhow::Result<Observation> {
    let spec = BareSpec {
        connections: clients,
        size: HEAD_BYTES,
        write_bytes: HEAD_BYTES,
        rate: Some(events_per_s as u64),
        warm_up_s: 1,
        duration_s: args.seconds.min(5),
    };
    bare::measure(spec, bar)
}

/// One number of clients in all modes; of several rounds those with the median of CPU per event.
fn rounds(args: &DiffusionArgs, clients: usize, bar: &ProgressBar) -> anyhow::Result<Vec<Step>> {
    let mut all: Vec<Vec<Step>> = args.deltas.modes().iter().map(|_| Vec::new()).collect();
    for _ in 0..args.rounds {
        for (deltas, known) in args.deltas.modes().iter().zip(&mut all) {
            let steps = step::measure(args, (clients, *deltas), &[Load::Paced], bar)
                .with_context(|| format!("with {clients} clients"))?;
            known.extend(steps);
        }
    }
    let median = |mut steps: Vec<Step>| {
        let cost = |step: &Step| step.level.observed.server_us_per_delivery().unwrap_or(0.0);
        steps.sort_by(|one, other| cost(one).total_cmp(&cost(other)));
        let middle = (steps.len() - 1) / 2;
        steps.swap_remove(middle)
    };
    Ok(all.into_iter().map(median).collect())
}

/// The numbers of clients to measure.
fn ladder(args: &DiffusionArgs, most: usize) -> Vec<usize> {
    if !args.clients.is_empty() {
        return args.clients.clone();
    }
    let steps = [1, 2, 3, 5, 7].iter().map(|step| step * 1_000);
    let rest = (2..=20).map(|step| step * 5_000);
    steps.chain(rest).filter(|clients| *clients <= most).collect()
}

/// Standard streams, pollers, the publisher.
const FILES_SPARE: usize = 100;

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: DiffusionArgs,
    }

    #[test]
    fn clients_are_those_asked_for_or_as_many_as_files() {
        let args = Line::parse_from(["x", "--clients", "40,20000"]).args;
        assert_eq!(ladder(&args, 100), [40, 20_000]);
        let args = Line::parse_from(["x"]).args;
        assert_eq!(ladder(&args, 10_050), [1_000, 2_000, 3_000, 5_000, 7_000, 10_000]);
        assert_eq!(ladder(&args, usize::MAX).last(), Some(&100_000));
        assert_eq!(args.deltas.modes(), [false, true]);
    }
}
