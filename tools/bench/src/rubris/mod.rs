//! `bench rubris`: Rubris's published test. Users subscribe to random topics of a large pool, the server
//! publishes messages of a kilobyte, and everything that arrives is counted.
//!
//! Invariant: saturation, the shares of it and the bare baseline are measured in one run, so that they
//! compare; clients and server stay the same throughout a transport's levels.

mod phases;
mod report;

use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use indicatif::ProgressBar;

use crate::args::{RubrisArgs, RubrisFeed, RubrisSpeech, RubrisTransport};
use crate::bare::{self, BareSpec};
use crate::cpu::{self, Usage};
use crate::crowd::carrier::{Place, Transport};
use crate::crowd::client::ClientSpec;
use crate::crowd::publisher::{Publisher, PublisherSpec, Rate};
use crate::crowd::{Crowd, CrowdSpec, Level, Speech};
use crate::machine::{self, Machine};
use crate::matrix;
use crate::server::Server;
use crate::stomp::cell::CONNECTIONS_MAX;
use crate::stomp::watch::Observation;

use phases::Phases;
use report::Report;

/// Everything that was measured by one transport.
#[derive(Debug)]
pub struct Outcome {
    /// Which.
    pub transport: RubrisTransport,
    /// How connecting and subscribing went.
    pub phases: Phases,
    /// The levels of load, saturation first.
    pub levels: Vec<Level>,
    /// Resident bytes of the server before anybody came, with all subscribed, and at the end.
    pub memory: Option<[u64; 3]>,
}

/// Runs `bench rubris`.
///
/// # Errors
/// A sentence when the server, a connection or an argument is at fault.
pub fn run(args: &RubrisArgs) -> anyhow::Result<()> {
    let users = args.instances * args.users;
    ensure!(users > 0 && users <= CONNECTIONS_MAX, "1 to {CONNECTIONS_MAX} users, please");
    ensure!(args.size >= 16, "--size must be at least 16: a message carries its time and number");
    ensure!(args.subscriptions <= args.topics, "more --subscriptions than --topics");
    machine::ensure_open_files(users)?;
    let bar = matrix::progress_bar();
    let mut report = Report::new(args, Machine::detect());
    for transport in &args.transport {
        let outcome = measure(args, *transport, &bar)
            .with_context(|| format!("by {}", transport.as_str()))?;
        report.outcomes.push(outcome);
    }
    if !args.no_bare {
        report.bare = Some(bare(args, &bar)?);
    }
    bar.finish_and_clear();
    matrix::print(&report.text())?;
    report.write_files(&args.output)
}

fn measure(
    args: &RubrisArgs,
    transport: RubrisTransport,
    bar: &ProgressBar,
) -> anyhow::Result<Outcome> {
    let server = match &args.target {
        Some(_) => None,
        None => Some(Server::start(args.server.as_ref(), &sections(args), &args.settings)?),
    };
    let address = address(args, server.as_ref())?;
    let pids = match &server {
        Some(server) => vec![server.pid()],
        None => cpu::pids_listening_on(address.port()),
    };
    let memory = || Usage::of(&pids).map(|usage| usage.rss_bytes);
    let before = memory();
    let publisher = Publisher::start(publisher_spec(args, address))?;
    let spec = CrowdSpec {
        address,
        pids: pids.clone(),
        crews: args.instances,
        clients: args.users,
        source_base: 0,
        client: client_spec(args, transport, address),
    };
    bar.set_prefix(format!("{} connecting", transport.as_str()));
    let mut crowd = Crowd::connect(&spec, |user| topics(args, user))?;
    let phases = Phases::of(&crowd.times());
    matrix::print(&phases.text(transport, args.subscriptions))?;
    std::thread::sleep(Duration::from_millis(500));
    let subscribed = memory();
    let levels = levels(args, &mut crowd, &publisher, bar)?;
    let after = memory();
    let memory = before.zip(subscribed).zip(after);
    let memory = memory.map(|((before, subscribed), after)| [before, subscribed, after]);
    Ok(Outcome { transport, phases, levels, memory })
}

/// Saturation, then its shares, then fixed rates.
fn levels(
    args: &RubrisArgs,
    crowd: &mut Crowd,
    publisher: &Publisher,
    bar: &ProgressBar,
) -> anyhow::Result<Vec<Level>> {
    let mut levels = Vec::new();
    let fan_out = deliveries_per_message(args);
    let times = (args.warm_up, args.duration);
    publisher.set(Rate::Unlimited)?;
    let flat_out = match args.messages {
        None => crowd.level("flat out", None, times, bar)?,
        Some(messages) => {
            // How fast it is decides how long it takes.
            let sounding = crowd.level("sounding", None, (args.warm_up, 2), bar)?;
            let rate = sounding.observed.consumed_per_s().max(1.0);
            #[allow(clippy::cast_precision_loss)]
            let seconds = messages as f64 * crowd.len() as f64 / rate;
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            let seconds = (seconds.ceil() as u64).clamp(1, 600);
            crowd.level("flat out", None, (0, seconds), bar)?
        }
    };
    let saturation = flat_out.observed.consumed_per_s();
    levels.push(flat_out);
    let shares = args
        .rate_of_saturation
        .iter()
        .map(|share| (format!("{:.0} % of that", share * 100.0), share * saturation));
    let fixed = args.rate.iter().map(|rate| (format!("{rate:.0} /s"), *rate));
    for (name, rate) in shares.chain(fixed) {
        publisher.set(Rate::Stopped)?;
        crowd.drain()?;
        publisher.set(Rate::PerSecond(rate / fan_out))?;
        levels.push(crowd.level(&name, Some(rate), times, bar)?);
    }
    publisher.set(Rate::Stopped)?;
    crowd.drain()?;
    Ok(levels)
}

