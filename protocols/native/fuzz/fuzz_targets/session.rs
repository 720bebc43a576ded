//! `cargo +nightly fuzz run session`, run in the folder above `fuzz`.
#![no_main]

#[path = "../check.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|data: &[u8]| check::session(data));
