//! `cargo +nightly fuzz run traceparent`, run in the folder above `fuzz`.
#![no_main]

#[path = "../check.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|data: &[u8]| check::traceparent(data));
