//! What the owner of the server decides.

use std::path::PathBuf;

/// What a spool may take.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where the files are made; a directory of the server's own on a local disk. It is made if it is not there.
    pub directory: PathBuf,
    /// Bytes in all files together.
    pub disk_bytes_max: u64,
    /// Bytes in the files of one owner.
    pub owner_bytes_max: u64,
    /// Bodies that arrive at a time.
    pub uploads_max: usize,
    /// Bodies of one owner that arrive at a time.
    pub owner_uploads_max: usize,
}
