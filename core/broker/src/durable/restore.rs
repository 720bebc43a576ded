//! Persistent topics come back: what the store has, before anybody is connected.
//!
//! Relies on being called before any other call of the broker. Numbers are not those of the life
//! before, since the number of shards may be another; versions are, and go on above all that were
//! ever given. Invariant: a topic is again what the store says, and the store goes on to say so.

use std::sync::Arc;

use tiderace_base::{MemoryUse, Now, Span};
use tiderace_journal::{Journal, RecordSubject, StoreRecord, Streams};
use tiderace_topics::Path;
use tiderace_wire::{Destination, Kind, Run, SpecError, TopicSpec};

use super::codec::{Circumstances, Description, decode};
use super::reservation::{self, Reservation};
use super::state::ReadDescription;
use super::{Durability, FENCES_AHEAD, NUMBERS_AHEAD};
use crate::broker::Broker;
use crate::home::retirement::Retirement;
use crate::home::series::Kept;
use crate::home::topic::HomeTopic;
use crate::runs::holds_messages;
use crate::runs::keeps;
use crate::runs::last_of;
use crate::runs::retain;

/// Named values below this say which numbers may have been given, by shard.
const NUMBERS: &str = "numbers/";
/// The same for fences.
const FENCES: &str = "fences/";
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
}

