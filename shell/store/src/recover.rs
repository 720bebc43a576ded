//! Opening a directory: reads the segments once, in order, and finds out what is needed and where to go on.
//!
//! Relies on `sealed`, `scan` and `index`, and on `contents` for what is then read of it. Of a segment that has a
//! summary nothing else is read; the others are read record by record. Where something is damaged and that is accepted, all
//! that can be read is taken in, record by record. Memory is bounded by the index,
//! by what is needed of topics, and one segment. Invariants: what was
//! synced is either read or reported as damage, never skipped in silence; the torn end of the newest segment
//! is cut off before anything is written behind it; bytes that were read but perhaps never reached the disk
//! (after a sync that failed) are written once more before they count as synced.

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};

use crate::bodies::body_number;
use crate::body_check::Extent;
use crate::checks::{damaged_bodies, remove_unneeded, undeclared};
use crate::contents::{ContentsError, assemble};
use crate::disk::{Disk, DiskFile, is_lasting};
use crate::error::{Damage, DamageKind, OpenError};
use crate::frame::{FrameError, Seed};
use crate::header::{FORM, HEADER_BYTES, Header, segment_name};
use crate::high_water::{self, HighWater, HighWaterFile};
use crate::index::Index;
use crate::listing::{ListError, Listing, list};
use crate::log::{Head, Log, Segment, begin, segment_of};
use crate::lost::LostRecord;
use crate::messages::Place;
use crate::opened::{Attempt, Begin, Opened, Opening};
use crate::record::{Put, Record};
use crate::recovered::Report;
use crate::salvage::{Lost, known_records, salvage};
use crate::scan::{ScanEnd, next_mark, scan, was_synced};
use crate::sealed::{read_sealed, summary_start};
use crate::segment_read::{
    Read, SegmentBytesRead, damage_of_ended, is_empty, read_segment, write_unproven,
};
use crate::set_aside::{before_aside, put_aside};
use crate::summary::{self, Summary};

/// Reads a log.
pub(crate) struct Reader<D: Disk> {
    disk: D,
    directory: PathBuf,
    opening: Opening,
    /// That of the first segment whose header can be read.
    salt: Option<u64>,
    /// The number of the first of `segments`.
    first: u32,
    /// Segments below this are not needed, says the log.
    oldest: u32,
    segments: VecDeque<Segment>,
    index: Index,
    report: Report,
    /// That of the segment that was read last.
    summary: Summary,
    streams_below: u64,
    bodies_below: u64,
    /// What was on disk for certain when the log was written to last.
    high_water: Option<HighWater>,
}

impl<D: Disk> Reader<D> {
    pub(crate) fn new(disk: D, directory: &Path, opening: Opening) -> Reader<D> {
        Reader {
            disk,
            directory: directory.to_owned(),
            opening,
            salt: None,
            first: 1,
            oldest: 0,
            segments: VecDeque::new(),
            index: Index::default(),
            report: Report::default(),
            summary: Summary::new(),
            streams_below: 1,
            bodies_below: 1,
            high_water: None,
        }
    }

    /// Opens the log.
    pub(crate) fn open(mut self) -> Result<Attempt<D>, OpenError> {
        let mut tail = match self.read_all() {
            Ok(tail) => tail,
            Err(error) => return self.damaged_or(error),
        };
        let head = match self.prepare(&mut tail) {
            Ok(true) => tail.map(|tail| self.head_of(tail)),
            Ok(false) => None,
            Err(error) => return self.damaged_or(error),
        };
        let is_new = self.segments.is_empty();
        match head {
            Some(head) => self.finish(head, Begin::Behind),
            // A new store, or after damage that was accepted.
            None => {
                let head = self.begin_head()?;
                self.finish(head, if is_new { Begin::New } else { Begin::Again })
            }
        }
    }

