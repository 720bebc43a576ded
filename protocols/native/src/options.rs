//! What the server's owner can set, shared by all sessions.
//!
//! Invariant: everything a client can make grow has a field here or a constant in `limits.rs`.

use std::sync::Arc;

use tiderace_base::Span;
use tiderace_delta::Offer;

use crate::metrics::NativeMetrics;
use crate::nodes_above::{NoUpstreams, NodesAbove};

/// Limits and offers of native sessions.
#[derive(Clone, Debug)]
pub struct NativeOptions {
    /// What WELCOME calls the server: `name/version`.
    pub server: String,
    /// The name of the node, as WELCOME tells it and as edges tell theirs; empty if it has none, and then no edge is refused.
    pub node: String,
    /// From where the node has what it passes on, as edges are told.
    pub above: Arc<dyn NodesAbove>,
    /// Bytes of one body.
    pub message_bytes_max: usize,
    /// Subscription ids are below this.
    pub subscriptions_max: usize,
    /// Declared ids are at most this.
    pub declarations_max: usize,
    /// Topics of patterns that have an id at the same time; beyond, ids are given anew.
    pub topics_max: usize,
    /// The same for edges, which pass on the topics of many clients.
    pub edge_topics_max: usize,
    /// Time from the opening of the session to a complete HELLO.
    pub login_timeout: Span,
    /// How often a client is to send PING if it sees no other sign of life; zero for never.
    pub ping_interval: Span,
    /// Within which random time clients are to connect again.
    pub reconnect_jitter: Span,
    /// How long a responder may be silent if the caller does not say.
    pub timeout: Span,
    /// The codecs of deltas that are offered, and for which bodies.
    pub deltas: Offer,
    /// Where sessions count.
    pub metrics: Arc<NativeMetrics>,
}

impl Default for NativeOptions {
    fn default() -> NativeOptions {
        NativeOptions {
            server: concat!("tiderace/", env!("CARGO_PKG_VERSION")).to_owned(),
            node: String::new(),
            above: Arc::new(NoUpstreams),
            message_bytes_max: 16 << 20,
            subscriptions_max: 10_000,
            declarations_max: 1_000,
            topics_max: 65_536,
            edge_topics_max: 1 << 20,
            login_timeout: Span::from_secs(5),
            ping_interval: Span::from_secs(30),
            reconnect_jitter: Span::from_secs(5),
            timeout: Span::from_secs(30),
            deltas: Offer::default(),
            metrics: Arc::new(NativeMetrics::new(1)),
        }
    }
}
