//! Opening a directory: reads the segments once, in order, and finds out what is needed and where to go on.
//!
//! Relies on `scan` and `index`. Memory is bounded by what is needed, plus one segment. Invariants: what was
//! synced is either read or reported as damage, never skipped in silence; the torn end of the newest segment
//! is cut off before anything is written behind it; bytes that were read but perhaps never reached the disk
//! (after a sync that failed) are written once more before they count as synced.

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};

use crate::disk::{Disk, DiskFile};
use crate::error::{Damage, DamageKind, OpenError};
use crate::frame::{FrameError, Seed};
use crate::header::{HEADER_BYTES, Header, segment_name, segment_number};
use crate::high_water::{self, HighWater, HighWaterFile};
use crate::index::Index;
use crate::log::{Head, Log, Segment, SegmentBytes, begin, segment_of};
use crate::messages::Place;
use crate::record::Record;
use crate::recovered::{Contents, Recovered, Report, assemble};
use crate::scan::{ScanEnd, next_mark, scan, was_synced};

/// How to open a log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Opening {
    pub(crate) segment_bytes: SegmentBytes,
    pub(crate) accept_damage: bool,
    /// For a store that is new.
    pub(crate) salt: u64,
}

/// A log that is open, and what is in it.
pub(crate) struct Opened<D: Disk> {
    pub(crate) log: Log<D>,
    pub(crate) recovered: Recovered,
    /// No stream of the log has this number or a higher one.
    pub(crate) streams_below: u64,
}

/// Opens the log of a directory.
pub(crate) fn open<D: Disk>(
    disk: D,
    directory: &Path,
    opening: Opening,
) -> Result<Opened<D>, OpenError> {
    Reader {
        disk,
        directory: directory.to_owned(),
        opening,
        salt: None,
        first: 1,
        oldest: 0,
        segments: VecDeque::new(),
        index: Index::default(),
        contents: Contents::default(),
        report: Report::default(),
        streams_below: 1,
        high_water: None,
    }
    .open()
}

struct Reader<D: Disk> {
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
    contents: Contents,
    report: Report,
    streams_below: u64,
    /// What was on disk for certain when the log was written to last.
    high_water: Option<HighWater>,
}

/// A segment that has been read.
struct Read<F> {
    file: F,
    number: u32,
    header: Option<Header>,
    bytes: Vec<u8>,
    end: ScanEnd,
}

impl<D: Disk> Reader<D> {
    fn open(mut self) -> Result<Opened<D>, OpenError> {
        let mut numbers = self.list()?;
        let high_water = high_water::read(&mut self.disk);
        self.high_water =
            high_water.map_err(|error| self.refused("read the mark of the log's end", error))?;
        if numbers.is_empty() {
            if let Some(mark) = self.high_water {
                self.damaged(mark.segment, 0, 0, DamageKind::Missing)?;
            }
            let header = Header { salt: self.opening.salt, number: 1, oldest: 1 };
            let head = begin(&mut self.disk, &header);
            let head = head.map_err(|error| self.refused("begin the log", error))?;
            self.segments.push_back(Segment { bytes: HEADER_BYTES as u64, live: 0 });
            return self.finish(head, header.salt);
        }
        self.leave_out_old(&mut numbers)?;
        let (first, last) = (numbers[0], numbers[numbers.len() - 1]);
        self.first = first;
        let is_last_empty = last > first && self.is_empty(last);
        let mut tail = None;
        let mut spare = Vec::new();
        for number in first..=last {
            self.segments.push_back(Segment::default());
            if numbers.binary_search(&number).is_err() {
                self.damaged(number, 0, 0, DamageKind::Missing)?;
                continue;
            }
            let mut read = self.read(number, std::mem::take(&mut spare))?;
            let is_before_empty = is_last_empty && number + 1 == last;
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
        self.go_on(tail)
    }

    /// The numbers of the segments, rising. Segments that were never finished are removed.
    fn list(&mut self) -> Result<Vec<u32>, OpenError> {
        let names = self.disk.names().map_err(|error| self.refused("list the files", error))?;
        for name in names.iter().filter(|name| name.ends_with(".new")) {
            self.disk
                .remove(name)
                .map_err(|error| self.refused("remove an unfinished file", error))?;
        }
        let mut numbers: Vec<u32> = names.iter().filter_map(|name| segment_number(name)).collect();
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// Removes files that newer segments say are not needed.
    fn leave_out_old(&mut self, numbers: &mut Vec<u32>) -> Result<(), OpenError> {
        let mut oldest = 0;
        for number in numbers.iter() {
            let mut bytes = [0; HEADER_BYTES];
            let read = self
                .disk
                .open(&segment_name(*number))
                .and_then(|mut file| file.read(0, &mut bytes));
            match read {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => continue,
                Err(error) => return Err(self.refused("read a segment", error)),
            }
            if let Ok(header) = Header::decode(&bytes) {
                oldest = oldest.max(header.oldest);
            }
        }
        let needed = numbers.partition_point(|number| *number < oldest);
        for number in numbers.drain(..needed) {
            self.disk
                .remove(&segment_name(number))
                .map_err(|error| self.refused("remove an old segment", error))?;
        }
        self.oldest = oldest;
        if numbers.is_empty() {
            self.damaged(oldest, 0, 0, DamageKind::Missing)?;
            numbers.push(oldest);
        }
        Ok(())
    }

    /// Reads one segment into index and contents.
    fn read(&mut self, number: u32, mut bytes: Vec<u8>) -> Result<Read<D::File>, OpenError> {
        let opened = self.disk.open(&segment_name(number)).and_then(|mut file| {
            let length = usize::try_from(file.bytes()?).map_err(io::Error::other)?;
            bytes.clear();
            bytes.resize(length, 0);
            file.read(0, &mut bytes)?;
            Ok(file)
        });
        let file = opened.map_err(|error| self.refused("read a segment", error))?;
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
                return Ok(Read { file, number, header: None, bytes, end: none });
            }
        };
        let salt = *self.salt.get_or_insert(header.salt);
        if header.number != number || header.salt != salt {
            let what = DamageKind::Misplaced { number: header.number };
            self.damaged(number, 0, bytes.len() as u64, what)?;
            return Ok(Read { file, number, header: None, bytes, end: none });
        }
        let end = self.scan(number, &bytes, start, Seed::of(&header));
        Ok(Read { file, number, header: Some(header), bytes, end })
    }

