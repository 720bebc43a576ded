//! One number of clients, with deltas or without: a server of its own, connecting, levels of load.
//!
//! Relies on topics having their first value before anybody subscribes. Invariant: everything a step
//! tells was measured with the same clients and the same server.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use indicatif::ProgressBar;

use crate::args::DiffusionArgs;
use crate::clients::client::ClientSpec;
use crate::clients::publications::Publications;
use crate::clients::publisher::{Publisher, PublisherSpec, Rate};
use crate::clients::values::ValuesSpec;
use crate::clients::{Clients, ClientsSpec, Level};
use crate::cpu::{self, Usage, ratio};
use crate::diffusion::quotes::{self, Quotes};
use crate::scenario::phases::Phases;
use crate::scrape;
use crate::server::Server;

/// A load to measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Load {
    /// The updates that were asked for.
    Paced,
    /// As many updates as are taken.
    Saturation,
    /// Half of what came at saturation.
    Half,
}

/// What is to be measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StepSpec {
    pub(crate) clients: usize,
    pub(crate) deltas: bool,
    pub(crate) load: Load,
}

/// What was.
#[derive(Debug, Clone)]
pub(crate) struct Step {
    pub(crate) spec: StepSpec,
    pub(crate) subscriptions: usize,
    pub(crate) level: Level,
    /// Updates per second that were published.
    pub(crate) updates_per_s: f64,
    /// The publisher's share of a core.
    pub(crate) publisher_cores: Option<f64>,
    /// Cores that everything on the machine used.
    pub(crate) machine_cores: Option<f64>,
    /// Bytes of a value.
    pub(crate) value_bytes: f64,
    /// The server's writes for each event, if it tells.
    pub(crate) writes_per_event: Option<f64>,
    /// Resident bytes of the server with topics alone, with all subscribed, and at the end.
    pub(crate) memory: Option<[u64; 3]>,
    /// From the first client that was ready to the last subscription confirmed.
    pub(crate) subscribed_ns: u64,
}

/// Measures some loads, one after the other.
///
/// # Errors
/// A sentence when the server or a connection fails.
pub(crate) fn measure(
    args: &DiffusionArgs,
    (clients, deltas): (usize, bool),
    loads: &[Load],
    bar: &ProgressBar,
) -> anyhow::Result<Vec<Step>> {
    let name = format!("{clients} clients, deltas {}", if deltas { "on" } else { "off" });
    let say = |doing: &str| bar.set_prefix(format!("{name}: {doing}"));
    say("starting");
    let limits =
        format!("[limits]\nsubscriptions_per_session_max = {}\n", args.subscriptions.max(10_000));
    let server = Server::start(args.server.as_ref(), &limits, &args.settings)?;
    let memory = || Usage::of(&[server.pid()]).map(|usage| usage.rss_bytes);
    let publications = Arc::new(Publications::new(args.topics));
    let codec = deltas.then(|| args.codec.number());
    let client = client(&server, &publications, codec);
    say("first values");
    let source = Quotes::new(&args.prefix, args.change, Arc::clone(&publications), args.topics);
    let publisher = PublisherSpec {
        address: server.address,
        client: client.clone(),
        prefix: args.prefix.clone(),
        topics: args.topics,
        size: 0,
        connections: args.publishers.max(1),
    };
    let publisher = Publisher::of(publisher, Box::new(source), args.topics)?;
    std::thread::sleep(REST);
    let before = memory();
    say("connecting");
    let workers = args.threads.clamp(1, clients);
    let spec = ClientsSpec {
        address: server.address,
        pids: vec![server.pid()],
        workers,
        clients: clients.div_ceil(workers),
        source_base: 0,
        client,
    };
    let mut clients = Clients::connect(&spec, |client| {
        let topics = quotes::choose(client, args.topics, args.subscriptions);
        topics.into_iter().map(|topic| quotes::path(&args.prefix, topic)).collect()
    })?;
    let subscribed_ns = Phases::of(&clients.times()).subscribed_ns();
    // The first values that subscribing brings are no events.
    clients.drain()?;
    std::thread::sleep(REST);
    let subscribed = memory();
    let mut bench =
        Bench { args, server: &server, publications: &publications, publisher: &publisher };
    let mut steps: Vec<Step> = Vec::new();
    for load in loads {
        let reached = steps.last().map(|step| step.updates_per_s);
        let spec = StepSpec { clients: clients.len(), deltas, load: *load };
        say(&spec.name(args.updates));
        let mut step = bench.level(spec, reached, &mut clients, bar)?;
        step.subscribed_ns = subscribed_ns;
        let known = before.zip(subscribed).zip(memory());
        step.memory = known.map(|((before, subscribed), after)| [before, subscribed, after]);
        steps.push(step);
    }
    Ok(steps)
}

