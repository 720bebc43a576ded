//! Laws of the codecs over many random edits: byte exact, and bounded whatever the bytes. Another
//! implementation of VCDIFF serves as an oracle, both ways.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use oxidelta::compress::{decoder, encoder};
use proptest::prelude::*;
use tiderace_delta::{CODECS, Codec, DeltaError, runs, vcdiff};

/// An edit of a value: where, how much goes, what comes.
type Edit = (usize, usize, Vec<u8>);

fn edited(old: &[u8], edits: &[Edit]) -> Vec<u8> {
    let mut new = old.to_vec();
    for (at, gone, comes) in edits {
        let at = at % (new.len() + 1);
        let end = (at + gone).min(new.len());
        new.splice(at..end, comes.iter().copied());
    }
    new
}

fn bytes(most: usize) -> impl Strategy<Value = Vec<u8>> {
    // Few different bytes, so that chance matches happen, or any.
    prop_oneof![
        proptest::collection::vec(b'a'..b'd', 0..most),
        proptest::collection::vec(any::<u8>(), 0..most),
    ]
}

fn pair() -> impl Strategy<Value = (Vec<u8>, Vec<u8>)> {
    let edit = (any::<usize>(), 0usize..20, bytes(12));
    (bytes(300), proptest::collection::vec(edit, 0..6), any::<u8>()).prop_map(
        |(old, edits, moved)| {
            let mut new = edited(&old, &edits);
            if moved < 60 && !new.is_empty() {
                let at = usize::from(moved) % new.len();
                new.rotate_left(at);
            }
            (old, new)
        },
    )
}

fn codec() -> impl Strategy<Value = &'static Codec> {
    (0..CODECS.len()).prop_map(|place| &CODECS[place])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100_000, ..ProptestConfig::default() })]

    #[test]
    fn what_is_encoded_is_decoded(codec in codec(), (old, new) in pair(), limit in prop_oneof![Just(usize::MAX), 0usize..60]) {
        let mut delta = Vec::new();
        if (codec.encode)(&old, &new, &mut delta, limit) {
            prop_assert!(delta.len() < limit);
            prop_assert_eq!((codec.decode)(&old, &delta, new.len()).unwrap(), new.clone());
            if !new.is_empty() {
                prop_assert_eq!((codec.decode)(&old, &delta, new.len() - 1), Err(DeltaError::TooLarge));
            }
        } else {
            prop_assert!(delta.is_empty() && limit < usize::MAX);
        }
        // Never much worse than the value itself: a head, and one byte or two for each literal
        // between copies of four bytes and more.
        let mut full = Vec::new();
        prop_assert!((codec.encode)(&old, &new, &mut full, usize::MAX));
        let head = [8, 24][usize::from(codec.number == 2)];
        prop_assert!(full.len() <= new.len() + new.len() / 4 + head);
        prop_assert_eq!(delta.is_empty(), full.len() >= limit);
    }

    #[test]
    fn mutated_deltas_are_bounded(codec in codec(), (old, new) in pair(), edits in proptest::collection::vec((any::<usize>(), 0usize..4, bytes(4)), 1..4), max in 0usize..400) {
        let mut delta = Vec::new();
        prop_assert!((codec.encode)(&old, &new, &mut delta, usize::MAX));
        if let Ok(made) = (codec.decode)(&old, &edited(&delta, &edits), max) {
            prop_assert!(made.len() <= max);
        }
    }

    #[test]
    fn vcdiff_is_what_others_understand_and_write((old, new) in pair(), level in 0u32..10, checksum: bool, window in 16usize..200) {
        let mut ours = Vec::new();
        prop_assert!(vcdiff::encode(&old, &new, &mut ours, usize::MAX));
        prop_assert_eq!(decoder::decode_all(&old, &ours).unwrap(), new.clone());
        let mut theirs = Vec::new();
        let options = encoder::CompressOptions { level, checksum, window_size: window, ..Default::default() };
        encoder::encode_all(&mut theirs, &old, &new, options).unwrap();
        // Once in a million of these their encoder writes what their own decoder refuses; of those
        // nothing is asked but an end.
        let read = vcdiff::decode(&old, &theirs, 2 * new.len() + 300);
        if let Ok(meant) = decoder::decode_all(&old, &theirs) {
            prop_assert_eq!(read.unwrap(), meant);
        }
        let mutated = edited(&theirs, &[(window * 31, 1, vec![level as u8])]);
        if let Ok(made) = vcdiff::decode(&old, &mutated, new.len()) {
            prop_assert!(made.len() <= new.len());
        }
    }
}

#[test]
fn large_values_take_linear_time() {
    // Quadratic searches would not end in a test's life.
    let old: Vec<u8> =
        (0..4_000_000u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let new: Vec<u8> = old.iter().map(|byte| byte ^ 0x55).collect();
    let (zeros, ones) = (vec![0; 4_000_000], vec![1; 4_000_000]);
    for codec in CODECS {
        assert!(!(codec.encode)(&old, &new, &mut Vec::new(), new.len()));
        assert!(!(codec.encode)(&zeros, &ones, &mut Vec::new(), 2));
        let mut delta = Vec::new();
        assert!((codec.encode)(&zeros, &ones, &mut delta, usize::MAX));
    }
}

#[test]
fn a_list_that_moves_on_by_a_row_comes_as_a_small_delta() {
    // Rows are alike but for a digit more or less, so that pieces of them are found a few bytes away.
    let row = |at: usize| {
        let price = 95 + at * 7 % 10;
        format!("{{\"bid\":{price},\"ask\":{price}}},")
    };
    let rows = |from: usize| (from..from + 40).map(row).collect::<String>().into_bytes();
    for codec in CODECS {
        for from in 0..10 {
            let (old, new) = (rows(from), rows(from + 1));
            let mut delta = Vec::new();
            assert!((codec.encode)(&old, &new, &mut delta, usize::MAX));
            assert!(
                delta.len() < new.len() / 4,
                "{codec:?}: {} of {} bytes",
                delta.len(),
                new.len()
            );
        }
    }
}

#[test]
fn the_shared_vectors_hold() {
    let text = include_str!("../../../protocols/native/tests/vectors/deltas.json");
    let mut rows = 0;
    for line in text.lines().filter(|line| line.contains("\"delta\"")) {
        let [old, new, delta] = ["old", "new", "delta"].map(|name| field(line, name));
        assert_eq!(runs::decode(&old, &delta, new.len()).unwrap(), new, "{line}");
        rows += 1;
    }
    assert!(rows >= 5);
}

/// The bytes of a field written in hexadecimal.
fn field(line: &str, name: &str) -> Vec<u8> {
    let from = line.split(&format!("\"{name}\": \"")).nth(1).unwrap();
    let hex = from.split('"').next().unwrap();
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}
