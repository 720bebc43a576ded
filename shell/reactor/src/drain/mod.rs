//! The drain of a node: its clients are told, one after another, to go to other servers.
//!
//! ```text
//!   Serving ──▶ Announced ──delay──▶ Draining ──▶ Drained        each shard, each turn, while it drains:
//!                /readyz: 503         listeners closed,          is a goodbye due? ─▶ look at places of the slab
//!                                     a goodbye in each cell       until one is found who can go ─▶ end it
//! ```
//! [`planner`] says when and where to look, [`goodbyes`] how each is told, [`board`] is what all shards share, [`node`] and
//! [`turn`] bring it about. Invariants: no turn looks at more than a bounded number of places; who can be told
//! is told, and who is in the midst of something gets the time to finish it, until the span is over; connections of
//! listeners that stay open, and the one by which the drain was asked for, are left alone.

pub(crate) mod board;
pub(crate) mod draining;
pub(crate) mod goodbyes;
mod node;
mod planner;
mod turn;
