//! Replays the fuzz corpora, so that every input that was ever of interest stays tested.
//!
//! Relies on the same checks as the fuzz targets.

use crate::checks;

#[test]
fn the_corpora_replay() {
    tiderace_corpus::replay(
        env!("CARGO_MANIFEST_DIR"),
        &[("preface", checks::preface), ("forwarded", checks::forwarded)],
    );
}
