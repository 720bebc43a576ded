//! All tests of this crate in one program: what they share is compiled once.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, unreachable_pub)]

#[path = "../fuzz/checks.rs"]
mod checks;
mod corpus;
mod forwarded;
mod preface;
