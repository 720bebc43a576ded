//! `bench topics`: very many topics that hold a small value, and one client that subscribes to all.
//!
//! Measures how fast topics come to be, what each costs in memory, how long it takes until a subscriber
//! has all values, and how much the server keeps for it meanwhile, also while it does not read.
//! Invariant: topics count as created when the server has said so, and the snapshot as complete when as
//! many values have come as there are topics.

mod report;
mod watch;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use indicatif::ProgressBar;

use crate::args::TopicsArgs;
use crate::clients::carrier::{Place, Transport};
use crate::clients::client::{Client, ClientSpec, Outcome, Step};
use crate::clients::counters::Counters;
use crate::clients::language::Speech;
use crate::clients::native;
use crate::cpu::Usage;
use crate::matrix;
use crate::scrape;
use crate::server::Server;
use crate::stomp::connect::dial;

use report::{Created, Report, Snapshot};
use watch::Watch;

/// Runs `bench topics`.
///
/// # Errors
/// A sentence when the server, a connection or an argument is at fault.
pub fn run(args: &TopicsArgs) -> anyhow::Result<()> {
    ensure!(args.topics > 0 && args.publishers > 0, "--topics and --publishers must be above 0");
    let bar = matrix::progress_bar();
    let say = |what: &str| bar.set_message(what.to_owned());
    say("starting");
    // Values and what their topics cost, on however many shards, with room to spare.
    let memory = args.topics as u64 * (args.size as u64 + TOPIC_BYTES) * 2 + (256 << 20);
    let sections = format!("[memory]\nmessages_bytes_max = \"{} MiB\"\n", memory >> 20);
    let server = Server::start(args.server.as_ref(), &sections, &args.settings)?;
    let usage = || Usage::of(&[server.pid()]).context("cannot read the server's memory");
    say("creating topics");
    let before = usage()?;
    let begun = Instant::now();
    let load = Load { topics: args.topics, size: args.size, publishers: args.publishers };
    create(&load, server.address, &bar)?;
    let seconds = begun.elapsed().as_secs_f64();
    wait_for_topics(server.address, args.topics)?;
    std::thread::sleep(REST);
    let after = usage()?;
    let created = Created {
        seconds,
        cpu_seconds: after.cpu_s - before.cpu_s,
        rss_before: before.rss_bytes,
        rss_after: after.rss_bytes,
    };
    say("subscribing");
    let snapshot = subscribe(args, &server, after, &bar)?;
    bar.finish_and_clear();
    let report = Report::new(args, created, snapshot);
    matrix::print(&report.text())?;
    match &args.json {
        Some(path) => crate::report::write(path, &format!("{:#}\n", report.json())),
        None => Ok(()),
    }
}

/// Topics that get a value each.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    pub(crate) topics: usize,
    /// Bytes of each value.
    pub(crate) size: usize,
    pub(crate) publishers: usize,
}

/// Publishes a retained value to every topic; returns when the server has confirmed all.
pub(crate) fn create(load: &Load, address: SocketAddr, bar: &ProgressBar) -> anyhow::Result<()> {
    let share = load.topics.div_ceil(load.publishers);
    bar.set_length(load.topics as u64);
    std::thread::scope(|scope| {
        let publishers: Vec<_> = (0..load.publishers)
            .map(|at| {
                let range = (at * share).min(load.topics)..((at + 1) * share).min(load.topics);
                scope.spawn(move || publish(load.size, address, range, bar))
            })
            .collect();
        for publisher in publishers {
            match publisher.join() {
                Ok(outcome) => outcome.context("creating topics")?,
                Err(_) => bail!("a publisher panicked"),
            }
        }
        Ok(())
    })
}

fn publish(
    size: usize,
    address: SocketAddr,
    topics: std::ops::Range<usize>,
    bar: &ProgressBar,
) -> anyhow::Result<()> {
    let mut client = greet(address)?;
    let (mut out, mut buffer) = (Vec::new(), vec![0; 64 * 1024]);
    let mut asked = 0;
    let end = topics.end;
    for number in topics {
        let body = value(number, size);
        // Answered one by one: of topics with different homes no answer speaks for another.
        asked += 1;
        let flags = native::OCTETS | RETAIN;
        native::publish(&mut out, asked, flags, &name(number), &body);
        if out.len() < BATCH_BYTES && number + 1 < end {
            continue;
        }
        client.send(&out);
        client.write()?;
        out.clear();
        let most = if number + 1 == end { 0 } else { WINDOW };
        while asked - client.language().confirmed() > most {
            client.read(&mut buffer, || 0, &mut Counters::idle())?;
        }
        bar.set_position(bar.position().max(client.language().confirmed()));
    }
    Ok(())
}

