//! Giving room back: what is still needed of the oldest segment is written once more at the head, then the
//! segment is removed.
//!
//! Relies on `log`. Always the oldest segment, so that what a record takes away can never come back: by the
//! time a segment with a removal is cleaned, everything it removed is gone. Invariants: a segment is removed
//! only when what was copied out of it is on disk, and the log says that it is not needed; bytes that cannot
//! be read are never removed; the log is at most about three times as long as what is needed, plus a few
//! segments.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::PoisonError;

use crate::batch::Batch;
use crate::cleaning::{CleanError, Cleaning, damaged};
use crate::disk::{Disk, DiskFile};
use crate::error::{CommitError, Damage, DamageKind};
use crate::frame::{FrameError, Seed, read};
use crate::header::{HEADER_BYTES, Header, segment_name};
use crate::index::Index;
use crate::load::OpenSegments;
use crate::log::Log;
use crate::messages::Place;
use crate::record::{Declaration, Put, Record, StreamId, encode_settle};
use crate::recovered::SetAside;
use crate::sealed::summary_start;
use crate::set_aside::aside_name;
use crate::shared::{Owners, PutShared, encode_owners};
use crate::summary::END_BYTES;

/// Copies are written when they are so many bytes.
const COPY_BYTES: usize = 1 << 20;

impl<D: Disk> Log<D> {
    /// Whether there is room to give back.
    pub(crate) fn is_cleaning_due(&self) -> bool {
        let Some(oldest) = self.segments.front().filter(|_| self.segments.len() > 1) else {
            return false;
        };
        let slack = 2 * u64::from(self.segment_bytes.0);
        oldest.live == 0 || self.total_bytes() > 2 * self.live_bytes() + slack
    }

    /// Goes through the next `budget` bytes of the oldest segment, or removes it when nothing in it is needed.
    pub(crate) fn clean(&mut self, budget: usize) -> Result<(), CleanError> {
        self.account();
        if self.segments.front().is_some_and(|oldest| oldest.live == 0) {
            return self.remove_oldest();
        }
        let number = self.oldest;
        let mut cleaning = match self.cleaning.take() {
            Some(cleaning) => cleaning,
            None => self.begin_cleaning(number)?,
        };
        let mut copies = Batch::new();
        let done = cleaning.fill(number, budget).and_then(|()| {
            let offset = cleaning.offset;
            self.copy_needed(number, &cleaning.window, offset, cleaning.seed, &mut copies)
        });
        let bytes = match done {
            Ok(bytes) => bytes,
            Err(error) => {
                self.cleaning = Some(cleaning);
                return Err(error);
            }
        };
        if !copies.is_empty() {
            // Refused copies are made again: the offset moves on only with success.
            if let Err(error) = self.append(&mut vec![copies]) {
                self.cleaning = Some(cleaning);
                return Err(error.into());
            }
        }
        cleaning.offset += bytes;
        self.cleaning = Some(cleaning);
        self.account();
        Ok(())
    }

    /// Removes files that the log says are not needed.
    pub(crate) fn remove_old(&mut self) -> io::Result<()> {
        while self.oldest < self.needed_from
            && self.segments.len() > 1
            && self.segments.front().is_some_and(|oldest| oldest.live == 0)
        {
            self.disk.remove(&segment_name(self.oldest))?;
            // Names in order, so that no gap can come about.
            self.disk.sync_names()?;
            self.segments.pop_front();
            self.oldest += 1;
            self.cleaning = None;
        }
        Ok(())
    }

    /// Writes everything that is needed into the head, which is new, and removes all older segments, but for some, whose
    /// files are put aside.
    pub(crate) fn write_again(
        &mut self,
        aside: &BTreeSet<u32>,
    ) -> Result<Vec<SetAside>, CommitError> {
        let first = self.head_number();
        let index = std::mem::take(&mut self.index);
        self.segments.iter_mut().for_each(|segment| segment.live = 0);
        let mut files = OpenSegments::new();
        let mut copies = Batch::new();
        let mut shared = BTreeMap::new();
        for (_, place) in index.values() {
            self.write_copy(&index, place, &mut files, &mut copies)?;
        }
        for (_, stream) in index.streams() {
            self.write_copy(&index, stream.declaration, &mut files, &mut copies)?;
            for message in stream.messages.iter() {
                match index.is_shared(message.place) {
                    true => {
                        _ = shared
                            .insert((message.place.segment, message.place.offset), message.place)
                    }
                    false => self.write_copy(&index, message.place, &mut files, &mut copies)?,
                }
            }
        }
        // Once for all that have them.
        for place in shared.into_values() {
            self.write_copy(&index, place, &mut files, &mut copies)?;
        }
        copies.add_lone(&Record::Removed { oldest: first });
        self.append(&mut vec![copies])?;
        self.account();
        self.sync()?;
        self.needed_from = first;
        let mut renamed = Vec::new();
        while self.oldest < first {
            let (name, segment) = (segment_name(self.oldest), self.segments.pop_front());
            // A file that is missing was part of the damage, and one that stays is only in the way of nobody.
            if aside.contains(&self.oldest) {
                let (file, bytes) = (aside_name(&name), segment.map_or(0, |it| it.bytes));
                if self.disk.rename(&name, &file).is_ok() {
                    renamed.push(SetAside { file, bytes });
                }
            } else {
                let _ = self.disk.remove(&name);
            }
            self.oldest += 1;
        }
        match self.disk.sync_names() {
            Ok(()) => Ok(renamed),
            Err(error) => Err(self.fail("put damaged segments aside", error)),
        }
    }

