//! What the index needs to know of a segment, at its end, so that opening does not read its messages.
//!
//! Relies on `record` and `fields`. While a segment is written, each record is entered with its place and without its
//! body; when the segment is ended, the entries are written as its last record but one, and the end says where that
//! begins. Invariants: applying the entries in their order does to the index what the records do; a summary that
//! cannot be read costs time and nothing else.
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

use tiderace_base::write_varint;

use crate::fields::{Fields, write_bytes};
use crate::frame::FRAME_HEADER_BYTES;
use crate::header::HEADER_BYTES;
use crate::messages::Place;
use crate::record::{Declaration, Put, Record};
use crate::shared::PutShared;

/// A segment of so many small records has none: it is read as fast as its summary would be.
pub(crate) const SUMMARY_BYTES_MAX: usize = 16 << 20;
/// A summary is worth writing if it is this part of its segment at most,
const PART_MAX: usize = 8;
/// or not longer than this.
const ALWAYS_BYTES: usize = 4 << 10;

/// Bytes of the record that ends a segment with a summary.
pub(crate) const END_BYTES: usize = FRAME_HEADER_BYTES + 1 + 4;

/// The summary of the segment that is written to.
#[derive(Debug)]
pub(crate) struct Summary {
    /// Each as the bytes since the one before, the length of the record's frame, and the record without its body.
    entries: Vec<u8>,
    /// Where the record that was entered last ends.
    end: u32,
    volatile: Volatile,
    payload: Vec<u8>,
    is_too_long: bool,
}

/// Records of volatile streams, which have no entries in a summary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Volatile {
    /// How many.
    pub records: u64,
    /// Their bytes in the log.
    pub bytes: u64,
}

impl Volatile {
    fn add(&mut self, place: Place) {
        self.records += 1;
        self.bytes += u64::from(place.bytes);
    }
}

impl Summary {
    /// That of a segment without records.
    pub(crate) fn new() -> Summary {
        Summary {
            entries: Vec::new(),
            end: HEADER_BYTES as u32,
            volatile: Volatile::default(),
            payload: Vec::new(),
            is_too_long: false,
        }
    }

    /// Enters a record that lies behind all others.
    pub(crate) fn add(&mut self, record: &Record<'_>, place: Place) {
        if record.is_volatile() {
            return self.volatile.add(place);
        }
        if self.is_too_long {
            return;
        }
        self.payload.clear();
        match record {
            Record::Declare(declaration) => {
                let bare = Declaration { path: "", spec: b"", ..*declaration };
                Record::Declare(bare).encode(&mut self.payload);
            }
            Record::Put(put) => Record::Put(Put { bytes: b"", ..*put }).encode(&mut self.payload),
            Record::PutShared(shared) => {
                let bare = PutShared { bytes: b"", ..*shared };
                Record::PutShared(bare).encode(&mut self.payload);
            }
            Record::Set { name, .. } => {
                Record::Set { name, value: b"" }.encode(&mut self.payload);
            }
            Record::Mark { .. }
            | Record::End { .. }
            | Record::Summary { .. }
            | Record::BodyPart { .. } => return,
            Record::Trim { .. }
            | Record::Settle { .. }
            | Record::SettleMany { .. }
            | Record::Drop { .. }
            | Record::Unset { .. }
            | Record::Removed { .. } => record.encode(&mut self.payload),
        }
        write_varint(&mut self.entries, u64::from(place.offset.saturating_sub(self.end)));
        write_varint(&mut self.entries, u64::from(place.bytes));
        write_bytes(&mut self.entries, &self.payload);
        self.end = place.offset.saturating_add(place.bytes);
        if self.entries.len() > SUMMARY_BYTES_MAX {
            self.is_too_long = true;
            self.entries = Vec::new();
        }
    }

    /// What is written at the end of a segment of that length; `None` if it is not worth its bytes.
    pub(crate) fn encode(&self, segment_bytes: u32) -> Option<Vec<u8>> {
        let bytes = self.entries.len();
        let is_short = bytes <= ALWAYS_BYTES || bytes <= segment_bytes as usize / PART_MAX;
        if self.is_too_long || !is_short {
            return None;
        }
        let mut encoded = Vec::with_capacity(bytes + 20);
        write_varint(&mut encoded, self.volatile.records);
        write_varint(&mut encoded, self.volatile.bytes);
        encoded.extend_from_slice(&self.entries);
        Some(encoded)
    }
}

