//! Opens the log of a directory: by its summaries, or, where anything is not as it should be, by every record, so what is
//! said of damage does not depend on summaries.
//!
//! Relies on `recover`. Invariant: damage is said only of what was read as a whole.

use std::path::Path;

use crate::disk::Disk;
use crate::error::OpenError;
use crate::opened::{Attempt, Opened, Opening};
use crate::recover::Reader;

/// Opens the log of a directory.
pub(crate) fn open<D: Disk>(
    disk: D,
    directory: &Path,
    opening: Opening,
) -> Result<Opened<D>, OpenError> {
    let quick = Opening { is_thorough: false, ..opening };
    let disk = match (opening.is_thorough, disk) {
        (true, disk) => disk,
        (false, disk) => match Reader::new(disk, directory, quick).open()? {
            Attempt::Opened(opened) => return Ok(*opened),
            Attempt::Damaged(disk, _) => disk,
        },
    };
    let thorough = Opening { is_thorough: true, ..opening };
    match Reader::new(disk, directory, thorough).open()? {
        Attempt::Opened(opened) => Ok(*opened),
        Attempt::Damaged(_, error) => Err(error),
    }
}
