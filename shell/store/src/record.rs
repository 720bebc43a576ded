//! What the log says: one record, as bytes and as a value.
//!
//! Relies on `fields`. A record changes one stream or one named value, or belongs to the log itself
//! ([`Record::Mark`], [`Record::End`], [`Record::Removed`]). Invariants: decoding never panics, whatever
//! the bytes; what decodes is consistent in itself (no empty or overlapping ranges, no number beyond
//! `u64`); what was encoded decodes to the same value.
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

use std::fmt;

use tiderace_base::write_varint;

use crate::fields::{Fields, write_bytes};
pub use crate::put::{Body, Put, StreamId};
use crate::settled::Stretches;
use crate::shared::PutShared;

/// What a stream is the persistence of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StreamKind {
    /// A topic: newer messages take the place of older ones.
    Topic,
    /// A queue: messages stay until they are consumed.
    Queue,
}

/// How far a stream has come. Kept also when none of its messages is left, so that no number is given twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// The highest number of a message so far; 0 for none.
    pub sequence: u64,
    /// The version of that message.
    pub version: u64,
}

/// A stream is there: its kind, path and description. Again for a stream that exists, it replaces them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Declaration<'a> {
    /// Which stream from now on.
    pub stream: StreamId,
    /// What it is the persistence of.
    pub kind: StreamKind,
    /// How far it has come: zeros for a new stream. For one that exists its mark must be said again, since
    /// this declaration may outlive the messages it is known from.
    pub mark: Mark,
    /// The path of the destination.
    pub path: &'a str,
    /// Its description: whatever the writer needs to make it again.
    pub spec: &'a [u8],
}

/// Ranges of numbers, rising and apart.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Ranges<'a>(&'a [u8]);

impl Ranges<'_> {
    /// First and last number of each range.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64)> {
        let mut fields = Fields::new(self.0);
        let mut before = 0u64;
        std::iter::from_fn(move || {
            if fields.is_empty() {
                return None;
            }
            let first = before.checked_add(fields.number()?)?;
            let last = first.checked_add(fields.number()?)?;
            before = last;
            Some((first, last))
        })
    }
}

