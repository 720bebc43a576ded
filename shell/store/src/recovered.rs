//! What a store holds when it is opened: streams with their messages, and named values.
//!
//! Relies on nothing. Invariant: streams come in the order in which they were made, messages in the order of
//! their numbers.

use std::sync::Arc;

use bytes::Bytes;
use tiderace_bodies::{BodyFile, Charge, Kept};

use crate::disk::DiskFile;
use crate::error::Damage;
use crate::record::{Body, Mark, StreamId, StreamKind};

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
    /// Of a topic, what is left of its messages, in order.
    pub messages: Vec<RecoveredMessages>,
    /// Of a queue, which of its messages are there, in order. They are read by asking for them: see
    /// [`crate::LoadRequest`].
    pub stored: Vec<StoredRange>,
}

/// Messages with consecutive numbers that are in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredRange {
    /// The number of the first.
    pub first: u64,
    /// The number of the last.
    pub last: u64,
    /// Bytes of them in the log; of a record of which only some are there, their part.
    pub bytes: u64,
}

impl StoredRange {
    /// How many messages these are.
    pub fn count(&self) -> u64 {
        (self.last - self.first).saturating_add(1)
    }
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
    /// Of a single message, its body, if that lies in a file.
    pub body: Option<OpenBody>,
}

/// A body that lies in a file beside the log.
#[derive(Clone, Debug)]
pub struct OpenBody {
    /// Where it lies.
    pub place: Body,
    /// The file, if it is one of the operating system and open.
    pub file: Option<Arc<BodyFile>>,
}

impl OpenBody {
    /// Opens what a file is for those who need the body.
    pub(crate) fn new(place: Body, file: impl DiskFile, charge: Option<Charge>) -> OpenBody {
        let Body { file: number, offset, length, checksum } = place;
        let file = file.into_file().map(|file| {
            // What is before the body in its file is not needed, and is there.
            let kept = Kept { number, offset: 0, length: offset.saturating_add(length) };
            let file = BodyFile::kept(file, kept, charge);
            file.set_checksum(offset, length, checksum);
            Arc::new(file)
        });
        OpenBody { place, file }
    }
}

impl PartialEq for OpenBody {
    fn eq(&self, other: &OpenBody) -> bool {
        self.place == other.place
    }
}

impl Eq for OpenBody {}

/// What opening has found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Segments of the log.
    pub segments: u32,
    /// Those of which only the summary was read.
    pub summaries: u32,
    /// Bytes read.
    pub bytes: u64,
    /// Records read, in summaries too.
    pub records: u64,
    /// Records of volatile streams, which are not there any more.
    pub volatile_records: u64,
    /// Bytes of these records, which the log gives back by and by.
    pub volatile_bytes: u64,
    /// Bytes of a torn end that were cut off. None of them was acknowledged, unless `store.sync` says that
    /// acknowledgements do not wait for the disk.
    pub cut: u64,
    /// Damage that was accepted.
    pub damage: Vec<Damage>,
    /// Where the damaged bytes are kept from now on.
    pub set_aside: Vec<SetAside>,
    /// Damaged bytes of which no copy was made, because there are too many copies.
    pub not_set_aside: u64,
}

/// A file beside the log with bytes that could not be read as what they were.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetAside {
    /// Its name.
    pub file: String,
    /// Its length.
    pub bytes: u64,
}

impl Recovered {
    /// The paths of the topics and queues that damage concerns, as far as they are known.
    pub fn paths_of(&self, damage: &Damage) -> Vec<&str> {
        let lost = damage.lost.as_ref().map_or_else(Vec::new, |lost| lost.streams());
        let path = |stream: StreamId| {
            let at = self.streams.binary_search_by_key(&stream, |found| found.stream).ok()?;
            self.streams.get(at).map(|found| &*found.path)
        };
        lost.into_iter().filter_map(path).collect()
    }
}
