//! Records that a shard wants in the log together: all of them survive, or none.
//!
//! Relies on `record` and `frame`. Records are encoded when they are added, on the shard's thread; the
//! committer only adds checksums. Where bodies that lie in files will lie is filled in when the store has the files.
//! Invariants: the bytes are whole records, all but the last one joined with
//! the next; a batch that lacks a record that was to be in it is refused as a whole, but for one whose body could not be
//! kept, which its submitter is told.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use tiderace_bodies::BodyPart;

use crate::bodies::Pin;
use crate::frame::{self, FRAME_HEADER_BYTES, PAYLOAD_BYTES_MAX};
use crate::record::{
    Body, Declaration, Put, Record, StreamId, begin_settle_many, encode_settle, patch_body,
};
use crate::settled::append_stretches;
use crate::shared::{Owners, PutShared, encode_owners};

/// A batch takes no more records from here on, so that offsets in a segment fit 32 bits.
pub const BATCH_BYTES_MAX: usize = 2 << 30;

/// A record of what is settled of several streams has no more: if it is damaged, all of that comes again.
const SETTLE_BYTES_MAX: usize = 8 << 10;

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
    /// The newest record says what is settled: the stream and the first number of its last stretch.
    settling: Option<(StreamId, u64)>,
    records: u32,
    /// Some record adds data; the others only take away.
    grows: bool,
    /// Some record has to survive.
    needs_sync: bool,
    /// Nobody waits for it.
    may_wait: bool,
    /// Some record was too large to be added.
    is_incomplete: bool,
    /// Bodies of records that the store is to keep in files.
    bodies: Vec<WantedBody>,
    /// Files that records name, which are not removed while the batch is under way.
    pins: Vec<Pin>,
}

/// A record whose body is to be kept in a file.
struct WantedBody {
    /// By this number the submitter knows the record.
    number: u64,
    /// Where the record begins, and where the last one ends that is left out with it.
    frames: Range<usize>,
    part: BodyPart,
}

/// Records that were left out, for the files of their bodies could not be kept.
#[derive(Debug)]
pub(crate) struct LeftOut {
    /// Their numbers, as the submitter has given them.
    pub(crate) records: Vec<u64>,
    /// Why the first was.
    pub(crate) error: std::io::Error,
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
    /// is on the disk. If it cannot be kept the batch goes on without the message, which is told by its number.
    ///
    /// # Errors
    /// When its other bytes are too large.
    pub fn put_with_body(
        &mut self,
        number: u64,
        put: &Put<'_>,
        part: BodyPart,
    ) -> Result<(), TooLarge> {
        self.put(&Put { body: Some(Body::default()), ..*put })?;
        let frames = self.newest..self.frames.len();
        self.bodies.push(WantedBody { number, frames, part });
        Ok(())
    }

    /// As [`Batch::settle`], behind [`Batch::put_with_body`]: left out with that message if it is.
    ///
    /// # Errors
    /// When there are too many ranges.
    pub fn settle_with_body(
        &mut self,
        stream: StreamId,
        ranges: &[(u64, u64)],
    ) -> Result<(), TooLarge> {
        // What the message settles is a record of its own.
        self.settling = None;
        self.settle(stream, ranges)?;
        self.settling = None;
        if let Some(wanted) = self.bodies.last_mut() {
            wanted.frames.end = self.frames.len();
        }
        Ok(())
    }

