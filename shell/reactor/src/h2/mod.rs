//! HTTP/2: its connections, and what its streams carry.

mod carry;
pub(crate) mod connection;
mod drive;
pub(crate) mod messages;
mod remote;
pub(crate) mod streams;
