//! Codec 1, `tiderace`: what two values have in common at both ends is left out, what lies between is
//! told as stretches that are copied from the old value or replaced.
//!
//! The format stands in `docs/protocol.md`, section 8. Relies on `matching` for what is in common.
//! Invariant: a decoder follows any bytes within the limit of its caller.

mod decode;
mod encode;

pub use decode::decode;
pub use encode::encode;

const COPY: usize = 0;
const REPLACE: usize = 1;
const MOVE_AND_COPY: usize = 2;
