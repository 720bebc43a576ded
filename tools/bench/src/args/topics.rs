//! The arguments of `bench topics`.

use std::path::PathBuf;

use clap::Args;

/// `bench topics`.
#[derive(Debug, Clone, Args)]
pub struct TopicsArgs {
    /// Topics to create.
    #[arg(long, default_value_t = 1_000_000)]
    pub topics: usize,
    /// Bytes of each value.
    #[arg(long, short = 's', default_value_t = 200)]
    pub size: usize,
    /// Connections that create them.
    #[arg(long, default_value_t = 1)]
    pub publishers: usize,
    /// Seconds for which the subscriber does not read, so that it shows what waits for it in the server.
    #[arg(long, default_value_t = 2)]
    pub hold: u64,
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
