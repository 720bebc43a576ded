//! `bench socketio`: a server publishes to many Socket.IO clients, ours beside others.
//!
//! The others are small servers in `tools/bench/peers`, which emit what our `timed-text` feed does and
//! are told their rate by the event `control`. Invariant: all servers are measured by the same clients,
//! one after the other, in one run.

use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;

use anyhow::{Context, ensure};
use indicatif::ProgressBar;

use crate::args::{RubrisTransport, SocketioArgs};
use crate::bare::{self, BareSpec};
use crate::body::HEAD_BYTES;
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

/// Runs `bench socketio`.
///
/// # Errors
/// A sentence when a server, a connection or an argument is at fault.
pub fn run(args: &SocketioArgs) -> anyhow::Result<()> {
    let clients = args.clients;
    ensure!(clients > 0 && clients <= CONNECTIONS_MAX, "1 to {CONNECTIONS_MAX} clients, please");
    ensure!(args.size >= 16, "--size must be at least 16: a message carries its time");
    ensure!(args.subscriptions <= args.topics, "more --subscriptions than --topics");
    let threads = args.threads;
    ensure!(
        threads > 0 && clients.is_multiple_of(threads),
        "--clients must be a multiple of --threads"
    );
    machine::ensure_open_files(clients)?;
    let bar = matrix::progress_bar();
    let mut report = Report::new("socketio", &args.output);
    for transport in &args.transport {
        if !args.targets_only {
            report.outcomes.push(ours(args, *transport, &bar)?);
        }
        for target in &args.targets {
            let outcome = peer(args, target, *transport, &bar);
            report.outcomes.push(outcome.with_context(|| format!("measuring {target}"))?);
        }
    }
    if !args.no_bare {
        report.bare = Some(bare::measure(bare_spec(args), &bar)?);
    }
    bar.finish_and_clear();
    matrix::print(&report.text())?;
    report.write_files(&args.output)
}

fn ours(
    args: &SocketioArgs,
    transport: RubrisTransport,
    bar: &ProgressBar,
) -> anyhow::Result<Outcome> {
    let counts = (args.topics, args.subscriptions);
    let feed = scenario::feed("timed-text", PREFIX, args.size, counts, args.batch_bytes);
    let server = Server::start(args.server.as_ref(), &feed, &args.settings)?;
    let place = Place {
        authority: server.address.to_string(),
        path: "/stomp".to_owned(),
        subprotocol: Some("v12.stomp"),
    };
    let control = ClientSpec {
        transport: Transport::WebSocket,
        place: Arc::new(place),
        speech: Speech::Stomp,
        credentials: None,
        values: None,
    };
    let pids = vec![server.pid()];
    measure(args, "tiderace", server.address, pids, control, transport, bar)
}

fn peer(
    args: &SocketioArgs,
    target: &str,
    transport: RubrisTransport,
    bar: &ProgressBar,
) -> anyhow::Result<Outcome> {
    let (name, authority) = target.split_once('=').unwrap_or((target, target));
    let address = authority.to_socket_addrs().context("this is no host:port")?.next();
    let address = address.context("the name has no address")?;
    let control = client(RubrisTransport::Websocket, address);
    measure(args, name, address, cpu::pids_listening_on(address.port()), control, transport, bar)
}

fn measure(
    args: &SocketioArgs,
    name: &str,
    address: SocketAddr,
    pids: Vec<u32>,
    control: ClientSpec,
    transport: RubrisTransport,
    bar: &ProgressBar,
) -> anyhow::Result<Outcome> {
    let scenario = Scenario {
        name: format!("{name} {}", transport.as_str()),
        address,
        pids,
        workers: args.threads,
        clients: args.clients / args.threads,
        client: client(transport, address),
        publisher: PublisherSpec {
            address,
            client: control,
            prefix: PREFIX.to_owned(),
            topics: args.topics,
            size: args.size,
            connections: 0,
        },
        subscriptions: args.subscriptions,
        plan: Plan {
            warm_up_s: args.warm_up,
            duration_s: args.duration,
            messages: None,
            shares: args.rate_of_saturation.clone(),
            rates: args.rate.clone(),
        },
    };
    let counts = (args.topics, args.subscriptions);
    let paths = |client| scenario::choice::topics(PREFIX, counts, client);
    scenario::measure(&scenario, paths, bar)
}

/// What a writer of such messages reaches that does nothing else.
fn bare_spec(args: &SocketioArgs) -> BareSpec {
    BareSpec {
        connections: args.clients,
        size: args.size.max(HEAD_BYTES),
        write_bytes: 65_536,
        rate: None,
        warm_up_s: 1,
        duration_s: args.duration.min(5),
    }
}

fn client(transport: RubrisTransport, address: SocketAddr) -> ClientSpec {
    let place =
        Place { authority: address.to_string(), path: "/socket.io/".to_owned(), subprotocol: None };
    ClientSpec {
        transport: match transport {
            RubrisTransport::Polling => Transport::Polling(4),
            RubrisTransport::Websocket => Transport::EngineWebSocket,
        },
        place: Arc::new(place),
        speech: Speech::SocketIo,
        credentials: None,
        values: None,
    }
}

/// What precedes the number of a topic.
const PREFIX: &str = "bench";
