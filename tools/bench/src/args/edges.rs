//! The arguments of `bench edges`.

use std::path::PathBuf;

use clap::Args;

use crate::args::{DiffusionChange, EdgeFault, OutputArgs};

/// `bench edges`.
#[derive(Debug, Clone, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct EdgesArgs {
    /// What befalls the edges, instead of measuring them.
    #[command(subcommand)]
    pub fault: Option<EdgeFault>,
    /// Numbers of edges, one after the other. Each edge takes all topics of the source.
    #[arg(long, value_delimiter = ',', value_name = "EDGES", default_value = "0,1,2,3,5")]
    pub edges: Vec<usize>,
    /// Clients, shared out evenly among the edges; with 0 edges all are at the source.
    #[arg(long, default_value_t = 2_500)]
    pub clients: usize,
    /// Topics there are.
    #[arg(long, default_value_t = 100_000)]
    pub topics: usize,
    /// Updates per second of all topics together.
    #[arg(long, default_value_t = 20_000.0)]
    pub updates: f64,
    /// Topics each client subscribes to, chosen at random.
    #[arg(long, default_value_t = 100)]
    pub subscriptions: usize,
    /// What an update changes in the kilobyte of JSON.
    #[arg(long, value_enum, default_value_t = DiffusionChange::Quote)]
    pub change: DiffusionChange,
    /// Seconds measured of each cell.
    #[arg(long, alias = "duration", default_value_t = 10)]
    pub seconds: u64,
    /// Seconds before measuring.
    #[arg(long, default_value_t = 3)]
    pub warm_up: u64,
    /// Measure everything so often, and tell of each cell the run with the median of the source's processor time.
    #[arg(long, default_value_t = 1)]
    pub rounds: usize,
    /// Shards of each server.
    #[arg(long, default_value_t = 1)]
    pub shards: usize,
    /// What precedes the number of a topic.
    #[arg(long, default_value = "fx")]
    pub prefix: String,
    /// The server to start, if it is not this program.
    #[arg(long, value_name = "PROGRAM")]
    pub server: Option<PathBuf>,
    /// Options of all servers, such as `session.batch_delay=20ms`.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub settings: Vec<String>,
    /// The reports.
    #[command(flatten)]
    pub output: OutputArgs,
}
