//! The command line of `bench`, as typed.
//!
//! Relies on clap alone; meaning (target specifications, cells) is given in [`crate::target`] and
//! [`crate::stomp::cell`]. Invariant: every default is stated here or below and nowhere else.

mod compare;
mod diffusion;
mod edge_faults;
mod edges;
mod large;
mod queue;
mod queues;
mod rsocket;
mod socketio;
mod store;
mod subscriptions;
mod topics;

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

pub use compare::CompareArgs;
pub use diffusion::{DiffusionArgs, DiffusionChange, DiffusionCodec, DiffusionDeltas};
pub use edge_faults::{EdgeChurnArgs, EdgeFault, EdgeFaultArgs, EdgeKillArgs, EdgeRestartArgs};
pub use edges::EdgesArgs;
pub use large::LargeArgs;
pub use queue::QueueArgs;
pub use queues::QueuesArgs;
pub use rsocket::{RsocketArgs, RsocketMode, RsocketTransport};
pub use socketio::SocketioArgs;
pub use store::StoreArgs;
pub use subscriptions::SubscriptionsArgs;
pub use topics::TopicsArgs;

/// Measures STOMP servers and the machine they run on.
#[derive(Debug, Clone, Args)]
pub struct BenchArgs {
    /// What to measure.
    #[command(subcommand)]
    pub command: BenchCommand,
}

/// The scenarios.
#[derive(Debug, Clone, Subcommand)]
pub enum BenchCommand {
    /// Producers × destinations × consumers over STOMP, against any STOMP server.
    Stomp(StompArgs),
    /// One producer to many WebSocket subscribers of one topic.
    Fanout(FanoutArgs),
    /// What this machine does without a server: a bare writer, or a copying forwarder.
    Bare(BareArgs),
    /// Rubris's test: users who subscribe to many of very many topics, by polling or WebSocket.
    Rubris(RubrisArgs),
    /// Diffusion's test: very many topics that hold JSON, few of them for each of many clients, with and
    /// without deltas.
    Diffusion(DiffusionArgs),
    /// Diffusion's test of edges: a source, edges that take all its topics, and clients at the edges. With `kill`, `restart` or
    /// `churn`: what edges and clients do when an edge is killed, the source is started again, or clients change what they
    /// subscribe to.
    Edges(EdgesArgs),
    /// Very many topics with a small value each: creating them, their memory, and a subscription to all.
    Topics(TopicsArgs),
    /// Persistent topics: confirmed values per second, commits, and restarts after a kill.
    Store(StoreArgs),
    /// Persistent queues of any STOMP server, beside what the disk does without one.
    Queue(QueueArgs),
    /// Very many persistent queues with a few messages each: their memory, and a restart after a kill.
    Queues(QueuesArgs),
    /// Messages that are larger than memory should hold, beside copying such a file.
    Large(LargeArgs),
    /// Very many durable subscriptions to one topic: what a message costs on the disk and in memory.
    Subscriptions(SubscriptionsArgs),
    /// One kilobyte to many Socket.IO clients, ours beside other Socket.IO servers.
    Socketio(SocketioArgs),
    /// Very many RSocket streams with a message a second each, by four transports; ours beside others.
    Rsocket(RsocketArgs),
    /// Very many connections with one subscription each: memory per connection, latency of each message.
    Connections(ConnectionsArgs),
    /// Millions of sessions in one process, without sockets: memory per session, latency inside.
    Sessions(SessionsArgs),
    /// Two builds of this server side by side: processor time in every published scenario, and their ratio.
    Compare(CompareArgs),
    /// A bare copying STOMP forwarder to measure against: parse, re-frame, copy, nothing else.
    Forwarder(ForwarderArgs),
    /// Some of the clients of `connections`, started by it.
    #[command(hide = true)]
    Worker(WorkerArgs),
    /// The writing half of `bare`, started by it.
    #[command(hide = true)]
    BareWriter(BareWriterArgs),
}