    /// Copies the record at a place, and writes what was copied if it is much.
    fn write_copy(
        &mut self,
        index: &Index,
        place: Place,
        files: &mut OpenSegments<D::File>,
        copies: &mut Batch,
    ) -> Result<(), CommitError> {
        let mut bytes = vec![0; place.bytes as usize];
        let found = files.open(&mut self.disk, place.segment).and_then(|file| {
            let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
            file.read(u64::from(place.offset), &mut bytes)
        });
        let seed = Seed::new(self.salt, place.segment);
        let found = found.and_then(|()| read(&bytes, place.offset, seed).map_err(io::Error::other));
        let record = found.map(|frame| Record::decode(frame.payload));
        match record {
            Ok(Some(record)) => copy(index, (&record, place), copies),
            Ok(None) => {
                return Err(self.fail("read a record again", io::Error::other(FrameError::Unknown)));
            }
            Err(error) => return Err(self.fail("read a record again", error)),
        }
        if copies.bytes() > COPY_BYTES {
            self.append(&mut vec![std::mem::take(copies)])?;
        }
        Ok(())
    }

    fn begin_cleaning(&mut self, number: u32) -> Result<Cleaning<D::File>, CleanError> {
        let file = segment_name(number);
        let bytes = self.segments.front().map_or(0, |oldest| oldest.bytes as u32);
        let mut header = [0; HEADER_BYTES];
        let mut segment_end = [0; END_BYTES];
        let opened = self.disk.open(&file).and_then(|mut file| {
            file.read(0, &mut header)?;
            if let Some(offset) = bytes.checked_sub(END_BYTES as u32) {
                file.read(u64::from(offset), &mut segment_end)?;
            }
            Ok(file)
        });
        match (opened, Header::decode(&header)) {
            (Ok(file), Ok(header)) => {
                let seed = Seed::of(&header);
                // Nothing in a summary is needed, so one that is damaged is in nobody's way.
                let end = summary_start(&segment_end, bytes, seed).unwrap_or(bytes);
                let (offset, window) = (HEADER_BYTES as u32, Vec::new());
                Ok(Cleaning { file, seed, offset, end, window })
            }
            (Err(error), _) => Err(CleanError::Read { file, error }),
            (_, Err(error)) => {
                let what = DamageKind::Header(error);
                Err(CleanError::Damaged(Damage { file, offset: 0, bytes: 0, what, lost: None }))
            }
        }
    }

    /// Copies what is needed of the window; says how many of its bytes are done with.
    fn copy_needed(
        &self,
        number: u32,
        window: &[u8],
        offset: u32,
        seed: Seed,
        copies: &mut Batch,
    ) -> Result<u32, CleanError> {
        let mut done = 0u32;
        loop {
            let rest = window.get(done as usize..).unwrap_or_default();
            if rest.is_empty() {
                return Ok(done);
            }
            let at = offset + done;
            let frame = match read(rest, at, seed) {
                Ok(frame) => frame,
                // The next window begins with this record.
                Err(FrameError::Ends { .. }) if done > 0 => return Ok(done),
                Err(error) => return Err(damaged(number, at, error)),
            };
            let record = Record::decode(frame.payload)
                .ok_or_else(|| damaged(number, at, FrameError::Unknown))?;
            let place = Place { segment: number, offset: at, bytes: frame.bytes() as u32 };
            if self.index.needs(&record, place) {
                copy(&self.index, (&record, place), copies);
            }
            done += place.bytes;
        }
    }

    fn remove_oldest(&mut self) -> Result<(), CleanError> {
        let next = self.oldest + 1;
        if self.needed_from < next {
            let mut removed = Batch::new();
            removed.add_lone(&Record::Removed { oldest: next });
            self.append(&mut vec![removed])?;
            self.sync()?;
            self.needed_from = next;
        }
        let file = segment_name(self.oldest);
        self.remove_old().map_err(|error| CleanError::Read { file, error })
    }
}

/// Adds what is needed of a record.
fn copy(index: &Index, (record, place): (&Record<'_>, Place), copies: &mut Batch) {
    match record {
        Record::Declare(declaration) => {
            let mark = index.stream(declaration.stream).map(|stream| stream.mark);
            let mark = mark.unwrap_or(declaration.mark);
            copies.add_lone(&Record::Declare(Declaration { mark, ..*declaration }));
        }
        Record::Put(put) => {
            copies.add_lone(&Record::Put(Put { keep_from: 0, ..*put }));
            copy_gone(index, [(put.stream, put.sequence)], copies);
        }
        Record::PutShared(shared) => {
            let owners: Vec<(StreamId, u64)> = index.owners_at(shared, place).collect();
            if let [(stream, sequence)] = owners[..] {
                copies.add_lone(&Record::Put(shared.of(stream, sequence)));
            } else {
                let mut list = Vec::new();
                encode_owners(owners.iter().copied(), &mut list);
                let owners = Owners::of(&list);
                copies.add_lone(&Record::PutShared(PutShared { owners, ..*shared }));
            }
            copy_gone(index, owners, copies);
        }
        _ => copies.add_lone(record),
    }
}

/// What was taken out of runs before must stay out behind their copy.
fn copy_gone(index: &Index, owners: impl IntoIterator<Item = (StreamId, u64)>, copies: &mut Batch) {
    for (stream, sequence) in owners {
        let gone = index.gone(stream, sequence);
        if !gone.is_empty() {
            copies.add_joined(|to| encode_settle(stream, gone, to));
        }
    }
}
