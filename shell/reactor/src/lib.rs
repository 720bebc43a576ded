//! The event loop: one per shard; owns sockets, timers and buffers.
//!
//! ```text
//!   poll ─▶ read all, handle all ─▶ mail ─▶ timers ─▶ write all ─▶ send mail ─▶ poll
//! ```
//! A node is a set of shards, each one thread with its own connections, its own broker and nothing
//! shared that changes but counters. [`spawn`] starts a node on the operating system; [`simulate`]
//! builds the same shards on a network made of a seed.
//!
//! | file | what it is |
//! |---|---|
//! | `shard` | the turn |
//! | `connection` | the record of a connection and its stages |
//! | `accept`, `sniff`, `http`, `upgrade`, `ws`, `session` | what happens in each stage |
//! | `hub`, `tunnel`, `relay` | HTTP/2: its connections and what its streams carry |
//! | `requests`, `takeover`, `resident` | sessions without a connection of their own |
//! | `aliases`, `hand_over`, `detached` | clients that come back to their sessions |
//! | `secure` | TLS between a socket and the rest |
//! | `read`, `write`, `close`, `timers`, `stop` | bytes in, bytes out, and the ends |
//! | `mailbox`, `migrate`, `shared` | between shards |
//! | `driver` | the seam to the operating system and to the simulator |
//! | `pool`, `metrics`, `log`, `options`, `node` | buffers, numbers, lines, choices, threads |

#![deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]
// An idle connection pays one word for a buffer it does not have, not three.
#![allow(clippy::box_collection, clippy::vec_box)]

mod accept;
mod aliases;
mod body;
mod chunked;
mod close;
mod connection;
mod date;
mod departure;
mod detached;
pub mod driver;
mod hand_over;
mod hosts;
mod http;
mod hub;
mod later;
mod log;
mod mailbox;
mod metrics;
mod migrate;
mod node;
mod options;
mod pause;
mod pool;
mod read;
mod relay;
mod requests;
mod resident;
mod secure;
mod session;
mod shard;
mod shared;
mod sniff;
mod stop;
mod store;
mod takeover;
#[cfg(test)]
#[path = "../tests/common/protocols.rs"]
#[allow(unreachable_pub, dead_code)]
mod testing;
mod timers;
mod tunnel;
mod unfinished;
mod upgrade;
mod write;
mod ws;

pub use driver::os::SocketOptions;
pub use hosts::Hosts;
pub use http::HttpHandler;
pub use mailbox::Answer;
pub use metrics::{METRICS, MetricKind, MetricRow, Sample, SampleValue};
pub use node::{NodeControl, NodeHandle, SpawnError, drive, simulate, spawn};
pub use options::{
    Deadlines, DetachedLimits, Http2Options, ListenerOptions, Options, Placement, Services,
    Verifier,
};
pub use secure::Security;
pub use shard::{Shard, Turn};
pub use store::{Keeper, ShardStore, StoreAnswers, StoreNews};
