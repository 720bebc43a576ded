//! `bench large`: one message that is larger than memory should hold, through a queue to one consumer and through a topic to many
//! subscribers, by each carrier, beside copying a file of its size.
//!
//! A server is started for each cell. Invariant: what is printed as a share was measured within a few seconds of what it
//! is a share of, and what came was compared with what was sent.

mod cell;
mod client;
mod pattern;
mod receiver;
mod report;

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, ensure};

use crate::args::LargeArgs;
use crate::folder::Folder;
use crate::machine;
use crate::matrix;
use crate::random::Random;
use crate::report::write;

use cell::{CELLS, Cell, Figures};
use pattern::Pattern;
use report::Report;

/// Runs `bench large`.
///
/// # Errors
/// A sentence when an argument, the server, a connection or the disk is at fault.
pub fn run(args: &LargeArgs) -> anyhow::Result<()> {
    if args.list {
        let names: String = CELLS.iter().map(|cell| format!("{}\n", cell.name)).collect();
        return matrix::print(&names);
    }
    let cells = wanted(args)?;
    machine::ensure_open_files(args.subscribers + 8)?;
    let directory = Folder::new(args.directory.as_deref(), "large")?;
    let (pattern, bar) = (Pattern::new(), matrix::progress_bar());
    let seed = SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |since| since.as_secs());
    let mut random = Random(seed);
    let mut report = Report::new(args);
    bar.set_length((args.rounds * cells.len()) as u64);
    for _ in 0..args.rounds {
        for at in order(&mut random, cells.len()) {
            let Some(cell) = cells.get(at) else { continue };
            bar.set_prefix(cell.name);
            let copy_s = copy(&directory.path, args.size, &pattern)?;
            let figures = cell::run(cell, args, &directory, &pattern)
                .with_context(|| format!("the cell {}", cell.name))?;
            report.add(cell.name, Figures { copy_s, ..figures });
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    matrix::print(&report.text())?;
    match &args.json {
        Some(path) => write(path, &format!("{:#}\n", report.json())),
        None => Ok(()),
    }
}

/// The cells that are asked for.
fn wanted(args: &LargeArgs) -> anyhow::Result<Vec<&'static Cell>> {
    ensure!(args.rounds > 0 && args.seconds > 0, "--rounds and --seconds must be above 0");
    ensure!(args.others >= 0.0, "--others must be at least 0");
    ensure!(
        (1..=SUBSCRIBERS_MAX).contains(&args.subscribers),
        "--subscribers must be from 1 to {SUBSCRIBERS_MAX}: each has a thread of its own"
    );
    // Smaller ones stay in memory.
    ensure!(args.size >= SIZE_MIN, "--size must be at least {SIZE_MIN} bytes");
    let unknown = args.only.iter().find(|only| !CELLS.iter().any(|cell| cell.name == **only));
    ensure!(
        unknown.is_none(),
        "there is no cell {}; --list names them all",
        unknown.map_or("", |name| name)
    );
    let is_wanted =
        |cell: &&Cell| args.only.is_empty() || args.only.iter().any(|only| only == cell.name);
    Ok(CELLS.iter().filter(is_wanted).collect())
}

/// Seconds to copy a file of that size that has just been written, as `cp` does.
fn copy(directory: &Path, bytes: u64, pattern: &Pattern) -> anyhow::Result<f64> {
    let (from, to) = (directory.join("original"), directory.join("copy"));
    let mut file =
        File::create(&from).with_context(|| format!("cannot write {}", from.display()))?;
    let (mut at, mut piece) = (0, Vec::new());
    while at < bytes {
        pattern.fill(at, bytes - at, &mut piece);
        file.write_all(&piece).with_context(|| format!("cannot write {}", from.display()))?;
        at += piece.len() as u64;
    }
    let begun = Instant::now();
    fs::copy(&from, &to).with_context(|| format!("cannot copy to {}", to.display()))?;
    let seconds = begun.elapsed().as_secs_f64();
    fs::remove_file(&from)?;
    fs::remove_file(&to)?;
    Ok(seconds)
}

/// Every cell once, in an order of chance.
fn order(random: &mut Random, cells: usize) -> Vec<usize> {
    let mut all: Vec<_> = (0..cells).collect();
    for last in (1..cells).rev() {
        let other = usize::try_from(random.below(last as u64 + 1)).unwrap_or(last);
        all.swap(last, other);
    }
    all
}

const SUBSCRIBERS_MAX: usize = 1_000;
const SIZE_MIN: u64 = 1 << 20;
