//! Replays the fuzz corpora, so that every input that was ever of interest stays tested.
//!
//! Relies on the same checks as the fuzz targets.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, unreachable_pub)]

#[path = "../fuzz/check.rs"]
mod check;

#[test]
fn the_corpora_replay() {
    tiderace_corpus::replay(
        env!("CARGO_MANIFEST_DIR"),
        &[
            ("operation", check::operation),
            ("spec", check::spec),
            ("texts", check::texts),
            ("traceparent", check::traceparent),
        ],
    );
}
