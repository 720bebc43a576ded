//! The limits of Engine.IO sessions that are no options.
//!
//! What the server's owner can set is in `options.rs`; what protocols share is in `tiderace_base::limits`.
//! Invariant: every constant that bounds what a client can make grow is here, with its reason.

/// Digits of the length of a packet of revision 3: nine always fit a machine word, and no body is that long.
pub(crate) const DIGITS_MAX: usize = 9;
/// Bytes that may wait for a poll besides one large answer.
pub(crate) const UNFETCHED_BYTES_MAX: usize = 1 << 20;
