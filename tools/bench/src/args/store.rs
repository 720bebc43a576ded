//! The arguments of `bench store`.

use std::path::PathBuf;

use clap::Args;

/// `bench store`.
#[derive(Debug, Clone, Args)]
pub struct StoreArgs {
    /// Persistent topics.
    #[arg(long, default_value_t = 100_000)]
    pub topics: usize,
    /// Bytes of each value.
    #[arg(long, short = 's', default_value_t = 200)]
    pub size: usize,
    /// Connections that publish.
    #[arg(long, default_value_t = 2)]
    pub publishers: usize,
    /// How often every topic gets another value.
    #[arg(long, default_value_t = 2)]
    pub rounds: usize,
    /// How often the server is killed and started again.
    #[arg(long, default_value_t = 3)]
    pub restarts: usize,
    /// What confirmations wait for: always, interval or never (store.sync).
    #[arg(long, default_value = "always")]
    pub sync: String,
    /// An empty directory on the disk to be measured; a temporary one if left out.
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
