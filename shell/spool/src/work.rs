//! What the writer thread is asked to do.

use std::fs::File;
use std::sync::Arc;

use crate::ledger::Place;
use crate::progress::Progress;

/// One thing to do.
pub(crate) enum Work {
    /// Append to a file.
    Write { progress: Arc<Progress>, file: Arc<File>, block: Vec<u8> },
    /// Everything has been appended to a file: map it.
    Finish { progress: Arc<Progress>, file: Arc<File>, place: Place },
    /// A body was given up before it was whole.
    Abandon { file: Arc<File>, place: Place },
}