/// Reads a summary: `each` is given the offset of each record, the length of its frame, and the record without its
/// body. `None` if the bytes are no summary of a segment of that length; what was given until then is of no use.
pub fn read(
    bytes: &[u8],
    segment_bytes: u32,
    mut each: impl FnMut(u32, u32, &Record<'_>),
) -> Option<Volatile> {
    let mut fields = Fields::new(bytes);
    let volatile = Volatile { records: fields.number()?, bytes: fields.number()? };
    let mut end = HEADER_BYTES as u32;
    while !fields.is_empty() {
        let offset = end.checked_add(u32::try_from(fields.number()?).ok()?)?;
        let length = u32::try_from(fields.number()?).ok().filter(|length| *length > 0)?;
        let record = Record::decode(fields.bytes()?)?;
        end = offset.checked_add(length).filter(|end| *end <= segment_bytes)?;
        each(offset, length, &record);
    }
    Some(volatile)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::record::{Mark, StreamId, StreamKind};

    #[test]
    fn entries_say_all_but_the_bodies() {
        let mut summary = Summary::new();
        let stream = StreamId(7);
        let mark = Mark { sequence: 9, version: 8 };
        let (kind, path, spec) = (StreamKind::Queue, "a/b", &b"spec"[..]);
        let declare = Declaration { stream, kind, mark, path, spec };
        let put = Put {
            stream,
            sequence: 10,
            count: 5,
            version: 14,
            keep_from: 3,
            bytes: b"body",
            body: None,
        };
        let volatile = StreamId::volatile(1);
        let records = [
            Record::Declare(declare),
            Record::Mark { synced: 5 },
            Record::Put(put),
            Record::Put(Put { stream: volatile, ..put }),
            Record::Set { name: "n", value: b"value" },
            Record::Trim { stream, up_to: 4 },
        ];
        let mut offset = HEADER_BYTES as u32;
        for record in &records {
            summary.add(record, Place { segment: 1, offset, bytes: 20 });
            offset += 20;
        }
        let encoded = summary.encode(offset).unwrap();
        let mut found = Vec::new();
        let read_back = read(&encoded, offset, |offset, length, record| {
            let mut bytes = Vec::new();
            record.encode(&mut bytes);
            found.push((offset, length, bytes));
        });
        assert_eq!(read_back, Some(Volatile { records: 1, bytes: 20 }));
        let expected = [
            (32, Record::Declare(Declaration { path: "", spec: b"", ..declare })),
            (72, Record::Put(Put { bytes: b"", ..put })),
            (112, Record::Set { name: "n", value: b"" }),
            (132, Record::Trim { stream, up_to: 4 }),
        ];
        let expected = expected.map(|(offset, record)| {
            let mut bytes = Vec::new();
            record.encode(&mut bytes);
            (offset, 20, bytes)
        });
        assert_eq!(found, expected);
        assert_eq!(read(&encoded, offset - 1, |_, _, _| {}), None, "beyond the segment");
        let mut between = 0;
        for length in 0..encoded.len() {
            let mut given = 0;
            let cut = read(&encoded[..length], offset, |offset, _, _| {
                assert_eq!(offset, expected[given].0, "cut at {length}");
                given += 1;
            });
            // Between two entries nothing shows that some are missing but the record around them.
            if cut.is_some() {
                assert_eq!(given, between, "cut at {length}");
                between += 1;
            }
        }
        assert_eq!(between, expected.len());
    }

    #[test]
    fn a_summary_that_is_not_worth_it_is_not_written() {
        let mut summary = Summary::new();
        let mut offset = HEADER_BYTES as u32;
        for _ in 0..1000 {
            let record = Record::Trim { stream: StreamId(1), up_to: 4 };
            summary.add(&record, Place { segment: 1, offset, bytes: 11 });
            offset += 11;
        }
        assert_eq!(summary.encode(offset), None);
        assert!(summary.encode(offset * 20).is_some());
    }
}
