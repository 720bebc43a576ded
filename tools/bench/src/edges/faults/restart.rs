//! `bench edges restart`: a source with persistent topics ends, by a kill or because it is asked to, and is started again. Clients of
//! its edges hear of what has changed and of nothing else, and those that publish through the edges are told what was taken.
//!
//! Invariant: every restart is followed by changes of some topics, so that what is current is known by what comes.

use std::collections::{BTreeSet, HashMap};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use anyhow::{bail, ensure};
use tiderace_client::{Auth, Client, Connection, Event, SubscribeOptions};

use super::feed::{Numbers, Publisher, path};
use super::fleet::Fleet;
use super::kill::{all_ready, people, values};
use super::member::{Kind, Member};
use super::nodes::Nodes;
use super::outcome::Outcome;
use super::restart_publishers::{Answers, Writers};
use crate::args::EdgeRestartArgs;
use crate::folder::Folder;
use crate::random::Random;

/// Runs it.
///
/// # Errors
/// A sentence when a server or an argument is at fault.
pub(super) fn run(args: &EdgeRestartArgs) -> anyhow::Result<Outcome> {
    ensure!(args.common.edges > 0, "--edges must be above 0");
    ensure!(args.topics >= TOPICS_EACH, "--topics must be {TOPICS_EACH} at least");
    let folder = Folder::new(args.directory.as_deref(), "edges-restart")?;
    let mut nodes = start(args, &folder)?;
    let numbers = values(args.topics);
    let all: Vec<usize> = (0..args.topics).collect();
    Publisher::connect(nodes.source_address())?.publish(&all, &numbers)?;
    let mut fleet = Fleet::new(nodes.addresses().to_vec(), Duration::ZERO)?;
    for edge in 0..args.common.edges {
        let all = vec!["t/**".to_owned(), "p/**".to_owned()];
        fleet.add(Member::new(args.clients + edge, Kind::Native, edge, all));
    }
    people(&mut fleet, &nodes, (args.clients, args.topics, TOPICS_EACH))?;
    let has_all = fleet.run_until(TIMEOUT, |fleet| missing(fleet, &numbers, &all) == 0)?;
    ensure!(has_all, "{} values have not come", missing(&fleet, &numbers, &all));
    let writers = Writers::start(nodes.addresses(), args.publishers)?;
    let mut outcome = Outcome::default();
    let before = fleet.counters.clone();
    let (mut current, mut late, mut stale) = (0.0f64, 0, 0);
    for restart in 0..args.restarts {
        fleet.run_for(Duration::from_secs(1))?;
        nodes.stop_source(restart % 2 == 1)?;
        fleet.run_for(Duration::from_millis(args.away))?;
        nodes.start_source()?;
        let begun = Instant::now();
        let changed = marks(restart, args.topics);
        Publisher::connect(nodes.source_address())?.publish(&changed, &numbers)?;
        fleet.run_until(TIMEOUT, |fleet| missing(fleet, &numbers, &changed) == 0)?;
        late += missing(&fleet, &numbers, &changed);
        current = current.max(begun.elapsed().as_secs_f64());
        stale += stale_topics(&mut fleet, &nodes)?;
    }
    fleet.run_for(Duration::from_secs(1))?;
    let answers = writers.stop()?;
    let truth = below(nodes.source_address(), "p/**")?;
    fleet.run_until(TIMEOUT, |fleet| unseen(fleet, &truth) == 0)?;
    outcome.counters(&fleet);
    let told =
        |counters: &super::checker::Counters| counters.again + counters.anew + counters.repeated;
    let unchanged = told(&fleet.counters) - told(&before);
    outcome.at_most("messages for unchanged values", unchanged, 0);
    outcome.at_most("values that never came", late + missing(&fleet, &numbers, &all), 0);
    outcome.at_most("topics that stayed stale", stale, 0);
    outcome.at_most("connections of clients that were lost", fleet.losses.values().sum(), 0);
    outcome.fast("all current after the source's return, at most", (current, "s"), 3.0);
    published(&mut outcome, &answers, &truth);
    outcome.at_most(
        "published through edges, not seen by a client of all",
        unseen(&fleet, &truth),
        0,
    );
    Ok(outcome)
}

fn start(args: &EdgeRestartArgs, folder: &Folder) -> anyhow::Result<Nodes> {
    let own = "[topics]\nretain = true\n[limits]\nsubscriptions_per_session_max = 1000000\n";
    let memory = ((args.topics as u64 * 4096) >> 20) + 256;
    let source = format!(
        "[memory]\nmessages_bytes_max = \"{memory} MiB\"\n[store]\ndirectory = {:?}\n{own}[[topic]]\nmatch = \"**\"\npersistent = true\n",
        folder.path
    );
    let edge = format!("[memory]\nmessages_bytes_max = \"{memory} MiB\"\n{own}");
    // Shorter than the source is away, so that some requests are refused.
    let upstream = "topics = [\"t/**\", \"p/**\"]\nwrite = true\ntimeout = \"1s\"\n";
    Nodes::start(&args.common, &source, &edge, upstream)
}

