//! All tests of this crate in one program: what they share is compiled once.

#![allow(unreachable_pub)]

#[path = "../fuzz/checks.rs"]
mod checks;
mod corpus;
mod properties;
mod requests;
