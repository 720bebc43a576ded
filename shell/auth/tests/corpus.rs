//! The corpora of the fuzz targets.

use crate::checks;

#[test]
fn tokens_and_keys_of_the_corpora() {
    tiderace_corpus::replay(
        env!("CARGO_MANIFEST_DIR"),
        &[
            ("token", checks::token),
            ("key_set", checks::key_set),
            ("public_key", checks::public_key),
        ],
    );
}
