//! All tests of this crate in one program: what they share is compiled once. Memory is counted for each thread,
//! that is for each test.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, unreachable_pub)]

mod attacks;
#[path = "../fuzz/check.rs"]
mod check;
mod corpus;
mod events;
mod memory;
mod recovery;
mod rooms;
mod spec;
mod support;
mod transcripts;
mod unsubscribed;
