//! What a client says to a session whose broker answers everything.
#![no_main]

#[path = "../player.rs"]
mod player;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    player::client(data);
    player::pieces(data);
});