impl fmt::Debug for Ranges<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// One record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record<'a> {
    /// A stream is there.
    Declare(Declaration<'a>),
    /// Messages of a stream.
    Put(Put<'a>),
    /// Messages that several streams have.
    PutShared(PutShared<'a>),
    /// Messages up to and with this number are not needed any more.
    Trim {
        /// Whose messages.
        stream: StreamId,
        /// The last that is not needed.
        up_to: u64,
    },
    /// Messages have been consumed.
    Settle {
        /// Whose messages.
        stream: StreamId,
        /// Which.
        ranges: Ranges<'a>,
    },
    /// Messages of several streams have been consumed.
    SettleMany {
        /// Which.
        stretches: Stretches<'a>,
    },
    /// The stream is gone with all its messages.
    Drop {
        /// Which.
        stream: StreamId,
    },
    /// A named value.
    Set {
        /// Its name.
        name: &'a str,
        /// The value.
        value: &'a [u8],
    },
    /// A named value is gone.
    Unset {
        /// Its name.
        name: &'a str,
    },
    /// Begins each commit: everything before `synced` in this segment is on disk for certain.
    Mark {
        /// Bytes of the segment.
        synced: u32,
    },
    /// The segment ends here; the next one exists.
    End {
        /// Where in the segment its summary begins; 0 for none.
        summary: u32,
    },
    /// What the index needs to know of the segment: see `summary`.
    Summary {
        /// The entries.
        entries: &'a [u8],
    },
    /// Segments below this number are not needed any more.
    Removed {
        /// The oldest that is needed.
        oldest: u32,
    },
    /// A part of a body, behind the messages that have it. In the portable form alone.
    BodyPart {
        /// The bytes.
        bytes: &'a [u8],
    },
}

/// Found in front of every mark, so that marks can be searched for behind damage.
pub(crate) const MARK_MAGIC: [u8; 8] = *b"\xf7tdrmrk\xa5";

const DECLARE: u8 = 1;
const PUT: u8 = 2;
const TRIM: u8 = 3;
const SETTLE: u8 = 4;
const DROP: u8 = 5;
const SET: u8 = 6;
const UNSET: u8 = 7;
const PUT_SHARED: u8 = 12;
const SETTLE_MANY: u8 = 13;
/// A [`PUT`] with its body's place in front: see [`patch_body`].
const PUT_WITH_BODY: u8 = 14;
const MARK: u8 = 16;
const END: u8 = 17;
const REMOVED: u8 = 18;
const SUMMARY: u8 = 19;
const BODY_PART: u8 = 24;

/// Bytes of a body's place.
const BODY_BYTES: usize = 28;

impl<'a> Record<'a> {
    /// The stream of which it says something, if that is one.
    pub fn stream(&self) -> Option<StreamId> {
        match self {
            Record::Declare(declaration) => Some(declaration.stream),
            Record::Put(put) => Some(put.stream),
            Record::Trim { stream, .. }
            | Record::Settle { stream, .. }
            | Record::Drop { stream } => Some(*stream),
            _ => None,
        }
    }

    /// Whether it says something of streams that end with the life of the server.
    pub(crate) fn is_volatile(&self) -> bool {
        match self {
            Record::PutShared(shared) => shared.is_volatile(),
            Record::SettleMany { stretches } => stretches.are_volatile(),
            _ => self.stream().is_some_and(StreamId::is_volatile),
        }
    }

    /// Whether it adds data; the others only take away.
    pub(crate) fn grows(&self) -> bool {
        !matches!(
            self,
            Record::Trim { .. }
                | Record::Settle { .. }
                | Record::SettleMany { .. }
                | Record::Drop { .. }
                | Record::Unset { .. }
        )
    }

    /// The stream with the highest number of which it says something.
    pub(crate) fn highest_stream(&self) -> Option<StreamId> {
        match self {
            Record::PutShared(shared) => shared.owners.iter().last().map(|(stream, _)| stream),
            Record::SettleMany { stretches } => stretches.iter().map(|(stream, ..)| stream).max(),
            _ => self.stream(),
        }
    }

    /// What it says of the messages of a stream from that number on, if it puts them: alone, or with others.
    pub(crate) fn put_of(&self, stream: StreamId, sequence: u64) -> Option<Put<'a>> {
        match self {
            Record::Put(put) => Some(*put).filter(|put| put.stream == stream),
            Record::PutShared(shared) => {
                let is_there = shared.owners.iter().any(|owner| owner == (stream, sequence));
                is_there.then(|| shared.of(stream, sequence))
            }
            _ => None,
        }
        .filter(|put| put.sequence == sequence)
    }

    /// Appends the record's kind and body.
    pub fn encode(&self, to: &mut Vec<u8>) {
        match self {
            Record::Declare(declaration) => encode_declaration(declaration, to),
            Record::Put(put) => encode_put(put, to),
            Record::PutShared(shared) => {
                to.push(PUT_SHARED);
                shared.encode(to);
            }
            Record::Trim { stream, up_to } => numbers(to, TRIM, &[stream.0, *up_to]),
            Record::Settle { stream, ranges } => {
                numbers(to, SETTLE, &[stream.0]);
                to.extend_from_slice(ranges.0);
            }
            Record::SettleMany { stretches } => {
                to.push(SETTLE_MANY);
                to.extend_from_slice(stretches.bytes());
            }
            Record::Drop { stream } => numbers(to, DROP, &[stream.0]),
            Record::Set { name, value } => {
                to.push(SET);
                write_bytes(to, name.as_bytes());
                to.extend_from_slice(value);
            }
            Record::Unset { name } => {
                to.push(UNSET);
                to.extend_from_slice(name.as_bytes());
            }
            Record::Mark { synced } => {
                to.push(MARK);
                to.extend_from_slice(&MARK_MAGIC);
                to.extend_from_slice(&synced.to_le_bytes());
            }
            Record::End { summary } => {
                to.push(END);
                if *summary > 0 {
                    to.extend_from_slice(&summary.to_le_bytes());
                }
            }
            Record::Summary { entries } => {
                to.push(SUMMARY);
                to.extend_from_slice(entries);
            }
            Record::Removed { oldest } => numbers(to, REMOVED, &[u64::from(*oldest)]),
            Record::BodyPart { bytes } => {
                to.push(BODY_PART);
                to.extend_from_slice(bytes);
            }
        }
    }

    /// Reads kind and body; `None` if they are not exactly one record.
    pub fn decode(bytes: &'a [u8]) -> Option<Record<'a>> {
        let mut fields = Fields::new(bytes);
        let record = match fields.byte()? {
            DECLARE => Record::Declare(decode_declaration(&mut fields)?),
            PUT => Record::Put(decode_put(&mut fields)?),
            PUT_SHARED => Record::PutShared(PutShared::decode(&mut fields)?),
            PUT_WITH_BODY => {
                let body = Some(decode_body(&mut fields)?);
                // One message, so it is there or gone as a whole.
                let put = decode_put(&mut fields).filter(|put| put.count == 1)?;
                Record::Put(Put { body, ..put })
            }
            TRIM => Record::Trim { stream: StreamId(fields.number()?), up_to: fields.number()? },
            SETTLE => Record::Settle {
                stream: StreamId(fields.number()?),
                ranges: decode_ranges(fields.rest())?,
            },
            SETTLE_MANY => Record::SettleMany { stretches: Stretches::decode(&mut fields)? },
            DROP => Record::Drop { stream: StreamId(fields.number()?) },
            SET => Record::Set { name: fields.text()?, value: fields.rest() },
            UNSET => Record::Unset { name: std::str::from_utf8(fields.rest()).ok()? },
            MARK => decode_mark(fields.rest())?,
            END => decode_end(fields.rest())?,
            SUMMARY => Record::Summary { entries: fields.rest() },
            REMOVED => Record::Removed { oldest: u32::try_from(fields.number()?).ok()? },
            BODY_PART => Record::BodyPart { bytes: fields.rest() },
            _ => return None,
        };
        fields.is_empty().then_some(record)
    }
}

/// Appends ranges in the form of [`Ranges`]. They must rise and lie apart.
pub(crate) fn encode_ranges(ranges: impl IntoIterator<Item = (u64, u64)>, to: &mut Vec<u8>) {
    let mut before = 0;
    for (first, last) in ranges {
        write_varint(to, first.saturating_sub(before));
        write_varint(to, last.saturating_sub(first));
        before = last;
    }
}

/// Appends a record that ends with ranges.
pub(crate) fn encode_settle(
    stream: StreamId,
    ranges: impl IntoIterator<Item = (u64, u64)>,
    to: &mut Vec<u8>,
) {
    numbers(to, SETTLE, &[stream.0]);
    encode_ranges(ranges, to);
}

/// Begins a record that ends with stretches of several streams.
pub(crate) fn begin_settle_many(to: &mut Vec<u8>) {
    to.push(SETTLE_MANY);
}

fn numbers(to: &mut Vec<u8>, kind: u8, numbers: &[u64]) {
    to.push(kind);
    for number in numbers {
        write_varint(to, *number);
    }
}

fn encode_declaration(declaration: &Declaration<'_>, to: &mut Vec<u8>) {
    numbers(to, DECLARE, &[declaration.stream.0]);
    to.push(match declaration.kind {
        StreamKind::Topic => 0,
        StreamKind::Queue => 1,
    });
    write_varint(to, declaration.mark.sequence);
    write_varint(to, declaration.mark.version);
    write_bytes(to, declaration.path.as_bytes());
    to.extend_from_slice(declaration.spec);
}

fn decode_declaration<'a>(fields: &mut Fields<'a>) -> Option<Declaration<'a>> {
    Some(Declaration {
        stream: StreamId(fields.number()?),
        kind: match fields.byte()? {
            0 => StreamKind::Topic,
            1 => StreamKind::Queue,
            _ => return None,
        },
        mark: Mark { sequence: fields.number()?, version: fields.number()? },
        path: fields.text()?,
        spec: fields.rest(),
    })
}

