//! Replays the fuzz corpora, so that every input that was ever of interest stays tested.
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
fn the_corpus_of_operations_replays() {
    replay(concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/corpus/operation"), check::operation);
}

#[test]
fn the_corpus_of_specifications_replays() {
    replay(concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/corpus/spec"), check::spec);
}

#[test]
fn the_corpus_of_texts_replays() {
    replay(concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/corpus/texts"), check::texts);
}
