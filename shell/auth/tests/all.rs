//! All tests of this crate in one program.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::expect_used)]

mod callout;
mod signed_tokens;