fn encode_put(put: &Put<'_>, to: &mut Vec<u8>) {
    let kept = put.sequence.saturating_sub(put.keep_from);
    match &put.body {
        Some(body) => {
            to.push(PUT_WITH_BODY);
            to.extend_from_slice(&body_bytes(body));
        }
        None => to.push(PUT),
    }
    for number in [put.stream.0, put.sequence, u64::from(put.count), put.version, kept] {
        write_varint(to, number);
    }
    to.extend_from_slice(put.bytes);
}

fn body_bytes(body: &Body) -> [u8; BODY_BYTES] {
    let mut bytes = [0; BODY_BYTES];
    let (numbers, checksum) = bytes.split_at_mut(BODY_BYTES - 4);
    for (to, number) in numbers.chunks_exact_mut(8).zip([body.file, body.offset, body.length]) {
        to.copy_from_slice(&number.to_le_bytes());
    }
    checksum.copy_from_slice(&body.checksum.to_le_bytes());
    bytes
}

/// Says where the body of encoded messages lies, which were encoded with another place.
pub(crate) fn patch_body(payload: &mut [u8], body: &Body) {
    if let Some((&mut PUT_WITH_BODY, rest)) = payload.split_first_mut()
        && let Some(place) = rest.get_mut(..BODY_BYTES)
    {
        place.copy_from_slice(&body_bytes(body));
    }
}

fn decode_body(fields: &mut Fields<'_>) -> Option<Body> {
    let mut long = || Some(u64::from_le_bytes(fields.take(8)?.try_into().ok()?));
    let (file, offset, length) = (long()?, long()?, long()?);
    let checksum = u32::from_le_bytes(fields.take(4)?.try_into().ok()?);
    // A body is somewhere, and ends somewhere.
    offset.checked_add(length)?;
    Some(Body { file, offset, length, checksum })
}

