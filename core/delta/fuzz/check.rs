//! What must hold for any bytes: differences are exact, decoding is bounded. Shared by the fuzz
//! targets and by the test that replays the corpus.
#![allow(dead_code, clippy::unwrap_used)]

use tiderace_delta::{CODECS, Decode, runs, vcdiff};

/// The first byte says where the old value ends and the new one begins; each codec makes it.
pub fn pair(data: &[u8]) {
    let [at, bytes @ ..] = data else { return };
    let (old, new) = bytes.split_at(usize::from(*at).min(bytes.len()));
    for codec in CODECS {
        let mut delta = Vec::new();
        assert!((codec.encode)(old, new, &mut delta, usize::MAX));
        assert_eq!((codec.decode)(old, &delta, new.len()).unwrap(), new, "{codec:?}");
    }
}

/// The first byte says where the old value ends and the delta begins, the second how much may come of it.
pub fn decode(data: &[u8]) {
    decode_by(runs::decode, data);
}

/// The same of a VCDIFF delta.
pub fn vcdiff(data: &[u8]) {
    decode_by(vcdiff::decode, data);
}

fn decode_by(decode: Decode, data: &[u8]) {
    let [at, max, bytes @ ..] = data else { return };
    let (old, delta) = bytes.split_at(usize::from(*at).min(bytes.len()));
    if let Ok(new) = decode(old, delta, usize::from(*max)) {
        assert!(new.len() <= usize::from(*max));
    }
}
