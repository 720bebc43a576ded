//! `bench store`: what persistent topics cost, and how fast they come back after a kill.
//!
//! A server with a store gets a value for every topic, then more; each counts when it has been
//! confirmed, which is when the store has it. Then the server is killed and started again. Invariant:
//! a restart is over when the server answers and has all topics with their values.

mod report;

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};

use crate::args::StoreArgs;
use crate::folder::Folder;
use crate::matrix;
use crate::scrape;
use crate::server::Server;
use crate::topics::{Load, create};

use report::{Report, Restart, Round};

/// Runs `bench store`.
///
/// # Errors
/// A sentence when the server, a connection, the disk or an argument is at fault.
pub fn run(args: &StoreArgs) -> anyhow::Result<()> {
    ensure!(args.topics > 0 && args.publishers > 0, "--topics and --publishers must be above 0");
    let bar = matrix::progress_bar();
    let directory = Folder::new(args.directory.as_deref(), "store")?;
    let load = Load { topics: args.topics, size: args.size, publishers: args.publishers };
    let sections = sections(args, &directory.path);
    let start = || Server::start(args.server.as_ref(), &sections, &args.settings);
    bar.set_message("starting");
    let mut server = start()?;
    let mut rounds = Vec::new();
    for round in 0..=args.rounds {
        bar.set_message(if round == 0 { "creating topics" } else { "updating topics" });
        let before = Counts::of(server.address)?;
        let begun = Instant::now();
        create(&load, server.address, &bar)?;
        let seconds = begun.elapsed().as_secs_f64();
        let after = Counts::of(server.address)?;
        rounds.push(Round {
            seconds,
            messages: args.topics as u64,
            commits: after.commits - before.commits,
            syncs: after.syncs - before.syncs,
            bytes: after.bytes - before.bytes,
        });
    }
    let mut restarts = Vec::new();
    for _ in 0..args.restarts {
        bar.set_message("starting again");
        // SIGKILL: nothing is written any more.
        drop(server);
        let bytes = directory.bytes()?;
        let begun = Instant::now();
        server = start()?;
        wait_for_topics(server.address, args.topics)?;
        restarts.push(Restart { seconds: begun.elapsed().as_secs_f64(), bytes });
    }
    bar.finish_and_clear();
    let report = Report::new(args, rounds, restarts);
    matrix::print(&report.text())?;
    match &args.json {
        Some(path) => crate::report::write(path, &format!("{:#}\n", report.json())),
        None => Ok(()),
    }
}

/// What the server's configuration has besides its address.
fn sections(args: &StoreArgs, directory: &Path) -> String {
    // Values and what their topics cost, on however many shards, with room to spare.
    let memory = args.topics as u64 * (args.size as u64 + 1024) * 2 + (256 << 20);
    format!(
        "[memory]\nmessages_bytes_max = \"{} MiB\"\n[store]\ndirectory = {directory:?}\n\
         sync = {:?}\n[topics]\npersistent = true\nretain = true\n",
        memory >> 20,
        args.sync
    )
}

/// What the store has counted.
struct Counts {
    commits: u64,
    syncs: u64,
    bytes: u64,
}

impl Counts {
    fn of(address: SocketAddr) -> anyhow::Result<Counts> {
        let metric = |name: &str| {
            let found = scrape::metric(address, name);
            found.with_context(|| format!("the server does not tell {name}"))
        };
        Ok(Counts {
            commits: metric("tiderace_store_commits_total")?,
            syncs: metric("tiderace_store_syncs_total")?,
            bytes: metric("tiderace_store_bytes_written_total")?,
        })
    }
}

fn wait_for_topics(address: SocketAddr, topics: usize) -> anyhow::Result<()> {
    let begun = Instant::now();
    loop {
        let known = scrape::metric(address, "tiderace_topics_retained").unwrap_or(0);
        if known == topics as u64 {
            return Ok(());
        }
        if begun.elapsed() > TIMEOUT {
            bail!("after its restart the server has {known} topics with values, not {topics}");
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

const TIMEOUT: Duration = Duration::from_secs(120);
