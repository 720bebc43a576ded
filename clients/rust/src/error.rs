//! Why what the server sent cannot be used.

use tiderace_delta::DeltaError;
use tiderace_native::codec::CodecError;

/// Why what the server sent cannot be used: a defect of one of the two. Connecting again mends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClientError {
    /// A message is malformed.
    #[error(transparent)]
    Codec(#[from] CodecError),
    /// A delta is malformed.
    #[error(transparent)]
    Delta(#[from] DeltaError),
    /// A delta to a value that is not there.
    #[error("a delta came without the value that it changes")]
    NoBase,
    /// The first version of a topic was not told whole.
    #[error("a topic began without a version")]
    NoVersion,
    /// An id that was not announced, or no subscription of that id.
    #[error("an id came that is not known")]
    UnknownId,
}
