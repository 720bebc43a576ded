//! All tests of this crate in one program.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::expect_used, unreachable_pub)]

mod callout;
#[path = "../fuzz/checks.rs"]
mod checks;
mod corpus;
mod foreign_tokens;
mod signed_tokens;
