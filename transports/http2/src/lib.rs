//! HTTP/2 (RFC 9113, RFC 7541, RFC 8441) over memory: bytes in, streams out, no socket and no runtime.
//!
//! ```text
//!   bytes ─▶ Watch (floods) ─▶ Engine (h2) ─┬─ request head ─▶ write_request ─▶ text of HTTP/1.1
//!                                           └─ Stream ◀─▶ DATA, with flow control as back-pressure
//!   AnswerHead ─▶ HEADERS, body ─▶ DATA, within the client's window ─▶ Stream
//! ```
//! The request of a stream becomes the head that the HTTP stage reads; the answer's head is a value that
//! becomes HEADERS, and its body becomes DATA. So whatever is served by HTTP/1.1, upgrades to WebSocket
//! included, is served here. The protocol itself is the `h2` crate's work;
//! `engine.rs` is the only file that knows it.
//!
//! Invariant: no input makes this crate panic or hold more memory than [`Limits`] allow.

#![deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod answer;
mod engine;
mod limits;
mod memory;
mod request;
mod watch;

pub use answer::AnswerHead;
pub use engine::{Accepted, Driven, Engine, Over, Received, Sending, Stream};
pub use limits::Limits;
pub use request::{Body, Refusal, Requested, write_request};
pub use watch::{FLOODS, Flood, Scanned, Watch};

/// A request's head, as `h2` gives it.
pub type Request = http::Request<()>;

pub use http::Method;

/// What a client sends first (RFC 9113 section 3.4).
pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