/// How to reach and name the servers, and how to account for them.
#[derive(Debug, Clone, Args)]
pub struct TargetArgs {
    /// `[name=]host:port[,login:passcode][,vhost=V][,queue-prefix=P][,topic-prefix=P][,ws-path=P][,pid=N]`; repeat to compare servers.
    #[arg(long = "target", value_name = "SPEC", default_value = "127.0.0.1:61613")]
    pub targets: Vec<String>,
    /// Login for every target that names none of its own.
    #[arg(long)]
    pub login: Option<String>,
    /// Passcode belonging to --login.
    #[arg(long, requires = "login")]
    pub passcode: Option<String>,
    /// Virtual host for every target that names none of its own.
    #[arg(long, default_value = "localhost")]
    pub vhost: String,
    /// Process ids of the server, when they cannot be found from the listening port.
    #[arg(long = "server-pid", value_name = "PID", value_delimiter = ',')]
    pub server_pids: Vec<u32>,
    /// Request path of STOMP over WebSocket.
    #[arg(long, default_value = "/stomp", value_name = "PATH")]
    pub ws_path: String,
}

/// Where reports go besides the terminal.
#[derive(Debug, Clone, Args)]
pub struct OutputArgs {
    /// Write every figure as JSON (keys of stomp-benchmark, and richer ones).
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write a self-contained HTML report with plots.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Title of the run in the reports.
    #[arg(long, default_value = "")]
    pub label: String,
}

/// `bench stomp`.
#[derive(Debug, Clone, Args)]
pub struct StompArgs {
    /// The servers.
    #[command(flatten)]
    pub target: TargetArgs,
    /// The reports.
    #[command(flatten)]
    pub output: OutputArgs,
    /// Publish to topics (default).
    #[arg(long, conflicts_with = "queue")]
    pub topic: bool,
    /// Send to queues.
    #[arg(long)]
    pub queue: bool,
    /// Number of producing connections.
    #[arg(long, short = 'p', default_value_t = 1)]
    pub producers: usize,
    /// Number of destinations; producers and consumers are dealt to them in turn.
    #[arg(long, short = 'd', default_value_t = 1)]
    pub destinations: usize,
    /// Number of consuming connections; 0 measures producing alone.
    #[arg(long, short = 'c', default_value_t = 1)]
    pub consumers: usize,
    /// Body size in bytes (at least 20: it carries a sequence number and a time).
    #[arg(long, short = 's', default_value_t = 20)]
    pub size: usize,
    /// Measured seconds (default 5 in a matrix, 10 otherwise).
    #[arg(long, alias = "seconds")]
    pub duration: Option<u64>,
    /// Seconds before measuring starts.
    #[arg(long, default_value_t = 2)]
    pub warm_up: u64,
    /// Mark messages persistent.
    #[arg(long)]
    pub persistent: bool,
    /// Header that marks a message persistent.
    #[arg(long, default_value = "persistent:true", value_name = "NAME:VALUE")]
    pub persistent_header: String,
    /// Ask for a receipt on every message and wait for it (see --window).
    #[arg(long)]
    pub receipts: bool,
    /// Receipts that may be outstanding per producer.
    #[arg(long, default_value_t = 1)]
    pub window: u64,
    /// Messages per second in total, sent on schedule whatever the server does; without it flat out.
    #[arg(long)]
    pub rate: Option<f64>,
    /// Producers pause while more deliveries than this are on their way (0: no limit).
    #[arg(long, default_value_t = 0, value_name = "MESSAGES")]
    pub outstanding: u64,
    /// Acknowledgement mode of the subscriptions.
    #[arg(long, value_enum, default_value_t = AckMode::Auto)]
    pub ack: AckMode,
    /// Speak STOMP over WebSocket.
    #[arg(long)]
    pub ws: bool,
    /// Threads for each side (producers, consumers).
    #[arg(long, default_value_t = 1)]
    pub threads: usize,
    /// Size of a pre-encoded batch of messages, one write.
    #[arg(long, default_value_t = 131_072, value_name = "BYTES")]
    pub batch_bytes: usize,
    /// Seconds without progress after which draining the consumers is given up.
    #[arg(long, default_value_t = 3)]
    pub drain_timeout: u64,
    /// Run a whole table of cells.
    #[arg(long, value_enum)]
    pub matrix: Option<Matrix>,
    /// Only these cells of the matrix, e.g. `topic-1-1-1,queue-8-8-8`.
    #[arg(long, value_delimiter = ',', value_name = "CELL")]
    pub only: Vec<String>,
}

