//! What the server's owner can set, shared by all sessions.
//!
//! Relies on `tiderace-base` for spans. Invariant: everything a client can make grow has a field
//! here or a constant in `limits.rs`.

use tiderace_base::Span;
use tiderace_delta::Offer;

/// Limits and offers of STOMP sessions.
#[derive(Clone, Debug)]
pub struct StompOptions {
    /// Named in the `server` header of CONNECTED: `name/version`.
    pub server: String,
    /// Bytes of a frame's command line and headers together.
    pub header_bytes_max: usize,
    /// Headers of one frame.
    pub headers_max: usize,
    /// Bytes of one body.
    pub message_bytes_max: usize,
    /// Bytes of one body whose length is announced, after the login: what is more than
    /// [`StompOptions::message_bytes_max`] has to arrive in a file.
    pub large_message_bytes_max: usize,
    /// Bytes of the first frame, headers and body.
    pub preauth_bytes_max: usize,
    /// Subscriptions of one session.
    pub subscriptions_max: usize,
    /// Open transactions of one session.
    pub transactions_max: usize,
    /// Bytes held by the open transactions of one session, each held frame counted with
    /// 64 bytes more than it carries.
    pub transaction_bytes_max: usize,
    /// Time from the opening of the session to a complete CONNECT.
    pub login_timeout: Span,
    /// The interval of heart-beats the server offers to send; zero for none.
    pub heart_beat_send: Span,
    /// The interval of heart-beats the server wants to receive; zero for none.
    pub heart_beat_receive: Span,
    /// After how many silent intervals a client is taken for gone.
    pub heart_beat_grace: u32,
    /// The codecs of deltas that are offered, and for which bodies.
    pub deltas: Offer,
}

impl Default for StompOptions {
    fn default() -> StompOptions {
        StompOptions {
            server: concat!("tiderace/", env!("CARGO_PKG_VERSION")).to_owned(),
            header_bytes_max: 16 << 10,
            headers_max: 256,
            message_bytes_max: 16 << 20,
            large_message_bytes_max: 0,
            preauth_bytes_max: 16 << 10,
            subscriptions_max: 10_000,
            transactions_max: 100,
            transaction_bytes_max: 64 << 20,
            login_timeout: Span::from_secs(5),
            heart_beat_send: Span::from_secs(10),
            heart_beat_receive: Span::from_secs(10),
            heart_beat_grace: 2,
            deltas: Offer::default(),
        }
    }
}
