//! Records that a shard wants in the log together: all of them survive, or none.
//!
//! Relies on `record` and `frame`. Records are encoded when they are added, on the shard's thread; the
//! committer only adds checksums. Where bodies that lie in files will lie is filled in when the store has the files.
//! Invariants: the bytes are whole records, all but the last one joined with
//! the next; a batch that lacks a record that was to be in it, or a body, is refused as a whole.

use std::fmt;

use tiderace_bodies::BodyPart;

use crate::bodies::Pin;
use crate::frame::{self, FRAME_HEADER_BYTES, PAYLOAD_BYTES_MAX};
use crate::record::{Body, Declaration, Put, Record, StreamId, encode_settle, patch_body};

/// A batch takes no more records from here on, so that offsets in a segment fit 32 bits.
pub const BATCH_BYTES_MAX: usize = 2 << 30;

/// A record that the log cannot hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a record of {bytes} bytes does not fit: a record holds up to {PAYLOAD_BYTES_MAX} bytes and a batch up to {BATCH_BYTES_MAX}; write it in parts"
)]
pub struct TooLarge {
    /// Its size.
    pub bytes: usize,
}

/// Records on their way into the log.
#[derive(Default)]
pub struct Batch {
    frames: Vec<u8>,
    /// Where the newest record begins.
    newest: usize,
    records: u32,
    /// Some record adds data; the others only take away.
    grows: bool,
    /// Some record has to survive.
    needs_sync: bool,
    /// Some record was too large to be added.
    is_incomplete: bool,
    /// Bodies of records that the store is to keep in files.
    bodies: Vec<(usize, BodyPart)>,
    /// Files that records name, which are not removed while the batch is under way.
    pins: Vec<Pin>,
    /// There was no room for the file of a body.
    lacks_body: bool,
}

impl fmt::Debug for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch")
            .field("records", &self.records)
            .field("bytes", &self.frames.len())
            .finish_non_exhaustive()
    }
}

impl Batch {
    /// A batch without records.
    pub fn new() -> Batch {
        Batch::default()
    }

    /// A stream is there from now on, or has changed.
    ///
    /// # Errors
    /// When its description is too large.
    pub fn declare(&mut self, declaration: &Declaration<'_>) -> Result<(), TooLarge> {
        let bytes = declaration.path.len() + declaration.spec.len();
        let needs_sync = !declaration.stream.is_volatile();
        self.add(bytes, true, needs_sync, |to| Record::Declare(*declaration).encode(to))
    }

    /// Messages of a stream. The stream must have been declared, here or before, unless it is volatile.
    ///
    /// # Errors
    /// When they are too large.
    pub fn put(&mut self, put: &Put<'_>) -> Result<(), TooLarge> {
        let needs_sync = !put.stream.is_volatile();
        self.add(put.bytes.len(), true, needs_sync, |to| Record::Put(*put).encode(to))
    }

    /// The same of one message whose body lies in a file, which the store is to keep: the batch is in the log when that
    /// is on the disk.
    ///
    /// # Errors
    /// When its other bytes are too large.
    pub fn put_with_body(&mut self, put: &Put<'_>, body: BodyPart) -> Result<(), TooLarge> {
        self.put(&Put { body: Some(Body::default()), ..*put })?;
        self.bodies.push((self.newest, body));
        Ok(())
    }

    /// Messages up to and with this number are not needed any more.
    ///
    /// # Errors
    /// When the batch is full.
    pub fn trim(&mut self, stream: StreamId, up_to: u64) -> Result<(), TooLarge> {
        let needs_sync = !stream.is_volatile();
        self.add(0, false, needs_sync, |to| Record::Trim { stream, up_to }.encode(to))
    }

    /// Messages have been consumed: first and last number of each range, rising and apart.
    ///
    /// # Errors
    /// When there are too many ranges.
    pub fn settle(&mut self, stream: StreamId, ranges: &[(u64, u64)]) -> Result<(), TooLarge> {
        // Two numbers of up to ten bytes each.
        self.add(ranges.len() * 20, false, !stream.is_volatile(), |to| {
            encode_settle(stream, ranges.iter().copied(), to);
        })
    }

    /// The stream is gone with all its messages.
    ///
    /// # Errors
    /// When the batch is full.
    pub fn drop_stream(&mut self, stream: StreamId) -> Result<(), TooLarge> {
        let needs_sync = !stream.is_volatile();
        self.add(0, false, needs_sync, |to| Record::Drop { stream }.encode(to))
    }

    /// Gives a named value.
    ///
    /// # Errors
    /// When it is too large.
    pub fn set(&mut self, name: &str, value: &[u8]) -> Result<(), TooLarge> {
        let bytes = name.len() + value.len();
        self.add(bytes, true, true, |to| Record::Set { name, value }.encode(to))
    }

    /// Takes a named value away.
    ///
    /// # Errors
    /// When the name is too large.
    pub fn unset(&mut self, name: &str) -> Result<(), TooLarge> {
        self.add(name.len(), false, true, |to| Record::Unset { name }.encode(to))
    }

    /// Bytes it will take in the log.
    pub fn bytes(&self) -> usize {
        self.frames.len()
    }

    /// How many records it has.
    pub fn records(&self) -> u32 {
        self.records
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.records == 0
    }

    /// Whether some record adds data; a batch that only takes away is let through when the disk is full.
    pub(crate) fn grows(&self) -> bool {
        self.grows
    }

