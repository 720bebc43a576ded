//! Replays the fuzz corpus, so that every input that was ever of interest stays tested.
//!
//! Relies on the same checks as the fuzz targets.
#![allow(clippy::unwrap_used, unreachable_pub)]

#[path = "../fuzz/check.rs"]
mod check;

#[test]
fn the_corpus_replays() {
    for (folder, check) in
        [("pair", check::pair as fn(&[u8])), ("decode", check::decode), ("vcdiff", check::vcdiff)]
    {
        let path = format!("{}/fuzz/corpus/{folder}", env!("CARGO_MANIFEST_DIR"));
        let mut files = 0;
        for entry in std::fs::read_dir(&path).unwrap() {
            check(&std::fs::read(entry.unwrap().path()).unwrap());
            files += 1;
        }
        assert!(files >= 6, "the corpus is missing: only {files} files in {path}");
    }
}
