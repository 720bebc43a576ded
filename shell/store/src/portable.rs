//! The portable form of a store: everything that is in it, as one stream of bytes.
//!
//! Relies on `record` for what is said and on `frame` for how it lies there. It begins with [`MAGIC`] and the form's
//! number; then come frames as in a segment, each checked together with its place in the file, so that one that is
//! missing or twice is noticed; the last one says how many there were. Records are those of the log: `Set`,
//! `Declare`, `Put` and, joined with it, the `Settle` of what is gone of it. Behind a `Put` whose body lies in a file come the
//! parts of that, if it is the first with it. Invariants: what was written reads as the
//! same records; reading allocates by what has come, never by a length that is said, and never panics.
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

use std::io::{self, Read, Write};

use crate::frame::{self, FRAME_HEADER_BYTES, FrameError, PAYLOAD_BYTES_MAX, Seed};
use crate::record::Record;

/// The first bytes.
pub(crate) const MAGIC: [u8; 8] = *b"tdrstore";
/// The form of a store without bodies in files.
const PLAIN_FORM: u32 = 1;
/// The highest form that this version writes and reads: with bodies that lie in files.
pub(crate) const PORTABLE_FORM: u32 = 2;
/// Bytes of a part of a body, at most.
pub(crate) const BODY_PART_BYTES_MAX: usize = 1 << 20;
/// In the place of a record's kind: the last frame, with the number of the others.
const LAST: u8 = 255;

/// Why bytes are no store in its portable form.
#[derive(Debug, thiserror::Error)]
pub enum PortableError {
    /// They cannot be read or written.
    #[error(transparent)]
    System(#[from] io::Error),
    /// They begin with something else.
    #[error("this is not what `tiderace store export` writes")]
    Foreign,
    /// A newer version of the program wrote them.
    #[error(
        "the file has form {0}, which is that of a newer version of tiderace; this one reads forms up to {PORTABLE_FORM}"
    )]
    TooNew(u32),
    /// They end too early.
    #[error("the file ends after record {0}, though more was written; it was cut short")]
    Short(u64),
    /// Something comes behind the end.
    #[error("there is more in the file behind record {0}, which is the last")]
    Longer(u64),
    /// A record is not what was written.
    #[error("record {0} of the file is damaged: {1}")]
    Damaged(u64, FrameError),
}

/// Writes the portable form.
#[derive(Debug)]
pub(crate) struct PortableWriter<W> {
    to: W,
    frame: Vec<u8>,
    records: u64,
    bytes: u64,
    seed: Seed,
}

impl<W: Write> PortableWriter<W> {
    /// Begins the form; one that earlier versions read if there are no bodies in files.
    pub(crate) fn begin(mut to: W, has_bodies: bool) -> io::Result<PortableWriter<W>> {
        let form = if has_bodies { PORTABLE_FORM } else { PLAIN_FORM };
        to.write_all(&MAGIC)?;
        to.write_all(&form.to_le_bytes())?;
        let bytes = (MAGIC.len() + 4) as u64;
        Ok(PortableWriter { to, frame: Vec::new(), records: 0, bytes, seed: seed(form) })
    }

    /// Writes a record; `more` if it takes effect only with the next one.
    pub(crate) fn write(&mut self, record: &Record<'_>, more: bool) -> io::Result<()> {
        self.write_frame(more, |to| record.encode(to))
    }

    /// Writes what a record that is not a value of its own says.
    pub(crate) fn write_frame(
        &mut self,
        more: bool,
        encode: impl FnOnce(&mut Vec<u8>),
    ) -> io::Result<()> {
        self.frame.clear();
        frame::append(&mut self.frame, encode);
        if more {
            frame::join(&mut self.frame, 0);
        }
        frame::seal(&mut self.frame, place(self.bytes), self.seed);
        self.to.write_all(&self.frame)?;
        self.records += 1;
        self.bytes += self.frame.len() as u64;
        Ok(())
    }

    /// Writes the end; says how many bytes that were.
    pub(crate) fn finish(mut self) -> io::Result<u64> {
        let records = self.records;
        self.write_frame(false, |to| {
            to.push(LAST);
            to.extend_from_slice(&records.to_le_bytes());
        })?;
        self.to.flush()?;
        Ok(self.bytes)
    }
}

/// Reads the portable form.
#[derive(Debug)]
pub struct PortableReader<R> {
    from: R,
    frame: Vec<u8>,
    records: u64,
    bytes: u64,
    seed: Seed,
}

