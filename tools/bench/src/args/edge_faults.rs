//! The arguments of `bench edges kill`, `restart` and `churn`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// What may befall edges.
#[derive(Debug, Clone, Subcommand)]
pub enum EdgeFault {
    /// Edges that are killed under load: what their clients miss, and how soon they are back at others.
    Kill(EdgeKillArgs),
    /// A source with persistent topics that is started again: what clients of its edges hear of that.
    Restart(EdgeRestartArgs),
    /// Clients that change what they subscribe to, all the time: what is left of it.
    Churn(EdgeChurnArgs),
}

/// What all of them have.
#[derive(Debug, Clone, Args)]
pub struct EdgeFaultArgs {
    /// Edges of the source.
    #[arg(long, default_value_t = 2)]
    pub edges: usize,
    /// Shards of each server.
    #[arg(long, default_value_t = 1)]
    pub shards: usize,
    /// Times and processor time are told and decide nothing: for a machine that has other things to do.
    #[arg(long)]
    pub lenient: bool,
    /// The server to start, if it is not this program.
    #[arg(long, value_name = "PROGRAM")]
    pub server: Option<PathBuf>,
    /// Options of all servers, such as `history.age_max=2min`.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub settings: Vec<String>,
    /// Write every figure as JSON.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Title of the run in the report.
    #[arg(long, default_value = "")]
    pub label: String,
}

/// `bench edges kill`.
#[derive(Debug, Clone, Args)]
pub struct EdgeKillArgs {
    /// What all faults have.
    #[command(flatten)]
    pub common: EdgeFaultArgs,
    /// Clients: a third each of the native protocol, Socket.IO and Server-Sent Events.
    #[arg(long, default_value_t = 2_000)]
    pub clients: usize,
    /// Topics there are.
    #[arg(long, default_value_t = 1_000)]
    pub topics: usize,
    /// Topics each client subscribes to, chosen at random.
    #[arg(long, default_value_t = 5)]
    pub subscriptions: usize,
    /// Values published each second, to random topics.
    #[arg(long, default_value_t = 1_000.0)]
    pub updates: f64,
    /// How often an edge is killed, one after the other.
    #[arg(long, default_value_t = 10)]
    pub kills: usize,
    /// Seconds between a kill and the next one; the edge is started again after two.
    #[arg(long, default_value_t = 8)]
    pub seconds: u64,
    /// The longest pause before a client connects again, milliseconds; each is random.
    #[arg(long, default_value_t = 1_000)]
    pub jitter: u64,
}

/// `bench edges restart`.
#[derive(Debug, Clone, Args)]
pub struct EdgeRestartArgs {
    /// What all faults have.
    #[command(flatten)]
    pub common: EdgeFaultArgs,
    /// Persistent topics with a value each.
    #[arg(long, default_value_t = 100_000)]
    pub topics: usize,
    /// Clients with 20 topics each; besides, one of each edge has all topics.
    #[arg(long, default_value_t = 300)]
    pub clients: usize,
    /// Clients that publish through the edges.
    #[arg(long, default_value_t = 4)]
    pub publishers: usize,
    /// How often the source is stopped: by a kill and by a signal that asks it to, in turn.
    #[arg(long, default_value_t = 4)]
    pub restarts: usize,
    /// Milliseconds that it is away.
    #[arg(long, default_value_t = 2_500)]
    pub away: u64,
    /// An empty directory for the source's store; a temporary one if left out.
    #[arg(long, value_name = "DIR")]
    pub directory: Option<PathBuf>,
}

/// `bench edges churn`.
#[derive(Debug, Clone, Args)]
pub struct EdgeChurnArgs {
    /// What all faults have.
    #[command(flatten)]
    pub common: EdgeFaultArgs,
    /// Clients: a third each of the native protocol, Socket.IO and Server-Sent Events.
    #[arg(long, default_value_t = 500)]
    pub clients: usize,
    /// Topics there are.
    #[arg(long, default_value_t = 20_000)]
    pub topics: usize,
    /// Topics each client subscribes to, chosen at random.
    #[arg(long, default_value_t = 20)]
    pub subscriptions: usize,
    /// Values published each second, to random topics.
    #[arg(long, default_value_t = 1_000.0)]
    pub updates: f64,
    /// Hundredths of all subscriptions that are changed each second.
    #[arg(long, default_value_t = 10)]
    pub percent: usize,
    /// Seconds of changes in each round.
    #[arg(long, default_value_t = 60)]
    pub seconds: u64,
    /// Rounds, with a rest behind each; memory is compared between the rests.
    #[arg(long, default_value_t = 2)]
    pub rounds: usize,
    /// Seconds that an edge keeps a subscription that nobody needs (`upstream.linger`).
    #[arg(long, default_value_t = 5)]
    pub linger: u64,
}
