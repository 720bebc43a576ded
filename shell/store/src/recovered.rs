//! What a store holds when it is opened: streams with their messages, and named values.
//!
//! Relies on `index`. Invariant: streams come in the order in which they were made, messages in the order of
//! their numbers.

use bytes::Bytes;
use foldhash::fast::RandomState;
use hashbrown::HashMap;

use crate::error::Damage;
use crate::index::{Index, Stream};
use crate::messages::{Message, Place};
use crate::record::{Mark, Record, StreamId, StreamKind};

/// The contents of the records that are needed, by segment and offset.
pub(crate) type Contents = HashMap<(u32, u32), Bytes, RandomState>;

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
    let mut streams: Vec<RecoveredStream> = index
        .streams()
        .filter_map(|(id, stream)| recovered_stream(index, id, stream, &mut contents))
        .collect();
    streams.sort_unstable_by_key(|stream| stream.stream);
    let mut values: Vec<(Box<str>, Bytes)> = index
        .values()
        .filter_map(|(name, place)| {
            let content = take(&mut contents, place)?;
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
    let content = take(contents, stream.declaration)?;
    let Some(Record::Declare(declaration)) = Record::decode(&content) else { return None };
    let messages = stream
        .messages
        .iter()
        .filter_map(|message| recovered_messages(index, id, message, contents))
        .collect();
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
    let content = take(contents, message.place)?;
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

fn take(contents: &mut Contents, place: Place) -> Option<Bytes> {
    contents.remove(&(place.segment, place.offset))
}