    /// Damage is for the caller to decide on, who has the disk then.
    fn damaged_or(self, error: OpenError) -> Result<Attempt<D>, OpenError> {
        match error {
            OpenError::Damaged { .. } => Ok(Attempt::Damaged(self.disk, error)),
            error => Err(error),
        }
    }

    /// Reads all segments; gives the one that is written to next.
    fn read_all(&mut self) -> Result<Option<Read<D::File>>, OpenError> {
        let numbers = self.list()?;
        let names = self.disk.names().map_err(|error| self.refused("list the files", error))?;
        let last = names.iter().filter_map(|name| body_number(before_aside(name))).max();
        self.bodies_below = last.map_or(1, |last| last.saturating_add(1));
        let high_water = high_water::read(&mut self.disk);
        self.high_water =
            high_water.map_err(|error| self.refused("read the mark of the log's end", error))?;
        if numbers.is_empty() {
            if let Some(mark) = self.high_water {
                self.damaged(mark.segment, 0, 0, DamageKind::Missing)?;
            }
            return Ok(None);
        }
        let (first, last) = (numbers[0], numbers[numbers.len() - 1]);
        self.first = first;
        let is_last_empty = last > first && is_empty(&mut self.disk, last);
        let mut tail = None;
        let mut spare = Vec::new();
        for number in first..=last {
            self.segments.push_back(Segment::default());
            if numbers.binary_search(&number).is_err() {
                self.damaged(number, 0, 0, DamageKind::Missing)?;
                continue;
            }
            let is_before_empty = is_last_empty && number + 1 == last;
            if number < last && !is_before_empty && self.read_summary(number)? {
                continue;
            }
            let mut read = self.read(number, std::mem::take(&mut spare))?;
            if is_before_empty && !read.end.ended && read.header.is_some() {
                // A crash while the last segment was begun: writing goes on in this one.
                self.forget_empty(last)?;
                tail = Some(read);
                break;
            }
            if number == last {
                tail = Some(read);
                break;
            }
            if is_before_empty && read.end.error.is_none() {
                // Nothing proves yet that its end is on disk.
                let written = write_unproven(&mut read);
                written.map_err(|error| self.refused("mend the end of a segment", error))?;
            }
            spare = self.check_ended(read)?;
        }
        Ok(tail)
    }

    /// The numbers of the segments that are needed, rising; none if there is no store.
    fn list(&mut self) -> Result<Vec<u32>, OpenError> {
        let Listing { mut numbers, oldest, is_store } =
            list(&mut self.disk).map_err(|error| match error {
                ListError::System(what, error) => self.refused(what, error),
                ListError::TooNew(number, form) => {
                    let (directory, file) = (self.directory.clone(), segment_name(number));
                    OpenError::TooNew { directory, file, form }
                }
            })?;
        self.oldest = oldest;
        if is_store && numbers.is_empty() {
            self.damaged(oldest, 0, 0, DamageKind::Missing)?;
            numbers.push(oldest);
        }
        Ok(numbers)
    }

    /// Reads a segment's summary into the index, if there is one.
    fn read_summary(&mut self, number: u32) -> Result<bool, OpenError> {
        if self.opening.is_thorough {
            return Ok(false);
        }
        let opened = self.disk.open(&segment_name(number));
        let sealed = opened.and_then(|mut file| read_sealed(&mut file));
        // Where it cannot be read its records may be; if not either, that says which segment it is.
        let sealed = sealed.unwrap_or_default();
        let salt = self.salt;
        let is_of_store = |header: &Header| {
            header.number == number && salt.is_none_or(|salt| salt == header.salt)
        };
        let Some(sealed) = sealed.filter(|sealed| is_of_store(&sealed.header)) else {
            return Ok(false);
        };
        self.salt = Some(sealed.header.salt);
        self.report.segments += 1;
        self.report.summaries += 1;
        self.report.bytes += sealed.entries().len() as u64;
        if let Some(segment) = self.segments.back_mut() {
            segment.bytes = u64::from(sealed.bytes);
        }
        let volatile = summary::read(sealed.entries(), sealed.bytes, |offset, bytes, record| {
            self.apply(record, Place { segment: number, offset, bytes });
        });
        match volatile {
            Some(volatile) => {
                self.report.volatile_records += volatile.records;
                self.report.volatile_bytes += volatile.bytes;
                Ok(true)
            }
            // Whatever wrote it: the index knows too much now, and all is read.
            None => {
                self.damaged(number, 0, 0, DamageKind::Record(FrameError::Unknown))?;
                Ok(false)
            }
        }
    }

