//! The limits of Socket.IO sessions that are no options.
//!
//! What the server's owner can set is in `options.rs`; what protocols share is in `tiderace_base::limits`.
//! Invariant: every constant that bounds what a client can make grow is here, with its reason.

/// Bytes of a namespace's name, query included.
pub(crate) const NAMESPACE_BYTES_MAX: usize = 255;
/// The largest ack id: what JavaScript counts exactly.
pub(crate) const ACK_MAX: u64 = (1 << 53) - 1;
/// Headers of one published message.
pub(crate) const HEADERS_MAX: usize = 64;
/// Bytes of messages kept back until it is known whether a client that came back missed anything
/// beyond them; a client that missed more begins anew.
pub(crate) const HELD_BYTES_MAX: usize = 1 << 20;
/// Logins of one session that may be under way.
pub(crate) const LOGINS_MAX: usize = 4;
/// The longest a caller may be willing to wait: an hour.
pub(crate) const CALL_MILLIS_MAX: u64 = 3_600_000;
/// Characters of the reason that one side gives the other.
pub(crate) const REASON_CHARS_MAX: usize = 256;
/// Unsettled messages that a client may ask to have under way.
pub(crate) const PREFETCH_MAX: u64 = 10_000;
