//! `cargo +nightly fuzz run spec`, run in the folder above `fuzz`.
#![no_main]

#[path = "../check.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|data: &[u8]| check::spec(data));
