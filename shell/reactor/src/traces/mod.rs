//! Traces: what chosen sessions do, or what is done at chosen paths, told for a while as events of a topic.
//!
//! ```text
//!   `trace`, `trace-end` ─▶ board ─▶ shards, which look whether it has changed once a turn
//!   commands ─┐
//!   replies ──┼─▶ is anything traced? ─▶ whose, and about what? ─▶ lines ─▶ board ─▶ a session of the server's ─▶ topic
//!   deliveries ┘
//! ```
//! One test for each call of a session, run and reply, and nothing else, while nothing is traced. Relies on the broker for who
//! may ask, and who may see a body. Invariants: a shard waits for nobody because of a trace; lines are bounded at each place where they wait,
//! and what does not fit is counted; a trace ends by itself.

mod board;
mod shard_traces;
mod telling;

pub(crate) use board::TraceBoard;
pub use board::TraceNews;
pub(crate) use shard_traces::ShardTraces;
pub(crate) use telling::Told;
