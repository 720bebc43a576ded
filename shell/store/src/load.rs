//! Messages of a stream that are read back while the store is open.
//!
//! Relies on `index` for where they lie and on `frame` for whether they are what was written. A load is done in two
//! steps: [`crate::Store::begin_load`] finds the places and opens the files, on the thread that owns the store, and
//! [`PendingLoad::read`] reads them, on any other. Files that are open stay readable when cleaning removes them
//! meanwhile, and no byte of a segment changes once it is in the index. Invariants: what is given is what was put, or
//! is told as damaged; damage to one record keeps nobody from those behind it; what only cannot be read now is neither
//! given nor passed over. A load has in memory what it answers and one stretch, and a bounded number of files open.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

use crate::disk::{Disk, DiskFile, is_lasting};
use crate::error::{Damage, DamageKind};
use crate::frame::{FrameError, Seed, read};
use crate::header::segment_name;
use crate::log::Log;
use crate::messages::{Message, Place, stretch_of};
use crate::record::{Put, Record, StreamId};
use crate::recovered::RecoveredMessages;

/// Records that lie no further apart than this are read together.
const GAP_BYTES_MAX: u32 = 4 << 10;
/// Bytes of several records that are read together.
const STRETCH_BYTES_MAX: u32 = 256 << 10;
/// Segments whose files are kept open for the next load.
const FILES_KEPT: usize = 8;
/// Segments of which one load reads.
const FILES_MAX: usize = 16;
/// What a record of an answer costs in memory beside its bytes.
const RECORD_OVERHEAD: usize = 128;

/// Asks for messages of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadRequest {
    /// By this the answer is known.
    pub ticket: u64,
    /// Whose messages.
    pub stream: StreamId,
    /// A stream with other numbers, if its messages are wanted too, each at its place among those of the first.
    pub beside: Option<StreamId>,
    /// The number of the first that is wanted.
    pub first: u64,
    /// The number of the last that is wanted; `u64::MAX` for all there are.
    pub last: u64,
    /// Bytes that the answer may have, with some for each record beside its own. It has at least one record, however
    /// large that is, unless it is delayed.
    pub bytes_max: usize,
}

/// What a [`LoadRequest`] was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loaded {
    /// Who asked.
    pub shard: u16,
    /// The request's.
    pub ticket: u64,
    /// Whose messages; the first of both, if two were asked for.
    pub stream: StreamId,
    /// What was put and is still needed, in the order of its numbers, as whole as it was put: a record may begin
    /// before the first message that was asked for and end behind the last. None if there is no such stream.
    pub messages: Vec<RecoveredMessages>,
    /// What should be here and cannot be read, in the order of its numbers.
    pub damaged: Vec<DamagedMessages>,
    /// The first number that was not looked for, because the answer is as large as it may be. `None` if all that was
    /// asked for is here.
    pub next: Option<u64>,
    /// What keeps the store from reading on now, and may pass: too many open files, no memory. What is here is right;
    /// ask for the rest, from [`Loaded::next`] on, a while later.
    pub delayed: Option<io::ErrorKind>,
}

/// Messages that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedMessages {
    /// The number of the first.
    pub sequence: u64,
    /// How many; some may be gone.
    pub count: u32,
    /// Those that were trimmed or consumed, as in [`RecoveredMessages::gone`].
    pub gone: Vec<(u64, u64)>,
    /// Where they lie, and what is wrong.
    pub damage: Damage,
}

/// Files that several loads read.
type Shared<F> = Arc<Mutex<F>>;
/// Segments with their files, or why these cannot be opened.
type Files<F> = Vec<(u32, Result<Shared<F>, io::ErrorKind>)>;

/// Segments that were read last, with their files.
#[derive(Debug)]
pub(crate) struct OpenSegments<F>(VecDeque<(u32, Shared<F>)>);

impl<F: DiskFile> OpenSegments<F> {
    pub(crate) fn new() -> OpenSegments<F> {
        OpenSegments(VecDeque::new())
    }

    /// Closes the files of segments that were removed, so that their room is given back.
    pub(crate) fn forget_below(&mut self, oldest: u32) {
        self.0.retain(|(segment, _)| *segment >= oldest);
    }

