//! `cargo +nightly fuzz run session`, run in the folder above `fuzz`.
#![no_main]

#[path = "../session.rs"]
mod session;

libfuzzer_sys::fuzz_target!(|data: &[u8]| session::session(data));
