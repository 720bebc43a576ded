//! Replays the fuzz corpora, so that every input that was ever of interest stays tested.
//!
//! Relies on the same checks as the fuzz targets.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, unreachable_pub)]

#[path = "../fuzz/check.rs"]
mod check;
#[path = "../fuzz/player.rs"]
mod player;
#[path = "../fuzz/session.rs"]
mod session;

const TARGETS: [(&str, tiderace_corpus::Check); 6] = [
    ("client", client),
    ("fragments", check::fragments),
    ("frames", check::frames),
    ("metadata", check::metadata),
    ("requester", check::requester),
    ("session", session::session),
];

fn client(data: &[u8]) {
    player::client(data);
    player::pieces(data);
}

#[test]
fn the_corpora_replay() {
    tiderace_corpus::replay(env!("CARGO_MANIFEST_DIR"), &TARGETS);
}
