//! `cargo +nightly fuzz run backup`, run in the folder above `fuzz`.
#![no_main]

#[path = "../check.rs"]
#[allow(dead_code)]
mod check;

libfuzzer_sys::fuzz_target!(|data: &[u8]| check::backup(data));
