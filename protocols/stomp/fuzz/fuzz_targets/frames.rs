//! Bytes behind a CONNECT, in random pieces.
#![no_main]

#[path = "../check.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|data: &[u8]| check::frames(data));
