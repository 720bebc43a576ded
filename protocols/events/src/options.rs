//! What the server's owner can set, shared by all sessions.
//!
//! Invariant: everything a client can make grow has a field here or a constant in `limits.rs`.

use std::sync::Arc;

use tiderace_base::Span;

use crate::budget::ListBudget;
use crate::idempotency::Idempotency;
use crate::limits::LISTS_BYTES_MAX;

/// Limits and offers of REST and Server-Sent Events.
#[derive(Clone)]
pub struct EventsOptions {
    /// What all paths begin with: nothing, or such as `/api`.
    pub base_path: String,
    /// Bytes of one body to be published.
    pub message_bytes_max: usize,
    /// Of one that arrives in a file, if larger ones may.
    pub large_message_bytes_max: usize,
    /// Bytes of a batch.
    pub batch_bytes_max: usize,
    /// Messages of a batch.
    pub batch_items_max: usize,
    /// Topics and patterns of one stream.
    pub topics_max: usize,
    /// Values in one list; zero turns lists off.
    pub list_max: usize,
    /// How often a quiet stream shows that it lives.
    pub heart_beat: Span,
    /// After what time clients are advised to connect again.
    pub retry: Span,
    /// How long the broker may take to confirm.
    pub request_timeout: Span,
    /// The longest timeout of a call that callers may ask for.
    pub call_timeout_max: Span,
    /// Remembers the answers to requests with an `Idempotency-Key`, for the whole node.
    pub idempotency: Option<Arc<dyn Idempotency>>,
    /// What all lists may hold together, for the whole node; those that find it used up are refused.
    pub lists: Arc<ListBudget>,
}

impl Default for EventsOptions {
    fn default() -> EventsOptions {
        EventsOptions {
            base_path: String::new(),
            message_bytes_max: 16 << 20,
            large_message_bytes_max: 0,
            batch_bytes_max: 16 << 20,
            batch_items_max: 1000,
            topics_max: 100,
            list_max: 10_000,
            heart_beat: Span::from_secs(15),
            retry: Span::from_secs(2),
            request_timeout: Span::from_secs(30),
            call_timeout_max: Span::from_secs(60),
            idempotency: None,
            lists: Arc::new(ListBudget::new(LISTS_BYTES_MAX)),
        }
    }
}

impl std::fmt::Debug for EventsOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EventsOptions").field("base_path", &self.base_path).finish_non_exhaustive()
    }
}
