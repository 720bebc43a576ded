//! `bench edges kill`: edges are killed under load, one after the other, and started again. Their clients go to the others, and some
//! clients of the others lose their connections at the same time and come back to where they were.
//!
//! Invariant: in the end every client has the last value of each of its topics, or that counts as left out.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use anyhow::ensure;

use super::feed::{Feed, Numbers, Publisher, path};
use super::fleet::Fleet;
use super::member::{Kind, Member};
use super::nodes::Nodes;
use super::outcome::Outcome;
use crate::args::EdgeKillArgs;
use crate::cpu::Usage;
use crate::diffusion::quotes::choose;

/// Runs it.
///
/// # Errors
/// A sentence when a server or an argument is at fault.
pub(super) fn run(args: &EdgeKillArgs) -> anyhow::Result<Outcome> {
    ensure!(args.common.edges > 1, "--edges must be above 1: clients have to go somewhere");
    ensure!(
        args.subscriptions > 0 && args.subscriptions <= args.topics && args.clients > 0,
        "--clients and --subscriptions must be above 0, and --topics enough for them"
    );
    let topics =
        "[topics]\nretain = true\nhistory_count = 1000\n[socketio]\nrecovery_window = \"2min\"\n";
    let mut nodes = Nodes::start(&args.common, topics, topics, "topics = [\"t/**\"]\n")?;
    let numbers = values(args.topics);
    let all: Vec<usize> = (0..args.topics).collect();
    Publisher::connect(nodes.source_address())?.publish(&all, &numbers)?;
    let jitter = Duration::from_millis(args.jitter);
    let mut fleet = Fleet::new(nodes.addresses().to_vec(), jitter)?;
    let shape = (args.clients, args.topics, args.subscriptions);
    people(&mut fleet, &nodes, shape)?;
    let feed = Feed::start(nodes.source_address(), &numbers, args.updates)?;
    fleet.run_for(Duration::from_secs(1))?;
    let before = cores(&mut fleet, &nodes, args.seconds.min(5))?;
    let quiet = before.iter().sum::<f64>() / before.len().max(1) as f64;
    let (mut peak, mut busy_s, mut late) = (0.0f64, 0, 0);
    for kill in 0..args.kills {
        let victim = kill % args.common.edges;
        nodes.kill_edge(victim);
        fleet.cut_others(victim, 10);
        let mut seconds = cores(&mut fleet, &nodes, 2)?;
        nodes.start_edge(victim)?;
        seconds.extend(cores(&mut fleet, &nodes, args.seconds.saturating_sub(2))?);
        peak = seconds.iter().fold(peak, |peak, cores| peak.max(*cores));
        busy_s = busy_s.max(seconds.iter().filter(|cores| **cores > 2.0 * quiet).count());
        fleet.run_until(TIMEOUT, |fleet| fleet.ready() == fleet.len())?;
        late += fleet.len() - fleet.ready();
        nodes.wait_for_edge(victim)?;
    }
    feed.stop()?;
    let missing = finish(&mut fleet, &numbers)?;
    fleet.count_gaps();
    let mut outcome = Outcome::default();
    outcome.counters(&fleet);
    outcome.at_most("last values that never came", missing, 0);
    outcome.at_most("clients that did not come back", late as u64, 0);
    returns(&mut outcome, &fleet);
    outcome.tell("source before", quiet, "cores");
    outcome.tell("source at most, in a second", peak, "cores");
    outcome.fast("seconds with more than twice of that, after a kill", (busy_s as f64, "s"), 5.0);
    Ok(outcome)
}

/// How many values so many topics have had: none.
pub(super) fn values(topics: usize) -> Numbers {
    Arc::new((0..topics).map(|_| AtomicU64::new(0)).collect())
}

/// Clients of all edges, with as many topics each as they are to have; all of them have their subscriptions afterwards.
///
/// # Errors
/// A sentence when they do not.
pub(super) fn people(
    fleet: &mut Fleet,
    nodes: &Nodes,
    (clients, topics, subscriptions): (usize, usize, usize),
) -> anyhow::Result<()> {
    let edges = nodes.addresses().len();
    for client in 0..clients {
        let topics = choose(client, topics, subscriptions).into_iter().map(path).collect();
        fleet.add(Member::new(client, Kind::of(client), client / 3 % edges, topics));
    }
    all_ready(fleet)
}

/// Waits until all have their subscriptions.
///
/// # Errors
/// A sentence when they do not.
pub(super) fn all_ready(fleet: &mut Fleet) -> anyhow::Result<()> {
    let is_ready = fleet.run_until(TIMEOUT, |fleet| fleet.ready() == fleet.len())?;
    ensure!(
        is_ready,
        "{} of {} clients have no subscriptions after {} s: {:?}",
        fleet.len() - fleet.ready(),
        fleet.len(),
        TIMEOUT.as_secs(),
        fleet.losses
    );
    Ok(())
}

/// Runs clients until each has the last value of all its topics; how many of these have not come.
///
/// # Errors
/// Only when the poller fails.
pub(super) fn finish(fleet: &mut Fleet, numbers: &Numbers) -> anyhow::Result<u64> {
    fleet.run_until(TIMEOUT, |fleet| missing(fleet, numbers).next().is_none())?;
    let lost: Vec<String> = missing(fleet, numbers).collect();
    if let Some(first) = lost.first() {
        fleet.counters.note(first.clone());
    }
    Ok(lost.len() as u64)
}

/// What clients do not have, one sentence for each last value.
fn missing(fleet: &Fleet, numbers: &Numbers) -> impl Iterator<Item = String> {
    fleet.members().iter().flat_map(move |member| {
        member.topics.iter().filter_map(move |topic| {
            let place = topic.strip_prefix("t/")?.parse::<usize>().ok()?;
            let last = numbers.get(place)?.load(Relaxed);
            let seen = member.seen.last(topic);
            let name = member.name();
            (seen != Some(last)).then(|| format!("{name} has {seen:?} of {topic}, not {last}"))
        })
    })
}

fn returns(outcome: &mut Outcome, fleet: &Fleet) {
    let returns = fleet.returns.len().max(1);
    let complete = 1.0 - fleet.returns_with_gap as f64 / returns as f64;
    outcome.tell("clients that came back", fleet.returns.len() as f64, "");
    outcome.at_least("of them with nothing missing", (complete * 100.0, "%"), 99.9);
    let mut times: Vec<f64> = fleet.returns.iter().map(Duration::as_secs_f64).collect();
    times.sort_by(f64::total_cmp);
    let quantile = |share: f64| {
        let place = (times.len() as f64 * share) as usize;
        times.get(place.min(times.len().saturating_sub(1))).copied().unwrap_or(0.0)
    };
    outcome.tell("back after, without pauses, p50", quantile(0.5), "s");
    outcome.tell("back after, without pauses, p99", quantile(0.99), "s");
    outcome.fast("back after, without pauses, at most", (quantile(1.0), "s"), 2.0);
}

/// Runs clients for so many seconds; the source's cores in each.
fn cores(fleet: &mut Fleet, nodes: &Nodes, seconds: u64) -> anyhow::Result<Vec<f64>> {
    let usage = || nodes.source_pid().and_then(|pid| Usage::of(&[pid]));
    let mut found = Vec::new();
    for _ in 0..seconds {
        let before = usage();
        fleet.run_for(Duration::from_secs(1))?;
        found.extend(before.zip(usage()).map(|(before, after)| after.running_s_since(&before)));
    }
    Ok(found)
}

const TIMEOUT: Duration = Duration::from_secs(60);