    /// Whether some record has to survive: those of volatile streams have not.
    pub(crate) fn needs_sync(&self) -> bool {
        self.needs_sync
    }

    /// Whether a record is missing that was too large: then none may survive.
    pub fn is_incomplete(&self) -> bool {
        self.is_incomplete
    }

    /// A record cannot be made: none of the others may survive.
    pub fn give_up(&mut self) {
        self.is_incomplete = true;
    }

    /// Whether records have bodies that the store has yet to keep.
    pub(crate) fn has_bodies(&self) -> bool {
        !self.bodies.is_empty()
    }

    /// Keeps the bodies of records: `keep` says where each lies from now on. If one cannot be kept the batch is refused.
    ///
    /// # Errors
    /// Why one was not kept.
    pub(crate) fn keep_bodies(
        &mut self,
        mut keep: impl FnMut(&BodyPart) -> std::io::Result<(Body, Pin)>,
    ) -> std::io::Result<()> {
        for (start, part) in std::mem::take(&mut self.bodies) {
            let kept = keep(&part).inspect_err(|_| self.lacks_body = true);
            let (body, pin) = kept?;
            self.pins.push(pin);
            if let Some(payload) = self.frames.get_mut(start + FRAME_HEADER_BYTES..) {
                patch_body(payload, &body);
            }
        }
        Ok(())
    }

    /// Whether there was no room for the file of a body.
    pub(crate) fn lacks_body(&self) -> bool {
        self.lacks_body || !self.bodies.is_empty()
    }

    /// The records, their checksums still to come.
    pub(crate) fn frames_mut(&mut self) -> &mut [u8] {
        &mut self.frames
    }

    /// The records.
    pub(crate) fn frames(&self) -> &[u8] {
        &self.frames
    }

    /// The records as values.
    pub(crate) fn records_of(&self) -> impl Iterator<Item = Record<'_>> {
        let mut frames = self.frames();
        std::iter::from_fn(move || {
            let (frame, rest) = frame::split(frames)?;
            frames = rest;
            Record::decode(frame.get(FRAME_HEADER_BYTES..)?)
        })
    }

    /// Adds a record that takes effect by itself, whatever becomes of the others. For the log's own use.
    pub(crate) fn add_lone(&mut self, record: &Record<'_>) {
        self.newest = frame::append(&mut self.frames, |to| record.encode(to));
        self.records += 1;
        self.needs_sync |= !record.stream().is_some_and(StreamId::is_volatile);
    }

    /// Adds a record that takes effect together with the one before it, of the same stream. For the log's own use.
    pub(crate) fn add_joined(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        self.append(write);
    }

    /// Adds a record that came from elsewhere and has to survive.
    pub(crate) fn add_record(&mut self, record: &Record<'_>) {
        self.append(|to| record.encode(to));
        (self.grows, self.needs_sync) = (true, true);
    }

    fn add(
        &mut self,
        bytes: usize,
        grows: bool,
        needs_sync: bool,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> Result<(), TooLarge> {
        // Numbers, lengths and the frame of any record fit this.
        const DESCRIPTION: usize = 128;
        let needed = bytes.saturating_add(DESCRIPTION);
        if needed > PAYLOAD_BYTES_MAX || self.frames.len() + needed > BATCH_BYTES_MAX {
            self.is_incomplete = true;
            return Err(TooLarge { bytes });
        }
        self.append(write);
        self.grows |= grows;
        self.needs_sync |= needs_sync;
        Ok(())
    }

    fn append(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        if self.records > 0 {
            frame::join(&mut self.frames, self.newest);
        }
        self.newest = frame::append(&mut self.frames, write);
        self.records += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{Seed, read, seal};

    #[test]
    fn a_record_that_does_not_fit_is_noticed() {
        let put = |bytes| Put {
            stream: StreamId(1),
            sequence: u64::MAX,
            count: 1,
            version: u64::MAX,
            keep_from: 0,
            bytes,
            body: None,
        };
        // The largest message behind others of its run, with properties.
        const { assert!(PAYLOAD_BYTES_MAX > (1 << 30) + (16 << 20)) };
        const { assert!(PAYLOAD_BYTES_MAX + (1 << 20) < BATCH_BYTES_MAX) };
        let mut batch = Batch::new();
        batch.put(&put(b"small")).unwrap();
        assert!(!batch.is_incomplete());
        // None of these bytes is touched.
        let larger = vec![0; PAYLOAD_BYTES_MAX];
        assert_eq!(batch.put(&put(&larger)), Err(TooLarge { bytes: larger.len() }));
        assert!(batch.is_incomplete());
    }

    #[test]
    fn records_of_a_batch_are_joined() {
        let mut batch = Batch::new();
        assert!(batch.is_empty());
        batch.trim(StreamId(1), 5).unwrap();
        assert!(!batch.grows());
        batch.set("a", b"b").unwrap();
        assert!(batch.grows());
        let seed = Seed::new(1, 1);
        seal(batch.frames_mut(), 0, seed);
        let first = read(batch.frames(), 0, seed).unwrap();
        assert_eq!(
            Record::decode(first.payload),
            Some(Record::Trim { stream: StreamId(1), up_to: 5 })
        );
        let at = first.bytes();
        let second = read(&batch.frames()[at..], at as u32, seed).unwrap();
        assert_eq!(Record::decode(second.payload), Some(Record::Set { name: "a", value: b"b" }));
        assert!(first.more && !second.more);
        assert_eq!(batch.records(), 2);
    }
}
