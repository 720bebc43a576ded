//! `bench queue`: persistent queues, ours beside others', beside what the disk does without a server.
//!
//! Each cell is run on each server in every round, in an order of chance; a server of our own is started for each, with
//! an empty store. Invariant: what is printed as a share was measured within a few seconds of what it is a share of.

mod cells;
mod disk;
mod figures;
mod load;
mod plots;
mod report;
mod site;

use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::ensure;

use crate::args::{QueueArgs, TargetArgs};
use crate::body::HEAD_BYTES;
use crate::folder::Folder;
use crate::machine;
use crate::matrix;
use crate::random::Random;
use crate::target::Target;

use cells::{CELLS, Cell, Surroundings};
use report::Report;
use site::Site;

/// Runs `bench queue`.
///
/// # Errors
/// A sentence when an argument, the server, a connection or the disk is at fault.
pub fn run(args: &QueueArgs) -> anyhow::Result<()> {
    if args.list {
        let names: String = CELLS.iter().map(|(name, _)| format!("{name}\n")).collect();
        return matrix::print(&names);
    }
    let cells = wanted(args)?;
    let targets = targets(args)?;
    machine::ensure_open_files(load::PRODUCERS + 2)?;
    let directory = Folder::new(args.directory.as_deref(), "queue")?;
    // A file that is no longer than a disk's own cache would say little of a queue that is.
    let longest = cells.iter().map(|(_, cell)| cell.bytes(args)).max().unwrap_or(0);
    let sequential_bytes = longest.clamp(SEQUENTIAL_BYTES_MIN, SEQUENTIAL_BYTES_MAX);
    let seed = SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |since| since.as_secs());
    let (mut random, bar) = (Random(seed), matrix::progress_bar());
    let mut report = Report::new(args);
    bar.set_length((args.rounds * cells.len() * targets.len()) as u64);
    for _ in 0..args.rounds {
        let mut around = Surroundings { args, disk: None, sequential: None };
        if !args.no_disk {
            bar.set_message("the bare disk");
            let sequential = disk::sequential(&directory.path, sequential_bytes)?;
            let commit = disk::group_commit(&directory.path, args.size, 1, SYNC_SPAN)?;
            report.disk.push((sequential, commit));
            (around.disk, around.sequential) = (Some(directory.path.as_path()), Some(sequential));
        }
        for (cell, target) in order(&mut random, cells.len(), targets.len()) {
            let (Some((name, cell)), Some(target)) = (cells.get(cell), targets.get(target)) else {
                continue;
            };
            let server = name_of(target.as_ref());
            bar.set_prefix(format!("{name} {server}"));
            let site = match target {
                None => Site::start(args, &directory),
                Some(target) => Ok(Site::running(args, target.clone())),
            };
            match site.and_then(|mut site| cell.run(name, &mut site, &around)) {
                Ok(figures) => report.add(figures),
                // What one server cannot do does not stop the table.
                Err(error) => report.fail(format!("{server} {name}: {error:#}")),
            }
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    report.ensure_figures()?;
    let names = targets.iter().map(|target| name_of(target.as_ref()));
    report.sort(&CELLS.map(|(name, _)| name), &names.collect::<Vec<_>>());
    matrix::print(&report.text())?;
    report.write_files(&args.output)
}

/// Our own server has no target: it is started.
fn name_of(target: Option<&Target>) -> &str {
    target.map_or(site::OURS, |target| target.name.as_str())
}

/// The cells that are asked for.
fn wanted(args: &QueueArgs) -> anyhow::Result<Vec<(&'static str, Cell)>> {
    ensure!(args.rounds > 0 && args.messages > 0, "--rounds and --messages must be above 0");
    ensure!(args.seconds > 0 && args.window > 0, "--seconds and --window must be above 0");
    ensure!(
        args.size.min(args.large) >= HEAD_BYTES,
        "--size and --large must be at least {HEAD_BYTES} bytes: a body carries a number and a time"
    );
    let syncs = ["always", "interval", "never"];
    ensure!(syncs.contains(&args.sync.as_str()), "--sync is always, interval or never");
    let unknown = args.only.iter().find(|only| !CELLS.iter().any(|(name, _)| name == only));
    ensure!(
        unknown.is_none(),
        "there is no cell {}; --list names them all",
        unknown.map_or("", |it| it)
    );
    let is_wanted = |(name, _): &(&str, Cell)| {
        args.only.is_empty() || args.only.iter().any(|only| only == name)
    };
    let cells: Vec<_> = CELLS.into_iter().filter(is_wanted).collect();
    for (name, cell) in &cells {
        let bytes = cell.bytes(args);
        ensure!(
            bytes <= args.bytes_max,
            "{name} would put {bytes} bytes into a queue, more than --bytes-max {}",
            args.bytes_max
        );
    }
    Ok(cells)
}

/// The servers; `None` is our own, started for each cell.
fn targets(args: &QueueArgs) -> anyhow::Result<Vec<Option<Target>>> {
    let specifications = TargetArgs {
        targets: args.targets.clone(),
        login: None,
        passcode: None,
        vhost: "localhost".to_owned(),
        server_pids: Vec::new(),
        ws_path: "/stomp".to_owned(),
    };
    let theirs = Target::all(&specifications)?.into_iter().map(Some);
    let ours = (!args.targets_only).then_some(None);
    let all: Vec<_> = ours.into_iter().chain(theirs).collect();
    ensure!(!all.is_empty(), "--targets-only wants a --target");
    Ok(all)
}

/// Every cell on every server, in an order of chance.
fn order(random: &mut Random, cells: usize, targets: usize) -> Vec<(usize, usize)> {
    let mut all: Vec<_> =
        (0..cells).flat_map(|cell| (0..targets).map(move |target| (cell, target))).collect();
    for last in (1..all.len()).rev() {
        let other = usize::try_from(random.below(last as u64 + 1)).unwrap_or(last);
        all.swap(last, other);
    }
    all
}

const SEQUENTIAL_BYTES_MIN: u64 = 128 << 20;
const SEQUENTIAL_BYTES_MAX: u64 = 16 << 30;
/// How long single records are synced for the figure of one `fdatasync`.
const SYNC_SPAN: std::time::Duration = std::time::Duration::from_millis(300);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_has_everything_once() {
        let mut all = order(&mut Random(7), 5, 3);
        assert_ne!(all, order(&mut Random(8), 5, 3));
        all.sort_unstable();
        assert_eq!(all, (0..15).map(|at| (at / 3, at % 3)).collect::<Vec<_>>());
    }
}
