//! `bench edges churn`: clients change what they subscribe to all the time. Afterwards the source has the subscriptions that are
//! needed and no others, and memory is what it was.
//!
//! Invariant: memory is compared between rests in which the same number of subscriptions is there.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use anyhow::ensure;

use super::feed::{Feed, Publisher, path};
use super::fleet::Fleet;
use super::kill::{all_ready, finish, people, values};
use super::nodes::Nodes;
use super::outcome::Outcome;
use crate::args::EdgeChurnArgs;
use crate::cpu::Usage;
use crate::random::Random;

/// Runs it.
///
/// # Errors
/// A sentence when a server or an argument is at fault.
pub(super) fn run(args: &EdgeChurnArgs) -> anyhow::Result<Outcome> {
    ensure!(args.common.edges > 0 && args.clients > 0, "--edges and --clients must be above 0");
    ensure!(
        args.subscriptions > 0 && args.subscriptions < args.topics && args.rounds > 0,
        "--subscriptions and --rounds must be above 0, and --topics more than that"
    );
    // A history that is full before the first rest, or its filling would look as if something were left behind.
    let topics = "[topics]\nretain = true\n[limits]\nsubscriptions_per_session_max = 1000000\n\
                  [history]\nage_max = \"10s\"\n";
    let upstream = format!("topics = [\"t/**\"]\nlinger = \"{}s\"\n", args.linger);
    let nodes = Nodes::start(&args.common, topics, topics, &upstream)?;
    let numbers = values(args.topics);
    let all: Vec<usize> = (0..args.topics).collect();
    Publisher::connect(nodes.source_address())?.publish(&all, &numbers)?;
    let mut fleet = Fleet::new(nodes.addresses().to_vec(), Duration::ZERO)?;
    people(&mut fleet, &nodes, (args.clients, args.topics, args.subscriptions))?;
    let mut outcome = Outcome::default();
    let feed = Feed::start(nodes.source_address(), &numbers, args.updates)?;
    let rest = Duration::from_secs(args.linger + REST_S);
    fleet.run_for(rest)?;
    let mut rests = vec![Rest::of(&nodes)];
    let mut random = Random(3);
    let mut changes = 0;
    for _ in 0..args.rounds {
        changes += churn(args, &mut fleet, &mut random)?;
        all_ready(&mut fleet)?;
        fleet.run_for(rest)?;
        rests.push(Rest::of(&nodes));
    }
    feed.stop()?;
    let missing = finish(&mut fleet, &numbers)?;
    outcome.counters(&fleet);
    outcome.at_most("last values that never came", missing, 0);
    outcome.tell("subscriptions changed", changes as f64, "");
    follows(&mut outcome, &mut fleet, &nodes)?;
    for (number, rest) in rests.iter().enumerate() {
        let what =
            format!("round {number}: source {:.1} MiB, edges {:.1} MiB", rest.source, rest.edges);
        outcome.remark(what);
    }
    // The first round finds how large tables become; what grows in the next ones as well is lost.
    if let [.., before, after] = rests.as_slice() {
        let grown = |before: f64, after: f64| (after / before.max(1.0) - 1.0) * 100.0;
        outcome.fast("source's memory, last round", (grown(before.source, after.source), "%"), 5.0);
        outcome.fast("edges' memory, last round", (grown(before.edges, after.edges), "%"), 5.0);
    }
    Ok(outcome)
}

/// Changes so many hundredths of all subscriptions each second; how many.
fn churn(args: &EdgeChurnArgs, fleet: &mut Fleet, random: &mut Random) -> anyhow::Result<u64> {
    let per_s = (args.clients * args.subscriptions * args.percent) as f64 / 100.0;
    let (begun, mut changes) = (Instant::now(), 0u64);
    let span = Duration::from_secs(args.seconds);
    loop {
        // However late this thread is, all of the span's changes are made, and no more.
        let elapsed = begun.elapsed().min(span);
        let due = (elapsed.as_secs_f64() * per_s) as u64;
        for _ in changes..due {
            let client = random.below(fleet.len() as u64) as usize;
            let Some(member) = fleet.members().get(client) else { continue };
            let place = random.below(member.topics.len() as u64) as usize;
            let to = path(random.below(args.topics as u64) as usize);
            if let Some(from) = member.topics.get(place).cloned()
                && !member.topics.contains(&to)
            {
                fleet.change(client, &from, &to);
            }
        }
        changes = due;
        fleet.run_for(Duration::from_millis(10))?;
        if elapsed == span {
            return Ok(changes);
        }
    }
}

/// Whether the source has the subscriptions that are needed: those of the topics of each edge's clients, and when all have left none.
fn follows(outcome: &mut Outcome, fleet: &mut Fleet, nodes: &Nodes) -> anyhow::Result<()> {
    let needed = |edge: usize| {
        let members = fleet.members().iter().filter(|member| member.at == edge);
        members.flat_map(|member| &member.topics).collect::<HashSet<_>>().len() as u64
    };
    let needed: u64 = (0..nodes.addresses().len()).map(needed).sum();
    let there = settled(nodes, needed);
    outcome.tell("subscriptions at the source, needed", needed as f64, "");
    outcome.at_most("more or fewer than these at the edges", there.0.abs_diff(needed), 0);
    outcome.at_most("more or fewer than these at the source", there.1.abs_diff(needed), 0);
    fleet.leave();
    let there = settled(nodes, 0);
    outcome.at_most("left at the edges when all clients have gone", there.0, 0);
    outcome.at_most("left at the source when all clients have gone", there.1, 0);
    Ok(())
}

/// Subscriptions upwards by the edges' account and by the source's, as soon as they are so many.
fn settled(nodes: &Nodes, wanted: u64) -> (u64, u64) {
    let begun = Instant::now();
    loop {
        let edges = nodes.edges_metric("tiderace_upstream_subscriptions");
        let source = nodes.source_metric("tiderace_subscriptions");
        if (edges, source) == (wanted, wanted) || begun.elapsed() > TIMEOUT {
            return (edges, source);
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Memory at a rest, MiB.
#[derive(Debug, Clone, Copy)]
struct Rest {
    source: f64,
    edges: f64,
}

impl Rest {
    fn of(nodes: &Nodes) -> Rest {
        let mib = |pids: &[u32]| {
            Usage::of(pids).map_or(0.0, |usage| usage.rss_bytes as f64 / f64::from(1 << 20))
        };
        let source: Vec<u32> = nodes.source_pid().into_iter().collect();
        Rest { source: mib(&source), edges: mib(&nodes.edge_pids()) }
    }
}

/// Seconds beyond which nothing lingers any more.
const REST_S: u64 = 3;
const TIMEOUT: Duration = Duration::from_secs(60);
