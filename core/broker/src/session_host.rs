//! What is known of the virtual host of one session.
//!
//! Relies on nothing. Invariant: a root is that of the host in which the session has logged in.

use tiderace_wire::{NamedHost, Root};

/// What is known of a session that has named a host, or is in one.
#[derive(Debug, Default)]
pub(crate) struct SessionHost {
    /// What its client has said before the login.
    pub(crate) named: NamedHost,
    /// Where its names lie, if it is in a host.
    pub(crate) root: Option<Root>,
}
