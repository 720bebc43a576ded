//! `bench edges kill`, `restart` and `churn`: what befalls edges, their source and their clients, with real processes.
//!
//! ```text
//!   Feed ─▶ source ─▶ edges ─▶ Fleet of Members, each with a Speech ─▶ Seen: every value is looked at
//! ```
//! Invariant: what is broken fails a run on any machine; what is slow fails it unless it is run leniently.

mod checker;
mod churn;
mod events;
mod feed;
mod fleet;
mod kill;
mod member;
mod native;
mod nodes;
mod outcome;
mod restart;
mod restart_publishers;
mod socketio;
mod speech;
mod websocket;

use crate::args::EdgeFault;
use crate::machine;

/// Runs one of them.
///
/// # Errors
/// A sentence when a server or an argument is at fault, or something is not as it has to be.
pub(super) fn run(fault: &EdgeFault) -> anyhow::Result<()> {
    match fault {
        EdgeFault::Kill(args) => {
            machine::ensure_open_files(args.clients)?;
            kill::run(args)?.finish("tiderace bench edges kill", &args.common)
        }
        EdgeFault::Restart(args) => {
            machine::ensure_open_files(args.clients + args.publishers)?;
            restart::run(args)?.finish("tiderace bench edges restart", &args.common)
        }
        EdgeFault::Churn(args) => {
            machine::ensure_open_files(args.clients)?;
            churn::run(args)?.finish("tiderace bench edges churn", &args.common)
        }
    }
}
