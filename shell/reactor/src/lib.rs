//! The event loop: one per shard; owns sockets, timers and buffers.
//!
//! ```text
//!   poll ─▶ read all, handle all ─▶ take messages ─▶ timers ─▶ write all ─▶ send messages ─▶ poll
//! ```
//! A node is a set of shards, each one thread with its own connections, its own broker and nothing
//! shared that changes but counters. [`spawn`] starts a node on the operating system; [`simulate`]
//! builds the same shards on a network made of a seed.
//!
//! What a shard knows lies in files that know nothing of it; what it does with that lies in files of which no
//! other file knows, beside the turn that calls them.
//!
//! | what it knows | what it is |
//! |---|---|
//! | `shard` | everything that one event loop owns |
//! | `connection`, `http_stage`, `departure`, `outcome` | the record of a connection and its stages; what calls lead to |
//! | `h2` | HTTP/2: its connections and what its streams carry |
//! | `upstream`: `options`, `attempts`, `status`, `reasons`, `table`, `authorities` | connections to other servers: which, when, how far they are |
//! | `client_session_ids`, `detached_sessions`, `limited_sessions`, `tls_sessions`, `unfinished_input`, `spans` | what some connections have besides |
//! | `mailbox`, `waker`, `store_gateway`, `shared`, `limit_registry` | between shards, other threads and the store |
//! | `acceptor`, `stopping`, `work_lists`, `write_coalescing`, `turn_clock`, `pause` | what is to be done, and when |
//! | `pool`, `spare`, `metrics`, `log`, `audit`, `options`, `listener_at`, `date`, `message_framing`, `http_answer` | buffers, numbers, lines, choices, formats |
//! | `traces`: `board`, `shard_traces` | what is traced, and what has been told of it |
//! | `driver` | the seam to the operating system and to the simulator |
//!
//! | what it does | what it is |
//! |---|---|
//! | `turn`, `node` | one turn; threads |
//! | `entrances` | by which way clients come, and who may look after the node there |
//! | `accept`, `sniff`, `http`, `body`, `upgrade`, `ws`, `session` | what happens in each stage |
//! | `upstream`: `dial`, `handshake` | connecting to other servers |
//! | `carrier`, `requests`, `takeover`, `internal_sessions` | what carries sessions; those without a connection of their own |
//! | `session_lookup`, `hand_over`, `detach` | clients that come back to their sessions |
//! | `trace_messages` | which messages are traced, and what is told of them |
//! | `walk_sessions` | what is asked about all sessions |
//! | `traces`: `telling` | what sessions do, told to traces |
//! | `limited` | sessions to which limits apply: logging in, reading and writing |
//! | `secure` | TLS between a socket and the rest |
//! | `read`, `write`, `close`, `timers`, `stop`, `unfinished`, `store`, `migrate` | bytes in, bytes out, and the ends |

#![deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]
// An idle connection pays one word for a buffer it does not have, not three.
#![allow(clippy::box_collection, clippy::vec_box)]

mod accept;
mod acceptor;
mod audit;
mod blocking;
mod blocks;
mod body;
mod carried;
mod carrier;
mod client_session_ids;
mod close;
mod connection;
mod date;
mod decided_login;
mod departure;
mod detach;
mod detached_sessions;
mod drain;
pub mod driver;
mod entrances;
mod h2;
mod hand_over;
mod hosts;
mod http;
mod http_answer;
mod http_stage;
mod inherited;
mod internal_sessions;
mod large_frames;
mod large_input;
mod limit_registry;
mod limited;
mod limited_sessions;
mod listener_at;
mod log;
mod login;
mod login_ends;
mod mailbox;
mod message_framing;
mod metrics;
mod migrate;
mod node;
mod node_operations;
mod options;
mod origins;
mod outcome;
mod pause;
mod pool;
mod proxies;
mod read;
mod requests;
mod secure;
mod session;
mod session_begins;
mod session_lookup;
mod session_walks;
mod shard;
mod shared;
mod sniff;
mod spans;
mod spare;
mod stop;
mod stopping;
mod store;
mod store_gateway;
mod takeover;
#[cfg(test)]
#[path = "../tests/common/protocols.rs"]
#[allow(unreachable_pub, dead_code)]
mod testing;
mod timers;
mod tls_sessions;
mod trace_messages;
mod traces;
mod turn;
mod turn_clock;
mod unfinished;
mod unfinished_input;
mod upgrade;
mod upstream;
mod waker;
mod walk_sessions;
mod work_lists;
mod write;
mod write_coalescing;
mod ws;

pub use driver::os::SocketOptions;
pub use hosts::Hosts;
pub use inherited::{GivenSockets, InheritedError};
pub use listener_at::ListenerAt;
pub use metrics::{METRICS, NodeCounts};
pub use node::{NodeControl, NodeHandle, SpawnError, drive, simulate, spawn, spawn_on};
pub use options::{
    ClientTls, Deadlines, DetachedLimits, Http2Options, HttpHandler, ListenerOptions, LoginClient,
    NoOperator, Operator, Options, Placement, Proxies, ProxyProtocol, Security, Services,
    SpanOptions, Verifier,
};
pub use shard::Shard;
pub use store_gateway::{ShardStore, StoreAnswers, StoreGateway};
pub use traces::TraceNews;
pub use turn::Turn;
pub use upstream::authorities::{NoAuthorities, system_authorities};
pub use upstream::options::UpstreamOptions;
pub use upstream::status::{UpstreamState, UpstreamStatus};
pub use waker::{Answer, CommitResult, NodeAnswer};
