//! A source, so many edges and so many clients, measured once.
//!
//! Relies on edges that take everything, so that what the source does for them does not depend on clients. Invariant: nothing is
//! measured before each edge has all topics.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{anyhow, bail};
use indicatif::ProgressBar;

use crate::args::EdgesArgs;
use crate::clients::client::ClientSpec;
use crate::clients::native::CODEC;
use crate::clients::publications::Publications;
use crate::clients::publisher::{Publisher, PublisherSpec, Rate};
use crate::clients::values::ValuesSpec;
use crate::clients::{Clients, ClientsSpec, Counters, Level};
use crate::clock::{Clock, Window};
use crate::cpu::Usage;
use crate::diffusion::quotes::{self, Quotes};
use crate::scrape;
use crate::server::Server;

/// What was measured.
#[derive(Debug, Clone)]
pub(crate) struct Cell {
    pub(crate) edges: usize,
    pub(crate) clients: usize,
    /// Updates per second that were published.
    pub(crate) updates_per_s: f64,
    pub(crate) source: Option<Used>,
    pub(crate) each_edge: Vec<Used>,
    /// Bytes that the source has written for each update to each edge, if it tells.
    pub(crate) bytes_per_update: Option<f64>,
    /// Events per second that clients got, and those that were due.
    pub(crate) events_per_s: f64,
    pub(crate) events_asked_per_s: f64,
    /// Of all clients.
    pub(crate) counters: Counters,
    pub(crate) errors: u64,
    pub(crate) problem: Option<String>,
    /// What limits the meaning of the figures, by the generator's own account.
    pub(crate) bottleneck: Option<String>,
}

/// What a server has used.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Used {
    /// Cores.
    pub(crate) cores: f64,
    /// Resident bytes at the end.
    pub(crate) rss_bytes: u64,
}

/// Starts everything, and measures it.
///
/// # Errors
/// A sentence when a server or a connection fails.
pub(crate) fn measure(
    args: &EdgesArgs,
    edges: usize,
    clients: usize,
    bar: &ProgressBar,
) -> anyhow::Result<Cell> {
    let source = Server::start(args.server.as_ref(), &sections(args, None), &args.settings)?;
    let publications = Arc::new(Publications::new(args.topics));
    let publisher = publisher(args, &source, &publications)?;
    let servers = (0..edges).map(|_| {
        let sections = sections(args, Some(&source));
        Server::start(args.server.as_ref(), &sections, &args.settings)
    });
    let servers = servers.collect::<anyhow::Result<Vec<Server>>>()?;
    for edge in &servers {
        wait_for_topics(edge, args.topics)?;
    }
    let fronts: Vec<&Server> = if edges == 0 { vec![&source] } else { servers.iter().collect() };
    let mut groups = connect(args, &fronts, clients, &publications)?;
    for group in &mut groups {
        group.drain()?;
    }
    thread::sleep(REST);
    publisher.set(Rate::PerSecond(args.updates))?;
    let all: Vec<u32> = std::iter::once(&source).chain(&servers).map(Server::pid).collect();
    let fan_out = args.subscriptions as f64 / args.topics as f64;
    let (levels, watched) = thread::scope(|scope| {
        let levels: Vec<_> = groups
            .iter_mut()
            .map(|group| {
                let asked = Some(args.updates * fan_out * group.len() as f64);
                scope.spawn(move || group.level("edges", asked, (args.warm_up, args.seconds), bar))
            })
            .collect();
        let watched = watch(args, &all, &source, &publications);
        let joined = levels.into_iter().map(|level| {
            level.join().map_err(|_| anyhow!("a generator thread panicked; please report it"))?
        });
        (joined.collect::<anyhow::Result<Vec<Level>>>(), watched)
    });
    publisher.set(Rate::Stopped)?;
    Ok(sum(args, (edges, clients), &levels?, watched))
}

/// What the servers did meanwhile.
struct Watched {
    used: Vec<Option<Used>>,
    updates_per_s: f64,
    updates: u64,
    bytes: Option<u64>,
}

/// Looks at the servers at the beginning and at the end of the window.
fn watch(args: &EdgesArgs, pids: &[u32], source: &Server, publications: &Publications) -> Watched {
    let look = || {
        let usage: Vec<_> = pids.iter().map(|pid| Usage::of(&[*pid])).collect();
        let bytes = scrape::metric(source.address, "tiderace_bytes_sent_total");
        (Instant::now(), publications.published(), bytes, usage)
    };
    thread::sleep(Duration::from_secs(args.warm_up));
    let before = look();
    thread::sleep(Duration::from_secs(args.seconds));
    let after = look();
    let seconds = (after.0 - before.0).as_secs_f64();
    let used = before.3.iter().zip(&after.3).map(|(before, after)| {
        let (before, after) = before.as_ref().zip(after.as_ref())?;
        let cores = after.running_s_since(before) / seconds;
        Some(Used { cores, rss_bytes: after.rss_bytes })
    });
    let updates = after.1 - before.1;
    Watched {
        used: used.collect(),
        updates_per_s: updates as f64 / seconds,
        updates,
        bytes: before.2.zip(after.2).map(|(before, after)| after.saturating_sub(before)),
    }
}

