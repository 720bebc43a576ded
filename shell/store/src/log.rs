//! The log itself: segments that are appended to, synced, ended and begun, with the index of what is needed.
//!
//! Relies on `disk`, `frame` and `index`; has no thread. Invariants: what [`Log::append`] refused is not in
//! the log and will not come back; a segment is on disk completely before the next one is written to, so
//! only the end of the newest can be torn; after a sync has failed, nothing is written any more.

use std::collections::VecDeque;
use std::io;

use crate::batch::Batch;
use crate::cleaning::Cleaning;
use crate::disk::{Disk, DiskFile, is_full};
use crate::error::CommitError;
use crate::frame::{self, FRAME_HEADER_BYTES, Seed};
use crate::header::{FORM, HEADER_BYTES, Header, SUMMARIES_FORM, segment_name};
use crate::high_water::{HighWaterFile, not_marked};
use crate::index::Index;
use crate::messages::Place;
use crate::record::Record;
use crate::summary::Summary;

/// A segment is ended when the next batch would make it longer than this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentBytes(pub(crate) u32);

/// What is known of a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) bytes: u64,
    /// Bytes of records that are needed.
    pub(crate) live: u64,
}

/// How far the log is synced.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SyncedTo {
    segment: u32,
    bytes: u32,
}

/// The segment that is written to.
#[derive(Debug)]
pub(crate) struct Head<F> {
    pub(crate) file: F,
    pub(crate) seed: Seed,
    /// The form of the segment.
    pub(crate) form: u32,
    pub(crate) bytes: u32,
    /// Bytes that are on disk for certain.
    pub(crate) synced: u32,
}

/// An open log.
#[derive(Debug)]
pub(crate) struct Log<D: Disk> {
    pub(crate) disk: D,
    pub(crate) salt: u64,
    pub(crate) segment_bytes: SegmentBytes,
    pub(crate) index: Index,
    /// The number of the first of `segments`.
    pub(crate) oldest: u32,
    /// From the oldest to the head.
    pub(crate) segments: VecDeque<Segment>,
    pub(crate) head: Head<D::File>,
    pub(crate) high_water: HighWaterFile<D::File>,
    /// What is to be known of the head when it ends.
    pub(crate) summary: Summary,
    /// Batches that are written and not yet in the index.
    pub(crate) written: Vec<(Place, Batch)>,
    /// Something is written and not yet synced that has to survive.
    pub(crate) needs_sync: bool,
    pub(crate) is_broken: bool,
    /// Segments below this are not needed, says the log.
    pub(crate) needed_from: u32,
    /// How far the oldest segment has been gone through.
    pub(crate) cleaning: Option<Cleaning<D::File>>,
}

impl<D: Disk> Log<D> {
    /// The number of the segment that is written to.
    pub(crate) fn head_number(&self) -> u32 {
        self.oldest + (self.segments.len() as u32 - 1)
    }

    /// Writes batches, in order; they are on disk for certain after the next [`Log::sync`]. Batches that are
    /// refused are left in the list.
    ///
    /// # Errors
    /// When they are not in the log.
    pub(crate) fn append(&mut self, batches: &mut Vec<Batch>) -> Result<(), CommitError> {
        self.account();
        if self.is_broken {
            return Err(broken("write", io::Error::other("an earlier write or sync has failed")));
        }
        // The server that has the directory now must find nothing of ours in it.
        self.verify()?;
        let bytes: usize = batches.iter().map(Batch::bytes).sum();
        let is_begun = self.head.bytes as usize > HEADER_BYTES;
        let is_long = is_begun && self.head.bytes as usize + bytes > self.segment_bytes.0 as usize;
        // An earlier version that finds the segment must not read what it does not know.
        if is_long || self.head.form < FORM {
            self.rotate()?;
        }
        let mut mark = Batch::new();
        mark.add_lone(&Record::Mark { synced: self.head.synced });
        frame::seal(mark.frames_mut(), self.head.bytes, self.head.seed);
        let mut offset = self.head.bytes + mark.bytes() as u32;
        let mut parts = Vec::with_capacity(batches.len() + 1);
        parts.push(mark.frames());
        for batch in batches.iter_mut() {
            frame::seal(batch.frames_mut(), offset, self.head.seed);
            offset += batch.bytes() as u32;
            parts.push(batch.frames());
        }
        if let Err(error) = self.head.file.append(&parts) {
            return Err(self.take_back(error));
        }
        self.needs_sync |= batches.iter().any(Batch::needs_sync);
        let segment = self.head_number();
        let mut offset = self.head.bytes + mark.bytes() as u32;
        for batch in batches.drain(..) {
            let bytes = batch.bytes() as u32;
            self.written.push((Place { segment, offset, bytes }, batch));
            offset += bytes;
        }
        self.grow_head(offset);
        Ok(())
    }

