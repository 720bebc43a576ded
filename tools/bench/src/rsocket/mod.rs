//! `bench rsocket`: very many RSocket streams that get a message a second each, over four transports, as in the
//! published stress test; request-response and channels as well; ours beside other servers.
//!
//! ```text
//!   socket ─▶ Carrier (nothing, WebSocket, HTTP/2, both) ─▶ Walker (frames) ─▶ Session (streams) ─▶ Counters
//! ```
//! Invariant: all servers of a run get the same load from the same clients, one after the other.

mod carrier;
mod client;
mod clients;
mod frame;
mod http2;
mod load;
mod plots;
mod report;
mod session;
mod timeline;
mod walk;
mod wheel;
mod worker;

use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use anyhow::{Context, ensure};
use indicatif::ProgressBar;

use crate::args::{RsocketArgs, RsocketTransport};
use crate::clients::Level;
use crate::clients::carrier::Place;
use crate::clock::Clock;
use crate::cpu::{self, Usage};
use crate::machine;
use crate::matrix;
use crate::server::Server;
use crate::stomp::cell::CONNECTIONS_MAX;

use clients::{Clients, ClientsSpec, Times};
use load::{Load, Pulse};
use report::Report;
use timeline::{Moment, Timeline};

/// Everything that was measured of one server and transport.
#[derive(Debug)]
struct Outcome {
    server: String,
    transport: RsocketTransport,
    connections: usize,
    /// Seconds it took to open them.
    connect_s: f64,
    /// Resident bytes of the server before and with its connections.
    memory: Option<[u64; 2]>,
    steps: Vec<Step>,
    timeline: Vec<Moment>,
}

/// One number of streams.
#[derive(Debug)]
struct Step {
    /// As many were asked for.
    streams: usize,
    /// As many were open in the end.
    open: u64,
    level: Level,
}

/// A server to measure.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Subject {
    /// One that is started for it.
    Own,
    /// One that runs.
    Running { name: String, address: SocketAddr },
}

/// Runs `bench rsocket`.
///
/// # Errors
/// A sentence when a server, a connection or an argument is at fault.
pub fn run(args: &RsocketArgs) -> anyhow::Result<()> {
    let connections = args.connections;
    ensure!(
        connections > 0 && connections <= CONNECTIONS_MAX,
        "1 to {CONNECTIONS_MAX} --connections, please: a process may not open more files; start several with --target"
    );
    ensure!(args.streams > 0, "--streams must be above 0");
    ensure!(
        args.threads > 0 && args.threads <= connections,
        "--threads must be above 0, and not above --connections"
    );
    ensure!(args.payload <= PAYLOAD_BYTES_MAX, "--payload must be at most {PAYLOAD_BYTES_MAX}");
    ensure!(args.duration > 0, "--duration must be above 0");
    let steps = steps(&args.steps, connections * args.streams)?;
    machine::ensure_open_files(connections + WARM_CONNECTIONS_MAX)?;
    let bar = matrix::progress_bar();
    let mut report = Report::new(args);
    for transport in &args.transport {
        for subject in subjects(args)? {
            let outcome = measure(args, *transport, &subject, &steps, &bar);
            let outcome = outcome
                .with_context(|| format!("{} over {}", subject.name(), transport.as_str()))?;
            matrix::print(&report::line(&outcome))?;
            report.outcomes.push(outcome);
        }
    }
    bar.finish_and_clear();
    matrix::print(&report.text())?;
    report.write_files(&args.output)
}

fn measure(
    args: &RsocketArgs,
    transport: RsocketTransport,
    subject: &Subject,
    steps: &[usize],
    bar: &ProgressBar,
) -> anyhow::Result<Outcome> {
    let own = match subject {
        Subject::Own => Some(Server::start(args.server.as_ref(), &sections(args), &args.settings)?),
        Subject::Running { .. } => None,
    };
    let (address, pids) = match (subject, &own) {
        (Subject::Running { address, .. }, _) => (*address, cpu::pids_listening_on(address.port())),
        (Subject::Own, server) => {
            let server = server.as_ref().context("the server has not been started")?;
            (server.address, vec![server.pid()])
        }
    };
    let place =
        Place { authority: address.to_string(), path: args.path.clone(), subprotocol: None };
    let spec = ClientsSpec {
        address,
        transport,
        place: Arc::new(place),
        connections: args.connections,
        threads: args.threads,
        streams_max: steps.last().copied().unwrap_or(0),
        load: Load::of(args),
    };
    let rss = || Usage::of(&pids).map(|usage| usage.rss_bytes);
    bar.set_prefix(format!("{}, {}", subject.name(), transport.as_str()));
    bar.set_message("connecting");
    // What the server takes once is taken before its memory is read.
    let few = ClientsSpec {
        connections: (args.connections / 20).clamp(1, WARM_CONNECTIONS_MAX),
        threads: 1,
        streams_max: 0,
        ..spec.clone()
    };
    let warm = Clients::connect(&few, &Arc::default(), Clock::start())?;
    std::thread::sleep(REST);
    let before = rss();
    let (pulse, clock) = (Arc::new(Pulse::default()), Clock::start());
    let timeline = Timeline::start(pids.clone(), Arc::clone(&pulse), clock);
    let mut clients = Clients::connect(&spec, &pulse, clock)?;
    #[allow(clippy::cast_precision_loss)]
    let connect_s = clock.now_ns() as f64 / 1e9;
    // And its memory is read when it has come to rest.
    std::thread::sleep(REST);
    let memory = before.zip(rss()).map(|(before, connected)| [before, connected]);
    drop(warm);
    let times = Times { ramp_up: args.ramp_up, warm_up: args.warm_up, duration: args.duration };
    let mut measured = Vec::new();
    for streams in steps {
        let name = report::step_name(*streams);
        let level = clients.step(&name, *streams, &pids, times, bar)?;
        measured.push(Step { streams: *streams, open: pulse.streams.load(Relaxed), level });
    }
    Ok(Outcome {
        server: subject.name().to_owned(),
        transport,
        connections: args.connections,
        connect_s,
        memory,
        steps: measured,
        timeline: timeline.end(),
    })
}

