//! Bodies of large messages, in files while they arrive and until nobody needs them.
//!
//! ```text
//!   shard: Upload::append ──blocks──▶ writer thread ──▶ file without a name ──▶ mapped, read only: Bytes
//!   last Bytes dropped ───▶ unmapped by a thread of its own, and the system frees the file
//! ```
//! A shard never writes to the disk, maps or unmaps: each of these may take many milliseconds. It hands blocks to the
//! one writer thread and is woken when that has caught up or has done. A file has no name from the moment it is made,
//! so whatever ends the server, nothing is left behind; a store that is to keep it gives it one. Relies on
//! `tiderace-bodies` for what is mapped. Invariants: an upload holds at most [`BEHIND_BYTES_MAX`] bytes
//! and one block in memory if its owner heeds [`Upload::is_behind`]; what the ledger says is in files is at least what
//! is in them.

mod blocks;
mod error;
mod ledger;
mod options;
mod progress;
mod spool;
mod upload;
mod work;
mod writer;

pub use error::SpoolError;
pub use ledger::Usage;
pub use options::Options;
pub use spool::Spool;
pub use upload::{BEHIND_BYTES_MAX, Upload};
