//! What idle sessions and connections cost: tests that count the heap of the whole process, one at a time.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, unreachable_pub)]

mod common;
mod idle_http2;
mod idle_memory;
mod idle_rsocket;
mod idle_stomp;
mod idle_web;
#[path = "common/waiting.rs"]
mod waiting;

/// Held by each test while it counts.
static COUNTING: std::sync::Mutex<()> = std::sync::Mutex::new(());
