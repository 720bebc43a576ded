//! The native protocol `tiderace.v1` as a sans-I/O session; `docs/protocol.md` specifies it.
//!
//! ```text
//!            HELLO                LoggedIn                  BYE
//!   Fresh ──────────▶ LoggingIn ────────────▶ Established ──────▶ Leaving ─▶ end
//!     │ else               │ Refused               │ malformed bytes
//!     └────────────────────┴───── CLOSE, end ──────┘
//! ```
//! Relies on the contract in `tiderace-wire` alone: messages, replies and time come in, commands and
//! bytes go out. Invariants: no bytes panic; nothing grows without a limit from [`NativeOptions`];
//! a refused request costs its client that request and not the connection.

#![deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

pub mod codec;
mod limits;
mod metrics;
mod nodes_above;
mod options;
mod session;
mod upstream;

use std::sync::Arc;

use tiderace_wire::{Detect, Opening, Protocol, Session};

pub use metrics::{NATIVE_METRICS, NativeMetrics};
pub use nodes_above::{Above, NoUpstreams, NodesAbove};
pub use options::NativeOptions;
pub use upstream::UpstreamOptions;

/// The WebSocket subprotocols.
pub const SUBPROTOCOLS: &[&str] = &["tiderace.v1"];

/// The registration value: what the server needs to know to speak it.
pub fn protocol(options: Arc<NativeOptions>, websocket_paths: Arc<[String]>) -> Protocol {
    Protocol {
        name: "native",
        // It lives inside messages only.
        detect: |_| Detect::No,
        subprotocols: SUBPROTOCOLS,
        websocket_paths,
        stream_paths: [].into(),
        http: None,
        open: Arc::new(move |opening| open(&options, opening)),
    }
}

/// Begins a session, also inside a packet layer such as Engine.IO.
pub fn open(options: &Arc<NativeOptions>, opening: &Opening<'_>) -> Box<dyn Session> {
    Box::new(session::NativeSession::new(options.clone(), opening))
}

/// Begins the client's side of a session, on a connection that this node has made to an upstream: it asks there for what
/// the node's broker wants, and gives the broker what comes. The transport has to mark messages.
pub fn open_upstream(options: &Arc<UpstreamOptions>, opening: &Opening<'_>) -> Box<dyn Session> {
    Box::new(upstream::UpstreamSession::new(options.clone(), opening))
}