    /// Messages that several streams have, each from a number of its own on: the same bytes for all, which are
    /// written once. The version of the last message is its number. Streams that survive and volatile ones, and places
    /// of one stream, share none.
    ///
    /// # Errors
    /// When they are too large.
    pub fn put_shared(
        &mut self,
        owners: &[(StreamId, u64)],
        count: u32,
        bytes: &[u8],
    ) -> Result<(), TooLarge> {
        let mut owners = owners.to_vec();
        owners.sort_unstable();
        let may_share = |(one, _): &(StreamId, u64), (next, _): &(StreamId, u64)| {
            one < next && one.is_volatile() == next.is_volatile()
        };
        for owners in owners.chunk_by(may_share) {
            let mut list = Vec::with_capacity(owners.len() * 4);
            encode_owners(owners.iter().copied(), &mut list);
            let owners = Owners::of(&list);
            let record = Record::PutShared(PutShared { owners, count, bytes });
            let needs_sync = !record.is_volatile();
            self.add(list.len() + bytes.len(), true, needs_sync, |to| record.encode(to))?;
        }
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
        if self.settle_together(stream, ranges) {
            return Ok(());
        }
        // Two numbers of up to ten bytes each.
        self.add(ranges.len() * 20, false, !stream.is_volatile(), |to| {
            encode_settle(stream, ranges.iter().copied(), to);
        })?;
        self.settling = ranges.last().map(|(first, _)| (stream, *first));
        Ok(())
    }

