//! `cargo +nightly fuzz run upstream`, run in the folder above `fuzz`.
#![no_main]

#[path = "../check_upstream.rs"]
mod check_upstream;

libfuzzer_sys::fuzz_target!(|data: &[u8]| check_upstream::upstream(data));