fn decode_put<'a>(fields: &mut Fields<'a>) -> Option<Put<'a>> {
    let stream = StreamId(fields.number()?);
    let sequence = fields.number()?;
    let count = u32::try_from(fields.number()?).ok()?;
    let version = fields.number()?;
    let keep_from = sequence.checked_sub(fields.number()?)?;
    sequence.checked_add(u64::from(count.checked_sub(1)?))?;
    Some(Put { stream, sequence, count, version, keep_from, bytes: fields.rest(), body: None })
}

fn decode_ranges(bytes: &[u8]) -> Option<Ranges<'_>> {
    let mut fields = Fields::new(bytes);
    let mut before = None;
    while !fields.is_empty() {
        let step = fields.number()?;
        // Apart: the first number of a range is not the last of the one before.
        if before.is_some() && step == 0 {
            return None;
        }
        let first = before.unwrap_or(0u64).checked_add(step)?;
        before = Some(first.checked_add(fields.number()?)?);
    }
    Some(Ranges(bytes))
}

fn decode_end<'a>(bytes: &[u8]) -> Option<Record<'a>> {
    let summary = match bytes {
        [] => 0,
        bytes => u32::from_le_bytes(bytes.try_into().ok()?),
    };
    // Where there is none, nothing is said.
    (bytes.is_empty() || summary > 0).then_some(Record::End { summary })
}

fn decode_mark<'a>(bytes: &[u8]) -> Option<Record<'a>> {
    let synced = bytes.strip_prefix(&MARK_MAGIC)?;
    Some(Record::Mark { synced: u32::from_le_bytes(synced.try_into().ok()?) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(record: Record<'_>) {
        let mut bytes = Vec::new();
        record.encode(&mut bytes);
        assert_eq!(Record::decode(&bytes), Some(record));
    }

    #[test]
    fn every_kind_comes_back() {
        let stream = StreamId(300);
        let mut ranges = Vec::new();
        encode_ranges([(1, 1), (3, 9), (u64::MAX, u64::MAX)], &mut ranges);
        let mark = Mark { sequence: 9, version: 4 };
        for record in [
            Record::Declare(Declaration {
                stream,
                kind: StreamKind::Queue,
                mark,
                path: "fx/ä",
                spec: b"s",
            }),
            Record::Put(Put {
                stream,
                sequence: u64::MAX,
                count: 1,
                version: 7,
                keep_from: 0,
                bytes: b"",
                body: None,
            }),
            Record::Put(Put {
                stream,
                sequence: 5,
                count: 1,
                version: 7,
                keep_from: 3,
                bytes: b"properties",
                body: Some(Body { file: u64::MAX, offset: 7, length: 1 << 40, checksum: 9 }),
            }),
            Record::BodyPart { bytes: b"part" },
            Record::Trim { stream, up_to: 5 },
            Record::Settle { stream, ranges: Ranges(&ranges) },
            Record::Drop { stream },
            Record::Set { name: "epoch", value: b"\0\x01" },
            Record::Unset { name: "epoch" },
            Record::Mark { synced: 77 },
            Record::End { summary: 0 },
            Record::End { summary: 4711 },
            Record::Summary { entries: b"entries" },
            Record::Removed { oldest: 3 },
        ] {
            round_trip(record);
        }
    }

    #[test]
    fn inconsistent_records_are_refused() {
        let put = |numbers: &[u64]| {
            let mut bytes = Vec::new();
            super::numbers(&mut bytes, PUT, numbers);
            Record::decode(&bytes).is_some()
        };
        assert!(put(&[1, 5, 1, 0, 5]));
        assert!(!put(&[1, 5, 0, 0, 5]), "no messages");
        assert!(!put(&[1, 5, 1, 0, 6]), "keeps from below zero");
        assert!(!put(&[1, u64::MAX, 2, 0, 0]), "numbers beyond the last");
        let settle = |ranges: &[(u64, u64)]| {
            let mut bytes = Vec::new();
            encode_settle(StreamId(1), ranges.iter().copied(), &mut bytes);
            Record::decode(&bytes).is_some()
        };
        assert!(settle(&[(1, 2), (3, 3)]));
        assert!(!settle(&[(1, 2), (2, 3)]), "overlap");
        assert_eq!(Record::decode(&[END, 0]), None, "more than one record");
        assert_eq!(Record::decode(&[]), None);
        let mut body = vec![PUT_WITH_BODY];
        body.extend_from_slice(&body_bytes(&Body { offset: 1, length: 9, ..Body::default() }));
        super::numbers(&mut body, 1, &[5, 1, 0, 5]);
        assert!(Record::decode(&body).is_some());
        patch_body(&mut body, &Body { offset: 1, length: u64::MAX, ..Body::default() });
        assert_eq!(Record::decode(&body), None, "a body beyond all files");
        assert_eq!(Record::decode(&[99]), None);
    }
}
