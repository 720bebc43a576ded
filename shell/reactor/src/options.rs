//! What the composition root decides about the event loop.
//!
//! Every wait and every buffer that a stranger can cause has its limit here.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use tiderace_base::{Networks, Span};
use tiderace_proxy::ClientField;
use tiderace_spool::Spool;
use tiderace_telemetry::{Sampling, SpanQueue};
use tiderace_wire::{Entrance, Protocol, Request, Response};

use crate::driver::os::SocketOptions;
use crate::listener_at::ListenerAt;
use crate::store_gateway::StoreGateway;
use crate::upstream::options::UpstreamOptions;
use crate::waker::{Answer, NodeAnswer};
use tiderace_wire::AuditRecord;

/// The event loop's options; [`Options::default`] is what `serve` uses unless told otherwise.
#[derive(Clone, Debug)]
pub struct Options {
    /// Event loops, each with a thread; at most [`tiderace_base::limits::SHARDS_MAX`].
    pub shards: usize,
    /// Where to listen.
    pub listeners: Vec<ListenerOptions>,
    /// The users who may look after the node on its admin socket, without a login.
    pub admins: Vec<u32>,
    /// Connections the kernel keeps waiting per listener.
    pub listen_backlog: i32,
    /// Connections at a time; more are closed at once.
    pub connections_max: usize,
    /// Connections at a time from one address, and besides them as many sessions that its requests
    /// carry; zero for no limit.
    pub connections_per_address_max: usize,
    /// TLS handshakes that one address may have under way; zero for no limit.
    pub handshakes_per_address_max: usize,
    /// Whose word counts for where clients are.
    pub proxies: Proxies,
    /// How connections are secured; absent: TLS is not spoken.
    pub tls: Option<tiderace_tls::Settings>,
    /// Servers to which connections are kept, as a client of theirs.
    pub upstreams: Vec<UpstreamOptions>,
    /// When a connection gets its shard.
    pub placement: Placement,
    /// How sockets are set up.
    pub socket: SocketOptions,
    /// Deadlines.
    pub deadlines: Deadlines,
    /// How many sessions may wait for their clients, and for how long.
    pub detached: DetachedLimits,
    /// Bytes a client may send ahead of what its session takes in, such as before its login is
    /// decided; then it is not read any further until the session goes on.
    pub ahead_bytes_max: usize,
    /// Bytes of one unfinished protocol frame: a bound behind the protocols' own limits.
    pub unfinished_bytes_max: usize,
    /// Frames of so many bytes and more arrive in a file, if there is a spool and they say how long they are.
    pub large_bytes_min: usize,
    /// Bytes of such a frame, whatever carries it. Protocols have lower limits of their own.
    pub large_bytes_max: usize,
    /// Bytes that one connection is given in one turn, whatever waits for it: then come the others.
    /// At most [`tiderace_base::limits::WRITE_BLOCK_BYTES`].
    pub block_bytes: usize,
    /// How long deliveries may wait so that more of them go out in one write; zero for not at all.
    pub batch_delay: Span,
    /// Which web pages may open WebSockets.
    pub origins: tiderace_websocket::handshake::OriginPolicy,
    /// Under which names requests are answered; absent: under all.
    pub hosts: Option<crate::Hosts>,
    /// Limits of WebSocket messages.
    pub websocket: tiderace_websocket::Limits,
    /// Limits of HTTP requests.
    pub http: tiderace_http1::Limits,
    /// HTTP/2.
    pub http2: Http2Options,
    /// Which messages are traced, and where their spans go; absent: none are.
    pub spans: Option<SpanOptions>,
    /// Gives what the process has freed back to the system. Called when there is no memory for what clients have
    /// begun, at most ten times a second by each shard; it may take milliseconds.
    pub release_freed: Option<fn()>,
    /// Whether the process ends when an event loop fails: a supervisor starts a whole server again,
    /// where one without some of its shards would accept connections and answer nothing.
    pub abort_on_failure: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            shards: 1,
            listeners: Vec::new(),
            admins: Vec::new(),
            listen_backlog: 4096,
            connections_max: 1_000_000,
            connections_per_address_max: 0,
            handshakes_per_address_max: 256,
            proxies: Proxies::default(),
            tls: None,
            upstreams: Vec::new(),
            placement: Placement::default(),
            socket: SocketOptions::default(),
            deadlines: Deadlines::default(),
            detached: DetachedLimits::default(),
            ahead_bytes_max: 64 * 1024,
            unfinished_bytes_max: 128 * 1024 * 1024,
            large_bytes_min: 256 * 1024,
            large_bytes_max: 0,
            batch_delay: Span::ZERO,
            block_bytes: tiderace_base::limits::WRITE_BLOCK_BYTES,
            origins: tiderace_websocket::handshake::OriginPolicy::default(),
            hosts: None,
            websocket: tiderace_websocket::Limits::default(),
            http: tiderace_http1::Limits::default(),
            http2: Http2Options::default(),
            spans: None,
            release_freed: None,
            abort_on_failure: true,
        }
    }
}

