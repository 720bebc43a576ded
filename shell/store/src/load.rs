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
use tiderace_bodies::Charge;

use crate::bodies::{Bodies, body_name};
use crate::body_check::{Extent, damage_of};
use crate::disk::{Disk, DiskFile, is_lasting};
use crate::error::{Damage, DamageKind};
use crate::frame::{FrameError, Seed, read};
use crate::header::segment_name;
use crate::log::Log;
use crate::messages::{Message, Place, stretch_of};
use crate::record::{Body, Put, Record, StreamId};
use crate::recovered::{OpenBody, RecoveredMessages};

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
    /// Bodies of records that lie in files, in the order of these.
    bodies: VecDeque<WantedBody<F>>,
    known: Arc<Bodies>,
}

#[derive(Debug)]
struct Wanted {
    stream: StreamId,
    message: Message,
    gone: Vec<(u64, u64)>,
}

/// The body of a record.
struct WantedBody<F> {
    body: Body,
    /// Its file, or why it cannot be opened.
    file: Result<F, io::ErrorKind>,
    charge: Option<Charge>,
}

impl<F> std::fmt::Debug for WantedBody<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WantedBody").field("body", &self.body).finish_non_exhaustive()
    }
}

/// Finds what a load has to read.
pub(crate) fn begin<D: Disk>(
    log: &mut Log<D>,
    open: &mut OpenSegments<D::File>,
    known: &Arc<Bodies>,
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
    let (mut bytes, mut body_bytes, mut bodies) = (0usize, 0u64, VecDeque::new());
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
        let body = log.index.body(stream, message.sequence);
        // They take no memory, but are read to be verified.
        let unread = body.filter(|body| !known.is_verified(body)).map_or(0, |body| body.length);
        let longer = body_bytes.saturating_add(unread);
        let is_long = bytes.saturating_add(more) as u64 > (bytes_max as u64).saturating_sub(longer);
        let opened = match is_long && !wanted.is_empty() {
            true => Opened::TooMany,
            false => open_for(&mut log.disk, open, &mut files, message.place.segment),
        };
        let opened = match body.filter(|_| opened == Opened::Here) {
            Some(body) => open_body(&mut log.disk, known, body, &mut bodies),
            None => opened,
        };
        if opened != Opened::Here {
            answer.stop_at(message.sequence.max(first), opened.reason());
            break;
        }
        (bytes, body_bytes) = (bytes.saturating_add(more), longer);
        wanted.push(Wanted { stream, message: *message, gone });
    }
    PendingLoad {
        answer,
        first,
        bytes,
        salt: log.salt,
        wanted,
        files,
        bodies,
        known: known.clone(),
    }
}

