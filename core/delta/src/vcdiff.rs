//! Codec 2, `vcdiff`: RFC 3284, for clients that bring a decoder of somebody else's.
//!
//! Written are windows with the value before as their source, the standard's code table and nothing
//! beyond the standard. Read is also what other encoders write: windows whose source is what was
//! made before, application headers and the checksums of xdelta and open-vcdiff; not secondary
//! compression and code tables that come along. Relies on `matching` for what is in common.
//! Invariant: instructions take no more steps than the delta and the value have bytes.

mod addresses;
mod decode;
mod encode;
mod integer;
mod table;

pub use decode::decode;
pub use encode::encode;

/// `VCD` with the high bits set, and the version.
const MAGIC: [u8; 4] = [0xd6, 0xc3, 0xc4, 0x00];

/// Header: a secondary compressor.
const HEADER_COMPRESSOR: u8 = 1;
/// Header: a code table follows.
const HEADER_CODE_TABLE: u8 = 2;
/// Header: data of an application follow (xdelta).
const HEADER_APPLICATION: u8 = 4;
/// Window: its source is the value before.
const WINDOW_SOURCE: u8 = 1;
/// Window: its source is part of what was made so far.
const WINDOW_TARGET: u8 = 2;
/// Window: an Adler-32 of what it makes (xdelta, open-vcdiff).
const WINDOW_CHECKSUM: u8 = 4;
