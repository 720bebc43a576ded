//! What clients say to a session.
#![no_main]

#[path = "../player.rs"]
mod player;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    player::session(data);
    player::pieces(data);
});