fn sum(
    args: &EdgesArgs,
    (edges, clients): (usize, usize),
    levels: &[Level],
    watched: Watched,
) -> Cell {
    let window = Window::opening_at(0, 0, args.seconds);
    let mut counters = Counters::new(Clock::start(), window);
    levels.iter().for_each(|level| counters.merge(&level.counters));
    let per_update = |bytes: u64| bytes as f64 / (watched.updates.max(1) as f64 * edges as f64);
    Cell {
        edges,
        clients,
        updates_per_s: watched.updates_per_s,
        source: watched.used.first().copied().flatten(),
        each_edge: watched.used.iter().skip(1).copied().flatten().collect(),
        bytes_per_update: watched.bytes.filter(|_| edges > 0).map(per_update),
        events_per_s: levels.iter().map(|level| level.observed.consumed_per_s()).sum(),
        events_asked_per_s: levels.iter().filter_map(|level| level.asked_per_s).sum(),
        counters,
        errors: levels.iter().map(|level| level.errors).sum(),
        problem: levels.iter().find_map(|level| level.problem.clone()),
        bottleneck: levels.iter().find_map(|level| level.observed.bottleneck()),
    }
}

fn sections(args: &EdgesArgs, source: Option<&Server>) -> String {
    let subscriptions = args.subscriptions.max(10_000);
    let shards = args.shards;
    let own = format!(
        "[server]\nshards = {shards}\n[limits]\nsubscriptions_per_session_max = {subscriptions}\n"
    );
    let upstream = source.map(|source| {
        format!(
            "[[upstream]]\nname = \"source\"\nurls = [\"ws://{}\"]\ntopics = [\"{}/**\"]\neager = true\n",
            source.address, args.prefix
        )
    });
    own + upstream.as_deref().unwrap_or_default()
}

fn publisher(
    args: &EdgesArgs,
    source: &Server,
    publications: &Arc<Publications>,
) -> anyhow::Result<Publisher> {
    let quotes = Quotes::new(&args.prefix, args.change, Arc::clone(publications), args.topics);
    let spec = PublisherSpec {
        address: source.address,
        client: client(source, publications),
        prefix: args.prefix.clone(),
        topics: args.topics,
        size: 0,
        connections: 1,
    };
    Publisher::of(spec, Box::new(quotes), args.topics)
}

/// Waits until an edge has all topics of its source.
fn wait_for_topics(edge: &Server, topics: usize) -> anyhow::Result<()> {
    let begun = Instant::now();
    loop {
        let known = scrape::metric(edge.address, "tiderace_upstream_topics").unwrap_or(0);
        if known >= topics as u64 {
            return Ok(());
        }
        if begun.elapsed() > TOPICS_TIME_MAX {
            bail!("an edge has {known} of {topics} topics after {} s", TOPICS_TIME_MAX.as_secs());
        }
        thread::sleep(REST / 5);
    }
}

/// Clients of all fronts: as many each, as near as can be.
fn connect(
    args: &EdgesArgs,
    fronts: &[&Server],
    clients: usize,
    publications: &Arc<Publications>,
) -> anyhow::Result<Vec<Clients>> {
    let mut first = 0;
    let mut groups = Vec::new();
    for (place, front) in fronts.iter().enumerate() {
        let count = (clients * (place + 1) / fronts.len()) - first;
        if count == 0 {
            continue;
        }
        let spec = ClientsSpec {
            address: front.address,
            pids: vec![front.pid()],
            workers: 1,
            clients: count,
            source_base: first,
            client: client(front, publications),
        };
        let begin = first;
        groups.push(Clients::connect(&spec, |client| {
            let topics = quotes::choose(begin + client, args.topics, args.subscriptions);
            topics.into_iter().map(|topic| quotes::path(&args.prefix, topic)).collect()
        })?);
        first += count;
    }
    Ok(groups)
}

fn client(server: &Server, publications: &Arc<Publications>) -> ClientSpec {
    let values = ValuesSpec { publications: Arc::clone(publications), codec: Some(CODEC) };
    ClientSpec::of_values(server.address, values)
}

const REST: Duration = Duration::from_millis(500);
const TOPICS_TIME_MAX: Duration = Duration::from_secs(120);
