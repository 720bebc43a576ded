//! Replays the fuzz corpus, so that every input that was ever of interest stays tested.
//!
//! Relies on the same checks as the fuzz targets.
#![allow(clippy::unwrap_used, unreachable_pub)]

#[path = "../fuzz/check.rs"]
mod check;

use proptest::prelude::*;

#[test]
fn the_corpus_replays() {
    for (folder, check) in [
        ("client", check::client as fn(&[u8])),
        ("server", check::server),
        ("session", check::session),
    ] {
        let path = format!("{}/fuzz/corpus/{folder}", env!("CARGO_MANIFEST_DIR"));
        let mut files = 0;
        for entry in std::fs::read_dir(&path).unwrap() {
            check(&std::fs::read(entry.unwrap().path()).unwrap());
            files += 1;
        }
        assert!(files >= 10, "the corpus is missing: only {files} files in {path}");
    }
}

/// The messages of the corpus, which mutations begin with.
fn seeds() -> Vec<Vec<u8>> {
    let path = format!("{}/fuzz/corpus/session", env!("CARGO_MANIFEST_DIR"));
    let entries = std::fs::read_dir(path).unwrap();
    entries.map(|entry| std::fs::read(entry.unwrap().path()).unwrap()).collect()
}

proptest! {
    #[test]
    fn conversations_with_a_few_bytes_changed(
        seed: prop::sample::Index,
        edits in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..5),
        more in proptest::collection::vec(any::<u8>(), 0..40),
    ) {
        let seeds = seeds();
        let mut data = seed.get(&seeds).clone();
        for (at, byte) in edits {
            *at.get_mut(&mut data) = byte;
        }
        check::client(&data);
        check::server(&data);
        check::session(&data);
        data.extend_from_slice(&more);
        check::session(&data);
    }
}
