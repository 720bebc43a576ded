//! The arguments of `bench queue`.

use std::path::PathBuf;

use clap::Args;

use super::{AckMode, OutputArgs};

/// `bench queue`.
#[derive(Debug, Clone, Args)]
#[command(after_help = EXAMPLES)]
pub struct QueueArgs {
    /// A STOMP server to be measured, too: `[name=]host:port[,login:passcode][,vhost=V][,queue-prefix=P][,pid=N]`;
    /// repeat to compare. Tiderace itself is started and comes first.
    #[arg(long = "target", value_name = "SPEC")]
    pub targets: Vec<String>,
    /// Leave Tiderace itself out.
    #[arg(long)]
    pub targets_only: bool,
    /// Only these cells; --list names them all.
    #[arg(long, value_delimiter = ',', value_name = "CELL")]
    pub only: Vec<String>,
    /// Print the names of the cells and end.
    #[arg(long)]
    pub list: bool,
    /// How often each cell is run on each server, in an order of chance; the medians count.
    #[arg(long, default_value_t = 3)]
    pub rounds: usize,
    /// Messages sent in a cell.
    #[arg(long, short = 'n', default_value_t = 100_000)]
    pub messages: u64,
    /// After so many seconds of sending a cell has no more messages.
    #[arg(long, default_value_t = 5)]
    pub seconds: u64,
    /// Body size in bytes (at least 20: it carries a sequence number and a time).
    #[arg(long, short = 's', default_value_t = 1024)]
    pub size: usize,
    /// Receipts that may be outstanding of a producer that does not wait for each.
    #[arg(long, default_value_t = 1000)]
    pub window: u64,
    /// Messages in the deep queue.
    #[arg(long, default_value_t = 200_000)]
    pub depth: u64,
    /// Body size of large messages.
    #[arg(long, default_value_t = 1 << 20, value_name = "BYTES")]
    pub large: usize,
    /// Milliseconds that the slow consumer takes for each message.
    #[arg(long, default_value_t = 10, value_name = "MS")]
    pub slow: u64,
    /// One message in so many is what the selector wants.
    #[arg(long, default_value_t = 10_000, value_name = "MESSAGES")]
    pub pick_every: u64,
    /// Acknowledgement mode of the consumers.
    #[arg(long, value_enum, default_value_t = AckMode::Client)]
    pub ack: AckMode,
    /// Messages that are not persistent: shows what persistence costs.
    #[arg(long)]
    pub volatile: bool,
    /// Header that marks a message persistent.
    #[arg(long, default_value = "persistent:true", value_name = "NAME:VALUE")]
    pub persistent_header: String,
    /// Further header of subscriptions, such as a window that a server has; repeat for several.
    #[arg(long, value_name = "NAME:VALUE")]
    pub subscribe_header: Vec<String>,
    /// What confirmations of our own server wait for: always, interval or never (store.sync).
    #[arg(long, default_value = "always")]
    pub sync: String,
    /// An empty directory on the disk to be measured; a temporary one if left out. Our own server's stores and what the
    /// bare disk is measured with are made there and removed again.
    #[arg(long, value_name = "DIR")]
    pub directory: Option<PathBuf>,
    /// Leave the bare disk out.
    #[arg(long)]
    pub no_disk: bool,
    /// At most so many bytes of bodies in a queue; a cell that wants more is refused before anything runs.
    #[arg(long, default_value_t = 4 << 30, value_name = "BYTES")]
    pub bytes_max: u64,
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

const EXAMPLES: &str = "\
Examples:
  tiderace bench queue --rounds 5 --directory /mnt/disk/empty --html queue.html
  tiderace bench queue --only one-waiting,producers-100 --sync never
  tiderace bench queue --target artemis=127.0.0.1:61615,admin:password --target rabbitmq=127.0.0.1:61616,guest:guest,vhost=/";
