//! The arguments of `bench diffusion`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::args::OutputArgs;

/// `bench diffusion`.
#[derive(Debug, Clone, Args)]
pub struct DiffusionArgs {
    /// Numbers of clients, one after the other; by default from 1,000 up, as far as this machine keeps
    /// up and files may be opened.
    #[arg(long, value_delimiter = ',', value_name = "CLIENTS")]
    pub clients: Vec<usize>,
    /// Whether clients ask for deltas.
    #[arg(long, value_enum, default_value_t = DiffusionDeltas::Both)]
    pub deltas: DiffusionDeltas,
    /// The codec of the deltas.
    #[arg(long, value_enum, default_value_t = DiffusionCodec::Tiderace)]
    pub codec: DiffusionCodec,
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
    /// Seconds measured at each level of load.
    #[arg(long, alias = "duration", default_value_t = 10)]
    pub seconds: u64,
    /// Seconds before measuring, at each level.
    #[arg(long, default_value_t = 3)]
    pub warm_up: u64,
    /// Measure each number of clients so often, with deltas off and on in turn, and tell the medians.
    #[arg(long, default_value_t = 1)]
    pub rounds: usize,
    /// Leave out saturation, as many updates as are taken, and the half of it.
    #[arg(long)]
    pub no_saturation: bool,
    /// Clients at saturation; by default the most with which updates were kept up.
    #[arg(long, value_name = "CLIENTS")]
    pub saturation_clients: Option<usize>,
    /// Threads of clients.
    #[arg(long, default_value_t = 1)]
    pub threads: usize,
    /// Publishing connections, all on one thread.
    #[arg(long, default_value_t = 1)]
    pub publishers: usize,
    /// Leave out the bare writer, which sends as much to as many sockets and does nothing else.
    #[arg(long)]
    pub no_bare: bool,
    /// What precedes the number of a topic.
    #[arg(long, default_value = "fx")]
    pub prefix: String,
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

/// Whether clients ask for deltas.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DiffusionDeltas {
    /// Full values alone.
    Off,
    /// Deltas where they are smaller.
    On,
    /// One after the other.
    Both,
}

impl DiffusionDeltas {
    /// What is to be measured.
    pub fn modes(self) -> &'static [bool] {
        match self {
            Self::Off => &[false],
            Self::On => &[true],
            Self::Both => &[false, true],
        }
    }
}

/// How deltas are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DiffusionCodec {
    /// Our own.
    Tiderace,
    /// VCDIFF; witnesses cannot check it.
    Vcdiff,
}

impl DiffusionCodec {
    /// Its number in the native protocol.
    pub fn number(self) -> u8 {
        match self {
            Self::Tiderace => crate::clients::native::CODEC,
            Self::Vcdiff => 2,
        }
    }
}

/// What an update changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DiffusionChange {
    /// The points of one price: 3 digits.
    Points,
    /// Bid and offer of one size of deal, and the two times that belong to them.
    Quote,
    /// All 12 prices and all 3 times.
    All,
}
