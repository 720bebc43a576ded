//! Payloads of revision 3 in binary.
#![no_main]

#[path = "../check.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|data: &[u8]| check::payload3_binary(data));
