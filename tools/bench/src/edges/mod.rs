//! `bench edges`: Diffusion's published test of edge servers, scaled to one machine. A source holds 100,000 topics of a kilobyte of
//! JSON, a publisher updates 20,000 of them a second, edges take them all as deltas, and clients subscribe to 100 topics each at
//! the edges.
//!
//! Each number of edges is measured without clients and with all of them, so that the source's figures show whether clients of
//! edges cost it anything; with no edges the clients are at the source, which is the single node that edges are compared with.
//! Invariant: a cell has servers of its own, and all figures of a cell are of the same window of time.

mod cell;
mod faults;
mod figures;
mod report;

use anyhow::{Context, ensure};

use crate::args::EdgesArgs;
use crate::machine;
use crate::matrix;

use cell::Cell;
use report::Report;

/// Runs `bench edges`.
///
/// # Errors
/// A sentence when a server, a connection or an argument is at fault.
pub fn run(args: &EdgesArgs) -> anyhow::Result<()> {
    if let Some(fault) = &args.fault {
        return faults::run(fault);
    }
    ensure!(
        args.topics > 0 && args.subscriptions > 0 && args.shards > 0,
        "--topics, --subscriptions and --shards must be above 0"
    );
    ensure!(args.subscriptions <= args.topics, "more --subscriptions than --topics");
    ensure!(args.updates > 0.0 && args.rounds > 0, "--updates and --rounds must be above 0");
    machine::ensure_open_files(args.clients)?;
    let bar = matrix::progress_bar();
    let mut rounds: Vec<Vec<Cell>> = cells(args).iter().map(|_| Vec::new()).collect();
    for round in 0..args.rounds {
        for ((edges, clients), known) in cells(args).into_iter().zip(&mut rounds) {
            bar.set_prefix(format!("{edges} edges, {clients} clients, round {}", round + 1));
            let measured = cell::measure(args, edges, clients, &bar);
            known.push(measured.with_context(|| format!("with {edges} edges"))?);
        }
    }
    bar.finish_and_clear();
    let report = Report::new(args, rounds.into_iter().filter_map(median).collect());
    matrix::print(&report.text())?;
    report.write_files(&args.output)
}

/// Edges and clients of all cells, in order.
fn cells(args: &EdgesArgs) -> Vec<(usize, usize)> {
    let with = |edges: &usize| [(*edges, 0), (*edges, args.clients)];
    let mut cells: Vec<_> = args.edges.iter().flat_map(with).collect();
    cells.dedup();
    cells
}

/// The one with the median of the source's processor time.
fn median(mut cells: Vec<Cell>) -> Option<Cell> {
    let cost = |cell: &Cell| cell.source.as_ref().map_or(0.0, |source| source.cores);
    cells.sort_by(|one, other| cost(one).total_cmp(&cost(other)));
    let middle = cells.len().checked_sub(1)? / 2;
    Some(cells.swap_remove(middle))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: EdgesArgs,
    }

    #[test]
    fn each_number_of_edges_is_measured_without_and_with_clients() {
        let args = Line::parse_from(["x", "--edges", "0,2", "--clients", "10"]).args;
        assert_eq!(cells(&args), [(0, 0), (0, 10), (2, 0), (2, 10)]);
        let args = Line::parse_from(["x", "--edges", "1", "--clients", "0"]).args;
        assert_eq!(cells(&args), [(1, 0)]);
    }
}