    fn scan(&mut self, number: u32, bytes: &[u8], start: u32, seed: Seed) -> ScanEnd {
        scan(bytes, start, seed, |offset, frame, record| {
            self.report.records += 1;
            let place = Place { segment: number, offset, bytes: frame.bytes() as u32 };
            if let Some(stream) = record.stream() {
                self.streams_below = self.streams_below.max(stream.0.saturating_add(1));
            }
            match record {
                Record::Declare(_) | Record::Put(_) | Record::Set { .. } => {
                    self.contents.insert(place, frame.payload);
                }
                Record::Removed { oldest } => self.oldest = self.oldest.max(oldest),
                _ => {}
            }
            let (first, segments) = (self.first, &mut self.segments);
            if let Some(segment) = segment_of(segments, first, place) {
                segment.live += u64::from(place.bytes);
            }
            self.index.apply(&record, place, &mut |dead| {
                self.contents.take(dead);
                if let Some(segment) = segment_of(segments, first, dead) {
                    segment.live -= u64::from(dead.bytes);
                }
            });
        })
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

    /// Reports damage behind the last whole batch and, if it is accepted, goes on reading behind it.
    fn skip_damage(&mut self, read: &mut Read<D::File>, what: DamageKind) -> Result<(), OpenError> {
        let length = read.bytes.len() as u32;
        let seed = read.header.as_ref().map_or(Seed::new(0, 0), Seed::of);
        let from = read.end.whole;
        let next = next_mark(&read.bytes, from + 1, seed).map_or(length, |(at, _)| at);
        self.damaged(read.number, u64::from(from), u64::from(next - from.min(next)), what)?;
        if next >= length {
            (read.end.whole, read.end.error) = (length, None);
            return Ok(());
        }
        let bytes = std::mem::take(&mut read.bytes);
        read.end = self.scan(read.number, &bytes, next, seed);
        read.bytes = bytes;
        Ok(())
    }

    /// The newest segment is where writing goes on, behind its last whole batch.
    fn go_on(mut self, tail: Option<Read<D::File>>) -> Result<Opened<D>, OpenError> {
        let Some(mut tail) = tail.filter(|tail| tail.header.is_some()) else {
            // Only after damage that was accepted.
            return self.begin_again();
        };
        let seed = tail.header.as_ref().map_or(Seed::new(0, 0), Seed::of);
        while let Some((_, error)) = tail.end.error {
            let is_torn =
                error != FrameError::Unknown && !was_synced(&tail.bytes, tail.end.whole, seed);
            if is_torn {
                break;
            }
            self.skip_damage(&mut tail, DamageKind::Record(error))?;
        }
        self.check_high_water(&tail)?;
        if tail.end.ended {
            self.damaged(tail.number + 1, 0, 0, DamageKind::Missing)?;
        }
        if self.first > self.oldest {
            self.damaged(self.oldest, 0, 0, DamageKind::Missing)?;
        }
        self.check_declared()?;
        if !self.report.damage.is_empty() {
            return self.begin_again();
        }
        let mended = self.mend_tail(&mut tail);
        mended.map_err(|error| self.refused("mend the end of the log", error))?;
        let (bytes, salt) = (tail.end.whole, self.salt.unwrap_or(self.opening.salt));
        if let Some(segment) = self.segments.back_mut() {
            segment.bytes = u64::from(bytes);
        }
        let head = Head { file: tail.file, seed, bytes, synced: bytes };
        let mut opened = self.finish(head, salt)?;
        // What cannot be removed now is only in the way of nobody; the next start tries again.
        let _ = opened.log.remove_old();
        Ok(opened)
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
        let lost: Vec<_> = self
            .index
            .streams()
            .filter(|(_, stream)| stream.declaration.is_none())
            .map(|(id, stream)| (id, stream.messages.first().map(|message| message.place)))
            .collect();
        for (stream, place) in lost {
            let place = place.unwrap_or(Place::NONE);
            let (number, offset) = (place.segment, u64::from(place.offset));
            self.damaged(number, offset, u64::from(place.bytes), DamageKind::Undeclared)?;
            let (first, segments, contents) = (self.first, &mut self.segments, &mut self.contents);
            self.index.apply(&Record::Drop { stream }, Place::NONE, &mut |dead| {
                contents.take(dead);
                if let Some(segment) = segment_of(segments, first, dead) {
                    segment.live -= u64::from(dead.bytes);
                }
            });
        }
        Ok(())
    }

    /// After damage that was accepted: writes everything that is left into new segments and puts the old ones
    /// aside.
    fn begin_again(mut self) -> Result<Opened<D>, OpenError> {
        self.check_declared()?;
        let number = self.first + self.segments.len() as u32;
        let salt = self.salt.unwrap_or(self.opening.salt);
        let header = Header { salt, number, oldest: self.first };
        let head = begin(&mut self.disk, &header);
        let head = head.map_err(|error| self.refused("begin a new segment", error))?;
        self.segments.push_back(Segment { bytes: HEADER_BYTES as u64, live: 0 });
        let directory = self.directory.clone();
        let mut opened = self.finish(head, salt)?;
        match opened.log.write_again(&opened.recovered) {
            Ok(()) => Ok(opened),
            Err(error) => Err(OpenError::System {
                directory,
                what: "write what is left of a damaged log",
                error: io::Error::other(error),
            }),
        }
    }

    fn finish(mut self, head: Head<D::File>, salt: u64) -> Result<Opened<D>, OpenError> {
        let number = self.first + (self.segments.len() as u32 - 1);
        let end = (salt, number, head.bytes);
        let high_water = HighWaterFile::open(&mut self.disk, self.high_water, end);
        let high_water =
            high_water.map_err(|error| self.refused("mark the end of the log", error))?;
        let index = self.index;
        let needed_from = self.oldest;
        let log = Log {
            disk: self.disk,
            salt,
            segment_bytes: self.opening.segment_bytes,
            index,
            oldest: self.first,
            segments: self.segments,
            head,
            high_water,
            written: Vec::new(),
            is_broken: false,
            needed_from,
            cleaning: None,
        };
        let recovered = assemble(&log.index, self.contents, self.report);
        Ok(Opened { log, recovered, streams_below: self.streams_below })
    }

    /// Whether a segment has its header and nothing else.
    fn is_empty(&mut self, number: u32) -> bool {
        let mut header = [0; HEADER_BYTES];
        let length = self.disk.open(&segment_name(number)).and_then(|mut file| {
            file.read(0, &mut header)?;
            file.bytes()
        });
        length.is_ok_and(|length| length == HEADER_BYTES as u64) && Header::decode(&header).is_ok()
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
        let damage = Damage { file: segment_name(number), offset, bytes, what };
        if self.opening.accept_damage {
            self.report.damage.push(damage);
            return Ok(());
        }
        Err(OpenError::Damaged { directory: self.directory.clone(), damage })
    }

    fn refused(&self, what: &'static str, error: io::Error) -> OpenError {
        OpenError::System { directory: self.directory.clone(), what, error }
    }
}

/// Writes once more what was perhaps never written to the disk, though it can be read: a sync that fails leaves
/// such bytes in memory.
fn write_unproven<F: DiskFile>(read: &mut Read<F>) -> io::Result<()> {
    let from = read.end.synced as usize;
    if let Some(unproven) = read.bytes.get(from..read.end.whole as usize) {
        read.file.rewrite(from as u64, unproven)?;
    }
    read.file.sync()
}

/// What is wrong with a segment that others follow.
fn damage_of_ended<F>(read: &Read<F>) -> Option<DamageKind> {
    match read.end.error {
        Some((_, error)) => Some(DamageKind::Record(error)),
        None if !read.end.ended => Some(DamageKind::Short),
        None => None,
    }
}
