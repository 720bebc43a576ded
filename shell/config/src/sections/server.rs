//! The process as a whole and the addresses it listens on.

use std::net::SocketAddr;
use std::time::Duration;

use tiderace_base::limits::SHARDS_MAX;
use tiderace_wire::{DRAIN_DELAY_MAX, DRAIN_OVER_MAX};

use crate::kind::Kind;
use crate::sections::tls::ListenerTls;
use crate::spec::DefaultValue::{Absent, Is, Required};
use crate::spec::{choice, section};

section! {
    /// The process as a whole.
    "server" TABLE ServerConfig {
        /// Addresses to listen on; each recognises every protocol by its first bytes. `PROTOCOL://` in front pins one to `stomp`, `rsocket` or `http`. From the environment or a flag it replaces every listener of the file.
        "listen" listen: Vec<String> = Is("127.0.0.1:7800"), Kind::List(&Kind::Listen), flag("listen");
        /// Event loops, each a thread with its own connections.
        "shards" shards: usize = Is("0"), Kind::Integer { min: 1, max: SHARDS_MAX as u64 }, zero("one per core"), flag("shards");
        /// Name of this server in metrics, and towards other servers, which tell by it when the edges of an upstream form a circle: no two of them may have the same. Not set: the name of the host and a random number, another one at every start.
        "node" node: Option<String> = Absent, Kind::Name, flag("node");
        /// Names under which pages and HTTP clients reach the server, without ports, or `*` for any. Without users or tokens, requests for other hosts than these, `localhost` and IP addresses are refused, so that no page can make its own name lead here (DNS rebinding). With users or tokens they are only if names are given.
        "hosts" hosts: Vec<String> = Is(""), Kind::List(&Kind::Text);
        /// Origins of pages that may connect, by every protocol: `same-host` (pages that this server's own address serves), `loopback` (pages of this machine, whatever their port), `*` (any), origins such as `https://example.org` or `https://*.example.org`, or several of these together. Development mode takes `loopback` as well. Clients that send no `Origin` are no browsers and are not held back.
        "origins" origins: Vec<String> = Is("same-host"), Kind::List(&Kind::Text), flag("origins");
        /// A directory whose files are served to browsers: pages of one's own, at `/` and below. They are held in memory, 64 MiB at most, and read again when they change; names that begin with a dot, and links that lead out of it, are left out. A page that another server serves needs `server.origins`.
        "www" www: Option<String> = Absent, Kind::Text, flag("www");
        /// Serve the TypeScript SDK at `/tiderace.min.js` and `/topics.min.js`, to pages of any origin. Development mode does.
        "sdk" sdk: bool = Is("false"), Kind::Boolean, flag("sdk");
        /// How often the configuration is looked at, with the files that it names; what has changed [is held to](reload.md) as after SIGHUP.
        "reload_interval" reload_interval: Duration = Is("0s"), Kind::Duration { min: Duration::from_secs(1), max: Duration::from_secs(86_400) }, zero("only on SIGHUP and `tiderace reload`");
        /// How long a stopping server waits for connections to take what is queued for them.
        "shutdown_grace" shutdown_grace: Duration = Is("10s"), Kind::Duration { min: Duration::ZERO, max: Duration::from_secs(3_600) };
        /// Over how long the goodbyes of a server that was asked to stop are spread, before it stops: a drain, see [drain.md](drain.md). With zero here and for `server.drain_delay` there is none.
        "drain_over" drain_over: Duration = Is("0s"), Kind::Duration { min: Duration::ZERO, max: DRAIN_OVER_MAX };
        /// How long `/readyz` of a server that was asked to stop says so before its listeners close, so that load balancers have seen it.
        "drain_delay" drain_delay: Duration = Is("0s"), Kind::Duration { min: Duration::ZERO, max: DRAIN_DELAY_MAX };
        /// Where clients of a server that was asked to stop are told to go, the best first: up to 8 addresses such as `wss://b.example.org/tiderace`. Without any they connect again as before.
        "drain_to" drain_to: Vec<String> = Is(""), Kind::List(&Kind::Text);
    }
}

section! {
    /// A listener in detail. As soon as there is one, the default of `server.listen` no longer applies.
    "listener" LIST ListenerSection {
        /// Address to listen on: an IP address, `localhost` or `*` (every address), and a port.
        "address" address: String = Required, Kind::Listen;
        /// Protocol spoken there.
        "protocol" protocol: Option<ListenerProtocol> = Absent, Kind::Choice(ListenerProtocol::WORDS);
        /// Whether connections are secured there. Not set: "only" if `tls.only` is set, else "either" if there is a certificate.
        "tls" tls: Option<ListenerTls> = Absent, Kind::Choice(ListenerTls::WORDS);
        /// Name in logs and metrics; the address if absent.
        "name" name: Option<String> = Absent, Kind::Name;
        /// Whether it stays open while the server drains, and its connections stay: for those who operate it.
        "stays_open" stays_open: bool = Is("false"), Kind::Boolean;
        /// Whether it is for those who look after the server, see `management.listeners`; it stays open while the server drains.
        "management" management: bool = Is("false"), Kind::Boolean;
    }
}

choice! {
    /// What a listener speaks.
    ListenerProtocol {
        /// Recognised by the first bytes of each connection.
        Any = "any",
        /// HTTP/1.1 and WebSocket.
        Http = "http",
        /// RSocket over TCP.
        RSocket = "rsocket",
        /// STOMP over TCP.
        Stomp = "stomp",
    }
}

/// One address to listen on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListenerConfig {
    /// Name in logs and metrics.
    pub name: String,
    /// Address and port.
    pub address: SocketAddr,
    /// What it speaks.
    pub protocol: ListenerProtocol,
    /// Whether connections are secured; means nothing without a certificate.
    pub tls: ListenerTls,
    /// Whether it stays open while the server drains, and its connections stay.
    pub stays_open: bool,
    /// Whether it is for those who look after the server.
    pub management: bool,
}

impl ListenerConfig {
    /// Only this machine can reach it.
    pub fn is_loopback(&self) -> bool {
        self.address.ip().to_canonical().is_loopback()
    }
}
