//! `bench connections`: very many connections with one subscription each, as Benchsub and Benchpub
//! open them: memory per connection, then a message per connection and minute, each one timed.
//!
//! A process may open 20,000 files on many systems, so clients and servers are as many processes as it
//! takes, and clients come from many loopback addresses. Invariant: the servers' memory is read before
//! the first and after the last connection, with nothing else going on between.

mod kernel;
mod processes;
pub(crate) mod worker;

use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use hdrhistogram::Histogram;

use crate::args::{ConnectionsArgs, ConnectionsSpeech, RubrisTransport};
use crate::clients::carrier::{Place, Transport};
use crate::clients::client::ClientSpec;
use crate::clients::publisher::{Publisher, PublisherSpec, Rate};
use crate::clients::{Clients, ClientsSpec, Speech};
use crate::cpu::{self, Usage};
use crate::matrix;
use crate::report::table::{self, thousands};
use crate::report::{Run, text};
use crate::server::Server;

use kernel::KernelMemory;
use processes::Processes;

/// Runs `bench connections`.
///
/// # Errors
/// A sentence when the limits do not allow it or a connection fails.
pub fn run(args: &ConnectionsArgs) -> anyhow::Result<()> {
    ensure!(args.count > 0, "--count must be above 0");
    ensure!(args.size >= 16, "--size must be at least 16: a message carries its time");
    let needed = args.count.div_ceil(PER_SERVER);
    let servers = if args.servers == 0 { needed } else { args.servers };
    ensure!(
        !args.targets.is_empty() || servers >= needed,
        "{} connections need at least {needed} servers",
        thousands(args.count as u64)
    );
    let servers = if args.targets.is_empty() { servers } else { args.targets.len() };
    let each = args.count.div_ceil(servers);
    let topics = if args.topics == 0 { each } else { args.topics };
    let children = match args.targets.is_empty() {
        true => start(args, servers, topics)?,
        false => Vec::new(),
    };
    let addresses = addresses(args, &children)?;
    let pids: Vec<u32> = match children.is_empty() {
        false => children.iter().map(Server::pid).collect(),
        true => addresses.iter().flat_map(|it| cpu::pids_listening_on(it.port())).collect(),
    };
    let mut run = Run::new(&args.output.label, vec!["connections".to_owned()]);
    let mut note = |text: String| run.notes.push((name(args), text));

    // What every server takes once is taken before its memory is read.
    let warm = warm_up(args, &addresses, topics)?;
    let (before, kernel_before) = (Usage::of(&pids), KernelMemory::read());
    let begun = Instant::now();
    let mut processes = Processes::start(args, &addresses, topics)?;
    processes.wait_until_ready()?;
    let opened = begun.elapsed();
    std::thread::sleep(Duration::from_secs(args.hold));
    let (after, kernel_after) = (Usage::of(&pids), KernelMemory::read());
    note(opening(args, servers, opened));
    note(memory(args.count, before.as_ref().zip(after.as_ref())));
    note(kernel_after.since(&kernel_before, args.count));
    if args.rate > 0.0 {
        let text = deliver(args, &addresses, topics, &pids, &mut processes)?;
        text.into_iter().for_each(&mut note);
    }
    drop((processes, warm));
    matrix::print(&text::details(&run))?;
    run.write_files(&args.output)
}

/// Some connections to each server that stay and do not count.
fn warm_up(
    args: &ConnectionsArgs,
    addresses: &[SocketAddr],
    topics: usize,
) -> anyhow::Result<Vec<Clients>> {
    let clients = (args.count / addresses.len().max(1) / 20).clamp(1, WARM_CLIENTS_MAX);
    let connect = |address: &SocketAddr| {
        let spec = ClientsSpec {
            address: *address,
            pids: Vec::new(),
            workers: 1,
            clients,
            source_base: 0,
            client: client_spec(args.speech, args.transport, &path(args), *address),
        };
        Clients::connect(&spec, |client| vec![format!("{PREFIX}/{}", client % topics.max(1))])
    };
    let warm = addresses.iter().map(connect).collect::<anyhow::Result<Vec<_>>>()?;
    std::thread::sleep(Duration::from_secs(args.hold.min(5)));
    Ok(warm)
}

/// One message per connection and minute, or whatever is asked for.
fn deliver(
    args: &ConnectionsArgs,
    addresses: &[SocketAddr],
    topics: usize,
    pids: &[u32],
    processes: &mut Processes,
) -> anyhow::Result<Vec<String>> {
    let publishers = addresses
        .iter()
        .map(|address| {
            Publisher::start(PublisherSpec {
                address: *address,
                client: control_client(args, *address),
                prefix: PREFIX.to_owned(),
                topics,
                size: args.size,
                connections: 0,
            })
        })
        .collect::<anyhow::Result<Vec<_>>>()?;
    // A message to each topic reaches each connection once.
    #[allow(clippy::cast_precision_loss)]
    let rate = args.rate / 60.0 * topics as f64;
    for publisher in &publishers {
        publisher.set(Rate::PerSecond(rate))?;
    }
    let before = Usage::of(pids);
    processes.level(args.duration)?;
    std::thread::sleep(Duration::from_secs(args.duration + WARM_UP_S));
    let after = Usage::of(pids);
    let result = processes.results()?;
    for publisher in &publishers {
        publisher.set(Rate::Stopped)?;
    }
    #[allow(clippy::cast_precision_loss)]
    let per_s = result.received as f64 / result.seconds.max(0.001);
    let mut notes = vec![format!(
        "{} deliveries of {} bytes per second for {:.0} s: {}",
        table::rate(per_s),
        args.size,
        result.seconds,
        latencies(&result.latency)
    )];
    if let Some((before, after)) = before.zip(after) {
        let cpu_s = after.cpu_s - before.cpu_s;
        #[allow(clippy::cast_precision_loss)]
        let elapsed = (args.duration + WARM_UP_S) as f64;
        notes.push(format!(
            "servers used {:.1} % of a core, {:.1} µs per delivery",
            cpu_s / elapsed * 100.0,
            cpu_s / elapsed / per_s.max(0.001) * 1e6
        ));
    }
    if result.left_out > 0 || result.errors > 0 {
        notes.push(format!(
            "! {} versions left out, {} errors {}",
            thousands(result.left_out),
            thousands(result.errors),
            result.problem.unwrap_or_default()
        ));
    }
    Ok(notes)
}

