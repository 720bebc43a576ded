//! The arguments of `bench rsocket`, with the environment variables of the published stress test.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::args::OutputArgs;

/// `bench rsocket`.
#[derive(Debug, Clone, Args)]
pub struct RsocketArgs {
    /// How clients are connected; several are measured one after the other.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [RsocketTransport::Tcp])]
    pub transport: Vec<RsocketTransport>,
    /// Connections.
    #[arg(long, env = "CONNECTIONS", default_value_t = 10_000)]
    pub connections: usize,
    /// Streams of each connection; a request-response or channel that goes on counts as one.
    #[arg(long, env = "STREAMS", default_value_t = 25)]
    pub streams: usize,
    /// Seconds in which the streams of a step are opened.
    #[arg(long, env = "RAMP_UP_PERIOD", value_name = "SECONDS", default_value_t = 30)]
    pub ramp_up: u64,
    /// What each stream does.
    #[arg(long, value_enum, default_value_t = RsocketMode::Stream)]
    pub mode: RsocketMode,
    /// Bytes of each payload, random ones.
    #[arg(long, default_value_t = 1024, value_name = "BYTES")]
    pub payload: usize,
    /// Messages per second of each stream; 0 is as many as go. In stream mode the server keeps the rate: ours is
    /// told, others are expected to.
    #[arg(long, default_value_t = 1.0)]
    pub rate: f64,
    /// Payloads a stream or channel asks for at a time, with more when half of them have come; all at once
    /// without it, or 64 at a time if the rate is 0.
    #[arg(long, value_name = "PAYLOADS", value_parser = clap::value_parser!(u32).range(2..=0x7fff_ffff))]
    pub credit: Option<u32>,
    /// Route of the requests, sent as composite metadata; none without it.
    #[arg(long)]
    pub route: Option<String>,
    /// Numbers of streams to stop and measure at, in all or as shares: `250k,500k,1M` or `25%,50%,100%`.
    #[arg(long, value_delimiter = ',', value_name = "STREAMS")]
    pub steps: Vec<String>,
    /// Seconds measured at each step.
    #[arg(long, alias = "seconds", default_value_t = 10)]
    pub duration: u64,
    /// Seconds between the last stream and measuring.
    #[arg(long, default_value_t = 3)]
    pub warm_up: u64,
    /// Threads of clients.
    #[arg(long, default_value_t = 1)]
    pub threads: usize,
    /// `[name=]HOST:PORT` of a server to measure instead of starting one; repeat for several.
    #[arg(long = "target", env = "RSOCKET_TARGET", value_delimiter = ',', value_name = "SERVER")]
    pub targets: Vec<String>,
    /// `[name=]HOST:PORT` of a server to measure after ours, with the same load; repeat for several.
    #[arg(long = "peer", value_delimiter = ',', value_name = "SERVER")]
    pub peers: Vec<String>,
    /// URL path for all transports but TCP.
    #[arg(long, default_value = "/rsocket", value_name = "PATH")]
    pub path: String,
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

/// What carries RSocket's frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum RsocketTransport {
    /// TCP.
    Tcp,
    /// WebSocket.
    Ws,
    /// One stream of an HTTP/2 connection, opened by POST.
    H2,
    /// WebSocket in one stream of an HTTP/2 connection (RFC 8441).
    WsH2,
}

impl RsocketTransport {
    /// Its name in reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Tcp => "TCP",
            Self::Ws => "WebSocket",
            Self::H2 => "HTTP/2",
            Self::WsH2 => "WebSocket over HTTP/2",
        }
    }
}

/// What streams do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum RsocketMode {
    /// Request-streams that get their own payload back again and again.
    Stream,
    /// One request-response after the other.
    RequestResponse,
    /// Channels that send a payload and get it back.
    Channel,
}

impl RsocketMode {
    /// Its name in reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stream => "stream",
            Self::RequestResponse => "request-response",
            Self::Channel => "channel",
        }
    }
}
