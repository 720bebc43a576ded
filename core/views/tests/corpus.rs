//! Replays the fuzz corpora, so that every input that was ever of interest stays tested.
//!
//! Relies on the same checks as the fuzz targets.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, unreachable_pub)]

use crate::check;

#[test]
fn the_corpora_replay() {
    tiderace_corpus::replay(env!("CARGO_MANIFEST_DIR"), &[("view", check::view)]);
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
