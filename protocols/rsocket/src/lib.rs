//! RSocket 1.0, sans-I/O.
//!
//! [`frame`] is the bytes of one frame, [`metadata`] what requests say beside their data, and
//! [`fragment`] cuts payloads into frames and puts them together again; [`position`] and [`outgoing`]
//! keep what may have to be sent again. [`requester`] is the client's side of a connection; the server's,
//! the session, makes topics, queues and services of streams. Relies on slices and on the contract in
//! `tiderace-wire`. Invariants: no bytes panic; nothing is allocated by declared lengths; nothing grows
//! without a limit from [`RSocketOptions`].

#![deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

pub mod fragment;
pub mod frame;
mod limits;
pub mod metadata;
mod metrics;
mod options;
pub mod outgoing;
pub mod position;
pub mod requester;
mod session;

use std::sync::Arc;

use tiderace_wire::{Opening, Protocol, Session};

pub use metrics::{RSOCKET_METRICS, RSocketMetrics};
pub use options::{EchoOptions, Lease, RSocketOptions, ResumeOptions};
pub use session::{MESSAGE_MIME, OPTIONS_MIME, PROPERTIES_MIME};

/// The WebSocket subprotocols. Most clients name none.
pub const SUBPROTOCOLS: &[&str] = &["rsocket"];

/// The registration value: what the server needs to know to speak RSocket.
pub fn protocol(options: Arc<RSocketOptions>, websocket_paths: Arc<[String]>) -> Protocol {
    let open = move |opening: &Opening<'_>| -> Box<dyn Session> {
        Box::new(session::RSocketSession::new(options.clone(), opening))
    };
    Protocol {
        name: "rsocket",
        detect: frame::detect,
        subprotocols: SUBPROTOCOLS,
        stream_paths: websocket_paths.clone(),
        websocket_paths,
        http: None,
        open: Arc::new(open),
    }
}
