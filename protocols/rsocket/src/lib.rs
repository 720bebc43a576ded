//! RSocket 1.0, sans-I/O.
//!
//! [`frame`] is the bytes of one frame, [`metadata`] what requests say beside their data, and
//! [`fragment`] cuts payloads into frames and puts them together again; [`position`] and [`outgoing`]
//! keep what may have to be sent again. [`requester`] is the client's side of a connection. Relies on slices and on the
//! contract in `tiderace-wire`. Invariants: no bytes panic; nothing is allocated by declared lengths.

#![deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

pub mod fragment;
pub mod frame;
pub mod metadata;
pub mod outgoing;
pub mod position;
pub mod requester;
