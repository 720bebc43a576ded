//! The opening handshake (RFC 6455 section 4), both sides.
//!
//! Relies on an HTTP parser on the server side only for headers as name and value; the client
//! side reads the answer itself. Invariant: every loop over a peer's bytes is linear and stops
//! at a limit.

mod accept;
mod client;
mod origin;
mod server;
mod tokens;

pub use accept::{accept_key, encode_nonce};
pub use client::{ClientError, Established, RequestError, check_response, client_request};
pub use origin::{OriginPattern, OriginPatternError, OriginPolicy};
pub use server::{Acceptance, Policy, Rejection, UpgradeRequest, accept};

/// Subprotocols a client may offer; more are refused.
pub const SUBPROTOCOLS_OFFERED_MAX: usize = 32;

/// Bytes all `Sec-WebSocket-Protocol` values together may have; more are refused.
pub const SUBPROTOCOLS_BYTES_MAX: usize = 1024;

/// Bytes the answer to an upgrade request may have before its end is found.
pub const RESPONSE_BYTES_MAX: usize = 16 * 1024;
