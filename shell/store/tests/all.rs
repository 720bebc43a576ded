//! All tests of this crate in one program: what they share is compiled once.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, unreachable_pub)]

mod backup_bodies;
mod backups;
mod bodies;
#[path = "../fuzz/check.rs"]
mod check;
mod committer;
mod common;
mod corpus;
mod crashes;
mod damage;
mod inspecting;
mod kills;
mod loads;
mod removed;
mod salvage;
mod shared;
mod space;
mod summaries;
mod transfer;
mod volatile;
