//! What a server is given of a log when it is opened: the index is complete, and what it needs is read by its place.
//!
//! Relies on `index` and `frame`. Of a topic everything that is needed is read, of a queue its declaration alone: its
//! messages are read when they are asked for, so memory and time do not depend on how many there are. Places are
//! read in the order of the log, neighbours together. Invariants: what is given was verified; streams come in the
//! order in which they were made, messages in the order of their numbers.

use std::io;

use bytes::Bytes;

use crate::disk::{Disk, DiskFile, is_lasting};
use crate::error::{Damage, DamageKind};
use crate::frame::{FrameError, Seed, read};
use crate::header::segment_name;
use crate::index::Index;
use crate::messages::{Place, stretch_of};
use crate::record::{Record, StreamId, StreamKind};
use crate::recovered::{
    OpenBody, Recovered, RecoveredMessages, RecoveredStream, Report, StoredRange,
};
use crate::streams::Stream;

/// Records that lie no further apart than this are read together: to read what lies between costs less than
/// another call.
const GAP_BYTES_MAX: u32 = 32 << 10;
/// Bytes of several records that are read together.
const STRETCH_BYTES_MAX: u32 = 1 << 20;

/// Why contents cannot be read.
#[derive(Debug)]
pub(crate) enum ContentsError {
    /// The disk does not give them.
    System(io::Error),
    /// They are not what was written.
    Damaged(Damage),
}

/// A record that has to be read, and what it belongs to.
#[derive(Clone, Copy, Debug)]
struct Wanted {
    place: Place,
    part: Part,
}

#[derive(Clone, Copy, Debug)]
enum Part {
    /// Of which stream.
    Declaration(u32),
    /// Of which stream, and which record of it.
    Messages(u32, u32),
    /// Which value.
    Value(u32),
}

/// Reads everything that a server needs.
pub(crate) fn assemble<D: Disk>(
    disk: &mut D,
    salt: u64,
    index: &Index,
    report: Report,
) -> Result<Recovered, ContentsError> {
    let mut wanted = Vec::new();
    let streams = streams(index, &mut wanted);
    let values = values(index, &mut wanted);
    wanted.sort_unstable_by_key(|wanted| (wanted.place.segment, wanted.place.offset));
    let mut recovered = Recovered { streams, values, report };
    let mut rest = &wanted[..];
    while let Some(first) = rest.first() {
        let segment = first.place.segment;
        let count = rest.partition_point(|wanted| wanted.place.segment <= segment);
        let (of_segment, behind) = rest.split_at(count);
        let file = disk.open(&segment_name(segment)).map_err(ContentsError::System)?;
        let mut reading = Reading { file, segment, seed: Seed::new(salt, segment) };
        reading.read_all(of_segment, &mut recovered)?;
        rest = behind;
    }
    Ok(recovered)
}

/// The streams, without what has to be read.
fn streams(index: &Index, wanted: &mut Vec<Wanted>) -> Vec<RecoveredStream> {
    let mut found: Vec<(StreamId, &Stream)> = Vec::with_capacity(index.stream_count());
    found.extend(index.streams().filter(|(_, stream)| !stream.declaration.is_none()));
    found.sort_unstable_by_key(|(id, _)| *id);
    let mut streams = Vec::with_capacity(found.len());
    for (at, (id, stream)) in found.into_iter().enumerate() {
        let at = at as u32;
        wanted.push(Wanted { place: stream.declaration, part: Part::Declaration(at) });
        let (mut messages, mut stored) = (Vec::new(), Vec::new());
        match stream.kind {
            StreamKind::Topic => {
                // Counted first: most have one, and a list that grows by itself has room for four.
                messages.reserve_exact(stream.messages.iter().count());
                for (record, message) in stream.messages.iter().enumerate() {
                    let part = Part::Messages(at, record as u32);
                    wanted.push(Wanted { place: message.place, part });
                    messages.push(RecoveredMessages {
                        sequence: message.sequence,
                        count: message.count,
                        version: 0,
                        bytes: Bytes::new(),
                        gone: index.gone(id, message.sequence),
                        body: index
                            .body(id, message.sequence)
                            .map(|place| OpenBody { place, file: None }),
                    });
                }
            }
            StreamKind::Queue => stored = stored_ranges(index, id, stream),
        }
        streams.push(RecoveredStream {
            stream: id,
            kind: stream.kind,
            path: Box::default(),
            spec: Bytes::new(),
            mark: stream.mark,
            messages,
            stored,
        });
    }
    streams
}