    /// Waits until everything that was written is on disk.
    ///
    /// # Errors
    /// When that is not certain; then nothing ever is again.
    pub(crate) fn sync(&mut self) -> Result<(), CommitError> {
        if self.is_broken {
            return Err(broken("sync", io::Error::other("an earlier write or sync has failed")));
        }
        if self.head.synced == self.head.bytes {
            return Ok(());
        }
        match self.head.file.sync() {
            Ok(()) => {
                self.needs_sync = false;
                self.head.synced = self.head.bytes;
                self.high_water.rise(self.head_number(), self.head.bytes);
                Ok(())
            }
            Err(error) => Err(self.fail("sync the log", error)),
        }
    }

    /// What has yet to be synced, for who does that elsewhere: the head, opened once more. None if it cannot be opened now.
    pub(crate) fn begin_sync(&mut self) -> Option<(D::File, SyncedTo)> {
        let (segment, bytes) = (self.head_number(), self.head.bytes);
        let file = self.disk.open(&segment_name(segment)).ok()?;
        Some((file, SyncedTo { segment, bytes }))
    }

    /// What was given by [`Log::begin_sync`] was synced, or not.
    ///
    /// # Errors
    /// When it was not; then nothing ever is again.
    pub(crate) fn end_sync(
        &mut self,
        to: SyncedTo,
        result: io::Result<()>,
    ) -> Result<(), CommitError> {
        if let Err(error) = result {
            return Err(self.fail("sync the log", error));
        }
        // A segment that has ended was synced by that.
        if to.segment == self.head_number() && to.bytes > self.head.synced {
            self.head.synced = to.bytes;
            self.needs_sync &= self.head.synced != self.head.bytes;
            self.high_water.rise(to.segment, to.bytes);
        }
        Ok(())
    }

    /// Makes sure that what is written can be found again: the directory and all its files are where they were.
    ///
    /// # Errors
    /// When they are not; then nothing is acknowledged any more.
    pub(crate) fn verify(&mut self) -> Result<(), CommitError> {
        match self.disk.verify() {
            Ok(()) => Ok(()),
            Err(error) => Err(self.fail("find the files of the store", error)),
        }
    }

    /// Whether something is written and not yet synced that has to survive.
    pub(crate) fn is_dirty(&self) -> bool {
        self.needs_sync && self.head.synced != self.head.bytes
    }

    /// Takes what was written into the index. Done by itself before the next write; a caller that has the
    /// time does it earlier.
    pub(crate) fn account(&mut self) {
        for (place, batch) in std::mem::take(&mut self.written) {
            let mut frames = batch.frames();
            let mut offset = place.offset;
            while let Some((frame, rest)) = frame::split(frames) {
                let place = Place { offset, bytes: frame.len() as u32, ..place };
                if let Some(record) = frame.get(FRAME_HEADER_BYTES..).and_then(Record::decode) {
                    self.summary.add(&record, place);
                    self.apply(&record, place);
                }
                offset += place.bytes;
                frames = rest;
            }
        }
    }

    /// Takes one record into the index.
    pub(crate) fn apply(&mut self, record: &Record<'_>, place: Place) {
        let (oldest, segments) = (self.oldest, &mut self.segments);
        if let Some(segment) = segment_of(segments, oldest, place) {
            segment.live += u64::from(place.bytes);
        }
        self.index.apply(record, place, &mut |dead| {
            if let Some(segment) = segment_of(segments, oldest, dead) {
                segment.live -= u64::from(dead.bytes);
            }
        });
    }

    /// Bytes of records that are needed.
    pub(crate) fn live_bytes(&self) -> u64 {
        self.segments.iter().map(|segment| segment.live).sum()
    }

    /// Bytes of all segments.
    pub(crate) fn total_bytes(&self) -> u64 {
        self.segments.iter().map(|segment| segment.bytes).sum()
    }

    /// Marks the end of what is written as synced: a clean stop, after which every damage is noticed.
    pub(crate) fn close(&mut self) -> Result<(), CommitError> {
        self.append(&mut Vec::new())?;
        self.sync()?;
        // The mark written now says that everything before it, the first one too, is on disk.
        self.append(&mut Vec::new())?;
        self.sync()?;
        self.high_water.sync().map_err(not_marked)
    }

