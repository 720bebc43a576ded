//! All tests of this crate in one program: what they share is compiled once.

#![allow(unreachable_pub)]

mod autobahn;
#[path = "../fuzz/checks.rs"]
mod checks;
mod common;
mod corpus;
mod differential;
mod handshake;
mod properties;
mod rfc6455;