    /// Reads one segment into the index.
    fn read(&mut self, number: u32, buffer: Vec<u8>) -> Result<Read<D::File>, OpenError> {
        let by_blocks = self.opening.accept_damage;
        let SegmentBytesRead { file, bytes, unreadable } =
            match read_segment(&mut self.disk, number, buffer, by_blocks) {
                Ok(read) => read,
                Err(error) if is_lasting(&error) && !by_blocks => {
                    self.damaged(number, 0, 0, DamageKind::Unreadable(error.kind()))?;
                    return Err(self.refused("read a segment", error));
                }
                Err(error) => return Err(self.refused("read a segment", error)),
            };
        for (part, kind) in unreadable {
            let bytes = part.end - part.start;
            self.damaged(number, part.start, bytes, DamageKind::Unreadable(kind))?;
        }
        self.report.segments += 1;
        self.report.bytes += bytes.len() as u64;
        if let Some(segment) = self.segments.back_mut() {
            segment.bytes = bytes.len() as u64;
        }
        let start = HEADER_BYTES as u32;
        let none = ScanEnd { whole: start, synced: start, ended: false, error: None };
        let header = match Header::decode(&bytes) {
            Ok(header) => header,
            Err(error) => {
                self.damaged(number, 0, bytes.len() as u64, DamageKind::Header(error))?;
                return Ok(Read { file, number, header: None, bytes, end: none, known: None });
            }
        };
        let salt = *self.salt.get_or_insert(header.salt);
        if header.number != number || header.salt != salt {
            let what = DamageKind::Misplaced { number: header.number };
            self.damaged(number, 0, bytes.len() as u64, what)?;
            return Ok(Read { file, number, header: None, bytes, end: none, known: None });
        }
        let end = self.scan(number, &bytes, start, Seed::of(&header));
        Ok(Read { file, number, header: Some(header), bytes, end, known: None })
    }

    fn scan(&mut self, number: u32, bytes: &[u8], start: u32, seed: Seed) -> ScanEnd {
        if start == HEADER_BYTES as u32 {
            self.summary = Summary::new();
        }
        let mut end = scan(bytes, start, seed, |offset, frame, record| {
            let place = Place { segment: number, offset, bytes: frame.bytes() as u32 };
            self.summary.add(&record, place);
            self.apply(&record, place);
        });
        // A summary that is damaged takes nothing with it.
        let summary = summary_start(bytes, bytes.len() as u32, seed);
        if end.error.is_some() && summary == Some(end.whole) {
            (end.whole, end.ended, end.error) = (bytes.len() as u32, true, None);
        }
        end
    }

    /// Takes one record into the index.
    fn apply(&mut self, record: &Record<'_>, place: Place) {
        self.report.records += 1;
        if record.is_volatile() {
            self.report.volatile_records += 1;
            self.report.volatile_bytes += u64::from(place.bytes);
            return;
        }
        if let Some(stream) = record.highest_stream() {
            self.streams_below = self.streams_below.max(stream.0.saturating_add(1));
        }
        match record {
            Record::Removed { oldest } => self.oldest = self.oldest.max(*oldest),
            Record::Put(Put { body: Some(body), .. }) => {
                self.bodies_below = self.bodies_below.max(body.file.saturating_add(1));
            }
            _ => {}
        }
        let (first, segments) = (self.first, &mut self.segments);
        if let Some(segment) = segment_of(segments, first, place) {
            segment.live += u64::from(place.bytes);
        }
        self.index.apply(record, place, &mut |dead| {
            if let Some(segment) = segment_of(segments, first, dead) {
                segment.live -= u64::from(dead.bytes);
            }
        });
    }

