//! Upstreams: other servers, to each of which this one keeps a connection, as a client of it.
//!
//! ```text
//!   waiting ─▶ resolving ─▶ connecting ─▶ tls-handshake ─▶ websocket-handshake ─▶ logging-in ─▶ connected
//!      ▲                                                                                            │
//!      └───────────── whatever fails or ends; the wait is random and grows ◀──────────────────────┘
//! ```
//! An upstream belongs to one shard. What carries it is a record like that of any other connection, marked as outgoing:
//! it is read and written, secured and closed as those are, and its session is opened by the protocol that the options
//! name. What is different: nobody accepted it, so that it counts in no limit of clients; its bytes are masked on their
//! way out; when it ends, another one is begun.

pub(crate) mod attempts;
pub(crate) mod authorities;
mod dial;
mod handshake;
pub(crate) mod options;
pub(crate) mod reasons;
pub(crate) mod status;
pub(crate) mod table;
