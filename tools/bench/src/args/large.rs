//! The arguments of `bench large`.

use std::path::PathBuf;

use clap::Args;

/// `bench large`.
#[derive(Debug, Clone, Args)]
#[command(after_help = EXAMPLES)]
pub struct LargeArgs {
    /// Bytes of the message.
    #[arg(long, short = 's', default_value_t = 1 << 30, value_name = "BYTES")]
    pub size: u64,
    /// Subscribers of the topic; each gets the whole message.
    #[arg(long, default_value_t = 100)]
    pub subscribers: usize,
    /// How often each cell is run, in an order of chance; the medians count.
    #[arg(long, default_value_t = 3)]
    pub rounds: usize,
    /// Only these cells; --list names them all.
    #[arg(long, value_delimiter = ',', value_name = "CELL")]
    pub only: Vec<String>,
    /// Print the names of the cells and end.
    #[arg(long)]
    pub list: bool,
    /// Small messages a second between two other clients, whose latency is measured with and without the large ones; 0
    /// leaves them out.
    #[arg(long, default_value_t = 1000.0, value_name = "PER SECOND")]
    pub others: f64,
    /// Seconds in which the others are measured, without and then with the large messages.
    #[arg(long, default_value_t = 5)]
    pub seconds: u64,
    /// An empty directory on the disk to be measured; a temporary one if left out. The server's files and the file that
    /// is copied for comparison are made there and removed again.
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

const EXAMPLES: &str = "\
Examples:
  tiderace bench large --directory /mnt/disk/empty
  tiderace bench large --only stomp-queue,rest-queue --size 268435456 --others 0";
