//! Engine.IO, revisions 4 and 3: packets over long polling and WebSocket, as a layer below another
//! protocol.
//!
//! ```text
//!   GET, no sid ─▶ open packet ─▶ polling ──2probe──▶ upgrading ──5──▶ WebSocket
//!                                    │ ▲                  │
//!                                    │ └── given up ──────┘
//!   WebSocket, no sid ─▶ open packet ─▶ WebSocket
//!   every state ─▶ 1 (either side), silence, a fault ─▶ end
//! ```
//! The protocol inside ([`protocol`]'s `inner`) is a session like any other that takes whole messages:
//! it is given a context of its own, whose framing puts each of its frames into a message packet of
//! whatever carries the session. Deliveries go out by reference where the form allows it.
//!
//! Relies on the contract in `tiderace-wire` alone. Invariant: no byte sequence panics, and nothing
//! grows without a limit from [`EngineOptions`].

#![deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod answer;
mod framing;
mod limits;
mod options;
mod packet;
pub mod payload;
mod probe;
mod revision;
mod route;
mod session;

use std::sync::Arc;

use tiderace_wire::{Detect, Open, Opening, Protocol, Session};

pub use options::{CookieOptions, EngineOptions};
pub use packet::{Data, Packet, PacketError, PacketType};
pub use revision::Revision;

/// The registration value of a protocol inside Engine.IO on some paths, such as `/socket.io/`; each
/// is served with and without its last slash.
///
/// `inner` begins the session inside: its [`Opening::request`] is the handshake, in whose query it
/// finds the revision (`EIO`), and [`Session::takes_messages`] must be true.
pub fn protocol(
    name: &'static str,
    options: Arc<EngineOptions>,
    paths: Arc<[String]>,
    inner: Arc<Open>,
) -> Protocol {
    let paths = route::spellings(&paths);
    let http = Some(route::face(options.clone(), paths.clone()));
    let open = move |opening: &Opening<'_>| -> Box<dyn Session> {
        match opening.request.and_then(route::upgraded) {
            Some(ticket) => Box::new(probe::Probe::new(ticket, opening.now, &options)),
            None => Box::new(session::EngineSession::new(options.clone(), opening, &*inner)),
        }
    };
    let (detect, subprotocols): (fn(&[u8]) -> Detect, _) = (|_| Detect::No, &[]);
    Protocol {
        name,
        detect,
        subprotocols,
        websocket_paths: paths,
        stream_paths: [].into(),
        http,
        open: Arc::new(open),
    }
}
