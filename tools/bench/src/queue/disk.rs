//! What the disk does without a server: groups of records appended and synced, and long writes and reads.
//!
//! Invariant: every file is removed again; one of groups is no longer than [`FILE_BYTES_MAX`], one of long writes as long
//! as its caller says.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context;

use crate::latency;

/// What group commit of bare records reaches.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Commit {
    /// Records written and synced in a second.
    pub(super) records_per_s: f64,
    /// How long one `fdatasync` takes after a group has been written, ns: the median.
    pub(super) sync_p50_ns: u64,
    /// The 99th percentile.
    pub(super) sync_p99_ns: u64,
}

/// Long writes and reads, bytes a second.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Sequential {
    /// Written by blocks of 1 MiB and synced once.
    pub(super) write_per_s: f64,
    /// Read past the cache; `None` where the file system does not allow that.
    pub(super) read_per_s: Option<f64>,
}

/// Appends `group` records of `bytes` and syncs, again and again for a while.
///
/// # Errors
/// A sentence naming the file.
pub(super) fn group_commit(
    folder: &Path,
    bytes: usize,
    group: u64,
    span: Duration,
) -> anyhow::Result<Commit> {
    let scratch = Scratch::new(folder)?;
    let mut file = scratch.file(OpenOptions::new().write(true).create(true).truncate(true))?;
    let group_bytes = (bytes.max(1) as u64).saturating_mul(group.max(1)).min(FILE_BYTES_MAX);
    let block = vec![b'.'; usize::try_from(group_bytes.min(BLOCK_BYTES)).unwrap_or(1)];
    let (mut working, mut records, mut written) = (Duration::ZERO, 0, 0);
    let mut syncs = latency::histogram(3);
    // The first sync also writes what the file system notes of a new file.
    file.write_all(b".")?;
    file.sync_all()?;
    while working < span {
        let begun = Instant::now();
        let mut rest = group_bytes;
        while rest > 0 {
            let part = rest.min(block.len() as u64);
            file.write_all(block.get(..usize::try_from(part)?).unwrap_or_default())?;
            rest -= part;
        }
        let synced = Instant::now();
        file.sync_data()?;
        syncs.saturating_record(u64::try_from(synced.elapsed().as_nanos())?.max(1));
        working += begun.elapsed();
        records += group.max(1);
        written += group_bytes;
        if written + group_bytes > FILE_BYTES_MAX {
            (written, file) = (0, scratch.file(OpenOptions::new().write(true).truncate(true))?);
            file.sync_all()?;
        }
    }
    #[allow(clippy::cast_precision_loss)]
    let records_per_s = records as f64 / working.as_secs_f64();
    Ok(Commit {
        records_per_s,
        sync_p50_ns: syncs.value_at_quantile(0.5),
        sync_p99_ns: syncs.value_at_quantile(0.99),
    })
}

/// Writes a long file and reads it.
///
/// # Errors
/// A sentence naming the file.
pub(super) fn sequential(folder: &Path, bytes: u64) -> anyhow::Result<Sequential> {
    let scratch = Scratch::new(folder)?;
    let blocks = bytes.div_ceil(BLOCK_BYTES).max(1);
    let block = vec![b'.'; usize::try_from(BLOCK_BYTES)?];
    let mut file = scratch.file(OpenOptions::new().write(true).create(true).truncate(true))?;
    let begun = Instant::now();
    for _ in 0..blocks {
        file.write_all(&block)?;
    }
    file.sync_data()?;
    #[allow(clippy::cast_precision_loss)]
    let total = (blocks * BLOCK_BYTES) as f64;
    let write_per_s = total / begun.elapsed().as_secs_f64();
    file.sync_all()?;
    drop(file);
    let read_per_s = read_directly(&scratch).map(|span| total / span.as_secs_f64());
    Ok(Sequential { write_per_s, read_per_s })
}

/// Reads the file past the cache: how long that takes.
fn read_directly(scratch: &Scratch) -> Option<Duration> {
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(libc::O_DIRECT);
    let mut file = scratch.file(&mut options).ok()?;
    let length = usize::try_from(BLOCK_BYTES).ok()?;
    let mut memory = vec![0; length + ALIGNMENT];
    // Past the cache only blocks that begin at such an address can be read.
    let from = memory.as_ptr().align_offset(ALIGNMENT);
    let block = memory.get_mut(from..from + length)?;
    file.seek(SeekFrom::Start(0)).ok()?;
    let begun = Instant::now();
    while file.read(block).ok()? > 0 {}
    Some(begun.elapsed())
}

/// A file that goes with its handle.
struct Scratch {
    path: PathBuf,
}

impl Scratch {
    fn new(folder: &Path) -> anyhow::Result<Scratch> {
        Ok(Scratch { path: folder.join("bare") })
    }

    fn file(&self, options: &mut OpenOptions) -> anyhow::Result<File> {
        options.open(&self.path).with_context(|| format!("cannot open {}", self.path.display()))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

const FILE_BYTES_MAX: u64 = 512 << 20;
const BLOCK_BYTES: u64 = 1 << 20;
const ALIGNMENT: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::Folder;

    #[test]
    fn the_disk_is_measured_and_left_as_it_was() {
        let folder = Folder::new(None, "disk-test").unwrap();
        let commit = group_commit(&folder.path, 100, 10, Duration::from_millis(20)).unwrap();
        assert!(commit.records_per_s > 0.0 && commit.sync_p50_ns <= commit.sync_p99_ns);
        let long = sequential(&folder.path, 3 << 20).unwrap();
        assert!(long.write_per_s > 0.0);
        assert!(fs::read_dir(&folder.path).unwrap().next().is_none());
    }
}
