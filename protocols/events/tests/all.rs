//! All tests of this crate in one program: what they share is compiled once.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, unreachable_pub)]

#[path = "../fuzz/check.rs"]
mod check;
mod corpus;
mod delays;
mod late;
mod manage;
mod rest;
mod stream;
mod subscriptions;
mod support;
