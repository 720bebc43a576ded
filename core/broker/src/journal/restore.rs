//! What the store has when the server starts: numbers that were given, and topics with their messages.
//!
//! `broker/restore.rs` gives it to the home. Relies on the store for the bytes. Invariant: reading changes
//! nothing but what the journal knows of earlier runs of the server.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use tiderace_base::{Now, ShardId};
use tiderace_journal::{Journal, RecordSubject, StoreRecord, Streams};
use tiderace_topics::Path;
use tiderace_wire::{Destination, Kind, Run, SpecError, TopicSpec};

use super::codec::{Circumstances, decode};
use super::reservation::{self, Reservation};
use super::settlers::Settlers;
use super::{FENCES_AHEAD, HomeJournal, NUMBERS_AHEAD, OpenJournal};
use crate::places::PlaceSet;

/// Named values below this say which numbers may have been given, by shard.
const NUMBERS: &str = "numbers/";
/// The same for fences.
const FENCES: &str = "fences/";
/// Streams that the store forgets when it is opened have numbers from here on.
const VOLATILE_FROM: u64 = 1 << 63;
/// The named value that lists the latest lives of the server.
const LIVES: &str = "lives";
/// How many of them are known: a client that stays away for longer begins anew.
const LIVES_MAX: usize = 64;
/// Epoch and shards.
const LIFE_BYTES: usize = 10;

/// A topic that has survived.
#[derive(Clone, Debug)]
pub struct RestoredTopic<'a> {
    /// Its stream.
    pub stream: u64,
    /// Its path.
    pub path: &'a str,
    /// What it was declared to be.
    pub description: &'a [u8],
    /// The version of its last message; zero for none.
    pub version: u64,
    /// What is left of its messages, in order.
    pub messages: &'a [RestoredMessages<'a>],
}

/// Consecutive messages that have survived.
#[derive(Clone, Copy, Debug)]
pub struct RestoredMessages<'a> {
    /// The version of the first.
    pub first: u64,
    /// How many of the first ones are not needed any more.
    pub gone: u32,
    /// The messages as they were put.
    pub bytes: &'a [u8],
    /// Of a single message, its body, if that lies in a file.
    pub body: Option<&'a Bytes>,
}

/// A queue that has survived.
#[derive(Clone, Debug)]
pub struct RestoredQueue<'a> {
    /// Its stream.
    pub stream: u64,
    /// Its path.
    pub path: &'a str,
    /// What it was declared to be.
    pub description: &'a [u8],
    /// The version of its last message; zero for none.
    pub version: u64,
    /// Which of its messages the store has, in order.
    pub stored: &'a [RestoredRange],
}

/// Messages of a queue that the store has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RestoredRange {
    /// The version of the first.
    pub first: u64,
    /// The version of the last.
    pub last: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Why a topic or queue does not come back.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unrestorable {
    /// Its path.
    #[error("{0:?} is no path of a topic or queue")]
    Path(String),
    /// Where it lives by now.
    #[error("{path} lives at the upstream {upstream} by the configuration")]
    Elsewhere {
        /// Which topic or queue.
        path: Path,
        /// The upstream's name.
        upstream: Arc<str>,
    },
    /// What it was.
    #[error("the description of {path} is of another version of this server")]
    Description {
        /// Which topic.
        path: Path,
    },
    /// What it was.
    #[error("{path} cannot be what it was: {error}")]
    Specification {
        /// Which topic.
        path: Path,
        /// What is wrong.
        error: SpecError,
    },
    /// Its messages.
    #[error("messages of {path} are of another version of this server")]
    Messages {
        /// Which topic.
        path: Path,
    },
    /// Its stream: there is another one of that name.
    #[error("{path} is in the store twice; the other one came back")]
    Twice {
        /// Which queue.
        path: Path,
    },
    /// A view, all of it.
    #[error("what is kept under {0} is a view of another version of this server")]
    ViewForm(Box<str>),
    /// A view's text.
    #[error("the view {name} cannot be read: {error}")]
    View {
        /// Its name.
        name: Path,
        /// What is wrong.
        error: Box<tiderace_views::ViewError>,
    },
    /// A view that is there already.
    #[error("the view {0} stands in the configuration, so the one that was put is forgotten")]
    ViewConfigured(Path),
}

/// Messages that have been read, and how many of the first ones are gone.
pub(crate) type RestoredRun = (Arc<Run>, Circumstances, usize);

/// One life of the server on this store: its epoch, and among how many shards its homes were.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Life {
    epoch: u64,
    shards: u16,
}

/// What earlier lives of the server have given: numbers, and epochs of positions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NumbersGiven {
    /// To messages: none above this.
    messages: u64,
    /// To holders of locks: none above this.
    fences: u64,
    /// The latest of them, oldest first.
    lives: Vec<Life>,
}

