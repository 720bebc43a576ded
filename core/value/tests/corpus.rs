//! Replays the fuzz corpora, so that every input that was ever of interest stays tested.
//!
//! Relies on the same checks as the fuzz targets.
#![allow(clippy::unwrap_used)]

#[path = "../fuzz/check.rs"]
mod check;

#[test]
fn the_corpora_replay() {
    for (target, run) in [
        ("json", check::json as fn(&[u8])),
        ("pointer", check::pointer),
        ("patch", check::patch),
        ("merge", check::merge),
        ("schema", check::schema),
    ] {
        let folder = format!("{}/fuzz/corpus/{target}", env!("CARGO_MANIFEST_DIR"));
        let mut files = 0;
        for entry in std::fs::read_dir(&folder).unwrap() {
            run(&std::fs::read(entry.unwrap().path()).unwrap());
            files += 1;
        }
        assert!(files >= 8, "the corpus is missing: only {files} files in {folder}");
    }
}
