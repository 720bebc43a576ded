//! `bench rubris`: Rubris's published test. Users subscribe to random topics of a large pool, the server
//! publishes messages of a kilobyte, and everything that arrives is counted.
//!
//! Invariant: saturation, the shares of it and the bare baseline are measured in one run, so that they
//! compare.

use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;

use anyhow::{Context, ensure};
use indicatif::ProgressBar;

use crate::args::{RubrisArgs, RubrisFeed, RubrisSpeech, RubrisTransport};
use crate::bare::{self, BareSpec};
use crate::clients::Speech;
use crate::clients::carrier::{Place, Transport};
use crate::clients::client::ClientSpec;
use crate::clients::publisher::PublisherSpec;
use crate::cpu;
use crate::machine;
use crate::matrix;
use crate::scenario::report::Report;
use crate::scenario::{self, Outcome, Plan, Scenario};
use crate::server::Server;
use crate::stomp::cell::CONNECTIONS_MAX;
use crate::stomp::watch::Observation;

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
    let mut report = Report::new("rubris", &args.output);
    report.published = PUBLISHED.to_vec();
    report.published_rates = PUBLISHED_RATES.to_vec();
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
    let scenario = Scenario {
        name: transport.as_str().to_owned(),
        address,
        pids: match &server {
            Some(server) => vec![server.pid()],
            None => cpu::pids_listening_on(address.port()),
        },
        workers: args.instances,
        clients: args.users,
        client: client_spec(args, transport, address),
        publisher: publisher_spec(args, address),
        subscriptions: args.subscriptions,
        plan: Plan {
            warm_up_s: args.warm_up,
            duration_s: args.duration,
            messages: args.messages,
            shares: args.rate_of_saturation.clone(),
            rates: args.rate.clone(),
        },
    };
    let counts = (args.topics, args.subscriptions);
    let paths = |user| scenario::choice::topics(&args.prefix, counts, user);
    scenario::measure(&scenario, paths, bar)
}

fn bare(args: &RubrisArgs, bar: &ProgressBar) -> anyhow::Result<Observation> {
    let spec = BareSpec {
        connections: args.instances * args.users,
        size: args.size.max(crate::body::HEAD_BYTES),
        write_bytes: 65_536,
        rate: None,
        warm_up_s: 1,
        duration_s: args.duration.min(5),
    };
    bare::measure(spec, bar)
}

/// The server's feed, as TOML.
fn sections(args: &RubrisArgs) -> String {
    let feed = match args.feed {
        RubrisFeed::External => String::new(),
        RubrisFeed::Timed => scenario::feed(
            "timed",
            &args.prefix,
            args.size,
            (args.topics, args.subscriptions),
            args.batch_bytes,
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
    ClientSpec { transport, place: Arc::new(place), speech, credentials: None, values: None }
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

/// Rubris's own figures: the same workload, client and server on one machine.
const PUBLISHED: [(&str, &str); 3] = [
    (
        "Rubris 2016, m4.4xlarge (16 vCPU), 1,000 users polling, 2 modules",
        "1,409,985 messages/s, 1,000,000 subscriptions in 2.2 s, about 7 polls/s per client of 200 kB, \
         nearly all latencies below 700 ms",
    ),
    (
        "Rubris 2016, m4.4xlarge, 2,000 users polling, 4 modules",
        "1,779,948 messages/s with 10.8 cores of the server: 165,000 per core; 6.7 GB resident",
    ),
    (
        "Rubris 2016, c3.8xlarge (32 vCPU), 2,000 users polling, 4 modules",
        "1,953,369 messages/s with 12.25 cores of the server: 159,000 per core",
    ),
];
const PUBLISHED_RATES: [(&str, f64); 2] =
    [("Rubris, 16 vCPU", 1_779_948.0), ("Rubris, 32 vCPU", 1_953_369.0)];
