//! The limits of heads and bodies, in one place.
//!
//! Relies on nothing. Invariant: everything a peer can make grow is bounded by a field here.

/// Headers a parsed head has room for, on the stack; `Limits::headers_max` above it has no effect.
pub const HEADERS_CAPACITY: usize = 64;

/// What one request may make the parser accept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Largest head, from the request line to the empty line, in bytes. Default 16 KiB.
    pub head_bytes_max: usize,
    /// Longest request target, in bytes. Default 8 KiB.
    pub target_bytes_max: usize,
    /// Most header fields. Default and upper bound [`HEADERS_CAPACITY`].
    pub headers_max: usize,
    /// Largest body, in bytes, however it is framed. Default 1 MiB.
    pub body_bytes_max: u64,
    /// Most bytes of chunk extensions, over a whole body. Default 4 KiB.
    pub chunk_extension_bytes_max: usize,
    /// Largest trailer section, in bytes. Default 4 KiB.
    pub trailer_bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            head_bytes_max: 16 * 1024,
            target_bytes_max: 8 * 1024,
            headers_max: HEADERS_CAPACITY,
            body_bytes_max: 1 << 20,
            chunk_extension_bytes_max: 4 * 1024,
            trailer_bytes_max: 4 * 1024,
        }
    }
}