impl<R: Read> PortableReader<R> {
    /// Reads the beginning.
    ///
    /// # Errors
    /// When it is that of something else.
    pub fn begin(mut from: R) -> Result<PortableReader<R>, PortableError> {
        let mut start = Vec::new();
        let bytes = MAGIC.len() as u64 + 4;
        from.by_ref().take(bytes).read_to_end(&mut start)?;
        let form = start.strip_prefix(&MAGIC).ok_or(PortableError::Foreign)?;
        let form = u32::from_le_bytes(form.try_into().map_err(|_| PortableError::Foreign)?);
        match form {
            PLAIN_FORM..=PORTABLE_FORM => {
                let seed = seed(form);
                Ok(PortableReader { from, frame: Vec::new(), records: 0, bytes, seed })
            }
            0 => Err(PortableError::Foreign),
            form => Err(PortableError::TooNew(form)),
        }
    }

    /// The next record, and whether it takes effect only with the one behind it; `None` behind the last.
    ///
    /// # Errors
    /// When the bytes end before, or are not those that were written.
    pub fn next_record(&mut self) -> Result<Option<(Record<'_>, bool)>, PortableError> {
        let (number, place) = (self.records, place(self.bytes));
        self.frame.clear();
        self.fill(FRAME_HEADER_BYTES)?;
        let needed = match frame::read(&self.frame, place, self.seed) {
            Err(FrameError::Ends { needed }) => needed,
            Err(error) => return Err(PortableError::Damaged(number, error)),
            // No record is empty.
            Ok(_) => return Err(PortableError::Damaged(number, FrameError::Length(0))),
        };
        if needed > FRAME_HEADER_BYTES + PAYLOAD_BYTES_MAX {
            return Err(PortableError::Damaged(number, FrameError::Length(needed as u32)));
        }
        self.fill(needed)?;
        let frame = frame::read(&self.frame, place, self.seed)
            .map_err(|error| PortableError::Damaged(number, error))?;
        if let Some(count) = frame.payload.strip_prefix(&[LAST]) {
            if *count != number.to_le_bytes() || frame.more {
                return Err(PortableError::Damaged(number, FrameError::Unknown));
            }
            let behind = self.from.by_ref().take(1).read_to_end(&mut Vec::new())?;
            return if behind == 0 { Ok(None) } else { Err(PortableError::Longer(number)) };
        }
        self.records += 1;
        let record = Record::decode(frame.payload);
        let record = record.ok_or(PortableError::Damaged(number, FrameError::Unknown))?;
        Ok(Some((record, frame.more)))
    }

    /// Bytes read so far.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Reads until the frame has so many bytes.
    fn fill(&mut self, bytes: usize) -> Result<(), PortableError> {
        let missing = (bytes - self.frame.len().min(bytes)) as u64;
        let read = self.from.by_ref().take(missing).read_to_end(&mut self.frame)? as u64;
        self.bytes += read;
        if read < missing { Err(PortableError::Short(self.records)) } else { Ok(()) }
    }
}

fn seed(form: u32) -> Seed {
    Seed::new(u64::from_le_bytes(MAGIC), form)
}

/// The place of a record in the file, as far as it counts for the checksum.
fn place(offset: u64) -> u32 {
    offset as u32
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use super::*;

    fn written() -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut writer = PortableWriter::begin(&mut bytes, false).unwrap();
        for name in ["one", "two", "three"] {
            writer.write(&Record::Set { name, value: b"value" }, name == "two").unwrap();
        }
        writer.finish().unwrap();
        bytes
    }

    fn read_all(bytes: &[u8]) -> Result<Vec<String>, PortableError> {
        let mut reader = PortableReader::begin(bytes)?;
        let mut found = Vec::new();
        while let Some((record, more)) = reader.next_record()? {
            found.push(format!("{record:?} {more}"));
        }
        assert_eq!(reader.bytes(), bytes.len() as u64);
        Ok(found)
    }

    #[test]
    fn what_was_written_is_read_and_every_change_is_noticed() {
        let bytes = written();
        let found = read_all(&bytes).unwrap();
        assert!(found[1].contains("two") && found[1].ends_with("true"));
        assert_eq!(found.len(), 3);
        for length in 0..bytes.len() {
            assert!(read_all(&bytes[..length]).is_err(), "{length}");
        }
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(read_all(&flipped).is_err(), "bit {bit}");
        }
        let mut longer = bytes.clone();
        longer.push(0);
        assert!(matches!(read_all(&longer), Err(PortableError::Longer(3))));
        // A record that is missing or comes twice.
        let record = 12..12 + FRAME_HEADER_BYTES + 1 + 1 + 3 + 5;
        let mut without = bytes.clone();
        without.drain(record.clone());
        assert!(matches!(read_all(&without), Err(PortableError::Damaged(0, _))));
        let mut twice = bytes.clone();
        twice.splice(12..12, bytes[record].to_vec());
        assert!(matches!(read_all(&twice), Err(PortableError::Damaged(1, _))));
    }

    #[test]
    fn other_files_are_told_apart() {
        assert!(matches!(read_all(b"tiderace"), Err(PortableError::Foreign)));
        let mut newer = written();
        newer[8] = 3;
        assert!(matches!(read_all(&newer), Err(PortableError::TooNew(3))));
    }
}
