//! HTTP/2 (RFC 9113, RFC 7541, RFC 8441) over memory: bytes in, streams out, no socket and no runtime.
//!
//! ```text
//!   bytes ─▶ Watch (floods) ─▶ Engine (h2) ─┬─ request head ─▶ write_request ─▶ text of HTTP/1.1
//!                                           └─ Stream ◀─▶ DATA, with flow control as back-pressure
//!   text of HTTP/1.1 answers ─▶ AnswerReader ─▶ Head, Data, End ─▶ Stream
//! ```
//! Every stream is a conversation of HTTP/1.1: its request becomes the head that the HTTP stage reads,
//! and what that stage answers becomes HEADERS and DATA. So whatever is served by HTTP/1.1, upgrades to
//! WebSocket included, is served here without knowing it. The protocol itself is the `h2` crate's work;
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

pub use answer::{AnswerHead, AnswerReader, AnswerStep, BadAnswer};
pub use engine::{Accepted, Driven, Engine, Over, Received, Stream};
pub use limits::Limits;
pub use request::{Body, Refusal, Requested, write_request};
pub use watch::{FLOODS, Flood, Scanned, Watch};

/// A request's head, as `h2` gives it.
pub type Request = http::Request<()>;

pub use http::Method;

/// What a client sends first (RFC 9113 section 3.4).
pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