/// The messages that are there, neighbours as one range.
fn stored_ranges(index: &Index, id: StreamId, stream: &Stream) -> Vec<StoredRange> {
    let mut ranges: Vec<StoredRange> = Vec::new();
    for message in stream.messages.iter() {
        let mut push = |first: u64, last: u64| {
            let bytes = u64::from(index.bytes_alone(message.place)) * (last - first + 1);
            let bytes = bytes / u64::from(message.count);
            match ranges.last_mut() {
                Some(before) if before.last + 1 == first => {
                    before.last = last;
                    before.bytes += bytes;
                }
                _ => ranges.push(StoredRange { first, last, bytes }),
            }
        };
        let mut from = Some(message.sequence);
        for (first_gone, last_gone) in index.gone(id, message.sequence) {
            if let Some(first) = from.filter(|first| *first < first_gone) {
                push(first, first_gone - 1);
            }
            from = last_gone.checked_add(1);
        }
        if let Some(first) = from.filter(|first| *first <= message.last()) {
            push(first, message.last());
        }
    }
    ranges.shrink_to_fit();
    ranges
}

/// The names of the values, in order; what they are has to be read.
fn values(index: &Index, wanted: &mut Vec<Wanted>) -> Vec<(Box<str>, Bytes)> {
    let mut found: Vec<(&str, Place)> = index.values().collect();
    found.sort_unstable_by_key(|(name, _)| *name);
    let mut values = Vec::with_capacity(found.len());
    for (at, (name, place)) in found.into_iter().enumerate() {
        wanted.push(Wanted { place, part: Part::Value(at as u32) });
        values.push((name.into(), Bytes::new()));
    }
    values
}

/// A segment of which records are read.
struct Reading<F> {
    file: F,
    segment: u32,
    seed: Seed,
}

impl<F: DiskFile> Reading<F> {
    /// Reads records, whose places rise.
    fn read_all(
        &mut self,
        mut wanted: &[Wanted],
        recovered: &mut Recovered,
    ) -> Result<(), ContentsError> {
        let mut bytes = Vec::new();
        while let Some(first) = wanted.first() {
            let places = wanted.iter().map(|wanted| wanted.place);
            let (count, length) = stretch_of(places, GAP_BYTES_MAX, STRETCH_BYTES_MAX);
            let (stretch, behind) = wanted.split_at(count);
            bytes.resize(length as usize, 0);
            let start = first.place.offset;
            let found = self.file.read(u64::from(start), &mut bytes);
            found.map_err(|error| self.unreadable(first.place, error))?;
            for Wanted { place, part } in stretch {
                let at = (place.offset - start) as usize;
                let record = bytes.get(at..at + place.bytes as usize).unwrap_or_default();
                take(record, *place, self.seed, *part, recovered).ok_or_else(|| {
                    let error = read(record, place.offset, self.seed).err();
                    self.damaged(*place, DamageKind::Record(error.unwrap_or(FrameError::Unknown)))
                })?;
            }
            wanted = behind;
        }
        Ok(())
    }

    fn unreadable(&self, place: Place, error: io::Error) -> ContentsError {
        match is_lasting(&error) {
            true => self.damaged(place, DamageKind::Unreadable(error.kind())),
            false => ContentsError::System(error),
        }
    }

    fn damaged(&self, place: Place, what: DamageKind) -> ContentsError {
        let (offset, bytes) = (u64::from(place.offset), u64::from(place.bytes));
        let file = segment_name(self.segment);
        ContentsError::Damaged(Damage { file, offset, bytes, what, lost: None })
    }
}

/// Puts a record where it belongs; `None` if it is not the one that the index has there.
fn take(
    record: &[u8],
    place: Place,
    seed: Seed,
    part: Part,
    recovered: &mut Recovered,
) -> Option<()> {
    let frame = read(record, place.offset, seed).ok()?;
    match (part, Record::decode(frame.payload)?) {
        (Part::Declaration(at), Record::Declare(declaration)) => {
            let stream = recovered.streams.get_mut(at as usize)?;
            (declaration.stream == stream.stream).then_some(())?;
            stream.path = declaration.path.into();
            stream.spec = Bytes::copy_from_slice(declaration.spec);
        }
        (Part::Messages(at, number), record) => {
            let stream = recovered.streams.get_mut(at as usize)?;
            let messages = stream.messages.get_mut(number as usize)?;
            let put = record.put_of(stream.stream, messages.sequence)?;
            (put.count == messages.count).then_some(())?;
            messages.version = put.version;
            messages.bytes = Bytes::copy_from_slice(put.bytes);
        }
        (Part::Value(at), Record::Set { name, value }) => {
            let (known, bytes) = recovered.values.get_mut(at as usize)?;
            (**known == *name).then_some(())?;
            *bytes = Bytes::copy_from_slice(value);
        }
        _ => return None,
    }
    Some(())
}