struct Bench<'a> {
    args: &'a DiffusionArgs,
    server: &'a Server,
    publications: &'a Publications,
    publisher: &'a Publisher,
}

impl Bench<'_> {
    /// One level of load; `reached` are the updates per second of the one before.
    #[allow(clippy::cast_precision_loss)]
    fn level(
        &mut self,
        spec: StepSpec,
        reached: Option<f64>,
        clients: &mut Clients,
        bar: &ProgressBar,
    ) -> anyhow::Result<Step> {
        let args = self.args;
        let fan_out = (clients.len() * args.subscriptions) as f64 / args.topics as f64;
        let rate = match spec.load {
            Load::Paced => Some(args.updates),
            Load::Saturation => None,
            Load::Half => Some(reached.unwrap_or(args.updates) / 2.0),
        };
        self.publisher.set(rate.map_or(Rate::Unlimited, Rate::PerSecond))?;
        let look = || {
            let time = self.publisher.time().map(|time| time.running_ns);
            (
                Instant::now(),
                self.publications.published(),
                time,
                scrape::metric(self.server.address, WRITES),
            )
        };
        let (before, busy) = (look(), cpu::machine_s());
        let asked = rate.map(|rate| rate * fan_out);
        let level =
            clients.level(&spec.name(args.updates), asked, (args.warm_up, args.seconds), bar)?;
        let after = look();
        let busy = busy.zip(cpu::machine_s()).map(|(before, after)| after - before);
        self.publisher.set(Rate::Stopped)?;
        let took = after.0 - before.0;
        let events = level.counters.received.max(1) as f64;
        clients.drain().context("reading what was on its way")?;
        Ok(Step {
            spec,
            subscriptions: args.subscriptions,
            updates_per_s: (after.1 - before.1) as f64 / took.as_secs_f64(),
            publisher_cores: before
                .2
                .zip(after.2)
                .map(|(before, after)| ratio(after.saturating_sub(before), took.as_nanos() as u64)),
            machine_cores: busy.map(|seconds| seconds / took.as_secs_f64()),
            value_bytes: self.publications.value_bytes(),
            writes_per_event: before
                .3
                .zip(after.3)
                .map(|(before, after)| after.saturating_sub(before) as f64 / events),
            memory: None,
            subscribed_ns: 0,
            level,
        })
    }
}

impl StepSpec {
    /// A load's name.
    pub(crate) fn name(self, updates: f64) -> String {
        match self.load {
            Load::Paced => format!("{updates:.0} updates/s"),
            Load::Saturation => "saturation".to_owned(),
            Load::Half => "half of saturation".to_owned(),
        }
    }
}

fn client(server: &Server, publications: &Arc<Publications>, codec: Option<u8>) -> ClientSpec {
    let values = ValuesSpec { publications: Arc::clone(publications), codec };
    ClientSpec::of_values(server.address, values)
}

/// How often the server has written to connections.
const WRITES: &str = "tiderace_write_blocks_total";
/// After which a server's memory is read.
const REST: Duration = Duration::from_millis(500);