/// Topics that change after a restart.
fn marks(restart: usize, topics: usize) -> Vec<usize> {
    let mut random = Random(restart as u64 + 11);
    let chosen = std::iter::repeat_with(|| random.below(topics as u64) as usize);
    let chosen: BTreeSet<usize> = chosen.take(MARKS).collect();
    chosen.into_iter().collect()
}

/// Last values of these topics that clients do not have which listen to them.
fn missing(fleet: &Fleet, numbers: &Numbers, topics: &[usize]) -> u64 {
    let last = |topic: &usize| Some((path(*topic), numbers.get(*topic)?.load(Relaxed)));
    let wanted: HashMap<String, u64> = topics.iter().filter_map(last).collect();
    let of = |member: &Member| {
        let is_missing = |topic: &str, last: u64| member.seen.last(topic) != Some(last);
        if member.topics.iter().any(|topic| topic == "t/**") {
            return wanted.iter().filter(|(topic, last)| is_missing(topic, **last)).count();
        }
        let own = member.topics.iter().filter_map(|topic| Some((topic, wanted.get(topic)?)));
        own.filter(|(topic, last)| is_missing(topic, **last)).count()
    };
    fleet.members().iter().map(|member| of(member) as u64).sum()
}

/// What was published through edges and clients of all topics do not have.
fn unseen(fleet: &Fleet, truth: &BTreeSet<String>) -> u64 {
    let watchers = fleet.members().iter().filter(|it| it.topics.iter().any(|it| it == "p/**"));
    let of = |member: &Member| {
        truth.iter().filter(|topic| member.seen.last(topic).is_none()).count() as u64
    };
    watchers.map(of).sum()
}

/// Topics that edges hold for stale although the source is there, after a time in which they may ask.
fn stale_topics(fleet: &mut Fleet, nodes: &Nodes) -> anyhow::Result<u64> {
    let begun = Instant::now();
    loop {
        let stale = nodes.edges_metric("tiderace_upstream_stale_topics");
        if stale == 0 || begun.elapsed() > TIMEOUT {
            all_ready(fleet)?;
            return Ok(stale);
        }
        fleet.run_for(Duration::from_millis(50))?;
    }
}

/// What came of publications through edges, beside what is there.
fn published(outcome: &mut Outcome, answers: &Answers, truth: &BTreeSet<String>) {
    let there = |topics: &[String]| topics.iter().filter(|topic| truth.contains(*topic)).count();
    let confirmed = answers.confirmed.len();
    outcome.tell("publications through edges, confirmed", confirmed as f64, "");
    outcome.at_most("of them lost", (confirmed - there(&answers.confirmed)) as u64, 0);
    outcome.tell("refused since the source was away", answers.refused.len() as f64, "");
    outcome.at_most("of them taken all the same", there(&answers.refused) as u64, 0);
    outcome.tell("told that nobody knows", answers.unknown.len() as f64, "");
    outcome.tell("of them taken", there(&answers.unknown) as f64, "");
    outcome.at_most("refused otherwise", answers.others.len() as u64, 0);
    outcome.at_most("not answered", answers.unanswered as u64, 0);
    for other in answers.others.iter().take(3) {
        outcome.remark(format!("refused: {other}"));
    }
}

/// The topics with a value that a server has of a pattern.
fn below(address: SocketAddr, pattern: &str) -> anyhow::Result<BTreeSet<String>> {
    let stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    let mut connection = Connection::new(stream, Client::new("tiderace-bench"));
    connection.open(&address.to_string(), Auth::Anonymous)?;
    let options = SubscribeOptions::topic(pattern).pattern().values();
    connection.send(|client, out| client.subscribe(options, out))?;
    let (mut found, mut is_done, mut refused) = (BTreeSet::new(), false, None);
    while !is_done {
        connection.receive(|event| match event {
            Event::Update(update) => found.extend(update.path.map(str::to_owned)),
            Event::Done { .. } => is_done = true,
            Event::Refused { sentence, .. } => refused = Some(sentence.to_owned()),
            _ => {}
        })?;
        if let Some(refused) = &refused {
            bail!("the source does not show what it has: {refused}");
        }
    }
    Ok(found)
}

/// Topics of a client that has not all.
const TOPICS_EACH: usize = 20;
/// Topics that change after each restart.
const MARKS: usize = 200;
const TIMEOUT: Duration = Duration::from_secs(60);