/// Why a topic does not come back.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unrestorable {
    /// Its path.
    #[error("{0:?} is no path of a topic")]
    Path(String),
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
type RestoredRun = (Arc<Run>, Circumstances, usize);

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

    /// The epochs whose positions mean the same in a life with so many shards: numbers rise from
    /// life to life, but they are compared by home, and other numbers of shards make other homes.
    pub(super) fn epochs(&self, shards: usize) -> Box<[u64]> {
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

impl Broker {
    /// There is a store; streams below `streams_from` are in use, and what
    /// [`NumbersGiven::reserve`] says has been stored. Topics follow, by [`Broker::restore`],
    /// before anything else.
    pub fn begin_durability(&mut self, streams_from: u64, given: &NumbersGiven) {
        let numbers = given.messages;
        self.home.begin_above(numbers, given.fences);
        let shard = self.shard.0;
        let reserve = |folder, subject, ahead, up_to| {
            Reservation::new(format!("{folder}{shard}"), subject, ahead, up_to)
        };
        self.durable = Some(Box::new(Durability {
            journal: Journal::default(),
            streams: Streams::of_home(streams_from, shard, self.options.shards),
            // What the node has reserved is enough for the first.
            numbers: reserve(
                NUMBERS,
                RecordSubject::Numbers,
                NUMBERS_AHEAD,
                numbers + NUMBERS_AHEAD,
            ),
            fences: reserve(FENCES, RecordSubject::Fences, FENCES_AHEAD, 0),
            throttled: 0,
            earlier_epochs: given.epochs(self.options.shards),
            restored_to: 0,
            restored: None,
        }));
    }

    /// Whether positions of that epoch are of an earlier life of this server whose numbers can be
    /// compared with those of this one.
    pub(crate) fn is_earlier_epoch(&self, epoch: u64) -> bool {
        self.durable.as_ref().is_some_and(|durable| durable.earlier_epochs.contains(&epoch))
    }

    /// At a home: up to which number all that it gave to messages of persistent topics in earlier
    /// lives is known to have been stored. What came after may have been lost.
    pub(crate) fn restored_to(&self) -> u64 {
        self.durable.as_ref().map_or(0, |durable| durable.restored_to)
    }

    /// Takes a topic back; one whose home is another shard is not looked at.
    ///
    /// # Errors
    /// When it cannot be understood; it stays in the store as it is.
    pub fn restore(&mut self, now: Now, restored: &RestoredTopic<'_>) -> Result<(), Unrestorable> {
        let Ok(path) = Path::parse(restored.path) else {
            return Err(Unrestorable::Path(restored.path.to_owned()));
        };
        if self.home(&path) != self.shard {
            return Ok(());
        }
        let unknown = || Unrestorable::Description { path: path.clone() };
        let about = Description::decode(restored.description).ok_or_else(unknown)?;
        let spec = match about.created {
            true => self.restored_spec(&path, about.spec)?,
            false => self.options.topic(&path).clone(),
        };
        let messages = self.restored_messages(now, &path, restored)?;
        let key = self.ensure_topic(now, &path);
        // Of two streams of one topic the newer one counts.
        self.end_stream(key);
        self.forget_kept(key);
        let mut home = HomeTopic::restored(about.created, restored.version, restored.stream);
        self.restore_last(&mut home, &spec, restored, &messages);
        let always = spec.retain || spec.series;
        let (mut newest_ms, mut bytes) = (about.made_ms, 0);
        for (messages, about, gone) in messages {
            newest_ms = about.time_ms;
            let value = retain(home.replace_value(None), &messages, always);
            home.replace_value(value);
            if keeps(&spec) && !about.is_value_alone && holds_messages(&messages) {
                let before = messages.first().saturating_sub(1);
                let series = home.begin_series(before);
                series.push_run(Kept {
                    from: gone.min(messages.len()),
                    run: messages,
                    time_ms: about.time_ms,
                    author: about.author,
                    amends: about.amends,
                });
            }
        }
        if let Some(series) = home.series_mut() {
            series.trim(spec.history, now.wall_ms);
            bytes += series.bytes();
        }
        if let Some(removal) = &spec.removal {
            let ago = |then_ms: u64| Span::from_millis(now.wall_ms.saturating_sub(then_ms));
            let retirement = Retirement::restored(
                now.time,
                ago(about.made_ms),
                ago(newest_ms),
                removal.heeds_session(),
            );
            home.set_retirement(retirement);
        }
        let Some(topic) = self.directory.get_mut(key) else { return Ok(()) };
        topic.spec = spec.clone();
        self.metrics.retained += u64::from(home.value().is_some());
        self.metrics.topics_restored += 1;
        self.memory.charge(MemoryUse::Values, home.retained_bytes() + bytes);
        topic.home = Some(home);
        if !spec.persistent {
            // The configuration does not say so any more.
            self.end_stream(key);
        }
        Ok(())
    }

    /// Which number a topic's last message had, as far as that is known.
    fn restore_last(
        &mut self,
        home: &mut HomeTopic,
        spec: &TopicSpec,
        restored: &RestoredTopic<'_>,
        messages: &[RestoredRun],
    ) {
        let last = messages.last().map(|(run, ..)| run);
        home.restore_last(last.map_or(0, |run| last_of(run)));
        let version = last.map_or(0, |run| run.version().saturating_add(run.len() as u64) - 1);
        if let Some(durable) = self.durable.as_deref_mut()
            && home.last() <= self.home.earlier_numbers()
        {
            durable.restored_to = durable.restored_to.max(home.last());
        }
        if !(spec.retain || keeps(spec)) || version < restored.version {
            // There were others, of which nothing is stored.
            home.restore_last(home.last().max(self.home.earlier_numbers()));
        }
    }

    fn restored_spec(&mut self, path: &Path, text: &[u8]) -> Result<Arc<TopicSpec>, Unrestorable> {
        let known = self.durable.as_ref().and_then(|durable| durable.restored.as_ref());
        if let Some(known) = known.filter(|known| *known.text == *text) {
            return Ok(known.spec.clone());
        }
        let wrong = |error| Unrestorable::Specification { path: path.clone(), error };
        let spec = TopicSpec::parse(text, &TopicSpec::default()).map_err(wrong)?;
        let policy = self.options.topic(path);
        let spec = if spec == **policy {
            policy.clone()
        } else {
            self.directory.specs_mut().share(Arc::new(spec))
        };
        if let Some(durable) = self.durable.as_deref_mut() {
            durable.restored = Some(ReadDescription { text: text.into(), spec: spec.clone() });
        }
        Ok(spec)
    }

    fn restored_messages(
        &mut self,
        now: Now,
        path: &Path,
        restored: &RestoredTopic<'_>,
    ) -> Result<Vec<RestoredRun>, Unrestorable> {
        let mut runs = Vec::with_capacity(restored.messages.len());
        let mut next_version = None;
        for messages in restored.messages {
            let destination = Destination { kind: Kind::Topic, path: path.clone() };
            let read = decode(messages.bytes, destination, now.time);
            let unknown = || Unrestorable::Messages { path: path.clone() };
            let (mut run, about) = read.ok_or_else(unknown)?;
            let count = run.len() as u64;
            self.home.number_restored(&mut run);
            run.set_version(messages.first);
            let next = next_version.replace(messages.first.saturating_add(count));
            if let Some(before) = about.follows.or(next.map(|next| next.saturating_sub(1))) {
                run.set_follows(before);
            }
            runs.push((Arc::new(run), about, messages.gone as usize));
        }
        Ok(runs)
    }

    /// All topics are back.
    pub fn end_restoring(&mut self) {
        if let Some(durable) = self.durable.as_deref_mut() {
            durable.restored = None;
            durable.reserve_numbers(self.home.next_number());
        }
    }

    fn forget_kept(&mut self, key: tiderace_base::Key) {
        self.drop_series(key);
        let home = self.directory.get_mut(key).and_then(|topic| topic.home.as_mut());
        if let Some(home) = home {
            self.memory.refund(MemoryUse::Values, home.retained_bytes());
            self.metrics.retained -= u64::from(home.replace_value(None).is_some());
        }
    }
}
