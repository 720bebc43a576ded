//! All tests of this crate in one program: what they share is compiled once.

#![allow(unreachable_pub)]
#![allow(clippy::duplicate_mod, reason = "the check of the fuzz targets brings its helpers along")]

#[path = "../fuzz/check.rs"]
mod check;
mod corpus;
mod laws;
mod layer;
mod spec3;
mod spec4;
mod support;
mod transcripts;
