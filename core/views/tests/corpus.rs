//! Replays the fuzz corpus, and feeds every example of the page to the same check.
//!
//! Relies on the same check as the fuzz target.
#![allow(clippy::unwrap_used)]

#[path = "../fuzz/check.rs"]
mod check;

#[test]
fn the_corpus_replays() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/corpus/view");
    let mut files = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        check::view(&std::fs::read(entry.unwrap().path()).unwrap());
        files += 1;
    }
    assert!(files >= 20, "the corpus is missing: only {files} files in {folder}");
}

#[test]
fn examples_cut_short_anywhere_keep_the_promises() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/views.md");
    let text = std::fs::read_to_string(page).unwrap();
    let mut examples = 0;
    for example in text.split("```view\n").skip(1) {
        let example = example.split("\n```").next().unwrap();
        let view = example.find("\n-- given").unwrap();
        for end in (0..=view).filter(|end| example.is_char_boundary(*end)) {
            check::view(&example.as_bytes()[..end]);
        }
        check::view(example.as_bytes());
        examples += 1;
    }
    assert!(examples >= 45);
}
