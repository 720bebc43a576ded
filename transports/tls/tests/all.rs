//! All tests of this crate in one program: what they share is compiled once. Memory is counted for each thread,
//! that is for each test.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, unreachable_pub)]

#[path = "../fuzz/checks.rs"]
mod checks;
mod client;
mod corpus;
mod memory;
mod peer;
mod session;
