//! Whether there is memory for something that a client asks for.

use tiderace_base::{Close, CloseCode, Memory, MemoryUse};

/// Whether there is memory for so many bytes more.
pub(crate) fn check_room(memory: &Memory, what: MemoryUse, bytes: usize) -> Result<(), Close> {
    if memory.has_room(what, bytes) { Ok(()) } else { Err(CloseCode::MemoryFull.into()) }
}