    /// What is settled of several streams behind each other becomes one record: whether it has become part of the newest.
    fn settle_together(&mut self, stream: StreamId, ranges: &[(u64, u64)]) -> bool {
        let bytes = self.frames.len() - self.newest + ranges.len() * 20;
        let is_alike = |it: (StreamId, u64)| it.0.is_volatile() == stream.is_volatile();
        let before = self.settling.filter(|before| is_alike(*before));
        let Some(mut before) = before.filter(|_| bytes <= SETTLE_BYTES_MAX) else { return false };
        let start = self.newest + FRAME_HEADER_BYTES;
        let payload = self.frames.get(start..).unwrap_or_default();
        if let Some(Record::Settle { stream: first, ranges }) = Record::decode(payload) {
            // Until now it was one stream's.
            let stretches: Vec<_> = ranges.iter().map(|(from, to)| (first, from, to)).collect();
            self.frames.truncate(start);
            begin_settle_many(&mut self.frames);
            before = append_stretches((StreamId(0), 0), stretches, &mut self.frames);
        }
        let stretches = ranges.iter().map(|(first, last)| (stream, *first, *last));
        self.settling = Some(append_stretches(before, stretches, &mut self.frames));
        frame::lengthen(&mut self.frames, self.newest);
        true
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

    /// Nobody waits for the batch: it may be held back for some milliseconds, so that it shares a write and a sync with
    /// what follows.
    pub fn allow_delay(&mut self) {
        self.may_wait = true;
    }

    /// Whether it may be held back.
    pub(crate) fn may_wait(&self) -> bool {
        self.may_wait
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

    /// Keeps the bodies of records: `keep` says where each lies from now on. Those of which that fails are left out. What
    /// several records have in common is tried once.
    pub(crate) fn keep_bodies(
        &mut self,
        mut keep: impl FnMut(&BodyPart) -> std::io::Result<(Body, Pin)>,
    ) -> Option<LeftOut> {
        let mut left_out: Option<LeftOut> = None;
        let (mut cut, mut failed) = (Vec::new(), Vec::<BodyPart>::new());
        for WantedBody { number, frames, part } in std::mem::take(&mut self.bodies) {
            let is_same = |other: &BodyPart| {
                Arc::ptr_eq(&other.file, &part.file)
                    && (other.offset, other.body.len()) == (part.offset, part.body.len())
            };
            let kept = if failed.iter().any(is_same) { None } else { Some(keep(&part)) };
            match kept {
                Some(Ok((body, pin))) => {
                    self.pins.push(pin);
                    let payload = self.frames.get_mut(frames.start + FRAME_HEADER_BYTES..);
                    patch_body(payload.unwrap_or_default(), &body);
                    continue;
                }
                Some(Err(error)) => {
                    failed.push(part);
                    left_out.get_or_insert(LeftOut { records: Vec::new(), error });
                }
                None => {}
            }
            cut.push(frames);
            left_out.iter_mut().for_each(|it| it.records.push(number));
        }
        if !cut.is_empty() {
            self.cut(&cut);
        }
        left_out
    }

    /// Leaves records out that lie there, in order.
    fn cut(&mut self, places: &[Range<usize>]) {
        let frames = std::mem::take(&mut self.frames);
        (self.records, self.newest, self.settling, self.grows) = (0, 0, None, false);
        let (mut rest, mut at, mut places) = (&frames[..], 0, places.iter().peekable());
        while let Some((frame, behind)) = frame::split(rest) {
            places.next_if(|place| place.end <= at);
            if places.peek().is_none_or(|place| at < place.start) {
                let payload = frame.get(FRAME_HEADER_BYTES..).unwrap_or_default();
                self.grows |= Record::decode(payload).is_some_and(|record| record.grows());
                self.append(|to| to.extend_from_slice(payload));
            }
            (rest, at) = (behind, at + frame.len());
        }
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
        self.settling = None;
        self.records += 1;
        self.needs_sync |= !record.is_volatile();
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
        self.settling = None;
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
    fn streams_that_cannot_share_a_record_get_several() {
        let mut batch = Batch::new();
        let volatile = StreamId::volatile(1);
        let owners = [(volatile, 3), (StreamId(5), 2), (StreamId(1), 2), (StreamId(5), 9)];
        batch.put_shared(&owners, 1, b"x").unwrap();
        assert_eq!(batch.records(), 3);
        let (mut frames, mut found) = (batch.frames(), Vec::new());
        while let Some((frame, rest)) = frame::split(frames) {
            let Some(Record::PutShared(shared)) = Record::decode(&frame[FRAME_HEADER_BYTES..])
            else {
                panic!("what is written is read")
            };
            found.push(shared.owners.iter().collect::<Vec<_>>());
            frames = rest;
        }
        let first = vec![(StreamId(1), 2), (StreamId(5), 2)];
        assert_eq!(found, [first, vec![(StreamId(5), 9)], vec![(volatile, 3)]]);
    }

    #[test]
    fn what_is_settled_of_very_many_streams_takes_a_few_bytes_each() {
        let mut batch = Batch::new();
        for stream in 0..10_000u64 {
            batch
                .settle(
                    StreamId(5_000_000 + 2 * stream),
                    &[(30_000_000 + stream, 30_000_000 + stream)],
                )
                .unwrap();
        }
        assert!(batch.bytes() < 10_000 * 4, "{}", batch.bytes());
        batch.settle(StreamId::volatile(7), &[(1, 3), (5, 5)]).unwrap();
        batch.settle(StreamId::volatile(3), &[(2, 9)]).unwrap();
        batch.trim(StreamId(1), 5).unwrap();
        batch.settle(StreamId(1), &[(7, 8)]).unwrap();
        seal(batch.frames_mut(), 0, Seed::new(1, 1));
        let (mut found, mut offset, mut records) = (Vec::new(), 0, 0);
        while offset < batch.bytes() {
            let frame = read(&batch.frames()[offset..], offset as u32, Seed::new(1, 1)).unwrap();
            assert!(frame.bytes() <= SETTLE_BYTES_MAX);
            offset += frame.bytes();
            records += 1;
            assert_eq!(frame.more, offset < batch.bytes());
            match Record::decode(frame.payload).unwrap() {
                Record::SettleMany { stretches } => found.extend(stretches.iter()),
                Record::Settle { stream, ranges } => {
                    found.extend(ranges.iter().map(|(first, last)| (stream, first, last)));
                }
                other => assert_eq!(other, Record::Trim { stream: StreamId(1), up_to: 5 }),
            }
        }
        let many = (0..10_000u64).map(|it| (5_000_000 + 2 * it, 30_000_000 + it));
        let many = many.map(|(stream, number)| (StreamId(stream), number, number));
        let [seven, three] = [7, 3].map(StreamId::volatile);
        let others = [(seven, 1, 3), (seven, 5, 5), (three, 2, 9), (StreamId(1), 7, 8)];
        assert_eq!(found, many.chain(others).collect::<Vec<_>>());
        assert_eq!(records, batch.records());
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
