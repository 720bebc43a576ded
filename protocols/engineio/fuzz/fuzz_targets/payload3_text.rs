//! Payloads of revision 3 as text, and the forms that carry them.
#![no_main]

#[path = "../check.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|data: &[u8]| check::payload3_text(data));
