//! What a large message says: bytes that can be told by their place, so that nothing has to be kept to check them.
//!
//! Invariant: a piece that was lost, repeated or moved by anything is found out, for each block has its number in it.

use crate::random::Random;

/// Bytes of a block.
pub(super) const BLOCK_BYTES: usize = 1 << 20;

/// The content of a message.
#[derive(Debug)]
pub(super) struct Pattern {
    block: Vec<u8>,
}

impl Pattern {
    pub(super) fn new() -> Pattern {
        let mut random = Random(0x7164);
        let words = (0..BLOCK_BYTES / 8).flat_map(|_| random.below(u64::MAX).to_le_bytes());
        Pattern { block: words.collect() }
    }

    /// The bytes from `at` on, up to `bytes` of them, which end with their block.
    pub(super) fn fill(&self, at: u64, bytes: u64, out: &mut Vec<u8>) {
        let (number, start) = place(at);
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX).min(BLOCK_BYTES - start);
        out.clear();
        out.extend_from_slice(self.block.get(start..start + bytes).unwrap_or_default());
        let stamp = number.to_le_bytes();
        let stamped = out.iter_mut().zip(stamp.iter().skip(start));
        stamped.for_each(|(byte, stamp)| *byte = *stamp);
    }

    /// Whether these are the bytes from `at` on.
    pub(super) fn is_at(&self, mut at: u64, mut bytes: &[u8]) -> bool {
        while !bytes.is_empty() {
            let (number, start) = place(at);
            let (piece, rest) = bytes.split_at(bytes.len().min(BLOCK_BYTES - start));
            let stamp = number.to_le_bytes();
            let stamp = stamp.get(start..).unwrap_or_default();
            let stamped = stamp.len().min(piece.len());
            let is_same = piece.starts_with(stamp.get(..stamped).unwrap_or_default())
                && piece.get(stamped..) == self.block.get(start + stamped..start + piece.len());
            if !is_same {
                return false;
            }
            at += piece.len() as u64;
            bytes = rest;
        }
        true
    }
}

/// The number of a block, and the place in it.
fn place(at: u64) -> (u64, usize) {
    let block = BLOCK_BYTES as u64;
    (at / block, usize::try_from(at % block).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_known_by_their_place() {
        let pattern = Pattern::new();
        let (mut all, mut piece) = (Vec::new(), Vec::new());
        while all.len() < 3 * BLOCK_BYTES {
            pattern.fill(all.len() as u64, 333_333, &mut piece);
            all.extend_from_slice(&piece);
        }
        for (at, bytes) in [
            (0, all.len()),
            (0, 5),
            (BLOCK_BYTES - 3, 9),
            (BLOCK_BYTES - 1, 4),
            (BLOCK_BYTES + 9, BLOCK_BYTES),
        ] {
            assert!(pattern.is_at(at as u64, &all[at..at + bytes]), "{at}");
            assert!(
                !pattern.is_at((at + BLOCK_BYTES) as u64, &all[at..at + bytes]),
                "{at} is not elsewhere"
            );
        }
        all[BLOCK_BYTES + 77] ^= 1;
        assert!(!pattern.is_at(0, &all));
    }
}