impl NumbersGiven {
    /// Found in the store's named values.
    pub fn find<'a>(values: impl Iterator<Item = (&'a str, &'a [u8])>) -> NumbersGiven {
        let mut given = NumbersGiven::default();
        for (name, value) in values {
            if name == LIVES {
                let (lives, _) = value.as_chunks::<LIFE_BYTES>();
                given.lives = lives.iter().map(Life::read).collect();
                continue;
            }
            let Ok(value) = value.try_into().map(u64::from_le_bytes) else { continue };
            if name.starts_with(NUMBERS) {
                given.messages = given.messages.max(value);
            } else if name.starts_with(FENCES) {
                given.fences = given.fences.max(value);
            }
        }
        given
    }

    /// What is to be in the store before a life of this epoch, with so many shards, gives any.
    pub fn reserve(&self, epoch: u64, shards: usize) -> [StoreRecord; 2] {
        let life = Life { epoch, shards: u16::try_from(shards).unwrap_or(u16::MAX) };
        let known = self.lives.len().saturating_sub(LIVES_MAX - 1);
        let lives = self.lives.iter().skip(known).chain([&life]);
        let value = lives.flat_map(Life::bytes).collect();
        let lives = StoreRecord::Set { name: LIVES.to_owned(), value };
        [reservation::record(format!("{NUMBERS}node"), self.messages + NUMBERS_AHEAD), lives]
    }

    /// Up to which number messages, and fences, may have been given.
    pub(crate) fn highest(&self) -> (u64, u64) {
        (self.messages, self.fences)
    }

    /// The epochs whose positions mean the same in a life with so many shards: numbers rise from
    /// life to life, but they are compared by home, and other numbers of shards make other homes.
    pub(crate) fn epochs(&self, shards: usize) -> Box<[u64]> {
        let alike = self.lives.iter().filter(|life| usize::from(life.shards) == shards);
        alike.map(|life| life.epoch).collect()
    }
}

impl Life {
    fn bytes(&self) -> [u8; LIFE_BYTES] {
        let mut bytes = [0; LIFE_BYTES];
        let (epoch, shards) = bytes.split_at_mut(size_of::<u64>());
        epoch.copy_from_slice(&self.epoch.to_le_bytes());
        shards.copy_from_slice(&self.shards.to_le_bytes());
        bytes
    }

    fn read(bytes: &[u8; LIFE_BYTES]) -> Life {
        let [a, b, c, d, e, f, g, h, low, high] = *bytes;
        Life {
            epoch: u64::from_le_bytes([a, b, c, d, e, f, g, h]),
            shards: u16::from_le_bytes([low, high]),
        }
    }
}

impl HomeJournal {
    /// There is a store; streams below `streams_from` are in use, and what [`NumbersGiven::reserve`] says has
    /// been stored.
    pub(crate) fn begin(
        &mut self,
        shard: ShardId,
        shards: usize,
        streams_from: u64,
        given: &NumbersGiven,
    ) {
        let reserve = |folder, subject, ahead, up_to| {
            Reservation::new(format!("{folder}{}", shard.0), subject, ahead, up_to)
        };
        // What the node has reserved is enough for the first.
        let up_to = given.messages + NUMBERS_AHEAD;
        self.open = Some(Box::new(OpenJournal {
            journal: Journal::default(),
            streams: Streams::of_home(streams_from, shard.0, shards),
            volatile: Streams::of_home(VOLATILE_FROM, shard.0, shards),
            numbers: reserve(NUMBERS, RecordSubject::Numbers, NUMBERS_AHEAD, up_to),
            fences: reserve(FENCES, RecordSubject::Fences, FENCES_AHEAD, 0),
            settlers: Settlers::default(),
            throttled: PlaceSet::EMPTY,
            queues_full: false,
            shared: VecDeque::new(),
            restored_to: 0,
            restored_spec: None,
        }));
    }

    /// A specification that was read from the same text just before.
    pub(crate) fn restored_spec(&self, text: &[u8]) -> Option<Arc<TopicSpec>> {
        let (known, spec) = self.open.as_ref()?.restored_spec.as_ref()?;
        (**known == *text).then(|| spec.clone())
    }

    /// A specification was read from a text: the next topic has most likely the same.
    pub(crate) fn note_restored_spec(&mut self, text: &[u8], spec: &Arc<TopicSpec>) {
        if let Some(open) = self.open.as_deref_mut() {
            open.restored_spec = Some((text.into(), spec.clone()));
        }
    }

    /// A message with that number, which an earlier run of the server gave it, is stored.
    pub(crate) fn note_restored(&mut self, number: u64) {
        if let Some(open) = self.open.as_deref_mut() {
            open.restored_to = open.restored_to.max(number);
        }
    }

    /// All topics are back; the home's next message will have that number.
    pub(crate) fn end_restoring(&mut self, next_number: u64) {
        if let Some(open) = self.open.as_deref_mut() {
            open.restored_spec = None;
            open.reserve_numbers(next_number);
        }
    }
}

/// Reads the messages of a topic; `number` gives each run the numbers that it has in this run of the server.
pub(crate) fn read_messages(
    now: Now,
    path: &Path,
    restored: &RestoredTopic<'_>,
    mut number: impl FnMut(&mut Run),
) -> Result<Vec<RestoredRun>, Unrestorable> {
    let mut runs = Vec::with_capacity(restored.messages.len());
    let mut next_version = None;
    for messages in restored.messages {
        let destination = Destination { kind: Kind::Topic, path: path.clone() };
        let read = decode((messages.bytes, messages.body), destination, now.time);
        let unknown = || Unrestorable::Messages { path: path.clone() };
        let (mut run, about) = read.ok_or_else(unknown)?;
        let count = run.len() as u64;
        number(&mut run);
        run.set_version(messages.first);
        let next = next_version.replace(messages.first.saturating_add(count));
        if let Some(before) = about.follows.or(next.map(|next| next.saturating_sub(1))) {
            run.set_follows(before);
        }
        runs.push((Arc::new(run), about, messages.gone as usize));
    }
    Ok(runs)
}

/// Reads messages of a queue, if they are understood.
pub(crate) fn read_queued(
    now: Now,
    path: &Path,
    bytes: &[u8],
    body: Option<&Bytes>,
) -> Option<Run> {
    let destination = Destination { kind: Kind::Queue, path: path.clone() };
    Some(decode((bytes, body), destination, now.time)?.0)
}
