//! All tests of this crate in one program: what they share is compiled once.

#![allow(unreachable_pub, missing_docs, clippy::unwrap_used)]

mod browsing;
mod delays;
mod drops;
mod groups;
mod model;
mod operations;
mod policies;
mod quotas;
mod redeliveries;
mod support;
mod survey;
mod swapping;
mod work;