/// Waits until the server counts as many topics with values.
fn wait_for_topics(address: SocketAddr, topics: usize) -> anyhow::Result<()> {
    let begun = Instant::now();
    loop {
        let known = scrape::metric(address, "tiderace_topics_retained").unwrap_or(0);
        if known >= topics as u64 {
            return Ok(());
        }
        if begun.elapsed() > TIMEOUT {
            bail!("the server has {known} topics with values instead of {topics}");
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Subscribes to all topics, does not read for a while, and then reads until all values have come.
fn subscribe(
    args: &TopicsArgs,
    server: &Server,
    before: Usage,
    bar: &ProgressBar,
) -> anyhow::Result<Snapshot> {
    let mut client = greet(server.address)?;
    let watch = Watch::start(server.pid(), server.address);
    let mut out = Vec::new();
    native::subscribe_pattern(&mut out, 1, 0, native::SNAPSHOT, "**");
    client.send(&out);
    client.write()?;
    std::thread::sleep(Duration::from_secs(args.hold));
    let held = watch.take();
    let (mut counters, mut buffer) = (Counters::idle(), vec![0; 256 * 1024]);
    let (begun, mut first) = (Instant::now(), None);
    let mut wire_bytes = 0;
    while counters.received < args.topics as u64 {
        let read = client.read(&mut buffer, || 0, &mut counters).context("reading the snapshot")?;
        let (Outcome::More(bytes) | Outcome::Empty(bytes)) = read;
        wire_bytes += bytes as u64;
        if counters.received > 0 {
            first.get_or_insert_with(|| begun.elapsed());
        }
        bar.set_position(counters.received);
    }
    let seconds = begun.elapsed().as_secs_f64();
    let after = Usage::of(&[server.pid()]).context("cannot read the server's memory")?;
    Ok(Snapshot {
        seconds,
        first_seconds: first.unwrap_or_default().as_secs_f64(),
        values: counters.received,
        body_bytes: counters.body_bytes,
        wire_bytes,
        cpu_seconds: after.cpu_s - before.cpu_s,
        rss_before: before.rss_bytes,
        held,
        reading: watch.take(),
        is_confirmed: client.language().confirmed() > 0,
    })
}

/// A client that the server has greeted.
fn greet(address: SocketAddr) -> anyhow::Result<Client> {
    let place = Place {
        authority: address.to_string(),
        path: "/tiderace".to_owned(),
        subprotocol: Some("tiderace.v1"),
    };
    let spec = ClientSpec {
        transport: Transport::WebSocket,
        place: Arc::new(place),
        speech: Speech::Native,
        credentials: None,
        values: None,
    };
    let stream = dial(address, None)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    let mut client = Client::new(stream, &spec, Vec::new(), 1);
    client.write()?;
    let mut buffer = vec![0; 64 * 1024];
    while client.step != Step::Complete {
        client.read(&mut buffer, || 0, &mut Counters::idle()).context("logging in")?;
    }
    Ok(client)
}

/// A tree of three levels, a thousand topics to a branch.
fn name(number: usize) -> String {
    format!("load/{:04}/{number:07}", number / 1000)
}

/// No two values are alike.
fn value(number: usize, size: usize) -> Vec<u8> {
    let mut body = format!("{number:020}").into_bytes();
    body.resize(size, b'.');
    body
}

/// Of a publication: it becomes the topic's value.
const RETAIN: u8 = 0x08;
/// Publications under way that have not been answered.
const WINDOW: u64 = 20_000;
/// Bytes of publications in one message of the carrier.
const BATCH_BYTES: usize = 32 * 1024;
/// What a topic counts for beside its value, with some to spare.
const TOPIC_BYTES: u64 = 512;
/// After which a server's memory is read.
const REST: Duration = Duration::from_secs(1);
const TIMEOUT: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topics_and_values_differ() {
        assert_eq!(name(1_234_567), "load/1234/1234567");
        assert_eq!(value(7, 200).len(), 200);
        assert_ne!(value(7, 200), value(8, 200));
        assert_eq!(value(7, 3), b"000");
    }
}
