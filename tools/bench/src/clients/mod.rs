//! Very many clients on one thread, for load that looks like many people.
//!
//! ```text
//!   socket ─▶ Carrier (WebSocket, or Engine.IO by polling or WebSocket) ─▶ Language (native, Socket.IO, STOMP) ─▶ Counters
//! ```
//! Bytes are walked where they were read; bodies are skipped over, not copied. A client keeps what a
//! header lacks and nothing else. Its codecs are its own, so that a fault in the server's cannot hide
//! itself. Invariant: a client that breaks is counted and named, and does not stop the others.

pub mod carrier;
pub mod client;
#[allow(clippy::module_inception)]
pub mod clients;
pub mod counters;
pub mod delta;
pub mod engineio;
pub mod http;
pub mod language;
pub mod native;
pub mod publications;
pub mod publisher;
pub mod socketio;
pub mod stomp;
pub mod values;
pub mod websocket;
pub mod worker;

pub use client::{Client, ClientSpec, Step};
pub use clients::{Clients, ClientsSpec, Level};
pub use counters::Counters;
pub use language::Speech;
pub use worker::{Goal, run};
