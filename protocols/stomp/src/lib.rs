//! STOMP 1.0, 1.1 and 1.2 as a sans-I/O session.
//!
//! ```text
//!           CONNECT/STOMP            LoggedIn               DISCONNECT
//!   Fresh ───────────────▶ LoggingIn ────────▶ Established ───────────▶ Leaving
//!     │ any other frame        │ Refused           │ any fault             │ last RECEIPT
//!     └────────────────────────┴──── ERROR, end ───┘                       └─▶ end
//! ```
//! Relies on the contract in `tiderace-wire` alone: bytes, replies and time come in, commands and
//! bytes go out. Invariant: no byte sequence panics, and nothing grows without a limit from
//! [`StompOptions`].

#![deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod destination;
mod detect;
mod encode;
mod error;
mod frame;
mod header;
mod limits;
mod options;
mod properties;
mod server_frame;
mod session;
mod version;

use std::sync::Arc;

use tiderace_wire::{Opening, Protocol, Session};

pub use destination::{DestinationError, Style, parse_destination, spell_destination};
pub use options::StompOptions;

/// The WebSocket subprotocols, best first. Agreeing on one fixes nothing: the version is
/// negotiated by CONNECT as on a stream.
pub const SUBPROTOCOLS: &[&str] = &["v12.stomp", "v11.stomp", "v10.stomp"];

/// The registration value: what the server needs to know to speak STOMP.
///
/// A session stops consuming input behind a CONNECT until the login is answered, and while
/// too many receipts wait to be confirmed; the caller offers the remaining bytes again after every
/// reply it has passed in.
pub fn protocol(options: Arc<StompOptions>, websocket_paths: Arc<[String]>) -> Protocol {
    let open = move |opening: &Opening<'_>| -> Box<dyn Session> {
        Box::new(session::StompSession::new(options.clone(), opening.now, opening.temporary))
    };
    Protocol {
        name: "stomp",
        detect: detect::detect,
        subprotocols: SUBPROTOCOLS,
        websocket_paths,
        stream_paths: [].into(),
        http: None,
        open: Arc::new(open),
    }
}
