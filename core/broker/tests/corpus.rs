//! Replays the fuzz corpus, so that every input that was ever of interest stays tested.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

#[path = "../fuzz/check.rs"]
mod check;

#[test]
fn the_corpus_replays() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/corpus/restored");
    let mut files = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        check::restored(&std::fs::read(entry.unwrap().path()).unwrap());
        files += 1;
    }
    assert!(files >= 12, "the corpus is missing: only {files} files in {folder}");
}