    /// Ends the head and begins the next segment.
    pub(crate) fn rotate(&mut self) -> Result<(), CommitError> {
        self.sync()?;
        let number = self.head_number() + 1;
        let header = Header { form: FORM, salt: self.salt, number, oldest: self.oldest };
        let next = match begin(&mut self.disk, &header) {
            Ok(next) => next,
            Err(error) if is_full(&error) => {
                // A name that stays is replaced by the next attempt.
                let _ = self.disk.remove(&temporary_name(number));
                return Err(CommitError::Full(error));
            }
            Err(error) => return Err(self.fail("begin a segment", error)),
        };
        // An earlier version knows of no summaries.
        let summary = self.summary.encode(self.head.bytes);
        let summary = summary.filter(|_| self.head.form >= SUMMARIES_FORM);
        let mut ended = self.append_end(summary.as_deref());
        if summary.is_some() && matches!(ended, Err(CommitError::Full(_))) {
            // The reserve is for what gives room back, and a summary can do without.
            ended = self.append_end(None);
        }
        if let Err(error) = ended {
            let taken =
                self.disk.remove(&segment_name(number)).and_then(|()| self.disk.sync_names());
            return Err(match taken {
                Ok(()) => error,
                Err(error) => self.fail("take a new segment back", error),
            });
        }
        self.sync()?;
        self.segments.push_back(Segment { bytes: HEADER_BYTES as u64, live: 0 });
        self.head = next;
        self.summary = Summary::new();
        self.high_water.rise(number, HEADER_BYTES as u32);
        Ok(())
    }

    /// Writes the end of the head, behind its summary if it gets one.
    fn append_end(&mut self, entries: Option<&[u8]>) -> Result<(), CommitError> {
        let mut end = Batch::new();
        if let Some(entries) = entries {
            end.add_lone(&Record::Summary { entries });
        }
        end.add_lone(&Record::End { summary: entries.map_or(0, |_| self.head.bytes) });
        frame::seal(end.frames_mut(), self.head.bytes, self.head.seed);
        if let Err(error) = self.head.file.append(&[end.frames()]) {
            return Err(self.take_back(error));
        }
        self.grow_head(self.head.bytes + end.bytes() as u32);
        Ok(())
    }

    fn grow_head(&mut self, bytes: u32) {
        self.head.bytes = bytes;
        if let Some(segment) = self.segments.back_mut() {
            segment.bytes = u64::from(bytes);
        }
    }

    /// After a failed write: makes sure that nothing of it comes back.
    fn take_back(&mut self, error: io::Error) -> CommitError {
        let bytes = u64::from(self.head.bytes);
        if !is_full(&error) {
            return self.fail("write the log", error);
        }
        let taken = self.head.file.cut(bytes).and_then(|()| self.head.file.sync());
        match taken {
            Ok(()) => {
                self.head.synced = self.head.bytes;
                CommitError::Full(error)
            }
            Err(error) => self.fail("take a write back", error),
        }
    }

    pub(crate) fn fail(&mut self, what: &'static str, error: io::Error) -> CommitError {
        self.is_broken = true;
        broken(what, error)
    }
}

/// The segment in which a place lies.
pub(crate) fn segment_of(
    segments: &mut VecDeque<Segment>,
    oldest: u32,
    place: Place,
) -> Option<&mut Segment> {
    segments.get_mut(place.segment.checked_sub(oldest)? as usize)
}

fn broken(what: &'static str, error: io::Error) -> CommitError {
    CommitError::Broken { what, error }
}

/// The name of a segment while it is begun.
pub(crate) fn temporary_name(number: u32) -> String {
    format!("{}.new", segment_name(number))
}

/// Makes a segment that has a header and nothing else. It has its name only when it is whole.
pub(crate) fn begin<D: Disk>(disk: &mut D, header: &Header) -> io::Result<Head<D::File>> {
    let temporary = temporary_name(header.number);
    let mut file = disk.create(&temporary)?;
    file.append(&[&header.encode()])?;
    file.sync()?;
    disk.rename(&temporary, &segment_name(header.number))?;
    disk.sync_names()?;
    let bytes = HEADER_BYTES as u32;
    Ok(Head { file, seed: Seed::of(header), form: header.form, bytes, synced: bytes })
}
