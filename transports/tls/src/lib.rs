//! TLS 1.2 and 1.3 over memory: bytes of the network in, plain bytes out, and back.
//!
//! rustls does the work; this crate keeps what it asks of its callers in one place. [`Session`] is the
//! adapter, for either side of a connection; [`Settings`] is what all sessions of a server share, [`ClientSettings`]
//! what those with a server share, [`Certificate`] what people want to know
//! of a certificate. No sockets, no files; the time of day comes from a function that the caller gives.
//! Randomness is the one exception: the cryptography takes it from the operating system itself, as it
//! must. Invariant: an idle session keeps no bytes.

#![deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod certificate;
mod client_settings;
mod failure;
mod records;
mod session;
mod settings;
mod version;

pub use certificate::{AlternativeName, Certificate};
pub use client_settings::{Authorities, ClientChoices, ClientSettings};
pub use failure::{FAILURES, Failure, FailureKind};
pub use session::{Established, KEPT_BYTES_MAX, RECORD_BYTES_MAX, Received, Session, sealed_bytes};
pub use settings::{Choices, ClientCertificates, Clock, Identity, Problem, Settings};
pub use version::Version;
