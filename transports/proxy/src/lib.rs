//! What proxies say of their clients, sans-I/O: the PROXY protocol before the first byte of a connection, and
//! `Forwarded` or `X-Forwarded-For` in each request.
//!
//! Relies on its caller to ask only what a trusted address says. Invariants: nothing is allocated but for errors, no
//! input makes it panic or work more than linearly, and the outcome does not depend on how input is cut.

#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)
)]

mod forwarded;
mod preface;

pub use forwarded::{ClientField, ForwardedError, client_of};
pub use preface::{PREFACE_BYTES_MAX, Preface, PrefaceError, Recognised, read_preface, recognise};
