//! All tests of this crate in one program: what they share is compiled once.

#![allow(unreachable_pub)]

#[path = "../fuzz/check.rs"]
mod check;
mod corpus;
mod laws;
mod merging;
mod patching;
mod schema;
mod values;
