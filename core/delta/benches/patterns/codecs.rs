//! The codecs that are compared, behind one pair of functions each.
//!
//! Relies on the crates of others as they come. Invariant: each makes what it takes apart.

use oxidelta::compress::{decoder, encoder};
use tiderace_delta::Encode;

/// One codec.
pub(crate) struct Codec {
    pub(crate) name: &'static str,
    pub(crate) encode: fn(old: &[u8], new: &[u8]) -> Vec<u8>,
    pub(crate) decode: fn(old: &[u8], delta: &[u8]) -> Vec<u8>,
    /// Whether what was made is the new value.
    pub(crate) same: fn(made: &[u8], new: &[u8]) -> bool,
}

pub(crate) const CODECS: &[Codec] = &[
    Codec {
        name: "`tiderace` (1)",
        encode: |old, new| ours(tiderace_delta::runs::encode, old, new),
        decode: |old, delta| tiderace_delta::runs::decode(old, delta, LIMIT).unwrap(),
        same,
    },
    Codec {
        name: "`vcdiff` (2)",
        encode: |old, new| ours(tiderace_delta::vcdiff::encode, old, new),
        decode: |old, delta| tiderace_delta::vcdiff::decode(old, delta, LIMIT).unwrap(),
        same,
    },
    Codec {
        name: "fossil-delta 0.2.0",
        encode: |old, new| fossil_delta::delta(new, old),
        decode: |old, delta| fossil_delta::apply(old, delta).unwrap(),
        same,
    },
    Codec {
        name: "oxidelta 0.1.4, level 1",
        encode: |old, new| vcdiff(old, new, 1),
        decode: |old, delta| decoder::decode_all(old, delta).unwrap(),
        same,
    },
    Codec {
        name: "oxidelta 0.1.4, level 6",
        encode: |old, new| vcdiff(old, new, 6),
        decode: |old, delta| decoder::decode_all(old, delta).unwrap(),
        same,
    },
    Codec {
        name: "json-patch 5.0.0, parsing included",
        encode: |old, new| {
            let (old, new) = (parse(old), parse(new));
            serde_json::to_vec(&json_patch::diff(&old, &new)).unwrap()
        },
        decode: |old, patch| {
            let mut value = parse(old);
            let patch: json_patch::Patch = serde_json::from_slice(patch).unwrap();
            json_patch::patch(&mut value, &patch).unwrap();
            serde_json::to_vec(&value).unwrap()
        },
        same: |made, new| parse(made) == parse(new),
    },
];

/// Without a limit, so that the bytes of whatever is made are counted.
fn ours(encode: Encode, old: &[u8], new: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(new.len() + 64);
    assert!(encode(old, new, &mut out, usize::MAX));
    out
}

fn vcdiff(old: &[u8], new: &[u8], level: u32) -> Vec<u8> {
    let mut out = Vec::with_capacity(new.len() + 64);
    let options = encoder::CompressOptions { level, ..Default::default() };
    encoder::encode_all(&mut out, old, new, options).unwrap();
    out
}

fn parse(text: &[u8]) -> serde_json::Value {
    serde_json::from_slice(text).unwrap()
}

fn same(made: &[u8], new: &[u8]) -> bool {
    made == new
}

const LIMIT: usize = 1 << 20;
