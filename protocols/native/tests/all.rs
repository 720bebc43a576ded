//! All tests of this crate in one program: what they share is compiled once. Memory is counted for each thread,
//! that is for each test.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, unreachable_pub)]

mod browsing;
#[path = "../fuzz/check.rs"]
mod check;
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
mod spec;
mod support;
mod vectors;
mod versions;
