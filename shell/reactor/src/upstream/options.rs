//! What the composition root decides about upstreams.

use tiderace_base::ShardId;
use tiderace_tls::ClientSettings;
use tiderace_wire::Protocol;

use tiderace_base::UpstreamUrl;

/// A server to which this one keeps a connection, as a client of it.
#[derive(Clone, Debug)]
pub struct UpstreamOptions {
    /// Its name here, for logs and metrics.
    pub name: String,
    /// Where it listens; at least one. They are tried in turn, from a random one on.
    pub urls: Vec<UpstreamUrl>,
    /// What is spoken, in the role of the client: its `open` is called for each connection, its subprotocols are offered,
    /// and its first WebSocket path is asked for where the address names none. It is logged in on this server as the
    /// server itself.
    pub protocol: Protocol,
    /// How `wss://` is secured.
    pub tls: Option<ClientSettings>,
    /// The shard that keeps the connection.
    pub shard: ShardId,
}

impl UpstreamOptions {
    /// What keeps it from being used on a node of so many shards, in words.
    pub(crate) fn problem(&self, shards: usize) -> Option<String> {
        if self.urls.is_empty() {
            return Some("it has no address".to_owned());
        }
        if self.shard.index() >= shards {
            return Some(format!("there is no shard {}", self.shard.index()));
        }
        let unsecured = self.urls.iter().find(|url| url.is_secure() && self.tls.is_none());
        unsecured.map(|url| format!("{url} needs authorities that are trusted, and there are none"))
    }

    /// The path that is asked for at an address.
    pub(crate) fn path<'a>(&'a self, url: &'a UpstreamUrl) -> &'a str {
        let own = self.protocol.websocket_paths.first().map(String::as_str);
        url.path().or(own).unwrap_or("/")
    }
}
