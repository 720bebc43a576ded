//! The limits a decoder obeys, in one place.
//!
//! Relies on nothing. Invariant: every buffer and counter of the decoder is bounded by a field
//! here or by a constant here.

/// Largest payload of a control frame, in bytes (RFC 6455 section 5.5).
pub const CONTROL_PAYLOAD_BYTES_MAX: usize = 125;

/// Largest frame header, in bytes: 2 fixed, 8 of extended length, 4 of masking key
/// (RFC 6455 section 5.2).
pub const HEADER_BYTES_MAX: usize = 2 + 8 + 4;

/// What one connection may make the decoder hold or do.
///
/// Shared by all connections of a listener; the decoder takes it by reference with each call so
/// that an idle connection does not carry a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Largest message, in payload bytes, whether in one frame or in many. Default 1 MiB.
    pub message_bytes_max: usize,
    /// Most frames one message may be split into. Default 1024.
    pub fragments_max: u32,
    /// Most empty fragments in a row within one message. Default 64.
    pub empty_fragments_max: u32,
    /// Most control frames in a row before the input is drained or a data frame carries bytes.
    ///
    /// A ping of six bytes costs an answer; a read buffer full of them is a flood. Keep-alives
    /// arrive alone, drain the input and therefore never count. Default 1024.
    pub control_run_max: u16,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            message_bytes_max: 1 << 20,
            fragments_max: 1024,
            empty_fragments_max: 64,
            control_run_max: 1024,
        }
    }
}
