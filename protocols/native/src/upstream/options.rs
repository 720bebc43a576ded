//! What a connection to an upstream needs to know.
//!
//! Invariant: everything an upstream can make grow has a field here or a constant in `limits.rs`.

use std::sync::Arc;

use tiderace_base::Span;
use tiderace_wire::Credentials;

use crate::nodes_above::{NoUpstreams, NodesAbove};

/// One upstream, as seen by the node that connects to it.
#[derive(Clone, Debug)]
pub struct UpstreamOptions {
    /// Which of the node's upstreams it is, by its place in the configuration.
    pub upstream: u16,
    /// Who this node is there; `host` is the virtual host that it wants, if any. Nobody in particular without a name and
    /// without a token.
    pub credentials: Credentials,
    /// What this node calls itself to people: `name/version`.
    pub client: String,
    /// The name of this node, at most 64 bytes; empty if it has none, and then circles of nodes are not noticed.
    pub node: String,
    /// From where this node has what it passes on: what the upstream says of it is noted here.
    pub above: Arc<dyn NodesAbove>,
    /// Bytes of one body, also of one that a delta makes.
    pub message_bytes_max: usize,
    /// Bytes of the bodies that are kept to apply deltas to, of all topics together. Subscriptions that begin when half of it
    /// is used get bodies in full.
    pub bases_bytes_max: usize,
    /// Time from the beginning of the connection to WELCOME.
    pub welcome_timeout: Span,
    /// How often to ask whether the upstream is there, and what is above it, at least; it may advise to ask more often.
    pub ping_interval: Span,
}

impl Default for UpstreamOptions {
    fn default() -> UpstreamOptions {
        UpstreamOptions {
            upstream: 0,
            credentials: Credentials::default(),
            client: concat!("tiderace/", env!("CARGO_PKG_VERSION")).to_owned(),
            node: String::new(),
            above: Arc::new(NoUpstreams),
            message_bytes_max: 16 << 20,
            bases_bytes_max: 256 << 20,
            welcome_timeout: Span::from_secs(10),
            ping_interval: Span::from_secs(10),
        }
    }
}
