//! What the server's owner can set, shared by all sessions.
//!
//! Relies on `tiderace-base` for spans. Invariant: everything a client can make grow has a field
//! here or a constant in `limits.rs`.

use std::sync::Arc;

use tiderace_base::Span;
use tiderace_delta::Offer;

use crate::records::RecoveryTable;

/// Limits and offers of Socket.IO sessions.
#[derive(Clone)]
pub struct SocketOptions {
    /// Time from the opening of the session to the first namespace.
    pub connect_timeout: Span,
    /// Time from a packet with attachments to the last of them.
    pub attachments_timeout: Span,
    /// Attachments of one packet.
    pub attachments_max: usize,
    /// Bytes of one packet, attachments included.
    pub message_bytes_max: usize,
    /// Nesting of arrays and objects.
    pub depth_max: usize,
    /// Subscriptions of one session, rooms included.
    pub subscriptions_max: usize,
    /// Namespaces of one session.
    pub namespaces_max: usize,
    /// Calls and conversations of one session that are open at a time.
    pub exchanges_max: usize,
    /// Answers that one session may wait for.
    pub answers_max: usize,
    /// How long a service may stay silent if the caller does not say.
    pub call_timeout: Span,
    /// The namespaces, besides `/`, in which clients' own events are passed on; `*` for any.
    pub application_namespaces: Vec<String>,
    /// Where their topics begin.
    pub application_prefix: String,
    /// Whether a client gets its own events in application namespaces.
    pub application_echo: bool,
    /// Whether events of application namespaces carry offsets, for clients that come back.
    pub application_recovery: bool,
    /// The codecs of deltas that are offered, and for which bodies.
    pub deltas: Offer,
    /// Where sessions that broke off are remembered; none, if they are not.
    pub recovery: Option<Arc<dyn RecoveryTable>>,
}

impl Default for SocketOptions {
    fn default() -> SocketOptions {
        SocketOptions {
            connect_timeout: Span::from_secs(45),
            attachments_timeout: Span::from_secs(30),
            attachments_max: 10,
            message_bytes_max: 1 << 20,
            depth_max: 64,
            subscriptions_max: 10_000,
            namespaces_max: 16,
            exchanges_max: 1_000,
            answers_max: 10_000,
            call_timeout: Span::from_secs(30),
            application_namespaces: vec!["/app".to_owned()],
            application_prefix: "io".to_owned(),
            application_echo: false,
            application_recovery: false,
            deltas: Offer::default(),
            recovery: None,
        }
    }
}

impl std::fmt::Debug for SocketOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SocketOptions").finish_non_exhaustive()
    }
}
