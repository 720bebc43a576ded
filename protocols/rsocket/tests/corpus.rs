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

use proptest::prelude::*;

type Check = fn(&[u8]);

const TARGETS: [(&str, Check); 6] = [
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

fn corpus(folder: &str) -> Vec<Vec<u8>> {
    let path = format!("{}/fuzz/corpus/{folder}", env!("CARGO_MANIFEST_DIR"));
    let entries = std::fs::read_dir(&path).unwrap();
    entries.map(|entry| std::fs::read(entry.unwrap().path()).unwrap()).collect()
}

#[test]
fn the_corpora_replay() {
    for (folder, check) in TARGETS {
        let files = corpus(folder);
        assert!(files.len() >= 10, "the corpus {folder} is missing: only {} files", files.len());
        files.iter().for_each(|bytes| check(bytes));
    }
}

/// Bytes that are changed, left out or repeated somewhere.
fn mutated(mut bytes: Vec<u8>, changes: &[(u8, usize, u8)]) -> Vec<u8> {
    for (change, at, byte) in changes {
        let at = at % (bytes.len() + 1);
        match change % 4 {
            0 => bytes.insert(at, *byte),
            1 if at < bytes.len() => bytes[at] ^= byte,
            2 => bytes.truncate(at),
            _ => {
                let again = bytes[at..].to_vec();
                bytes.extend(again.iter().take(200));
            }
        }
    }
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]
    #[test]
    fn what_is_close_to_the_corpora_does_no_harm(
        target in 0..TARGETS.len(),
        file in any::<prop::sample::Index>(),
        changes in proptest::collection::vec((any::<u8>(), any::<usize>(), any::<u8>()), 1..6),
    ) {
        let (folder, check) = TARGETS[target];
        let files = corpus(folder);
        check(&mutated(files[file.index(files.len())].clone(), &changes));
    }
}
