//! What is said where nobody looks after the node.
//!
//! Data alone. Invariant: none.

use tiderace_base::{Close, CloseCode};

/// Why nobody looks after the node by that way.
pub fn managed_elsewhere() -> Close {
    let reason = "this listener is for clients alone (`management.listeners`); ask at one with `management = true`, or on the server's machine with `-s unix:` and the path of `management.socket`";
    Close::new(CloseCode::ManagedElsewhere, reason)
}
