//! All tests of this crate in one program: what they share is compiled once. Memory is counted for each thread,
//! that is for each test.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, unreachable_pub)]

mod conversation;
mod corpus;
mod demand;
mod echo;
mod hostile;
mod idle;
mod intake;
mod laws;
mod memory;
mod requester;
mod resume;
mod session;
mod spec;
mod spec_frames;
mod spec_metadata;
mod support;
mod transcripts;