fn bare(args: &RubrisArgs, bar: &ProgressBar) -> anyhow::Result<Observation> {
    let spec = BareSpec {
        connections: args.instances * args.users,
        size: args.size.max(crate::body::HEAD_BYTES),
        write_bytes: 65_536,
        warm_up_s: 1,
        duration_s: args.duration.min(5),
    };
    bare::measure(spec, bar)
}

/// The server's feed, as TOML.
fn sections(args: &RubrisArgs) -> String {
    let feed = match args.feed {
        RubrisFeed::External => String::new(),
        RubrisFeed::Timed => format!(
            "[[feed]]\nkind = \"timed\"\npath = \"{}\"\ntopics = {}\nsize = {}\ncontrol = true\n",
            args.prefix, args.topics, args.size
        ),
    };
    format!("[limits]\nsubscriptions_per_session_max = 100000\n{feed}")
}

fn address(args: &RubrisArgs, server: Option<&Server>) -> anyhow::Result<SocketAddr> {
    if let Some(server) = server {
        return Ok(server.address);
    }
    let target = args.target.as_deref().unwrap_or_default();
    let mut found = target
        .to_socket_addrs()
        .with_context(|| format!("--target {target} is not a host:port that can be resolved"))?;
    found.next().with_context(|| format!("--target {target} has no address"))
}

fn client_spec(args: &RubrisArgs, transport: RubrisTransport, address: SocketAddr) -> ClientSpec {
    let (speech, path, subprotocol) = match args.speech {
        RubrisSpeech::Native => (Speech::Native, "/tiderace", "tiderace.v1"),
        RubrisSpeech::Stomp => (Speech::Stomp, "/stomp", "v12.stomp"),
    };
    let websocket = args.ws_path.clone().unwrap_or_else(|| path.to_owned());
    let (transport, path, subprotocol) = match transport {
        RubrisTransport::Polling => (Transport::Polling(args.eio), args.polling_path.clone(), None),
        RubrisTransport::Websocket => (Transport::WebSocket, websocket, Some(subprotocol)),
    };
    let place = Place { authority: address.to_string(), path, subprotocol };
    ClientSpec { transport, place: Arc::new(place), speech, credentials: None }
}

fn publisher_spec(args: &RubrisArgs, address: SocketAddr) -> PublisherSpec {
    PublisherSpec {
        address,
        client: client_spec(args, RubrisTransport::Websocket, address),
        prefix: args.prefix.clone(),
        topics: args.topics,
        size: args.size,
        connections: match args.feed {
            RubrisFeed::Timed => 0,
            RubrisFeed::External => args.publishers.max(1),
        },
    }
}

/// A user's topics: distinct, and spread like random ones.
fn topics(args: &RubrisArgs, user: usize) -> Vec<String> {
    let count = args.topics as u64;
    // A step that shares no divisor with the count visits each topic once.
    let mut step = (user as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) % count;
    while divisor(step, count) != 1 {
        step = (step + 1) % count.max(2);
    }
    let begin = (user as u64 + 7).wrapping_mul(0xbf58_476d_1ce4_e5b9) % count;
    (0..args.subscriptions as u64)
        .map(|at| format!("{}/{}", args.prefix, (begin + at * step) % count))
        .collect()
}

fn divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { divisor(b, a % b) }
}

#[allow(clippy::cast_precision_loss)]
fn deliveries_per_message(args: &RubrisArgs) -> f64 {
    let subscriptions = (args.instances * args.users * args.subscriptions) as f64;
    subscriptions / args.topics as f64
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: RubrisArgs,
    }

    #[test]
    fn users_have_distinct_topics_that_differ() {
        for topics_count in ["1", "2", "10", "1000", "50000"] {
            let line = ["x", "--topics", topics_count, "--subscriptions", "1"];
            let mut args = Line::parse_from(line).args;
            args.subscriptions = args.topics.min(1000);
            for user in [0, 1, 2, 77, 999] {
                let topics: HashSet<String> = topics(&args, user).into_iter().collect();
                assert_eq!(topics.len(), args.subscriptions, "{topics_count} {user}");
            }
        }
        let args = Line::parse_from(["x"]).args;
        assert_ne!(topics(&args, 0), topics(&args, 1));
        assert!((deliveries_per_message(&args) - 20.0).abs() < 1e-9);
    }
}
