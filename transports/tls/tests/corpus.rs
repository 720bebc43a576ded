//! Replays the corpus of the fuzz targets, so that what fuzzing once found stays fixed.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

#[path = "../fuzz/checks.rs"]
#[allow(unreachable_pub)]
mod checks;

use std::path::Path;

fn replay(target: &str, check: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(target);
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        check(&std::fs::read(&path).unwrap());
        count += 1;
    }
    assert!(count > 0, "the corpus of {target} is missing");
}

#[test]
fn certificate() {
    replay("certificate", checks::certificate);
}

#[test]
fn session() {
    replay("session", checks::session);
}