    /// A segment that others follow must be whole. Gives its buffer back.
    fn check_ended(&mut self, mut read: Read<D::File>) -> Result<Vec<u8>, OpenError> {
        if read.header.is_some() {
            while let Some(what) = damage_of_ended(&read) {
                self.skip_damage(&mut read, what)?;
                if read.end.whole as usize >= read.bytes.len() {
                    break;
                }
            }
        }
        Ok(read.bytes)
    }

    /// Reports damage behind the last whole batch and, if it is accepted, takes in what can be read up to where reading
    /// goes on.
    fn skip_damage(&mut self, read: &mut Read<D::File>, what: DamageKind) -> Result<(), OpenError> {
        let length = read.bytes.len() as u32;
        let seed = read.header.as_ref().map_or(Seed::new(0, 0), Seed::of);
        let (number, from) = (read.number, read.end.whole);
        let next = next_mark(&read.bytes, from + 1, seed).map_or(length, |(at, _)| at);
        // What is behind this may be torn, and then it is no damage.
        let synced = self.synced_of(number).filter(|synced| *synced > from);
        let next = next.min(synced.unwrap_or(length));
        let bytes = std::mem::take(&mut read.bytes);
        let known = read.known.get_or_insert_with(|| known_records(&bytes, seed));
        let mut ended = false;
        let lost = salvage(&bytes, from..next, seed, known, |offset, frame, record| {
            ended |= matches!(record, Record::End { .. });
            let place = Place { segment: number, offset, bytes: frame.bytes() as u32 };
            self.summary.add(&record, place);
            self.apply(&record, place);
        });
        for Lost { offset, bytes, error, record } in &lost {
            let place = (number, u64::from(*offset), u64::from(*bytes));
            self.damaged_with(place, DamageKind::Record(*error), record.clone())?;
        }
        if lost.is_empty() && !ended {
            self.damaged(number, u64::from(from), u64::from(next - from), what)?;
        }
        read.end = match next < length && !ended {
            true => self.scan(number, &bytes, next, seed),
            false => {
                ScanEnd { whole: length, ended: ended || read.end.ended, error: None, ..read.end }
            }
        };
        read.bytes = bytes;
        Ok(())
    }

    /// Up to where the mark beside the log says that a segment was synced.
    fn synced_of(&self, number: u32) -> Option<u32> {
        let mark = self.high_water.filter(|mark| Some(mark.salt) == self.salt)?;
        (mark.segment == number).then_some(mark.bytes)
    }

    /// Whether writing goes on behind the last whole batch of the newest segment, which is made ready for it. If not,
    /// the store is new, or damage was accepted.
    fn prepare(&mut self, tail: &mut Option<Read<D::File>>) -> Result<bool, OpenError> {
        let Some(tail) = tail.as_mut().filter(|tail| tail.header.is_some()) else {
            // Only after damage that was accepted.
            self.check_declared()?;
            return self.check_bodies().map(|()| false);
        };
        let seed = tail.header.as_ref().map_or(Seed::new(0, 0), Seed::of);
        while let Some((_, error)) = tail.end.error {
            let is_synced = self.synced_of(tail.number).is_some_and(|it| it > tail.end.whole)
                || was_synced(&tail.bytes, tail.end.whole, seed);
            let is_torn = error != FrameError::Unknown && !is_synced;
            if is_torn {
                break;
            }
            self.skip_damage(tail, DamageKind::Record(error))?;
        }
        self.check_high_water(tail)?;
        if tail.end.ended {
            self.damaged(tail.number + 1, 0, 0, DamageKind::Missing)?;
        }
        if self.first > self.oldest {
            self.damaged(self.oldest, 0, 0, DamageKind::Missing)?;
        }
        self.check_declared()?;
        self.check_bodies()?;
        if !self.report.damage.is_empty() {
            return Ok(false);
        }
        let mended = self.mend_tail(tail);
        mended.map_err(|error| self.refused("mend the end of the log", error))?;
        if let Some(segment) = self.segments.back_mut() {
            segment.bytes = u64::from(tail.end.whole);
        }
        Ok(true)
    }

