//! The arguments of `bench socketio`.

use std::path::PathBuf;

use clap::Args;

use super::{OutputArgs, RubrisTransport};

/// `bench socketio`.
#[derive(Debug, Clone, Args)]
pub struct SocketioArgs {
    /// `name=host:port` of a server as in tools/bench/peers; repeat to compare. Tiderace itself is
    /// started and comes first.
    #[arg(long = "target", value_name = "NAME=HOST:PORT")]
    pub targets: Vec<String>,
    /// Leave Tiderace itself out.
    #[arg(long)]
    pub targets_only: bool,
    /// Clients.
    #[arg(long, default_value_t = 1000)]
    pub clients: usize,
    /// Threads they are spread over.
    #[arg(long, default_value_t = 1)]
    pub threads: usize,
    /// Topics of each.
    #[arg(long, default_value_t = 1)]
    pub subscriptions: usize,
    /// Topics there are.
    #[arg(long, default_value_t = 1)]
    pub topics: usize,
    /// Bytes of a message.
    #[arg(long, default_value_t = 1024)]
    pub size: usize,
    /// Seconds measured at each level of load.
    #[arg(long, alias = "seconds", default_value_t = 10)]
    pub duration: u64,
    /// Seconds before measuring, at each level.
    #[arg(long, default_value_t = 3)]
    pub warm_up: u64,
    /// How clients are connected; several are measured one after the other.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [RubrisTransport::Websocket, RubrisTransport::Polling])]
    pub transport: Vec<RubrisTransport>,
    /// Further levels of load, as shares of what was reached flat out.
    #[arg(long, value_delimiter = ',')]
    pub rate_of_saturation: Vec<f64>,
    /// Further levels of load, in deliveries per second.
    #[arg(long, value_delimiter = ',')]
    pub rate: Vec<f64>,
    /// Flat out Tiderace publishes about so many bytes for each client at a time.
    #[arg(long, value_name = "BYTES", default_value_t = 65_536)]
    pub batch_bytes: usize,
    /// Leave out the bare writer at the end.
    #[arg(long)]
    pub no_bare: bool,
    /// The server to start, if it is not this program.
    #[arg(long, value_name = "PROGRAM")]
    pub server: Option<PathBuf>,
    /// Options of the server to start, such as `server.shards=1`.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub settings: Vec<String>,
    /// The reports.
    #[command(flatten)]
    pub output: OutputArgs,
}