/// Which messages are traced, and where their spans go.
#[derive(Clone, Debug)]
pub struct SpanOptions {
    /// Which messages.
    pub sampling: Sampling,
    /// Where to.
    pub queue: Arc<SpanQueue>,
    /// Makes the ids of this server others than those of any other.
    pub seed: u128,
    /// What is added to a time of the node to have nanoseconds since 1970: one for all shards, whose spans are of the same
    /// traces.
    pub since_1970: Arc<AtomicU64>,
}

/// Whether and how HTTP/2 is spoken.
#[derive(Clone, Copy, Debug)]
pub struct Http2Options {
    /// Whether it is.
    pub enabled: bool,
    /// Limits of each connection.
    pub limits: tiderace_http2::Limits,
}

impl Default for Http2Options {
    fn default() -> Self {
        Http2Options { enabled: true, limits: tiderace_http2::Limits::default() }
    }
}

/// One place to listen.
#[derive(Clone, Debug)]
pub struct ListenerOptions {
    /// Where.
    pub at: ListenerAt,
    /// The only protocol spoken here, by its name; `http` stands for HTTP and WebSocket. Absent:
    /// all, told apart by the first bytes.
    pub protocol: Option<String>,
    /// Whether its connections are secured, if [`Options::tls`] is there.
    pub security: Security,
    /// Whether it stays open while the node drains, and its connections stay.
    pub stays_open: bool,
    /// Whether the node is looked after there, by those who may.
    pub manages: bool,
}

impl ListenerOptions {
    /// A listener for everything.
    pub fn at(address: SocketAddr) -> ListenerOptions {
        ListenerOptions {
            at: ListenerAt::Address(address),
            protocol: None,
            security: Security::default(),
            stays_open: false,
            manages: true,
        }
    }

    /// The admin socket, which stays open when the node drains.
    pub fn admin_socket(path: PathBuf) -> ListenerOptions {
        ListenerOptions {
            at: ListenerAt::Socket(path),
            protocol: None,
            security: Security::Plain,
            stays_open: true,
            manages: true,
        }
    }
}

/// Proxies that are believed when they name their clients, and how they do.
#[derive(Clone, Debug, Default)]
pub struct Proxies {
    /// Their addresses. They have no limits as addresses; their clients do.
    pub trusted: Networks,
    /// Whether their connections begin with a header of the PROXY protocol.
    pub protocol: ProxyProtocol,
    /// The field by which their requests name the client; absent: none does.
    pub field: Option<ClientField>,
}

/// Whether connections of trusted proxies begin with a header of the PROXY protocol. It is never taken from others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProxyProtocol {
    /// They must not.
    #[default]
    Off,
    /// They may.
    Accept,
    /// They must.
    Require,
}

/// When a connection gets its shard, which is always the one with the fewest connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Placement {
    /// As soon as it is accepted, so that reading its first bytes is spread as well.
    #[default]
    Accepted,
    /// When its protocol is known, so that connections that never say anything do not count.
    Identified,
}

/// How long things may take.
#[derive(Clone, Copy, Debug)]
pub struct Deadlines {
    /// Until enough bytes are there to tell the protocol.
    pub first_byte: Span,
    /// From the first byte of TLS to the end of its handshake.
    pub tls: Span,
    /// From the first to the last byte of an HTTP request head, and for the body after it.
    pub head: Span,
    /// Between two HTTP requests on one connection.
    pub keep_alive: Span,
    /// Until the session has logged in.
    pub login: Span,
    /// From one byte of a frame to the next; a slow client is no silent one.
    pub frame: Span,
    /// From the first to the last fragment of a WebSocket message.
    pub message: Span,
    /// Silence after which a WebSocket client is sent a ping.
    pub ping: Span,
    /// Silence after that ping that ends the connection.
    pub pong: Span,
    /// For writing what is left when a connection ends.
    pub flush: Span,
    /// For the client to close its side after we have closed ours.
    pub linger: Span,
}

impl Default for Deadlines {
    fn default() -> Self {
        Deadlines {
            first_byte: Span::from_secs(10),
            tls: Span::from_secs(10),
            head: Span::from_secs(10),
            keep_alive: Span::from_secs(60),
            login: Span::from_secs(10),
            frame: Span::from_secs(60),
            message: Span::from_secs(120),
            ping: Span::from_secs(30),
            pong: Span::from_secs(30),
            flush: Span::from_secs(5),
            linger: Span::from_secs(1),
        }
    }
}