/// `bench fanout`.
#[derive(Debug, Clone, Args)]
pub struct FanoutArgs {
    /// The server.
    #[command(flatten)]
    pub target: TargetArgs,
    /// The reports.
    #[command(flatten)]
    pub output: OutputArgs,
    /// WebSocket subscribers of the one topic.
    #[arg(long, default_value_t = 1000)]
    pub subscribers: usize,
    /// Body size in bytes.
    #[arg(long, default_value_t = 1024)]
    pub size: usize,
    /// Publications per second; without it flat out.
    #[arg(long)]
    pub rate: Option<f64>,
    /// Deliveries on their way to one subscriber before the producer pauses (0: no limit, which
    /// measures what the server does with consumers that are too slow).
    #[arg(long, default_value_t = 256, value_name = "MESSAGES")]
    pub outstanding: u64,
    /// Measured seconds.
    #[arg(long, alias = "seconds", default_value_t = 5)]
    pub duration: u64,
    /// Seconds before measuring starts.
    #[arg(long, default_value_t = 2)]
    pub warm_up: u64,
    /// Reading threads.
    #[arg(long, default_value_t = 1)]
    pub threads: usize,
    /// Bytes per write of the bare baseline.
    #[arg(long, default_value_t = 65_536, value_name = "BYTES")]
    pub write_bytes: usize,
    /// Leave the bare baseline out.
    #[arg(long)]
    pub no_bare: bool,
}

/// `bench rubris`.
#[derive(Debug, Clone, Args)]
pub struct RubrisArgs {
    /// Sets of users, each a thread of ours.
    #[arg(long, default_value_t = 1)]
    pub instances: usize,
    /// Users of each instance.
    #[arg(long, default_value_t = 1000)]
    pub users: usize,
    /// Topics each user subscribes to, chosen at random.
    #[arg(long, default_value_t = 1000)]
    pub subscriptions: usize,
    /// Topics there are.
    #[arg(long, default_value_t = 50_000)]
    pub topics: usize,
    /// Bytes of a message; the first 8 are its time.
    #[arg(long, default_value_t = 1024)]
    pub size: usize,
    /// Seconds measured at each level of load.
    #[arg(long, alias = "seconds", default_value_t = 10)]
    pub duration: u64,
    /// Messages for each user: measures flat out for as long as these take instead of --duration.
    #[arg(long, value_name = "MESSAGES")]
    pub messages: Option<u64>,
    /// Seconds before measuring, at each level.
    #[arg(long, default_value_t = 3)]
    pub warm_up: u64,
    /// How users are connected; several are measured one after the other.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [RubrisTransport::Polling, RubrisTransport::Websocket])]
    pub transport: Vec<RubrisTransport>,
    /// What users speak; STOMP over WebSocket alone.
    #[arg(long, value_enum, default_value_t = RubrisSpeech::Native)]
    pub speech: RubrisSpeech,
    /// Revision of Engine.IO for polling: 3 as Rubris, with binary payloads, or 4, in base64.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(3..=4))]
    pub eio: u8,
    /// Who publishes.
    #[arg(long, value_enum, default_value_t = RubrisFeed::Timed)]
    pub feed: RubrisFeed,
    /// Publishing connections with `--feed external`.
    #[arg(long, default_value_t = 2)]
    pub publishers: usize,
    /// Further levels of load, as shares of what was reached flat out.
    #[arg(long, value_delimiter = ',', default_values_t = [0.5])]
    pub rate_of_saturation: Vec<f64>,
    /// Further levels of load, in deliveries per second.
    #[arg(long, value_delimiter = ',')]
    pub rate: Vec<f64>,
    /// A server that runs already; with `--feed timed` it needs a feed with `control`.
    #[arg(long, value_name = "HOST:PORT")]
    pub target: Option<String>,
    /// The server to start, if it is not this program.
    #[arg(long, value_name = "PROGRAM")]
    pub server: Option<PathBuf>,
    /// Options of the server to start, such as `server.shards=1`.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub settings: Vec<String>,
    /// Flat out the server publishes about so many bytes for each user at a time.
    #[arg(long, default_value_t = 128 * 1024, value_name = "BYTES")]
    pub batch_bytes: usize,
    /// What precedes the number of a topic.
    #[arg(long, default_value = "bench")]
    pub prefix: String,
    /// Path of Engine.IO.
    #[arg(long, default_value = "/engine.io/", value_name = "PATH")]
    pub polling_path: String,
    /// Path of the WebSocket; that of the protocol by default.
    #[arg(long, value_name = "PATH")]
    pub ws_path: Option<String>,
    /// Leave the bare loopback writer out.
    #[arg(long)]
    pub no_bare: bool,
    /// The reports.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// How Rubris's users are connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum RubrisTransport {
    /// Engine.IO's long polling.
    Polling,
    /// WebSocket.
    Websocket,
}

