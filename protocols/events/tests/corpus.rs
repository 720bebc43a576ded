//! Replays the fuzz corpora, so that every input that was ever of interest stays tested.
//!
//! Relies on the same checks as the fuzz targets.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, unreachable_pub)]

use crate::check;

#[test]
fn the_corpora_replay() {
    tiderace_corpus::replay(
        env!("CARGO_MANIFEST_DIR"),
        &[("uri", check::uri), ("request", check::request)],
    );
}

proptest::proptest! {
    #[test]
    fn any_request_is_answered_once(
        method in "(GET|HEAD|POST|PUT|DELETE|OPTIONS|X)",
        path in "/(topics|queues|services|batch|events|manage/(sessions|kick|queues|views|drain|log|backup))?(/[a-z~%*/]{0,6})?",
        query in "(\\?(topic|pattern|limit|retain|ttl|lastEventId|envelope|timeout)=[a-z0-9%*+&=]{0,8}){0,2}",
        field in "(Authorization: (Basic|Bearer) [a-zA-Z0-9=]{0,8}|Content-Type: application/json|Idempotency-Key: .{0,4}|Accept: [a-z/*]{0,8})?",
        body in "(\\[\\{\"topic\":\"a\",\"value\":1\\}\\]|.{0,20})",
    ) {
        check::request(format!("{method}\n{path}{query}\n{field}\n\n{body}").as_bytes());
    }
}