/// What sessions may take whose connection is gone; of the whole node, of which each shard has an equal
/// share.
#[derive(Clone, Copy, Debug)]
pub struct DetachedLimits {
    /// Sessions.
    pub sessions_max: usize,
    /// Of them, those of one principal.
    pub sessions_per_principal_max: usize,
    /// Bytes that wait for their clients.
    pub bytes_max: usize,
    /// How long each may wait, whatever its protocol says.
    pub time_max: Span,
}

impl Default for DetachedLimits {
    fn default() -> Self {
        DetachedLimits {
            sessions_max: 100_000,
            sessions_per_principal_max: 10_000,
            bytes_max: 256 << 20,
            time_max: Span::from_secs(300),
        }
    }
}

/// Decides logins, away from the shards.
pub trait Verifier: Send + Sync {
    /// Takes a login to decide. Must return at once; the answer may come later, from any thread.
    fn submit(&self, credentials: tiderace_wire::Credentials, client: LoginClient, answer: Answer);
}

/// Does what is asked of the node as a whole.
pub trait Operator: Send + Sync {
    /// Takes something to do, for who may ask for it. Must return at once; the answer may come later, from any thread.
    fn operate(&self, operation: tiderace_wire::NodeOperation, answer: NodeAnswer);

    /// A change that was asked for was done, or not. Must return at once.
    fn record(&self, record: AuditRecord);

    /// What the node counts, as an object of JSON. Runs on a shard: it must not wait for anything.
    ///
    /// # Errors
    /// When nobody counts, or not yet.
    fn stats(&self) -> Result<Box<str>, tiderace_base::Close> {
        let reason = "nobody counts what this node does";
        Err(tiderace_base::Close::new(tiderace_base::CloseCode::BadOperation, reason))
    }

    /// A session has ended that has read a part of a backup, unless another on its shard has read since. Must return at once.
    fn reader_ended(&self, session: tiderace_base::SessionId);
}

/// Does nothing, and says so: for nodes that nobody runs.
#[derive(Clone, Copy, Debug)]
pub struct NoOperator;

impl Operator for NoOperator {
    fn operate(&self, _: tiderace_wire::NodeOperation, answer: NodeAnswer) {
        drop(answer);
    }

    fn record(&self, _: AuditRecord) {}

    fn reader_ended(&self, _: tiderace_base::SessionId) {}
}

/// A client that logs in, as far as its connection tells.
#[derive(Clone, Debug)]
pub struct LoginClient {
    /// Where it is.
    pub address: SocketAddr,
    /// The protocol that it speaks.
    pub protocol: &'static str,
    /// What secures it, if something does.
    pub tls: Option<Arc<ClientTls>>,
}

/// What a client has shown of itself when its connection was secured.
#[derive(Debug, Default)]
pub struct ClientTls {
    /// Its certificate, which an authority of the configuration has signed.
    pub certificate: Option<tiderace_tls::Certificate>,
}

/// What the event loop serves.
#[derive(Clone)]
pub struct Services {
    /// The protocols, in the order in which they look at first bytes.
    pub protocols: Vec<Protocol>,
    /// Answers HTTP requests that neither ask for a WebSocket nor are a protocol's.
    pub http: Arc<HttpHandler>,
    /// Sessions that live on the server: each is opened once on every shard.
    pub internal_sessions: Vec<Arc<tiderace_wire::Open>>,
    /// Decides logins.
    pub verifier: Arc<dyn Verifier>,
    /// Does what is asked of the node as a whole.
    pub operator: Arc<dyn Operator>,
    /// Keeps what is to survive, if something is.
    pub store_gateway: Option<Arc<dyn StoreGateway>>,
    /// Has files for large frames, if they may be that large.
    pub spool: Option<Arc<Spool>>,
    /// The broker's options.
    pub broker: Arc<tiderace_broker::BrokerOptions>,
}

impl std::fmt::Debug for Services {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Services").field("protocols", &self.protocols).finish_non_exhaustive()
    }
}

/// Answers a request that is no protocol's and has come by that way. Runs on a shard: it must not wait for anything.
pub type HttpHandler = dyn Fn(&Request<'_>, Entrance) -> Response + Send + Sync;

/// Whether a listener's connections are secured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Security {
    /// Never: TLS is refused.
    Plain,
    /// As the client likes; its first byte says.
    #[default]
    Either,
    /// Always: plain text is refused.
    Tls,
}
