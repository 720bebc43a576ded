//! All tests of this crate in one program: what they share is compiled once. Memory is counted for each thread,
//! that is for each test.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, unreachable_pub)]

mod browsing;
#[path = "../fuzz/check.rs"]
mod check;
#[path = "../fuzz/check_upstream.rs"]
mod check_upstream;
mod consuming;
mod corpus;
mod deltas;
mod ends;
mod exchanges;
mod hosts;
mod intake;
mod laws;
mod memory;
mod operations;
mod queue_fields;
mod relaying;
mod spec;
mod support;
mod unsubscribed;
mod upstream;
mod upstream_calls;
mod upstream_pairs;
mod upstream_updates;
mod vectors;
mod versions;
