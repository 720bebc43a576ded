//! Where listeners are.
//!
//! Data alone. Invariant: none.

use std::net::SocketAddr;
use std::path::PathBuf;

/// Where a listener is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenerAt {
    /// An address; port 0 for one that is free.
    Address(SocketAddr),
    /// A Unix socket, for the users of [`crate::Options::admins`] alone.
    Socket(PathBuf),
}
