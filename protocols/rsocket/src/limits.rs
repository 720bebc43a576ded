//! The limits of RSocket that are no options.
//!
//! What the server's owner can set is in `options.rs`; what protocols share is in `tiderace_base::limits`.
//! Invariant: every constant that bounds what a client can make grow is here, with its reason.

/// Bytes of one frame without its prefix, on any transport: what 24 bits can say.
pub const FRAME_BYTES_MAX: usize = 0xff_ffff;
/// The largest number of 31 bits: streams, credits, times.
pub const NUMBER_MAX: u32 = 0x7fff_ffff;
/// The largest position, of 63 bits.
pub const POSITION_MAX: u64 = u64::MAX >> 1;
/// Bytes waiting to be written: so many are a sign that the client does not read: echo streams leave a tick out.
pub(crate) const ECHO_BLOCK_BYTES: usize = 64 << 10;
/// Bytes that the buffer for a frame keeps when it is idle.
pub(crate) const SCRATCH_BYTES_MAX: usize = 4 << 10;
/// Exchanges that a client may have open at a time.
pub(crate) const WINDOW_MAX: u32 = 100_000;
/// Bytes of a tag of routing metadata.
pub(crate) const TAG_BYTES_MAX: usize = 255;
/// Leases that are kept for a client while nothing of it is read, besides the one that was given last: what it may
/// begin at once after that.
pub(crate) const LEASES_UNREAD_MAX: u32 = 8;
