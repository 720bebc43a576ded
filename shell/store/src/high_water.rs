//! How far the log is on disk for certain, in a file beside it: what shows that its end was cut off.
//!
//! The log's own marks prove what lies before them, so nothing in it proves its last commit: a segment cut short
//! looks like one whose last write was torn. The mark here is written after each sync of the log and says up
//! to where that came. Two slots take turns, so that a write that is torn leaves the one before. The mark is not
//! synced by itself, except when the log is opened and closed: after the loss of power an earlier one may be
//! found, which is true as well. Invariant: a mark never says more than was synced.

use std::io;

use crate::disk::{Disk, DiskFile};
use crate::error::CommitError;

/// The file's name.
pub(crate) const HIGH_WATER: &str = "high-water";

/// Bytes from one slot to the next.
const SLOT_BYTES: usize = 32;
const FILE_BYTES: usize = 2 * SLOT_BYTES;
/// Turn, salt, segment, offset, checksum.
const MARK_BYTES: usize = 8 + 8 + 4 + 4 + 4;

/// What was on disk for certain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HighWater {
    /// Rises with each mark.
    turn: u64,
    /// That of the store.
    pub(crate) salt: u64,
    /// The newest segment.
    pub(crate) segment: u32,
    /// Bytes of it.
    pub(crate) bytes: u32,
}

impl HighWater {
    fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(MARK_BYTES);
        bytes.extend_from_slice(&self.turn.to_le_bytes());
        bytes.extend_from_slice(&self.salt.to_le_bytes());
        bytes.extend_from_slice(&self.segment.to_le_bytes());
        bytes.extend_from_slice(&self.bytes.to_le_bytes());
        let checksum = crc32c::crc32c(&bytes);
        bytes.extend_from_slice(&checksum.to_le_bytes());
        bytes
    }

    fn decode(slot: &[u8]) -> Option<HighWater> {
        let (mark, _) = slot.split_first_chunk::<MARK_BYTES>()?;
        let (covered, checksum) = mark.split_last_chunk::<4>()?;
        if crc32c::crc32c(covered) != u32::from_le_bytes(*checksum) {
            return None;
        }
        let (turn, rest) = covered.split_first_chunk::<8>()?;
        let (salt, rest) = rest.split_first_chunk::<8>()?;
        let (segment, rest) = rest.split_first_chunk::<4>()?;
        let (bytes, _) = rest.split_first_chunk::<4>()?;
        Some(HighWater {
            turn: u64::from_le_bytes(*turn),
            salt: u64::from_le_bytes(*salt),
            segment: u32::from_le_bytes(*segment),
            bytes: u32::from_le_bytes(*bytes),
        })
    }
}

/// The newest mark that can be read; `None` where there is no file, or none of its marks is whole.
///
/// # Errors
/// When the file is there and cannot be read.
pub(crate) fn read<D: Disk>(disk: &mut D) -> io::Result<Option<HighWater>> {
    let mut file = match disk.open(HIGH_WATER) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut bytes = [0; FILE_BYTES];
    if file.bytes()? < FILE_BYTES as u64 {
        return Ok(None);
    }
    file.read(0, &mut bytes)?;
    let marks = bytes.chunks(SLOT_BYTES).filter_map(HighWater::decode);
    Ok(marks.max_by_key(|mark| mark.turn))
}

/// Writes marks.
#[derive(Debug)]
pub(crate) struct HighWaterFile<F> {
    /// None if there was no room for it: then there are no marks.
    file: Option<F>,
    last: HighWater,
}

impl<F: DiskFile> HighWaterFile<F> {
    /// Begins with a mark that takes the place of `before`, and waits until it is on disk.
    ///
    /// # Errors
    /// When the disk does not take it, unless it is full.
    pub(crate) fn open<D: Disk<File = F>>(
        disk: &mut D,
        before: Option<HighWater>,
        (salt, segment, bytes): (u64, u32, u32),
    ) -> io::Result<HighWaterFile<F>> {
        let turn = before.map_or(0, |before| before.turn);
        let last = HighWater { turn, salt, segment, bytes };
        let file = match make(disk) {
            Ok(file) => Some(file),
            Err(error) if crate::disk::is_full(&error) => None,
            Err(error) => return Err(error),
        };
        let mut new = HighWaterFile { file, last };
        new.write((segment, bytes))?;
        new.sync()?;
        Ok(new)
    }

    /// So much is on disk for certain. A mark that cannot be written leaves the one before, which is true.
    pub(crate) fn rise(&mut self, segment: u32, bytes: u32) {
        if (self.last.segment, self.last.bytes) != (segment, bytes) {
            let _ = self.write((segment, bytes));
        }
    }

    /// Waits until the mark is on disk.
    ///
    /// # Errors
    /// When that is not certain.
    pub(crate) fn sync(&mut self) -> io::Result<()> {
        self.file.as_mut().map_or(Ok(()), DiskFile::sync)
    }

    fn write(&mut self, (segment, bytes): (u32, u32)) -> io::Result<()> {
        let Some(file) = &mut self.file else { return Ok(()) };
        let next = HighWater { turn: self.last.turn + 1, segment, bytes, ..self.last };
        let slot = (next.turn % 2) * SLOT_BYTES as u64;
        file.rewrite(slot, &next.encode())?;
        self.last = next;
        Ok(())
    }
}

/// Opens the file, making it if there is none. It has its name only when it is whole.
fn make<D: Disk>(disk: &mut D) -> io::Result<D::File> {
    if let Ok(mut file) = disk.open(HIGH_WATER)
        && file.bytes()? >= FILE_BYTES as u64
    {
        return Ok(file);
    }
    let temporary = format!("{HIGH_WATER}.new");
    let mut file = disk.create(&temporary)?;
    file.append(&[&[0; FILE_BYTES]])?;
    file.sync()?;
    disk.rename(&temporary, HIGH_WATER)?;
    disk.sync_names()?;
    Ok(file)
}

/// As an error of the log.
pub(crate) fn not_marked(error: io::Error) -> CommitError {
    CommitError::Broken { what: "mark the end of the log", error }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_come_back_and_no_flipped_bit_passes() {
        let mark = HighWater { turn: 7, salt: 0x1234_5678_9abc_def0, segment: 3, bytes: 4711 };
        let bytes = mark.encode();
        assert_eq!(bytes.len(), MARK_BYTES);
        assert_eq!(HighWater::decode(&bytes), Some(mark));
        for bit in 0..MARK_BYTES * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(HighWater::decode(&flipped), None, "bit {bit}");
        }
        assert_eq!(HighWater::decode(&[0; SLOT_BYTES]), None, "nothing was written yet");
    }
}