    /// The end of the newest segment, behind which writing goes on.
    fn head_of(&self, tail: Read<D::File>) -> Head<D::File> {
        let seed = tail.header.as_ref().map_or(Seed::new(0, 0), Seed::of);
        let form = tail.header.map_or(FORM, |header| header.form);
        let bytes = tail.end.whole;
        Head { file: tail.file, seed, form, bytes, synced: bytes }
    }

    /// A new segment behind all others.
    fn begin_head(&mut self) -> Result<Head<D::File>, OpenError> {
        let number = self.first + self.segments.len() as u32;
        let header = Header { form: FORM, salt: self.salt(), number, oldest: self.first };
        let head = begin(&mut self.disk, &header);
        let head = head.map_err(|error| self.refused("begin a segment", error))?;
        self.segments.push_back(Segment { bytes: HEADER_BYTES as u64, live: 0 });
        self.summary = Summary::new();
        Ok(head)
    }

    fn salt(&self) -> u64 {
        self.salt.unwrap_or(self.opening.salt)
    }

    /// What was synced must be there: behind a torn end there were only bytes that were not.
    fn check_high_water(&mut self, tail: &Read<D::File>) -> Result<(), OpenError> {
        let salt = self.salt;
        let Some(mark) = self.high_water.filter(|mark| Some(mark.salt) == salt) else {
            return Ok(());
        };
        let (number, whole) = (tail.number, tail.end.whole);
        if mark.segment == number && mark.bytes > whole {
            let missing = u64::from(mark.bytes - whole);
            self.damaged(number, u64::from(whole), missing, DamageKind::Short)?;
        }
        if mark.segment > number && !tail.end.ended {
            self.damaged(number, u64::from(whole), 0, DamageKind::Short)?;
            self.damaged(mark.segment, 0, 0, DamageKind::Missing)?;
        }
        Ok(())
    }

    /// Cuts a torn end off and makes sure that what was read is on disk, with its name.
    fn mend_tail(&mut self, tail: &mut Read<D::File>) -> io::Result<()> {
        let (whole, length) = (u64::from(tail.end.whole), tail.bytes.len() as u64);
        self.report.cut = length - whole;
        // Also if it seems to end there: an earlier cut may be lost with a sync that failed.
        tail.file.cut(whole)?;
        write_unproven(tail)?;
        self.disk.sync_names()
    }

    /// Messages without a stream exist only where something was lost.
    fn check_declared(&mut self) -> Result<(), OpenError> {
        for (stream, damage) in undeclared(&self.index) {
            damage.into_iter().try_for_each(|damage| self.note_damage(damage))?;
            self.forget(&Record::Drop { stream });
        }
        Ok(())
    }

    /// Messages whose bodies are not in their files any more are lost.
    fn check_bodies(&mut self) -> Result<(), OpenError> {
        let extent = if self.opening.is_thorough { Extent::Bytes } else { Extent::Length };
        let found = damaged_bodies(&mut self.disk, &self.index, extent);
        let found = found.map_err(|error| self.refused("read the body of a message", error))?;
        for (damage, settled) in found {
            self.note_damage(damage)?;
            settled.records_of().for_each(|record| self.forget(&record));
        }
        Ok(())
    }

    /// Takes what a record says into the index, which is not in the log.
    fn forget(&mut self, record: &Record<'_>) {
        let (first, segments) = (self.first, &mut self.segments);
        self.index.apply(record, Place::NONE, &mut |dead| {
            if let Some(segment) = segment_of(segments, first, dead) {
                segment.live -= u64::from(dead.bytes);
            }
        });
    }

