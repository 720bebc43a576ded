//! Why bytes are no difference to the value at hand.
//!
//! Relies on nothing. Invariant: every way to refuse a delta stands here, whichever the codec.

/// Why bytes are no difference to the value at hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
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
    /// The codec is not known, not built in or switched off.
    #[error("no codec of that number is built in; use one that the server lists")]
    UnknownCodec,
    /// VCDIFF: the bytes begin otherwise than RFC 3284 says.
    #[error("the delta does not begin as VCDIFF does (d6 c3 c4 00)")]
    NotVcdiff,
    /// VCDIFF: a compressor behind the instructions.
    #[error("the delta uses secondary compression, which is not taken; encode without it")]
    SecondaryCompression,
    /// VCDIFF: instructions by another table than that of the standard.
    #[error("the delta brings a code table of its own, which is not taken; use the default one")]
    CodeTable,
    /// Lengths or counts that contradict each other.
    #[error("the delta contradicts itself about its lengths")]
    Contradiction,
    /// The value that was made is not the one that was meant.
    #[error("the value that the delta makes fails its checksum; it is to another value")]
    Checksum,
}
