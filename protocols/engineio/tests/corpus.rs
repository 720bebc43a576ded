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
            ("payload4", check::payload4),
            ("payload3_text", check::payload3_text),
            ("payload3_binary", check::payload3_binary),
            ("session", check::session),
        ],
    );
}

mod any {
    use proptest::prelude::*;

    use super::check;

    /// What clients and feeds say.
    const WORDS: &[&[u8]] = &[
        b"4hello",
        b"4three",
        b"4leave",
        b"4fail",
        b"4wake",
        b"4quiet",
        b"2probe",
        b"5",
        b"3",
        b"2",
        b"1",
        b"6:4hello",
        b"6:4three",
        b"1:2",
        b"1:1",
        b"d=6:4leave",
        b"d=6:4three",
        b"bAQID",
        b"later",
        b"\xff",
        b"\x00\x01\xff2",
    ];

    /// A step that means something.
    fn step() -> impl Strategy<Value = Vec<u8>> {
        let words = proptest::sample::select(WORDS);
        (0u8..9, words).prop_map(|(kind, word)| {
            let len = if kind == 6 { 20 } else { u8::try_from(word.len()).unwrap() };
            let mut step = vec![kind, len];
            // Waiting takes no bytes, whatever its length.
            step.extend_from_slice(if kind == 6 { &[0; 20] } else { word });
            step
        })
    }

    proptest! {
        #[test]
        fn conversation_is_survived(begin in 0u8..32, steps in proptest::collection::vec(step(), 0..25)) {
            let mut data = vec![begin];
            data.extend(steps.concat());
            check::session(&data);
        }
    }
}