    pub(crate) fn open<D: Disk<File = F>>(
        &mut self,
        disk: &mut D,
        segment: u32,
    ) -> io::Result<Shared<F>> {
        if let Some(at) = self.0.iter().position(|(known, _)| *known == segment)
            && let Some(found) = self.0.remove(at)
        {
            let file = Arc::clone(&found.1);
            self.0.push_front(found);
            return Ok(file);
        }
        let file = Arc::new(Mutex::new(disk.open(&segment_name(segment))?));
        self.0.truncate(FILES_KEPT - 1);
        self.0.push_front((segment, Arc::clone(&file)));
        Ok(file)
    }
}

/// A load whose places are known and which is not read yet.
#[derive(Debug)]
pub struct PendingLoad<F> {
    answer: Loaded,
    /// The number of the first message that is wanted.
    first: u64,
    /// What the answer costs in memory.
    bytes: usize,
    salt: u64,
    wanted: Vec<Wanted>,
    files: Files<F>,
}

#[derive(Debug)]
struct Wanted {
    stream: StreamId,
    message: Message,
    gone: Vec<(u64, u64)>,
}

/// Finds what a load has to read.
pub(crate) fn begin<D: Disk>(
    log: &mut Log<D>,
    open: &mut OpenSegments<D::File>,
    shard: u16,
    request: &LoadRequest,
) -> PendingLoad<D::File> {
    // What is asked for may be written and not yet in the index.
    log.account();
    let LoadRequest { ticket, stream, beside, first, last, bytes_max } = *request;
    let (messages, damaged) = (Vec::new(), Vec::new());
    let mut answer = Loaded { shard, ticket, stream, messages, damaged, next: None, delayed: None };
    let mut wanted: Vec<Wanted> = Vec::new();
    let mut files: Files<D::File> = Vec::new();
    let mut bytes = 0usize;
    open.forget_below(log.oldest);
    let of_stream = |stream: StreamId| {
        let found = log.index.stream(stream).into_iter();
        found
            .flat_map(move |found| found.messages.from(first))
            .map(move |message| (stream, message))
    };
    let mut found = of_stream(stream).peekable();
    let mut others = beside.into_iter().flat_map(of_stream).peekable();
    // In the order of their numbers, whosever they are.
    let found = std::iter::from_fn(|| match (found.peek(), others.peek()) {
        (Some((_, one)), Some((_, other))) if other.sequence < one.sequence => others.next(),
        (None, _) => others.next(),
        _ => found.next(),
    });
    for (stream, message) in found.take_while(|(_, message)| message.sequence <= last) {
        let gone = log.index.gone(stream, message.sequence);
        let more = message.place.bytes as usize + RECORD_OVERHEAD + size_of_val(&*gone);
        let is_long = bytes.saturating_add(more) > bytes_max && !wanted.is_empty();
        let opened = match is_long {
            true => Opened::TooMany,
            false => open_for(&mut log.disk, open, &mut files, message.place.segment),
        };
        if opened != Opened::Here {
            answer.stop_at(message.sequence.max(first), opened.reason());
            break;
        }
        bytes = bytes.saturating_add(more);
        wanted.push(Wanted { stream, message: *message, gone });
    }
    PendingLoad { answer, first, bytes, salt: log.salt, wanted, files }
}

/// Whether the file of a segment is open for a load.
#[derive(PartialEq)]
enum Opened {
    /// It is, or it is known why it never will be.
    Here,
    /// The load is as large as it may be.
    TooMany,
    /// Not now.
    NotNow(io::ErrorKind),
}

impl Opened {
    fn reason(self) -> Option<io::ErrorKind> {
        match self {
            Opened::NotNow(kind) => Some(kind),
            _ => None,
        }
    }
}

fn open_for<D: Disk>(
    disk: &mut D,
    open: &mut OpenSegments<D::File>,
    files: &mut Files<D::File>,
    segment: u32,
) -> Opened {
    if files.iter().any(|(known, _)| *known == segment) {
        return Opened::Here;
    }
    if files.len() == FILES_MAX {
        return Opened::TooMany;
    }
    match open.open(disk, segment) {
        Err(error) if !is_lasting(&error) => return Opened::NotNow(error.kind()),
        file => files.push((segment, file.map_err(|error| error.kind()))),
    }
    Opened::Here
}

impl Loaded {
    fn stop_at(&mut self, next: u64, delayed: Option<io::ErrorKind>) {
        (self.next, self.delayed) = (Some(next), delayed);
    }
}

/// Why a stretch was not read.
enum NotRead {
    /// It cannot be.
    Lasting(io::ErrorKind),
    /// It cannot be now.
    NotNow(io::ErrorKind),
}

