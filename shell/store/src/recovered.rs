//! What a store holds when it is opened: streams with their messages, and named values.
//!
//! Relies on `index`. Invariant: streams come in the order in which they were made, messages in the order of
//! their numbers.

use bytes::Bytes;

use crate::error::Damage;
use crate::index::Index;
use crate::messages::{Message, Place};
use crate::record::{Mark, Record, StreamId, StreamKind};
use crate::streams::Stream;

/// The contents of the records that are needed. They come in the order of the log, so each segment's are
/// sorted by their offsets.
#[derive(Debug, Default)]
pub(crate) struct Contents(Vec<SegmentContents>);

#[derive(Debug)]
struct SegmentContents {
    segment: u32,
    /// The payload of the record at an offset; empty when it is not needed any more.
    contents: Vec<(u32, Box<[u8]>)>,
    /// Where in `contents` each stretch of the segment begins, so that a search stays in one stretch.
    starts: Vec<u32>,
}

/// Bytes of a segment that are searched through at once.
const STRETCH: u32 = 1024;

impl Contents {
    /// Adds the payload of a record behind all others.
    pub(crate) fn insert(&mut self, place: Place, payload: &[u8]) {
        let segment = place.segment;
        if self.0.last().is_none_or(|last| last.segment != segment) {
            self.0.push(SegmentContents { segment, contents: Vec::new(), starts: Vec::new() });
        }
        let Some(last) = self.0.last_mut() else { return };
        let stretches = (place.offset / STRETCH) as usize + 1;
        if last.starts.len() < stretches {
            last.starts.resize(stretches, last.contents.len() as u32);
        }
        last.contents.push((place.offset, payload.into()));
    }

    /// The payload of a record, which is forgotten here.
    pub(crate) fn take(&mut self, place: Place) -> Option<Bytes> {
        let at = self.0.binary_search_by_key(&place.segment, |found| found.segment).ok()?;
        let SegmentContents { contents, starts, .. } = self.0.get_mut(at)?;
        let stretch = (place.offset / STRETCH) as usize;
        let start = *starts.get(stretch)? as usize;
        let end = starts.get(stretch + 1).map_or(contents.len(), |end| *end as usize);
        let contents = contents.get_mut(start..end)?;
        let at = contents.binary_search_by_key(&place.offset, |(offset, _)| *offset).ok()?;
        let (_, payload) = contents.get_mut(at)?;
        Some(std::mem::take(payload)).filter(|payload| !payload.is_empty()).map(Bytes::from)
    }
}

/// Everything that has survived.
#[derive(Debug, Default)]
pub struct Recovered {
    /// The streams, in the order in which they were declared first.
    pub streams: Vec<RecoveredStream>,
    /// The named values, in the order of their names.
    pub values: Vec<(Box<str>, Bytes)>,
    /// What opening has found.
    pub report: Report,
}

/// A stream that has survived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecoveredStream {
    /// By this it is known in the log, and has to be named from now on.
    pub stream: StreamId,
    /// What it is the persistence of.
    pub kind: StreamKind,
    /// The path of the destination.
    pub path: Box<str>,
    /// Its description, as it was declared last.
    pub spec: Bytes,
    /// How far it has come; the next message has a higher number.
    pub mark: Mark,
    /// What is left of its messages, in order.
    pub messages: Vec<RecoveredMessages>,
}

/// Consecutive messages that have survived, as they were put.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecoveredMessages {
    /// The number of the first.
    pub sequence: u64,
    /// How many; some may be gone.
    pub count: u32,
    /// The version of the last.
    pub version: u64,
    /// The messages, encoded.
    pub bytes: Bytes,
    /// Those that were trimmed or consumed: first and last number of each range, rising and apart.
    pub gone: Vec<(u64, u64)>,
}

/// What opening has found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Segments read.
    pub segments: u32,
    /// Bytes read.
    pub bytes: u64,
    /// Records read.
    pub records: u64,
    /// Bytes of a torn end that were cut off. None of them was acknowledged, unless `store.sync` says that
    /// acknowledgements do not wait for the disk.
    pub cut: u64,
    /// Damage that was accepted.
    pub damage: Vec<Damage>,
}

/// Puts contents in order.
pub(crate) fn assemble(index: &Index, mut contents: Contents, report: Report) -> Recovered {
    let mut streams = Vec::with_capacity(index.stream_count());
    streams.extend(
        index
            .streams()
            .filter_map(|(id, stream)| recovered_stream(index, id, stream, &mut contents)),
    );
    streams.sort_unstable_by_key(|stream: &RecoveredStream| stream.stream);
    let mut values: Vec<(Box<str>, Bytes)> = index
        .values()
        .filter_map(|(name, place)| {
            let content = contents.take(place)?;
            let Some(Record::Set { value, .. }) = Record::decode(&content) else { return None };
            Some((name.into(), content.slice_ref(value)))
        })
        .collect();
    values.sort_unstable();
    Recovered { streams, values, report }
}

fn recovered_stream(
    index: &Index,
    id: StreamId,
    stream: &Stream,
    contents: &mut Contents,
) -> Option<RecoveredStream> {
    let content = contents.take(stream.declaration)?;
    let Some(Record::Declare(declaration)) = Record::decode(&content) else { return None };
    // Counted first: most have one, and a list that grows by itself has room for four.
    let mut messages = Vec::with_capacity(stream.messages.iter().count());
    messages.extend(
        stream
            .messages
            .iter()
            .filter_map(|message| recovered_messages(index, id, message, contents)),
    );
    Some(RecoveredStream {
        stream: id,
        kind: declaration.kind,
        path: declaration.path.into(),
        spec: content.slice_ref(declaration.spec),
        mark: stream.mark,
        messages,
    })
}

fn recovered_messages(
    index: &Index,
    id: StreamId,
    message: &Message,
    contents: &mut Contents,
) -> Option<RecoveredMessages> {
    let content = contents.take(message.place)?;
    let Some(Record::Put(put)) = Record::decode(&content) else { return None };
    let gone = index.gone(id, message.sequence).map(|gone| gone.iter().collect());
    Some(RecoveredMessages {
        sequence: put.sequence,
        count: put.count,
        version: put.version,
        bytes: content.slice_ref(put.bytes),
        gone: gone.unwrap_or_default(),
    })
}
