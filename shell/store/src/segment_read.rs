//! A segment that was read from its first byte to its last when the log is opened.
//!
//! Relies on `scan` for where its records end. Invariant: what was read and perhaps never reached the disk is written once
//! more before it counts as synced.

use std::io;
use std::ops::Range;

use crate::disk::{Disk, DiskFile, is_lasting};
use crate::error::DamageKind;
use crate::header::{HEADER_BYTES, Header, segment_name};
use crate::lost::LostRecord;
use crate::scan::ScanEnd;

/// Where a part of a segment cannot be read, so much of it is read by itself: what lies beside it can.
const BLOCK_BYTES: usize = 4 << 10;

/// The bytes of a segment.
pub(crate) struct SegmentBytesRead<F> {
    pub(crate) file: F,
    /// With zeros where they cannot be read.
    pub(crate) bytes: Vec<u8>,
    /// Which parts these are, and why.
    pub(crate) unreadable: Vec<(Range<u64>, io::ErrorKind)>,
}

/// Reads a segment; if that fails and is to be done by blocks, what the device gives of it.
///
/// # Errors
/// When it cannot be read, or not all of it and that is not to be done by blocks.
pub(crate) fn read_segment<D: Disk>(
    disk: &mut D,
    number: u32,
    mut bytes: Vec<u8>,
    by_blocks: bool,
) -> io::Result<SegmentBytesRead<D::File>> {
    let mut file = disk.open(&segment_name(number))?;
    // Places have 32 bits.
    let length = u32::try_from(file.bytes()?);
    let length = length.map_err(|_| io::Error::other("the file is longer than any segment"))?;
    let length = length as usize;
    bytes.clear();
    bytes.resize(length, 0);
    let mut unreadable: Vec<(Range<u64>, io::ErrorKind)> = Vec::new();
    match file.read(0, &mut bytes) {
        Ok(()) => {}
        Err(error) if by_blocks && is_lasting(&error) => {
            for (block, part) in bytes.chunks_mut(BLOCK_BYTES).enumerate() {
                let from = (block * BLOCK_BYTES) as u64;
                let Err(error) = file.read(from, part) else { continue };
                if !is_lasting(&error) {
                    return Err(error);
                }
                part.fill(0);
                let to = from + part.len() as u64;
                match unreadable.last_mut().filter(|(before, _)| before.end == from) {
                    Some((before, _)) => before.end = to,
                    None => unreadable.push((from..to, error.kind())),
                }
            }
        }
        Err(error) => return Err(error),
    }
    Ok(SegmentBytesRead { file, bytes, unreadable })
}

/// Whether a segment has its header and nothing else.
pub(crate) fn is_empty<D: Disk>(disk: &mut D, number: u32) -> bool {
    let mut header = [0; HEADER_BYTES];
    let length = disk.open(&segment_name(number)).and_then(|mut file| {
        file.read(0, &mut header)?;
        file.bytes()
    });
    length.is_ok_and(|length| length == HEADER_BYTES as u64) && Header::decode(&header).is_ok()
}

/// A segment that has been read.
pub(crate) struct Read<F> {
    pub(crate) file: F,
    pub(crate) number: u32,
    pub(crate) header: Option<Header>,
    pub(crate) bytes: Vec<u8>,
    pub(crate) end: ScanEnd,
    /// Where its records lie, says its summary, if somebody had to know.
    pub(crate) known: Option<Vec<(u32, LostRecord)>>,
}

/// Writes once more what was perhaps never written to the disk, though it can be read: a sync that fails leaves
/// such bytes in memory.
pub(crate) fn write_unproven<F: DiskFile>(read: &mut Read<F>) -> io::Result<()> {
    let from = read.end.synced as usize;
    if let Some(unproven) = read.bytes.get(from..read.end.whole as usize) {
        read.file.rewrite(from as u64, unproven)?;
    }
    read.file.sync()
}

/// What is wrong with a segment that others follow.
pub(crate) fn damage_of_ended<F>(read: &Read<F>) -> Option<DamageKind> {
    match read.end.error {
        Some((_, error)) => Some(DamageKind::Record(error)),
        None if !read.end.ended => Some(DamageKind::Short),
        None => None,
    }
}
