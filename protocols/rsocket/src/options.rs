//! What the server's owner can set, shared by all sessions.
//!
//! Invariant: everything a client can make grow has a field here or a constant in `limits.rs`.

use std::sync::Arc;

use tiderace_base::Span;
use tiderace_delta::Offer;

use crate::metrics::RSocketMetrics;

/// Limits and offers of RSocket sessions.
#[derive(Clone, Debug)]
pub struct RSocketOptions {
    /// Bytes of the first frame.
    pub setup_bytes_max: usize,
    /// Bytes of the data of one payload.
    pub message_bytes_max: usize,
    /// Bytes of the metadata of one payload.
    pub metadata_bytes_max: usize,
    /// Time from the opening of the session to the end of its login.
    pub login_timeout: Span,
    /// Requests of one connection that are open at a time.
    pub streams_max: usize,
    /// Requests of one shard's connections that are open at a time.
    pub streams_shard_max: u64,
    /// Subscriptions of one session.
    pub subscriptions_max: usize,
    /// Frames that break a rule and are borne.
    pub faults_max: u32,
    /// METADATA_PUSH frames a second.
    pub metadata_pushes_max: u32,
    /// KEEPALIVE frames a second.
    pub keepalives_max: u32,
    /// Bytes of data in a KEEPALIVE.
    pub keepalive_bytes_max: usize,
    /// The shortest silence after which a client is gone.
    pub lifetime_min: Span,
    /// The longest.
    pub lifetime_max: Span,
    /// Bytes of the frames in which payloads are sent; zero for as many as a frame may have.
    pub fragment_bytes: usize,
    /// Bytes that a fragment has at least, unless it is the last one.
    pub fragment_bytes_min: usize,
    /// Bytes of fragments of one connection that wait.
    pub fragments_bytes_max: usize,
    /// The same of one shard's connections together.
    pub fragments_bytes_shard_max: u64,
    /// Payloads of one connection that are in fragments at a time.
    pub fragmented_max: usize,
    /// Time from the first to the last fragment.
    pub fragments_timeout: Span,
    /// Payloads that a channel may be ahead.
    pub channel_window: u32,
    /// Messages of one conversation that wait for demand.
    pub waiting_max: usize,
    /// Bytes of all such messages of one session.
    pub waiting_bytes_max: usize,
    /// How long a responder may be silent if the caller does not say.
    pub timeout: Span,
    /// What a lease allows.
    pub lease: Lease,
    /// What is done for clients that come back; `None` if nothing is.
    pub resume: Option<ResumeOptions>,
    /// The responder for load tests, if there is one.
    pub echo: Option<EchoOptions>,
    /// The codecs of deltas that are offered, and for which bodies.
    pub deltas: Offer,
    /// Where sessions count.
    pub metrics: Arc<RSocketMetrics>,
}

/// What a lease allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    /// How many requests.
    pub requests: u32,
    /// For how long.
    pub ttl: Span,
}

/// What is done for clients that come back.
#[derive(Clone, Debug)]
pub struct ResumeOptions {
    /// How long a session waits for its client.
    pub window: Span,
    /// Bytes of sent frames that one session keeps.
    pub bytes_max: usize,
    /// Bytes of sent frames that one shard's sessions keep.
    pub bytes_shard_max: u64,
}

/// The responder for load tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EchoOptions {
    /// How often a stream's payload is sent back; zero for as often as there is demand.
    pub interval: Span,
    /// Bytes of payloads that one connection's streams keep.
    pub bytes_max: usize,
}

impl Default for RSocketOptions {
    fn default() -> RSocketOptions {
        RSocketOptions {
            setup_bytes_max: 16 << 10,
            message_bytes_max: 16 << 20,
            metadata_bytes_max: 16 << 10,
            login_timeout: Span::from_secs(5),
            streams_max: 10_000,
            streams_shard_max: 4_000_000,
            subscriptions_max: 10_000,
            faults_max: 100,
            metadata_pushes_max: 10,
            keepalives_max: 10,
            keepalive_bytes_max: 1 << 10,
            lifetime_min: Span::from_secs(2),
            lifetime_max: Span::from_secs(300),
            fragment_bytes: 0,
            fragment_bytes_min: 32,
            fragments_bytes_max: 32 << 20,
            fragments_bytes_shard_max: 256 << 20,
            fragmented_max: 64,
            fragments_timeout: Span::from_secs(30),
            channel_window: 64,
            waiting_max: 1024,
            waiting_bytes_max: 4 << 20,
            timeout: Span::from_secs(30),
            lease: Lease { requests: 10_000, ttl: Span::from_secs(10) },
            resume: Some(ResumeOptions {
                window: Span::from_secs(60),
                bytes_max: 256 << 10,
                bytes_shard_max: 256 << 20,
            }),
            echo: None,
            deltas: Offer::default(),
            metrics: Arc::new(RSocketMetrics::new(1)),
        }
    }
}