impl From<io::Error> for NotRead {
    fn from(error: io::Error) -> NotRead {
        match is_lasting(&error) {
            true => NotRead::Lasting(error.kind()),
            false => NotRead::NotNow(error.kind()),
        }
    }
}

impl<F: DiskFile> PendingLoad<F> {
    /// Bytes that the answer will have in memory.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Reads and verifies what was found.
    pub fn read(mut self) -> Loaded {
        let wanted = std::mem::take(&mut self.wanted);
        let mut rest = &wanted[..];
        while !rest.is_empty() {
            let places = rest.iter().map(|wanted| wanted.message.place);
            let (count, _) = stretch_of(places, GAP_BYTES_MAX, STRETCH_BYTES_MAX);
            let (stretch, behind) = rest.split_at(count);
            if !self.read_stretch(stretch) {
                break;
            }
            rest = behind;
        }
        self.answer
    }

    /// Reads neighbours in one go, and each by itself if that fails; whether there is more to be read now.
    fn read_stretch(&mut self, stretch: &[Wanted]) -> bool {
        let (Some(first), Some(last)) = (stretch.first(), stretch.last()) else { return true };
        let start = first.message.place.offset;
        let bytes = last.message.place.offset - start + last.message.place.bytes;
        let place = Place { offset: start, bytes, ..first.message.place };
        match self.read_bytes(place) {
            Ok(bytes) if stretch.len() == 1 => self.take(first, bytes, false),
            Ok(bytes) => {
                for wanted in stretch {
                    let at = (wanted.message.place.offset - start) as usize;
                    let record = at..at + wanted.message.place.bytes as usize;
                    self.take(wanted, bytes.slice(record), true);
                }
            }
            Err(NotRead::NotNow(kind)) => {
                self.answer.stop_at(first.message.sequence.max(self.first), Some(kind));
                return false;
            }
            Err(NotRead::Lasting(kind)) if stretch.len() == 1 => {
                self.damaged(first, DamageKind::Unreadable(kind));
            }
            Err(NotRead::Lasting(_)) => {
                return stretch.iter().all(|one| self.read_stretch(std::slice::from_ref(one)));
            }
        }
        true
    }

    fn read_bytes(&self, place: Place) -> Result<Bytes, NotRead> {
        let file = self.files.iter().find(|(segment, _)| *segment == place.segment);
        let file = file.map_or(Err(io::ErrorKind::NotFound), |(_, file)| file.clone());
        let file = file.map_err(NotRead::Lasting)?;
        let mut bytes = Vec::new();
        // One record may be as large as the machine's memory is short.
        let reserved = bytes.try_reserve_exact(place.bytes as usize);
        reserved.map_err(|_| NotRead::NotNow(io::ErrorKind::OutOfMemory))?;
        bytes.resize(place.bytes as usize, 0);
        let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
        file.read(u64::from(place.offset), &mut bytes)?;
        Ok(bytes.into())
    }

    /// Verifies a record. Of one that was read with others its bytes are copied, so that it keeps nothing else.
    fn take(&mut self, wanted: &Wanted, record: Bytes, is_shared: bool) {
        let put = match self.verify(wanted, &record) {
            Ok(put) => put,
            Err(error) => return self.damaged(wanted, DamageKind::Record(error)),
        };
        let Put { sequence, count, version, .. } = put;
        let bytes = match is_shared {
            true => Bytes::copy_from_slice(put.bytes),
            false => record.slice_ref(put.bytes),
        };
        let gone = wanted.gone.clone();
        self.answer.messages.push(RecoveredMessages { sequence, count, version, bytes, gone });
    }

    fn verify<'a>(&self, wanted: &Wanted, record: &'a [u8]) -> Result<Put<'a>, FrameError> {
        let Wanted { stream, message, .. } = wanted;
        let seed = Seed::new(self.salt, message.place.segment);
        let frame = read(record, message.place.offset, seed)?;
        let put = Record::decode(frame.payload).and_then(|it| it.put_of(*stream, message.sequence));
        put.filter(|put| put.count == message.count).ok_or(FrameError::Unknown)
    }

    fn damaged(&mut self, wanted: &Wanted, what: DamageKind) {
        let Message { sequence, count, place } = wanted.message;
        let (offset, bytes) = (u64::from(place.offset), u64::from(place.bytes));
        let file = segment_name(place.segment);
        let damage = Damage { file, offset, bytes, what, lost: None };
        let gone = wanted.gone.clone();
        self.answer.damaged.push(DamagedMessages { sequence, count, gone, damage });
    }
}
