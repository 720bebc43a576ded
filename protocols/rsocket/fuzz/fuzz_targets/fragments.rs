//! Frames in fragments, as their bytes come on a stream.
#![no_main]

#[path = "../check.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|data: &[u8]| check::fragments(data));