impl RubrisTransport {
    /// Its name in tables.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Polling => "polling",
            Self::Websocket => "websocket",
        }
    }
}

/// What Rubris's users speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum RubrisSpeech {
    /// The native protocol.
    Native,
    /// STOMP 1.2.
    Stomp,
}

/// Who publishes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum RubrisFeed {
    /// The server itself, as Rubris's `timeHandler`.
    Timed,
    /// Connections of ours.
    External,
}

/// `bench bare`.
#[derive(Debug, Clone, Args)]
pub struct BareArgs {
    /// Sockets to write to.
    #[arg(long, default_value_t = 1000)]
    pub connections: usize,
    /// Body size in bytes.
    #[arg(long, default_value_t = 1024)]
    pub size: usize,
    /// Bytes per write.
    #[arg(long, default_value_t = 65_536, value_name = "BYTES")]
    pub write_bytes: usize,
    /// Writes per second, each to a socket chosen by chance, instead of as many as are taken.
    #[arg(long)]
    pub rate: Option<u64>,
    /// Measured seconds.
    #[arg(long, alias = "seconds", default_value_t = 5)]
    pub duration: u64,
    /// Seconds before measuring starts.
    #[arg(long, default_value_t = 1)]
    pub warm_up: u64,
    /// Measure a copying STOMP forwarder instead: the upper bound for a server's topic cells.
    #[arg(long)]
    pub forwarder: bool,
    /// Producers of the forwarder's cell.
    #[arg(long, default_value_t = 1)]
    pub producers: usize,
    /// Consumers of the forwarder's cell.
    #[arg(long, default_value_t = 1)]
    pub consumers: usize,
    /// The reports.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// The hidden child of `bare`.
#[derive(Debug, Clone, Args)]
pub struct BareWriterArgs {
    /// Connections to wait for before writing.
    #[arg(long)]
    pub connections: usize,
    /// Body size in bytes.
    #[arg(long)]
    pub size: usize,
    /// Bytes per write.
    #[arg(long)]
    pub write_bytes: usize,
    /// Writes per second.
    #[arg(long)]
    pub rate: Option<u64>,
    /// Ends by itself after this many seconds.
    #[arg(long)]
    pub seconds: u64,
}

/// `bench connections`.
#[derive(Debug, Clone, Args)]
pub struct ConnectionsArgs {
    /// Connections to open.
    #[arg(long, default_value_t = 10_000)]
    pub count: usize,
    /// What they speak.
    #[arg(long, value_enum, default_value_t = ConnectionsSpeech::Native)]
    pub speech: ConnectionsSpeech,
    /// How they are connected: polling is Engine.IO 4, with one request under way each.
    #[arg(long, value_enum, default_value_t = RubrisTransport::Websocket)]
    pub transport: RubrisTransport,
    /// Messages per connection and minute, after the memory was read (0: none).
    #[arg(long, default_value_t = 1.0)]
    pub rate: f64,
    /// Bytes of a message.
    #[arg(long, default_value_t = 512)]
    pub size: usize,
    /// Seconds measured.
    #[arg(long, alias = "seconds", default_value_t = 60)]
    pub duration: u64,
    /// Seconds to hold the connections before their memory is read.
    #[arg(long, default_value_t = 5)]
    pub hold: u64,
    /// Topics per server; one for each connection if 0.
    #[arg(long, default_value_t = 0)]
    pub topics: usize,
    /// Servers to start; as many as it takes at 19,000 connections each if 0.
    #[arg(long, default_value_t = 0)]
    pub servers: usize,
    /// Servers that run already, instead; repeat for several.
    #[arg(long = "target", value_name = "HOST:PORT")]
    pub targets: Vec<String>,
    /// The server to start, if it is not this program.
    #[arg(long, value_name = "PROGRAM")]
    pub server: Option<PathBuf>,
    /// Options of the servers to start, such as `server.shards=1`.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub settings: Vec<String>,
    /// Path of the WebSocket or of Engine.IO; that of the protocol by default.
    #[arg(long, value_name = "PATH")]
    pub path: Option<String>,
    /// The reports.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// What idle connections speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ConnectionsSpeech {
    /// The native protocol.
    Native,
    /// Socket.IO 5.
    Socketio,
    /// STOMP 1.2, over WebSocket alone.
    Stomp,
}

/// The hidden child of `connections`.
#[derive(Debug, Clone, Args)]
pub struct WorkerArgs {
    /// The server.
    #[arg(long)]
    pub address: std::net::SocketAddr,
    /// Connections to open.
    #[arg(long)]
    pub count: usize,
    /// The number of the first.
    #[arg(long)]
    pub first: usize,
    /// What they speak.
    #[arg(long, value_enum)]
    pub speech: ConnectionsSpeech,
    /// How they are connected.
    #[arg(long, value_enum)]
    pub transport: RubrisTransport,
    /// Topics there are.
    #[arg(long)]
    pub topics: usize,
    /// Path of the WebSocket or of Engine.IO.
    #[arg(long)]
    pub path: String,
}

/// `bench sessions`.
#[derive(Debug, Clone, Args)]
pub struct SessionsArgs {
    /// The reports.
    #[command(flatten)]
    pub output: OutputArgs,
    /// Sessions, each with one subscription.
    #[arg(long, default_value_t = 10_000_000)]
    pub count: usize,
    /// What they speak, over WebSocket.
    #[arg(long, value_enum, default_value_t = SessionProtocol::Native)]
    pub protocol: SessionProtocol,
    /// Topics they subscribe to, one each in turn.
    #[arg(long, default_value_t = 100_000)]
    pub topics: usize,
    /// Bytes of a message.
    #[arg(long, default_value_t = 512)]
    pub size: usize,
    /// Seconds in which every session gets one message.
    #[arg(long, default_value_t = 60)]
    pub period: u64,
    /// Seconds to measure.
    #[arg(long, default_value_t = 60)]
    pub seconds: u64,
    /// Seconds of silence after which the server pings a session.
    #[arg(long, default_value_t = 300)]
    pub ping: u64,
    /// Besides ask for so many lists of all sessions, one after the other, and say what turns they make longer.
    #[arg(long, default_value_t = 0)]
    pub lists: usize,
}

/// What the sessions of `bench sessions` speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SessionProtocol {
    /// Our own protocol.
    Native,
    /// STOMP 1.2.
    Stomp,
}

/// `bench forwarder`.
#[derive(Debug, Clone, Args)]
pub struct ForwarderArgs {
    /// Address to listen on.
    #[arg(long, default_value = "127.0.0.1:0")]
    pub listen: String,
    /// Ends by itself after this many seconds (0: never).
    #[arg(long, default_value_t = 0)]
    pub seconds: u64,
}

/// Tables of cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Matrix {
    /// Apollo's published table and stomp-benchmark's non-persistent cells.
    Apollo,
}

/// STOMP's acknowledgement modes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum AckMode {
    /// The server takes a message as acknowledged once sent.
    Auto,
    /// An acknowledgement covers all messages before it.
    Client,
    /// An acknowledgement covers one message.
    ClientIndividual,
}

impl AckMode {
    /// The value of the `ack` header.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Client => "client",
            Self::ClientIndividual => "client-individual",
        }
    }
}
