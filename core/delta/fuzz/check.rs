//! What must hold for any bytes: differences are exact, decoding is bounded. Shared by the fuzz
//! targets and by the test that replays the corpus.
#![allow(dead_code, clippy::unwrap_used)]

/// The first byte says where the old value ends and the new one begins.
pub fn pair(data: &[u8]) {
    let [at, bytes @ ..] = data else { return };
    let (old, new) = bytes.split_at(usize::from(*at).min(bytes.len()));
    let mut delta = Vec::new();
    assert!(tiderace_delta::encode(old, new, &mut delta, usize::MAX));
    assert_eq!(tiderace_delta::decode(old, &delta, new.len()).unwrap(), new);
}

/// The first byte says where the old value ends and the delta begins, the second how much may come of it.
pub fn decode(data: &[u8]) {
    let [at, max, bytes @ ..] = data else { return };
    let (old, delta) = bytes.split_at(usize::from(*at).min(bytes.len()));
    if let Ok(new) = tiderace_delta::decode(old, delta, usize::from(*max)) {
        assert!(new.len() <= usize::from(*max));
    }
}
