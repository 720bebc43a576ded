//! Differences between successive values of a topic, as opaque bytes; one codec a file.
//!
//! Relies on nothing. Invariants: encoding takes time linear in the values and no memory but the
//! output; decoding never panics and never makes more than its caller allows, whatever the bytes.
//! What the bytes mean is nobody's business here: no structure of values is looked at or derived.

#![deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod runs;
mod varint;

pub use runs::{decode, encode};

/// Why bytes are no difference to the value at hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeltaError {
    /// The bytes end inside a number or an operation.
    #[error("the delta ends in the middle of an operation")]
    Cut,
    /// An operation that does not exist.
    #[error("the delta has an operation that does not exist")]
    UnknownOperation,
    /// Something is to be copied that is not there.
    #[error("the delta copies from outside the value before it")]
    OutOfRange,
    /// The value would be larger than the caller accepts.
    #[error("the delta makes a value larger than the limit")]
    TooLarge,
}
