//! All tests of this crate in one program: what they share is compiled once.

#![allow(unreachable_pub)]

#[path = "../fuzz/check.rs"]
mod check;
mod corpus;
mod docs;
mod errors;
mod examples;
mod hostile;
mod laws;
mod meaning;
