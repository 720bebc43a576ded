//! The limits of STOMP sessions that are no options.
//!
//! What the server's owner can set is in `options.rs`; what protocols share is in `tiderace_base::limits`.
//! Invariant: every constant that bounds what a client can make grow is here, with its reason.

/// The most bytes that a frame has besides the lines and the body: names, numbers, NUL.
pub(crate) const FIXED_BYTES_MAX: usize = 192;
/// Bytes of the name that `include-seq` gives: it is in each message, and a word is enough.
pub(crate) const SEQUENCE_NAME_BYTES_MAX: usize = 64;
/// Characters of a client's text that an error shows: long enough to recognise a command, a name or a destination by.
pub(crate) const SHOWN_CHARS_MAX: usize = 64;
/// Receipts that may wait before the session stops consuming input; it goes on as soon as the
/// broker has confirmed some, so no client is refused for being fast.
pub(crate) const RECEIPTS_WAITING_MAX: usize = 10_000;
/// Bytes of the texts of waiting receipts, to the same effect.
pub(crate) const RECEIPT_BYTES_MAX: usize = 1 << 20;
/// Actions without a receipt that later receipts wait for together: the tokens of what is open must not come round.
pub(crate) const UNASKED_MAX: u32 = 1 << 16;
/// Destinations of one composite header: more is a mistake or an attack by amplification.
pub(crate) const COMPOSITE_MAX: usize = 64;
/// Bytes that a frame held by a transaction counts besides its own: about what its record costs.
pub(crate) const STAGED_OVERHEAD_BYTES: usize = 64;
/// Bytes of the longest first line that may yet become a command; the longest command has 11.
pub(crate) const COMMAND_BYTES_MAX: usize = 64;
