//! Socket.IO as a sans-I/O session: protocol 5 over Engine.IO 4, protocol 4 over Engine.IO 3.
//!
//! ```text
//!            CONNECT /nsp          LoggedIn             DISCONNECT /nsp
//!   Fresh ────────────────▶ Login ──────────▶ connected ──────────────▶ left
//!     │ 45 s                  │ Refused          │ breaks off              │ all left: the connection
//!     └─▶ end                 └─▶ CONNECT_ERROR  └─▶ remembered for a while└─▶ stays, or is closed by it
//! ```
//! The session is the inner one of an Engine.IO session: whole messages come in and go out, and
//! what carries them is not its business. Relies on the contract in `tiderace-wire` alone.
//! Invariant: no message panics, and nothing grows without a limit from [`SocketOptions`].

#![deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod body;
mod ids;
mod limits;
mod options;
mod packet;
mod query;
mod records;
mod session;
mod write;

use std::sync::Arc;

use tiderace_wire::{Open, Opening, Session};

pub use options::SocketOptions;
pub use records::{Record, Records, RecoveryTable};

/// What begins a session inside an Engine.IO session; its request says by `EIO` which protocol.
pub fn inner(options: Arc<SocketOptions>) -> Arc<Open> {
    Arc::new(move |opening: &Opening<'_>| -> Box<dyn Session> {
        Box::new(session::SocketSession::new(options.clone(), opening))
    })
}

/// The same for a session whose type is known.
pub fn open(options: &Arc<SocketOptions>, opening: &Opening<'_>) -> Box<dyn Session> {
    Box::new(session::SocketSession::new(options.clone(), opening))
}