fn start(args: &ConnectionsArgs, servers: usize, topics: usize) -> anyhow::Result<Vec<Server>> {
    let kind = match args.speech {
        ConnectionsSpeech::Socketio => "timed-text",
        _ => "timed",
    };
    let feed = format!(
        "[[feed]]\nkind = \"{kind}\"\npath = \"{PREFIX}\"\ntopics = {topics}\nsize = {}\ncontrol = true\n",
        args.size
    );
    (0..servers).map(|_| Server::start(args.server.as_ref(), &feed, &args.settings)).collect()
}

fn addresses(args: &ConnectionsArgs, children: &[Server]) -> anyhow::Result<Vec<SocketAddr>> {
    if !children.is_empty() {
        return Ok(children.iter().map(|child| child.address).collect());
    }
    let resolve = |target: &String| {
        let mut found = target
            .to_socket_addrs()
            .with_context(|| format!("--target {target} is no host:port that can be resolved"))?;
        found.next().with_context(|| format!("--target {target} has no address"))
    };
    args.targets.iter().map(resolve).collect()
}

fn name(args: &ConnectionsArgs) -> String {
    let speech = match args.speech {
        ConnectionsSpeech::Native => "native",
        ConnectionsSpeech::Socketio => "Socket.IO",
        ConnectionsSpeech::Stomp => "STOMP",
    };
    format!("{speech} over {}", args.transport.as_str())
}

fn opening(args: &ConnectionsArgs, servers: usize, opened: Duration) -> String {
    #[allow(clippy::cast_precision_loss)]
    let rate = args.count as f64 / opened.as_secs_f64();
    format!(
        "{} connections with a subscription each to {servers} server process(es), opened at {rate:.0} /s",
        thousands(args.count as u64)
    )
}

fn memory(count: usize, usage: Option<(&Usage, &Usage)>) -> String {
    let Some((before, after)) = usage else {
        return "the servers' memory could not be read".to_owned();
    };
    format!(
        "server RSS {} → {} KiB, {} bytes per connection",
        thousands(before.rss_bytes / 1024),
        thousands(after.rss_bytes / 1024),
        thousands(after.rss_bytes.saturating_sub(before.rss_bytes) / count.max(1) as u64)
    )
}

fn latencies(latency: &Histogram<u64>) -> String {
    if latency.is_empty() {
        return "nothing came".to_owned();
    }
    let at = |quantile| table::duration(latency.value_at_quantile(quantile));
    format!(
        "p50 {}, p95 {}, p99 {}, p99.9 {}, max {}",
        at(0.5),
        at(0.95),
        at(0.99),
        at(0.999),
        at(1.0)
    )
}

/// What a client of these arguments is.
pub(crate) fn client_spec(
    speech: ConnectionsSpeech,
    transport: RubrisTransport,
    path: &str,
    address: SocketAddr,
) -> ClientSpec {
    let (speech, subprotocol) = match speech {
        ConnectionsSpeech::Native => (Speech::Native, Some("tiderace.v1")),
        ConnectionsSpeech::Socketio => (Speech::SocketIo, None),
        ConnectionsSpeech::Stomp => (Speech::Stomp, Some("v12.stomp")),
    };
    let transport = match (transport, speech) {
        (RubrisTransport::Polling, _) => Transport::Polling(4),
        (RubrisTransport::Websocket, Speech::SocketIo) => Transport::EngineWebSocket,
        (RubrisTransport::Websocket, _) => Transport::WebSocket,
    };
    let subprotocol = subprotocol.filter(|_| transport == Transport::WebSocket);
    let place = Place { authority: address.to_string(), path: path.to_owned(), subprotocol };
    ClientSpec { transport, place: Arc::new(place), speech, credentials: None, values: None }
}

/// The path that the arguments mean.
pub(crate) fn path(args: &ConnectionsArgs) -> String {
    let usual = match (args.speech, args.transport) {
        (ConnectionsSpeech::Socketio, _) => "/socket.io/",
        (_, RubrisTransport::Polling) => "/engine.io/",
        (ConnectionsSpeech::Native, _) => "/tiderace",
        (ConnectionsSpeech::Stomp, _) => "/stomp",
    };
    args.path.clone().unwrap_or_else(|| usual.to_owned())
}

/// Who tells the feed its rate: a STOMP client where the server is ours, whatever is measured.
fn control_client(args: &ConnectionsArgs, address: SocketAddr) -> ClientSpec {
    match args.targets.is_empty() {
        true => {
            client_spec(ConnectionsSpeech::Stomp, RubrisTransport::Websocket, "/stomp", address)
        }
        false => client_spec(args.speech, RubrisTransport::Websocket, &path(args), address),
    }
}

/// What precedes the number of a topic.
pub(crate) const PREFIX: &str = "bench";
/// Before measuring.
pub(crate) const WARM_UP_S: u64 = 2;
/// Below the 20,000 files a process may open on many systems, with room for those that do not count.
const PER_SERVER: usize = 19_000;
/// Connections that do not count, for each server.
const WARM_CLIENTS_MAX: usize = 500;
