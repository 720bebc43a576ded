//! The arguments of `bench queues`.

use std::path::PathBuf;

use clap::Args;

/// `bench queues`.
#[derive(Debug, Clone, Args)]
pub struct QueuesArgs {
    /// Queues.
    #[arg(long, default_value_t = 1_000_000)]
    pub queues: u64,
    /// Persistent messages in each.
    #[arg(long, short = 'n', default_value_t = 10)]
    pub messages: u64,
    /// Body size in bytes.
    #[arg(long, short = 's', default_value_t = 100)]
    pub size: usize,
    /// What confirmations wait for: always, interval or never (store.sync).
    #[arg(long, default_value = "always")]
    pub sync: String,
    /// An empty directory for the store; a temporary one if left out.
    #[arg(long, value_name = "DIR")]
    pub directory: Option<PathBuf>,
    /// The server to start, if it is not this program.
    #[arg(long, value_name = "PROGRAM")]
    pub server: Option<PathBuf>,
    /// Options of the server to start, such as `server.shards=1`.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub settings: Vec<String>,
    /// Write every figure as JSON.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Title of the run in the report.
    #[arg(long, default_value = "")]
    pub label: String,
}
