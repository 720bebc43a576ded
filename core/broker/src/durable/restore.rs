//! Persistent topics come back: what the store has, before anybody is connected.
//!
//! Relies on being called before any other call of the broker. Numbers are not those of the life
//! before, since the number of shards may be another; versions are, and go on above all that were
//! ever given. Invariant: a topic is again what the store says, and the store goes on to say so.

use std::sync::Arc;

use tiderace_base::{MemoryUse, Now, Span};
use tiderace_topics::Path;
use tiderace_wire::{Destination, Kind, SpecError, TopicSpec};

use super::codec::{Circumstances, Description, decode};
use super::{Durability, NUMBERS_AHEAD, StoreRecord};
use crate::broker::Broker;
use crate::publish::retain;
use crate::retire::Retirement;
use crate::series::{Kept, holds_messages, keeps};
use crate::topic::Home;

/// Named values below this say which numbers may have been given, by shard.
const NUMBERS: &str = "numbers/";
/// The same for fences.
const FENCES: &str = "fences/";

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

/// A specification's text and what it says: most topics have that of the one before.
#[derive(Debug)]
pub(super) struct ReadDescription {
    text: Box<[u8]>,
    spec: Arc<TopicSpec>,
}

/// What the store is told of numbers, by a shard or by the node.
pub(super) fn numbers_record(whose: impl std::fmt::Display, numbers: u64) -> StoreRecord {
    StoreRecord::Set { name: format!("{NUMBERS}{whose}"), value: numbers.to_le_bytes().to_vec() }
}

/// What the store is told of fences.
pub(super) fn fences_record(whose: u16, fences: u64) -> StoreRecord {
    StoreRecord::Set { name: format!("{FENCES}{whose}"), value: fences.to_le_bytes().to_vec() }
}

/// Which numbers earlier lives of the server may have given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NumbersGiven {
    /// To messages.
    messages: u64,
    /// To holders of locks.
    fences: u64,
}

impl NumbersGiven {
    /// Found in the store's named values.
    pub fn find<'a>(values: impl Iterator<Item = (&'a str, &'a [u8])>) -> NumbersGiven {
        let mut given = NumbersGiven { messages: 0, fences: 0 };
        for (name, value) in values {
            let Ok(value) = value.try_into().map(u64::from_le_bytes) else { continue };
            if name.starts_with(NUMBERS) {
                given.messages = given.messages.max(value);
            } else if name.starts_with(FENCES) {
                given.fences = given.fences.max(value);
            }
        }
        given
    }

    /// What is to be in the store before this life gives any.
    pub fn reserve(self) -> StoreRecord {
        numbers_record("node", self.messages + NUMBERS_AHEAD)
    }
}

impl Broker {
    /// There is a store; streams below `streams_from` are in use, and what
    /// [`NumbersGiven::reserve`] says has been stored. Topics follow, by [`Broker::restore`], before
    /// anything else.
    pub fn begin_durability(&mut self, streams_from: u64, given: NumbersGiven) {
        let NumbersGiven { messages: given, fences } = given;
        self.locks.last_fence = self.locks.last_fence.max(fences);
        self.versions_from = given;
        self.next_sequence = self.next_sequence.max(given + 1);
        self.durable = Some(Box::new(Durability {
            records: Vec::new(),
            bytes: 0,
            said: 0,
            answered: 0,
            touched: Default::default(),
            waiting: Default::default(),
            next_stream: streams_from + u64::from(self.shard.0),
            stream_step: self.options.shards.max(1) as u64,
            numbers: given + NUMBERS_AHEAD,
            fences: 0,
            fences_said: 0,
            trouble: None,
            dirty: Vec::new(),
            ended_again: 0,
            holding: 0,
            depends: false,
            restored: None,
        }));
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
        let Some(topic) = self.topics.get_mut(key) else { return Ok(()) };
        topic.spec = spec.clone();
        let mut home = Home::starting(0);
        home.created = about.created;
        home.rare_mut().stream = Some(restored.stream);
        home.next_version = if restored.version > 0 { restored.version + 1 } else { 0 };
        let always = spec.retain || spec.series;
        let (mut newest_ms, mut bytes) = (about.made_ms, 0);
        for (messages, about, gone) in messages {
            newest_ms = about.time_ms;
            home.last = crate::history::last_of(&messages);
            home.retained = retain(home.retained.take(), &messages, always);
            if keeps(&spec) && !about.is_value_alone && holds_messages(&messages) {
                let series = home.rare_mut().series.get_or_insert_default();
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
            home.rare_mut().retirement = Some(Box::new(retirement));
        }
        self.metrics.retained += u64::from(home.retained.is_some());
        self.metrics.topics_restored += 1;
        self.memory.charge(MemoryUse::Values, home.retained_bytes() + bytes);
        topic.home = Some(home);
        if !spec.persistent {
            // The configuration does not say so any more.
            self.end_stream(key);
        }
        Ok(())
    }

    fn restored_spec(&mut self, path: &Path, text: &[u8]) -> Result<Arc<TopicSpec>, Unrestorable> {
        let known = self.durable.as_ref().and_then(|durable| durable.restored.as_ref());
        if let Some(known) = known.filter(|known| *known.text == *text) {
            return Ok(known.spec.clone());
        }
        let wrong = |error| Unrestorable::Specification { path: path.clone(), error };
        let spec = TopicSpec::parse(text, &TopicSpec::default()).map_err(wrong)?;
        let policy = self.options.topic(path);
        let spec = if spec == **policy { policy.clone() } else { self.shared_spec(Arc::new(spec)) };
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
    ) -> Result<Vec<(Arc<tiderace_wire::Run>, Circumstances, usize)>, Unrestorable> {
        let mut runs = Vec::with_capacity(restored.messages.len());
        for messages in restored.messages {
            let destination = Destination { kind: Kind::Topic, path: path.clone() };
            let read = decode(messages.bytes, destination, now.time);
            let unknown = || Unrestorable::Messages { path: path.clone() };
            let (mut run, about) = read.ok_or_else(unknown)?;
            run.number(self.shard, self.next_sequence);
            self.next_sequence += run.len() as u64;
            run.set_version(messages.first);
            runs.push((Arc::new(run), about, messages.gone as usize));
        }
        Ok(runs)
    }

    /// All topics are back.
    pub fn end_restoring(&mut self) {
        if let Some(durable) = self.durable.as_deref_mut() {
            durable.restored = None;
            durable.reserve_numbers(self.shard, self.next_sequence);
        }
    }

    fn forget_kept(&mut self, key: tiderace_base::Key) {
        self.drop_series(key);
        let home = self.topics.get_mut(key).and_then(|topic| topic.home.as_mut());
        if let Some(home) = home {
            self.memory.refund(MemoryUse::Values, home.retained_bytes());
            self.metrics.retained -= u64::from(home.retained.take().is_some());
        }
    }
}
