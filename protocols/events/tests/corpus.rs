//! Replays the fuzz corpus, so that every input that was ever of interest stays tested.
//!
//! Relies on the same checks as the fuzz targets.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, unreachable_pub)]

#[path = "../fuzz/check.rs"]
mod check;

#[test]
fn the_corpus_replays() {
    for (folder, check) in [("uri", check::uri as fn(&[u8])), ("request", check::request)] {
        let path = format!("{}/fuzz/corpus/{folder}", env!("CARGO_MANIFEST_DIR"));
        let mut files = 0;
        for entry in std::fs::read_dir(&path).unwrap() {
            check(&std::fs::read(entry.unwrap().path()).unwrap());
            files += 1;
        }
        assert!(files >= 10, "the corpus is missing: only {files} files in {path}");
    }
}

proptest::proptest! {
    #[test]
    fn any_request_is_answered_once(
        method in "(GET|HEAD|POST|PUT|DELETE|OPTIONS|X)",
        path in "/(topics|queues|services|batch|events)?(/[a-z~%*/]{0,6})?",
        query in "(\\?(topic|pattern|limit|retain|ttl|lastEventId|envelope|timeout)=[a-z0-9%*+&=]{0,8}){0,2}",
        field in "(Authorization: (Basic|Bearer) [a-zA-Z0-9=]{0,8}|Content-Type: application/json|Idempotency-Key: .{0,4}|Accept: [a-z/*]{0,8})?",
        body in "(\\[\\{\"topic\":\"a\",\"value\":1\\}\\]|.{0,20})",
    ) {
        check::request(format!("{method}\n{path}{query}\n{field}\n\n{body}").as_bytes());
    }
}
