//! Replays the fuzz corpus, so that every input that was ever of interest stays tested.
#![allow(clippy::unwrap_used)]

#[path = "../fuzz/check.rs"]
mod check;

fn replay(folder: &str, check: fn(&[u8])) {
    let mut files = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        check(&std::fs::read(entry.unwrap().path()).unwrap());
        files += 1;
    }
    assert!(files >= 12, "the corpus is missing: only {files} files in {folder}");
}

#[test]
fn the_corpus_of_patterns_replays() {
    replay(concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/corpus/pattern"), check::pattern);
}

#[test]
fn the_corpus_of_selectors_replays() {
    replay(concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/corpus/selector"), check::selector);
}
