//! Tests of signed tokens, in one program.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::expect_used)]

mod signed_tokens;
