//! Deltas that are meant to hurt: what the decoders take for them.
//!
//! Relies on nothing but the formats. Invariant: each is as long as a client may be told, 64 KiB at
//! most, and says with what it ends.

use tiderace_delta::{DeltaError, runs, vcdiff};

/// What is followed and what comes of it: the bytes made, or the error.
pub(crate) struct Attack {
    pub(crate) name: &'static str,
    pub(crate) delta: Vec<u8>,
    pub(crate) decode: fn(&[u8]) -> Result<Vec<u8>, DeltaError>,
}

pub(crate) fn attacks() -> Vec<Attack> {
    let runs = |delta: &[u8]| runs::decode(OLD, delta, LIMIT);
    let vcdiff = |delta: &[u8]| vcdiff::decode(OLD, delta, LIMIT);
    let filled = |head: &[u8], piece: &[u8]| {
        let mut delta = head.to_vec();
        while delta.len() + piece.len() <= BYTES {
            delta.extend_from_slice(piece);
        }
        delta
    };
    let magic = [0xd6, 0xc3, 0xc4, 0, 0];
    // A window without a source: length of the rest, target, no compression, sections.
    let window = |target: usize, data: &[u8], codes: &[u8], addresses: &[u8]| {
        let mut rest = number(target);
        rest.push(0);
        for section in [data, codes, addresses] {
            rest.extend(number(section.len()));
        }
        rest.extend([data, codes, addresses].concat());
        [&[0][..], &number(rest.len()), &rest].concat()
    };
    let vast = number(LIMIT);
    let repeat = [&[2, 19][..], &number(LIMIT - 1)].concat();
    vec![
        // Move back by one, copy one.
        Attack {
            name: "`tiderace`: copies of one byte",
            delta: filled(&[1, 0], &[6, 1]),
            decode: runs,
        },
        Attack {
            name: "`tiderace`: copies of all, up to the limit",
            // Move to the beginning, copy 1,000.
            delta: filled(&[0, 0, 0xa0, 0x1f], &[0xa2, 0x1f, 0xcf, 0x0f]),
            decode: runs,
        },
        Attack {
            name: "`vcdiff`: instructions of no bytes",
            delta: [&magic[..], &window(0, b"", &filled(&[], &[1, 0])[..BYTES - 20], b"")].concat(),
            decode: vcdiff,
        },
        Attack {
            name: "`vcdiff`: windows of no bytes",
            delta: filled(&magic, &window(0, b"", b"", b"")),
            decode: vcdiff,
        },
        Attack {
            name: "`vcdiff`: windows of one copy",
            delta: filled(&magic, &window(2, b"z", &[2, 19, 1], &[0])),
            decode: vcdiff,
        },
        Attack {
            name: "`vcdiff`: a run up to the limit",
            delta: [&magic[..], &window(LIMIT, b"z", &[&[0][..], &vast].concat(), b"")].concat(),
            decode: vcdiff,
        },
        Attack {
            name: "`vcdiff`: a copy of itself up to the limit",
            delta: [&magic[..], &window(LIMIT, b"z", &repeat, &[0])].concat(),
            decode: vcdiff,
        },
        Attack {
            name: "`vcdiff`: one byte beyond the limit",
            delta: [&magic[..], &window(LIMIT + 1, b"z", &repeat, &[0])].concat(),
            decode: vcdiff,
        },
    ]
}

/// As VCDIFF writes numbers.
fn number(value: usize) -> Vec<u8> {
    let mut bytes = vec![value as u8 & 0x7f];
    let mut rest = value >> 7;
    while rest > 0 {
        bytes.insert(0, rest as u8 | 0x80);
        rest >>= 7;
    }
    bytes
}

const OLD: &[u8] = &[b'x'; 1_000];
/// Of one delta.
const BYTES: usize = 64 << 10;
/// Of what may be made.
const LIMIT: usize = 1 << 20;