/// Opens the file of a body.
fn open_body<D: Disk>(
    disk: &mut D,
    known: &Bodies,
    body: Body,
    bodies: &mut VecDeque<WantedBody<D::File>>,
) -> Opened {
    if bodies.len() == FILES_MAX {
        return Opened::TooMany;
    }
    let file = match disk.open(&body_name(body.file)) {
        Err(error) if !is_lasting(&error) => return Opened::NotNow(error.kind()),
        file => file.map_err(|error| error.kind()),
    };
    bodies.push_back(WantedBody { body, file, charge: known.charge(body.file) });
    Opened::Here
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
    /// It is not what it was.
    Damaged(DamageKind),
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
            Ok(bytes) if stretch.len() == 1 => return self.take(first, bytes, false),
            Ok(bytes) => {
                return stretch.iter().all(|wanted| {
                    let at = (wanted.message.place.offset - start) as usize;
                    let record = at..at + wanted.message.place.bytes as usize;
                    self.take(wanted, bytes.slice(record), true)
                });
            }
            Err(NotRead::NotNow(kind)) => {
                self.answer.stop_at(first.message.sequence.max(self.first), Some(kind));
                return false;
            }
            Err(NotRead::Damaged(what)) => self.damaged(first, what),
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

    /// Verifies a record; whether there is more to be read now. Of one that was read with others its bytes are copied, so
    /// that it keeps nothing else.
    fn take(&mut self, wanted: &Wanted, record: Bytes, is_shared: bool) -> bool {
        let put = match self.verify(wanted, &record) {
            Ok(put) => put,
            Err(error) => {
                self.damaged(wanted, DamageKind::Record(error));
                return true;
            }
        };
        let body = match self.take_body(put.body) {
            Ok(body) => body,
            Err(NotRead::NotNow(kind)) => {
                self.answer.stop_at(put.sequence.max(self.first), Some(kind));
                return false;
            }
            Err(NotRead::Damaged(what)) => {
                self.damaged_body(wanted, put.body, what);
                return true;
            }
            Err(NotRead::Lasting(kind)) => {
                self.damaged_body(wanted, put.body, DamageKind::Unreadable(kind));
                return true;
            }
        };
        let Put { sequence, count, version, .. } = put;
        let bytes = match is_shared {
            true => Bytes::copy_from_slice(put.bytes),
            false => record.slice_ref(put.bytes),
        };
        let gone = wanted.gone.clone();
        self.answer.messages.push(RecoveredMessages {
            sequence,
            count,
            version,
            bytes,
            gone,
            body,
        });
        true
    }

    /// Reads the body of a record from its file, if it has one there, to see that it is what was written.
    fn take_body(&mut self, body: Option<Body>) -> Result<Option<OpenBody>, NotRead> {
        let Some(body) = body else { return Ok(None) };
        // Of those before, which could not be read themselves, nobody has taken theirs.
        while self.bodies.front().is_some_and(|wanted| wanted.body != body) {
            self.bodies.pop_front();
        }
        let missing = NotRead::Damaged(DamageKind::Missing);
        let Some(WantedBody { file, charge, .. }) = self.bodies.pop_front() else {
            return Err(missing);
        };
        let mut file = match file {
            Ok(file) => file,
            Err(io::ErrorKind::NotFound) => return Err(missing),
            Err(kind) => return Err(NotRead::Lasting(kind)),
        };
        // Once in the life of a store: a search for a message would read all bodies otherwise.
        let extent = if self.known.is_verified(&body) { Extent::Length } else { Extent::Bytes };
        match damage_of(&mut file, &body, extent)? {
            Some(what) => Err(NotRead::Damaged(what)),
            None => {
                self.known.set_verified(&body);
                Ok(Some(OpenBody::new(body, file, charge)))
            }
        }
    }

    fn verify<'a>(&self, wanted: &Wanted, record: &'a [u8]) -> Result<Put<'a>, FrameError> {
        let Wanted { stream, message, .. } = wanted;
        let seed = Seed::new(self.salt, message.place.segment);
        let frame = read(record, message.place.offset, seed)?;
        let put = Record::decode(frame.payload).and_then(|it| it.put_of(*stream, message.sequence));
        put.filter(|put| put.count == message.count).ok_or(FrameError::Unknown)
    }

    fn damaged(&mut self, wanted: &Wanted, what: DamageKind) {
        let Message { place, .. } = wanted.message;
        let place = (segment_name(place.segment), u64::from(place.offset), u64::from(place.bytes));
        self.damaged_at(wanted, place, what);
    }

    fn damaged_body(&mut self, wanted: &Wanted, body: Option<Body>, what: DamageKind) {
        let Body { file, offset, length, .. } = body.unwrap_or_default();
        self.damaged_at(wanted, (body_name(file), offset, length), what);
    }

    fn damaged_at(
        &mut self,
        wanted: &Wanted,
        (file, offset, bytes): (String, u64, u64),
        what: DamageKind,
    ) {
        let Message { sequence, count, .. } = wanted.message;
        let damage = Damage { file, offset, bytes, what, lost: None };
        let gone = wanted.gone.clone();
        self.answer.damaged.push(DamagedMessages { sequence, count, gone, damage });
    }
}
