//! Requests, WebSocket messages, deliveries and time in any order.
#![no_main]

#[path = "../check.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|data: &[u8]| check::session(data));
