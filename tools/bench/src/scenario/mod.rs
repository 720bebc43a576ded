//! Clients against one server: connecting, subscribing, then levels of load.
//!
//! Invariant: saturation and its shares are measured with the same clients and server, one after the
//! other, so that they compare.

pub mod choice;
pub mod phases;
pub mod report;

use std::net::SocketAddr;
use std::time::Duration;

use indicatif::ProgressBar;

use crate::clients::client::ClientSpec;
use crate::clients::publisher::{Publisher, PublisherSpec, Rate};
use crate::clients::{Clients, ClientsSpec, Level};
use crate::cpu::Usage;
use crate::matrix;

use phases::Phases;

/// What to measure.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// Its name in tables.
    pub name: String,
    /// The server.
    pub address: SocketAddr,
    /// Its processes.
    pub pids: Vec<u32>,
    /// Threads of clients.
    pub workers: usize,
    /// Clients of each.
    pub clients: usize,
    /// What each client is.
    pub client: ClientSpec,
    /// Who publishes.
    pub publisher: PublisherSpec,
    /// Topics of each client.
    pub subscriptions: usize,
    /// What loads to measure.
    pub plan: Plan,
}

/// Levels of load.
#[derive(Debug, Clone, Default)]
pub struct Plan {
    /// Seconds before measuring, at each level.
    pub warm_up_s: u64,
    /// Seconds measured at each level.
    pub duration_s: u64,
    /// Messages for each client flat out, instead of seconds.
    pub messages: Option<u64>,
    /// Shares of what was reached flat out.
    pub shares: Vec<f64>,
    /// Deliveries per second.
    pub rates: Vec<f64>,
}

/// Everything that was measured.
#[derive(Debug)]
pub struct Outcome {
    /// The scenario's name.
    pub name: String,
    /// How many clients.
    pub clients: usize,
    /// Topics of each.
    pub subscriptions: usize,
    /// How connecting and subscribing went.
    pub phases: Phases,
    /// The levels of load, saturation first.
    pub levels: Vec<Level>,
    /// Resident bytes of the server before anybody came, with all subscribed, and at the end.
    pub memory: Option<[u64; 3]>,
}

/// Runs a scenario; `paths` says to what the client of that number subscribes.
///
/// # Errors
/// A sentence when a connection or a thread fails.
pub fn measure(
    scenario: &Scenario,
    paths: impl Fn(usize) -> Vec<String> + Sync,
    bar: &ProgressBar,
) -> anyhow::Result<Outcome> {
    let memory = || Usage::of(&scenario.pids).map(|usage| usage.rss_bytes);
    let publisher = Publisher::start(scenario.publisher.clone())?;
    let before = memory();
    let spec = ClientsSpec {
        address: scenario.address,
        pids: scenario.pids.clone(),
        workers: scenario.workers,
        clients: scenario.clients,
        source_base: 0,
        client: scenario.client.clone(),
    };
    bar.set_prefix(format!("{} connecting", scenario.name));
    let mut clients = Clients::connect(&spec, paths)?;
    let phases = Phases::of(&clients.times());
    matrix::print(&phases.text(&scenario.name, scenario.subscriptions))?;
    // Its memory is read when it has come to rest.
    std::thread::sleep(Duration::from_secs(1));
    let subscribed = memory();
    let levels = levels(scenario, &mut clients, &publisher, bar)?;
    let memory = before.zip(subscribed).zip(memory());
    Ok(Outcome {
        name: scenario.name.clone(),
        clients: clients.len(),
        subscriptions: scenario.subscriptions,
        phases,
        levels,
        memory: memory.map(|((before, subscribed), after)| [before, subscribed, after]),
    })
}

/// Saturation, then its shares, then fixed rates.
fn levels(
    scenario: &Scenario,
    clients: &mut Clients,
    publisher: &Publisher,
    bar: &ProgressBar,
) -> anyhow::Result<Vec<Level>> {
    let plan = &scenario.plan;
    #[allow(clippy::cast_precision_loss)]
    let fan_out =
        (clients.len() * scenario.subscriptions) as f64 / scenario.publisher.topics.max(1) as f64;
    let times = (plan.warm_up_s, plan.duration_s);
    publisher.set(Rate::Unlimited)?;
    let flat_out = match plan.messages {
        None => clients.level("flat out", None, times, bar)?,
        Some(messages) => {
            // How fast it is decides how long it takes.
            let sounding = clients.level("sounding", None, (plan.warm_up_s, 2), bar)?;
            let rate = sounding.observed.consumed_per_s().max(1.0);
            #[allow(clippy::cast_precision_loss)]
            let seconds = messages as f64 * clients.len() as f64 / rate;
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            let seconds = (seconds.ceil() as u64).clamp(1, 600);
            clients.level("flat out", None, (0, seconds), bar)?
        }
    };
    let saturation = flat_out.observed.consumed_per_s();
    let mut levels = vec![flat_out];
    let shares = plan.shares.iter();
    let shares =
        shares.map(|share| (format!("{:.0} % of that", share * 100.0), share * saturation));
    let fixed = plan.rates.iter().map(|rate| (format!("{rate:.0} /s"), *rate));
    for (name, rate) in shares.chain(fixed) {
        publisher.set(Rate::Stopped)?;
        clients.drain()?;
        publisher.set(Rate::PerSecond(rate / fan_out))?;
        levels.push(clients.level(&name, Some(rate), times, bar)?);
    }
    publisher.set(Rate::Stopped)?;
    clients.drain()?;
    Ok(levels)
}

/// The server's feed as TOML: with `batch_bytes` at a time for each client, flat out.
pub fn feed(
    kind: &str,
    prefix: &str,
    size: usize,
    (topics, subscriptions): (usize, usize),
    batch_bytes: usize,
) -> String {
    // Each event loop publishes its share of the topics, to everybody.
    let loops = std::thread::available_parallelism().map_or(1, usize::from).min(topics);
    let burst = batch_bytes * topics / subscriptions.max(1) / loops.max(1);
    let burst = burst.clamp(1 << 12, 64 << 20);
    format!(
        "[[feed]]\nkind = \"{kind}\"\npath = \"{prefix}\"\ntopics = {topics}\nsize = {size}\n\
         burst = {burst}\ncontrol = true\n"
    )
}
