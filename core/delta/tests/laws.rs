//! Laws of the codec over many random edits: byte exact, and bounded whatever the bytes.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use proptest::prelude::*;
use tiderace_delta::{DeltaError, decode, encode};

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

proptest! {
    #![proptest_config(ProptestConfig { cases: 100_000, ..ProptestConfig::default() })]

    #[test]
    fn what_is_encoded_is_decoded((old, new) in pair(), limit in prop_oneof![Just(usize::MAX), 0usize..60]) {
        let mut delta = Vec::new();
        if encode(&old, &new, &mut delta, limit) {
            prop_assert!(delta.len() < limit);
            prop_assert_eq!(decode(&old, &delta, new.len()).unwrap(), new.clone());
            if !new.is_empty() {
                prop_assert_eq!(decode(&old, &delta, new.len() - 1), Err(DeltaError::TooLarge));
            }
        } else {
            prop_assert!(delta.is_empty() && limit < usize::MAX);
        }
        // Never much worse than the value itself: two numbers, and one byte or two for each literal
        // between copies of four bytes and more.
        let mut full = Vec::new();
        prop_assert!(encode(&old, &new, &mut full, usize::MAX));
        prop_assert!(full.len() <= new.len() + new.len() / 4 + 8);
    }

    #[test]
    fn mutated_deltas_are_bounded((old, new) in pair(), edits in proptest::collection::vec((any::<usize>(), 0usize..4, bytes(4)), 1..4), max in 0usize..400) {
        let mut delta = Vec::new();
        prop_assert!(encode(&old, &new, &mut delta, usize::MAX));
        if let Ok(made) = decode(&old, &edited(&delta, &edits), max) {
            prop_assert!(made.len() <= max);
        }
    }
}

#[test]
fn large_values_take_linear_time() {
    // Quadratic searches would not end in a test's life.
    let old: Vec<u8> =
        (0..4_000_000u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let new: Vec<u8> = old.iter().map(|byte| byte ^ 0x55).collect();
    assert!(!encode(&old, &new, &mut Vec::new(), new.len()));
    let (zeros, ones) = (vec![0; 4_000_000], vec![1; 4_000_000]);
    assert!(!encode(&zeros, &ones, &mut Vec::new(), 2));
    let mut delta = Vec::new();
    assert!(encode(&zeros, &ones, &mut delta, usize::MAX));
}

#[test]
fn the_shared_vectors_hold() {
    let text = include_str!("../../../protocols/native/tests/vectors/deltas.json");
    let mut rows = 0;
    for line in text.lines().filter(|line| line.contains("\"delta\"")) {
        let [old, new, delta] = ["old", "new", "delta"].map(|name| field(line, name));
        assert_eq!(decode(&old, &delta, new.len()).unwrap(), new, "{line}");
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
