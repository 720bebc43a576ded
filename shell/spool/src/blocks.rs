//! Blocks of memory on their way to the writer thread, used again and again: what one thread allocates and another
//! frees comes back to the first late, or never while it has enough.

use std::sync::{Mutex, PoisonError};

/// Bytes that are written together.
pub(crate) const BLOCK_BYTES: usize = 64 << 10;
/// Blocks that are kept for later.
const KEPT_MAX: usize = 32;

/// Empty blocks.
#[derive(Debug, Default)]
pub(crate) struct Blocks(Mutex<Vec<Vec<u8>>>);

impl Blocks {
    /// An empty block with room for [`BLOCK_BYTES`].
    pub(crate) fn take(&self) -> Vec<u8> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop();
        kept.unwrap_or_else(|| Vec::with_capacity(BLOCK_BYTES))
    }

    /// A block that is needed no more.
    pub(crate) fn give(&self, mut block: Vec<u8>) {
        block.clear();
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < KEPT_MAX && block.capacity() >= BLOCK_BYTES {
            kept.push(block);
        }
    }
}