/// What the server to start is told, as TOML.
fn sections(args: &RsocketArgs) -> String {
    let interval_ms = load::interval_us(args.rate).div_ceil(1_000);
    format!(
        "[limits]\nconnections_per_ip_max = 0\n\
         [rsocket]\necho = true\necho_interval = \"{interval_ms}ms\"\n"
    )
}

fn subjects(args: &RsocketArgs) -> anyhow::Result<Vec<Subject>> {
    let mut subjects = Vec::new();
    if args.targets.is_empty() {
        subjects.push(Subject::Own);
    }
    for target in args.targets.iter().chain(&args.peers) {
        subjects.push(Subject::running(target)?);
    }
    Ok(subjects)
}

impl Subject {
    fn running(text: &str) -> anyhow::Result<Subject> {
        let (name, authority) = text.split_once('=').unwrap_or((text, text));
        let mut found = authority
            .to_socket_addrs()
            .with_context(|| format!("{authority} is no host:port that can be resolved"))?;
        let address = found.next().with_context(|| format!("{authority} has no address"))?;
        Ok(Subject::Running { name: name.to_owned(), address })
    }

    fn name(&self) -> &str {
        match self {
            Subject::Own => "tiderace",
            Subject::Running { name, .. } => name,
        }
    }
}

/// Numbers of streams, rising, each once; all if none are named.
fn steps(texts: &[String], all: usize) -> anyhow::Result<Vec<usize>> {
    let mut steps = texts.iter().map(|text| step(text, all)).collect::<anyhow::Result<Vec<_>>>()?;
    if steps.is_empty() {
        steps.push(all);
    }
    steps.sort_unstable();
    steps.dedup();
    Ok(steps)
}

fn step(text: &str, all: usize) -> anyhow::Result<usize> {
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    let number = text.strip_suffix(unit).and_then(|number| number.parse::<f64>().ok());
    #[allow(clippy::cast_precision_loss)]
    let scale = match unit {
        "" => Some(1.0),
        "k" | "K" => Some(1e3),
        "m" | "M" => Some(1e6),
        "%" => Some(all as f64 / 100.0),
        _ => None,
    };
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let streams = number.zip(scale).map(|(number, scale)| (number * scale).round() as usize);
    let streams = streams.filter(|streams| (1..=STREAMS_MAX).contains(streams));
    streams.with_context(|| {
        format!("--steps {text} is no number of streams such as 250000, 250k, 1M or 25%")
    })
}

const REST: Duration = Duration::from_secs(1);
/// Connections that do not count.
const WARM_CONNECTIONS_MAX: usize = 200;
/// With header, metadata and route it has to fit into a frame.
const PAYLOAD_BYTES_MAX: usize = (1 << 24) - 1024;
const STREAMS_MAX: usize = 100_000_000;

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: RsocketArgs,
    }

    #[test]
    fn steps_are_numbers_or_shares_and_rise() {
        let steps = |texts: &[&str]| {
            let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
            super::steps(&texts, 1000).ok()
        };
        assert_eq!(steps(&[]), Some(vec![1000]));
        assert_eq!(
            steps(&["1M", "250k", "0.5M", "250000"]),
            Some(vec![250_000, 500_000, 1_000_000])
        );
        assert_eq!(steps(&["100%", "25%", "7"]), Some(vec![7, 250, 1000]));
        for wrong in ["", "k", "0", "many", "5x", "1e9M"] {
            assert_eq!(steps(&[wrong]), None, "{wrong}");
        }
    }

    #[test]
    fn servers_that_run_replace_ours_and_peers_stand_beside_it() {
        let subjects = |line: &[&str]| {
            let line = ["x"].iter().chain(line);
            let found = super::subjects(&Line::parse_from(line).args).unwrap();
            found.iter().map(|it| it.name().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(subjects(&[]), ["tiderace"]);
        assert_eq!(
            subjects(&["--peer", "java=127.0.0.1:1,go=127.0.0.1:2"]),
            ["tiderace", "java", "go"]
        );
        assert_eq!(subjects(&["--target", "127.0.0.1:1"]), ["127.0.0.1:1"]);
        assert!(Subject::running("nowhere").is_err());
    }

    #[test]
    fn the_templates_of_the_stress_test_use_options_there_are() {
        let template = include_str!("../../../../deploy/stress/scripts/client.nomad");
        let words: Vec<&str> = template.split('"').filter(|word| word.starts_with("--")).collect();
        assert!(words.len() > 3, "{words:?}");
        let line = words.iter().flat_map(|word| {
            let value = if *word == "--transport" { "ws-h2" } else { "1" };
            [(*word).to_owned(), value.to_owned()]
        });
        assert!(Line::try_parse_from(["x".to_owned()].into_iter().chain(line)).is_ok());
        let arguments = <Line as clap::CommandFactory>::command();
        let names: Vec<String> = arguments
            .get_arguments()
            .filter_map(|argument| Some(argument.get_env()?.to_str()?.to_owned()))
            .collect();
        for name in ["CONNECTIONS", "STREAMS", "RAMP_UP_PERIOD", "RSOCKET_TARGET"] {
            assert!(names.iter().any(|it| it == name), "{name}");
            assert!(template.contains(name), "{name}");
        }
    }
}
