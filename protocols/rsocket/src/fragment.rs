//! Payloads cut into frames, and put together again.
//!
//! Relies on [`crate::frame`]. Invariants: nothing is allocated but for bytes that have come; messages,
//! their fragments and all of them together are limited; fragments of ours are such that rsocket-java
//! takes them.

mod assemble;
mod cut;

pub use assemble::{Assembled, Assemblies, FragmentError, FragmentLimits, Taken};
pub use cut::{FRAGMENT_BYTES_MIN, Fragments};
