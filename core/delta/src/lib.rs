//! Differences between successive values of a topic, as opaque bytes; one codec a file or folder.
//!
//! Relies on nothing. Invariants: encoding takes time linear in the values and no memory but the
//! output and a bounded table; decoding never panics, never makes more than its caller allows and
//! never allocates by a length that the bytes only claim. What the bytes mean is nobody's business
//! here: no structure of values is looked at or derived.

#![deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

#[cfg(any(feature = "runs", feature = "vcdiff"))]
mod blocks;
mod codec;
#[cfg(any(feature = "runs", feature = "vcdiff"))]
mod common;
mod error;
#[cfg(any(feature = "runs", feature = "vcdiff"))]
mod matching;
mod offer;
#[cfg(feature = "runs")]
pub mod runs;
#[cfg(feature = "vcdiff")]
pub mod vcdiff;

pub use codec::{CODECS, Codec, Decode, Encode, NAMES, apply};
pub use error::DeltaError;
pub use offer::Offer;
