//! Replays the fuzz corpora, so that every input that was ever of interest stays tested.
//!
//! Relies on the same checks as the fuzz targets.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, unreachable_pub)]

use crate::check;

#[test]
fn the_corpora_replay() {
    tiderace_corpus::replay(
        env!("CARGO_MANIFEST_DIR"),
        &[
            ("segment", check::segment),
            ("record", check::record),
            ("summary", check::summary),
            ("portable", check::portable),
            ("backup", check::backup),
        ],
    );
}