    /// Reads what is needed, and opens the log. After damage that was accepted everything that is left is written into
    /// new segments, and the old ones are put aside.
    fn finish(mut self, head: Head<D::File>, begin: Begin) -> Result<Attempt<D>, OpenError> {
        let salt = self.salt();
        // Before anything is written: a second attempt finds what this one has found.
        let mut recovered =
            match assemble(&mut self.disk, salt, &self.index, std::mem::take(&mut self.report)) {
                Ok(recovered) => recovered,
                Err(ContentsError::System(error)) => {
                    return Err(self.refused("read a segment", error));
                }
                Err(ContentsError::Damaged(damage)) => {
                    let directory = self.directory;
                    return Ok(Attempt::Damaged(
                        self.disk,
                        OpenError::Damaged { directory, damage },
                    ));
                }
            };
        let number = self.first + (self.segments.len() as u32 - 1);
        let end = (salt, number, head.bytes);
        let high_water = HighWaterFile::open(&mut self.disk, self.high_water, end);
        let directory = self.directory;
        let high_water = high_water.map_err(|error| OpenError::System {
            directory: directory.clone(),
            what: "mark the end of the log",
            error,
        })?;
        let needed_from = self.oldest;
        let mut log = Log {
            disk: self.disk,
            salt,
            segment_bytes: self.opening.segment_bytes,
            index: self.index,
            oldest: self.first,
            segments: self.segments,
            head,
            high_water,
            summary: self.summary,
            written: Vec::new(),
            needs_sync: false,
            is_broken: false,
            needed_from,
            cleaning: None,
        };
        // Before the log is written anew: if that is cut short, the damage is there for the next attempt, and so are they.
        let aside = remove_unneeded(&mut log, begin != Begin::Behind).unwrap_or_default();
        match begin {
            Begin::New => {}
            // What cannot be removed now is only in the way of nobody; the next start tries again.
            Begin::Behind => _ = log.remove_old(),
            Begin::Again => {
                put_aside(&mut log, &mut recovered.report).map_err(|error| OpenError::System {
                    directory,
                    what: "write what is left of a damaged log",
                    error,
                })?;
            }
        }
        recovered.report.set_aside.extend(aside);
        let (streams_below, bodies_below) = (self.streams_below, self.bodies_below);
        let opened = Opened { log, recovered, streams_below, bodies_below };
        Ok(Attempt::Opened(Box::new(opened)))
    }

    fn forget_empty(&mut self, number: u32) -> Result<(), OpenError> {
        self.disk
            .remove(&segment_name(number))
            .and_then(|()| self.disk.sync_names())
            .map_err(|error| self.refused("remove an empty segment", error))
    }

    fn damaged(
        &mut self,
        number: u32,
        offset: u64,
        bytes: u64,
        what: DamageKind,
    ) -> Result<(), OpenError> {
        self.damaged_with((number, offset, bytes), what, None)
    }

    /// The same of a part of which it is known what it was.
    fn damaged_with(
        &mut self,
        (number, offset, bytes): (u32, u64, u64),
        what: DamageKind,
        lost: Option<LostRecord>,
    ) -> Result<(), OpenError> {
        self.note_damage(Damage { file: segment_name(number), offset, bytes, what, lost })
    }

    /// Damage is an error, unless it is accepted.
    fn note_damage(&mut self, damage: Damage) -> Result<(), OpenError> {
        if self.opening.accept_damage && self.opening.is_thorough {
            self.report.damage.push(damage);
            return Ok(());
        }
        Err(OpenError::Damaged { directory: self.directory.clone(), damage })
    }

    fn refused(&self, what: &'static str, error: io::Error) -> OpenError {
        OpenError::System { directory: self.directory.clone(), what, error }
    }
}
