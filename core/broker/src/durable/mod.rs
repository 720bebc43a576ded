//! Persistent topics, at their homes: what of them the store is told, and who waits until it has it.
//!
//! ```text
//!   publish ─▶ distribute ─▶ record ──take_records──▶ store ──stored / store_failed──▶ confirm / refuse
//!                  └─▶ fan-out, which does not wait
//! ```
//! Each record has a number; an answer waits for the number of the last record that belongs to it.
//! Relies on the store taking records in their order and answering every number. Invariants: nothing
//! is confirmed before all its records are stored; a record that was refused is said again, together
//! with the rest of its topic, before anything else is said of that topic; without a store, and for
//! topics that are not persistent, nothing of this costs more than a branch.

mod codec;
mod restore;
mod views;
mod write;

use std::collections::VecDeque;

use tiderace_base::{Close, CloseCode, Key, Now, SessionId, ShardId, Span, Time};
use tiderace_topics::Path;
use tiderace_wire::{Confirm, Destination, Kind, Outturn, TopicSpec};

pub use restore::{NumbersGiven, RestoredMessages, RestoredTopic, Unrestorable};
pub(crate) use write::first_kept;

use crate::broker::Broker;
use crate::effects::{Effects, Mail};
use crate::operate::{Operated, Operator};
use crate::topic::{bit, members};

/// Bytes of records that may wait here before publishers wait for the store.
const RECORDS_BYTES_MAX: usize = 1 << 20;
/// Numbers that are said to be given before they are, so that they are not given again after a
/// restart.
const NUMBERS_AHEAD: u64 = 1 << 20;
/// The same for fences of locks: two hours of the clock.
const FENCES_AHEAD: u64 = 2 * 3_600_000 * crate::lock::FENCES_PER_MS;
/// How often a store that is full is tried again.
const RETRY: Span = Span::from_secs(1);
/// What publishers are held by when the store is behind: no topic, for nobody publishes there.
const STORE: &str = "$sys/store";

/// Something for the store, in terms of streams: a topic's persistence, by number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreRecord {
    /// A stream is there, or is described anew.
    Declare {
        /// Which.
        stream: u64,
        /// The topic.
        path: Path,
        /// What the topic is, for [`RestoredTopic`].
        description: Vec<u8>,
        /// The version of its last message; zero for none.
        version: u64,
    },
    /// Consecutive messages.
    Put {
        /// Of which stream.
        stream: u64,
        /// The version of the first.
        first: u64,
        /// How many.
        count: u32,
        /// Messages of lower versions are not needed any more.
        keep_from: u64,
        /// The messages, for [`RestoredMessages`].
        bytes: Vec<u8>,
    },
    /// Messages up to and with a version are not needed any more.
    Trim {
        /// Of which stream.
        stream: u64,
        /// Which version.
        up_to: u64,
    },
    /// The stream is gone with all its messages.
    Drop {
        /// Which.
        stream: u64,
    },
    /// A named value.
    Set {
        /// Its name.
        name: String,
        /// The value.
        value: Vec<u8>,
    },
    /// A named value is gone.
    Unset {
        /// Its name.
        name: String,
    },
}

impl StoreRecord {
    /// Bytes it keeps in memory.
    fn bytes(&self) -> usize {
        let more = match self {
            StoreRecord::Declare { description, .. } => description.len(),
            StoreRecord::Put { bytes, .. } => bytes.len(),
            StoreRecord::Set { value, .. } => value.len(),
            StoreRecord::Trim { .. } | StoreRecord::Drop { .. } | StoreRecord::Unset { .. } => 0,
        };
        more + size_of::<StoreRecord>() + size_of::<(u64, Touched)>()
    }
}

/// What a broker with a store knows of it.
#[derive(Debug)]
pub(crate) struct Durability {
    /// Not taken yet.
    records: Vec<StoreRecord>,
    bytes: usize,
    /// The number of the last record.
    said: u64,
    /// The number up to which records have been stored or refused.
    answered: u64,
    /// What the records without an answer concern.
    touched: VecDeque<(u64, Touched)>,
    /// Answers to publishers that wait for a record.
    waiting: VecDeque<(u64, Waiting)>,
    next_stream: u64,
    stream_step: u64,
    /// Up to here the store knows that numbers may have been given.
    numbers: u64,
    /// Up to here it is told that fences may have been given, by this record; zero if it was not.
    fences: u64,
    fences_said: u64,
    /// Positions of these epochs can be compared with the numbers of this life.
    earlier_epochs: Box<[u64]>,
    /// The highest number of a message that was restored here.
    restored_to: u64,
    trouble: Option<Trouble>,
    /// What the store does not have as it should be.
    dirty: Vec<Touched>,
    /// The last record by which an end of a stream was said again.
    ended_again: u64,
    /// Shards with publishers that wait for the store.
    holding: u64,
    /// The present answer depends on records that were said before.
    depends: bool,
    /// Compiled from the description of the topic that was restored last.
    restored: Option<restore::ReadDescription>,
}

/// What a record concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Touched {
    Topic(Key, u64),
    Gone(u64),
    /// A view, by the number under which it is kept.
    View(u64),
    Numbers,
    Fences,
}

/// The store refuses records.
#[derive(Debug)]
struct Trouble {
    /// It will not take any more in this life of the server.
    is_fatal: bool,
    /// The record by which it is being tried again.
    probe: Option<u64>,
    retry_at: Time,
}

/// An answer that is held back.
#[derive(Debug)]
enum Waiting {
    Confirm(SessionId, Confirm),
    Operated(Box<Operator>, Box<Outturn>),
}

impl Waiting {
    fn is_removal(&self) -> bool {
        matches!(self, Waiting::Operated(_, outturn) if matches!(**outturn, Outturn::Removed { .. }))
    }
}

impl Durability {
    fn say(&mut self, record: StoreRecord, touched: Touched) {
        self.said += 1;
        self.bytes += record.bytes();
        self.records.push(record);
        self.touched.push_back((self.said, touched));
    }

    fn new_stream(&mut self) -> u64 {
        let stream = self.next_stream;
        self.next_stream += self.stream_step;
        stream
    }

    /// Says ahead of time which numbers may be given.
    fn reserve_numbers(&mut self, shard: ShardId, next: u64) {
        if next + NUMBERS_AHEAD / 2 > self.numbers {
            self.numbers = next + NUMBERS_AHEAD;
            self.say_numbers(shard);
        }
    }

    fn say_numbers(&mut self, shard: ShardId) {
        self.say(restore::numbers_record(shard.0, self.numbers), Touched::Numbers);
    }

    /// The same for fences; the present answer waits until the store has that.
    fn reserve_fences(&mut self, shard: ShardId, fence: u64) {
        if fence.saturating_add(FENCES_AHEAD / 2) > self.fences {
            self.fences = fence.saturating_add(FENCES_AHEAD);
            self.say_fences(shard);
        }
        self.depends |= self.answered < self.fences_said;
    }

    fn say_fences(&mut self, shard: ShardId) {
        self.say(restore::fences_record(shard.0, self.fences), Touched::Fences);
        self.fences_said = self.said;
    }
}

impl Broker {
    /// Takes what the store is to be told, with the number of the last record; to be called once a
    /// turn, unless the records taken before still wait. Every number is to be answered by
    /// [`Broker::stored`] or [`Broker::store_failed`].
    pub fn take_records(&mut self, effects: &mut Effects) -> Option<(u64, Vec<StoreRecord>)> {
        let durable = self.durable.as_deref_mut()?;
        if durable.records.is_empty() {
            return None;
        }
        durable.bytes = 0;
        self.work.unblock();
        let (said, records) = (durable.said, std::mem::take(&mut durable.records));
        let holding = std::mem::take(&mut durable.holding);
        if let Some(destination) = store_destination().filter(|_| holding != 0) {
            for shard in members(holding) {
                // Without a grace, so no time counts.
                self.tell_pause(Now::default(), shard, destination.clone(), None, effects);
            }
        }
        Some((said, records))
    }

    /// Whether the store is to be told something.
    pub fn has_records(&self) -> bool {
        self.durable.as_ref().is_some_and(|durable| !durable.records.is_empty())
    }

    /// All records up to a number are stored: those who waited are answered.
    pub fn stored(&mut self, now: Now, up_to: u64, effects: &mut Effects) {
        let Some(durable) = self.durable.as_deref_mut() else { return };
        durable.answered = durable.answered.max(up_to);
        let answered = durable.touched.partition_point(|(number, _)| *number <= up_to);
        durable.touched.drain(..answered);
        let works = durable.trouble.as_ref().is_some_and(|trouble| {
            !trouble.is_fatal && trouble.probe.is_some_and(|probe| probe <= up_to)
        });
        // What was to be gone might come back, whatever has been said of it since.
        let is_doubtful = durable.ended_again > up_to
            || durable.dirty.iter().any(|touched| matches!(touched, Touched::Gone(_)));
        // Nor is anything but a removal sure whose topic may have been refused before it.
        let has_trouble = durable.trouble.is_some() && !works;
        for waiting in self.take_waiting(up_to) {
            match waiting {
                _ if is_doubtful || has_trouble && !waiting.is_removal() => {
                    self.refuse_waiting(waiting, false, effects)
                }
                Waiting::Confirm(session, confirm) => {
                    self.confirm_anywhere(session, confirm, effects);
                }
                Waiting::Operated(operator, outturn) => {
                    self.answer_operation(&operator, Ok(*outturn), effects);
                }
            }
        }
        if works {
            self.end_trouble(now);
        }
    }

    /// The records up to a number that have no answer yet are not stored: those who waited are
    /// refused, and so are publishers of persistent topics until the store works again, which it
    /// never does if this is fatal.
    pub fn store_failed(&mut self, now: Now, up_to: u64, is_fatal: bool, effects: &mut Effects) {
        let Some(durable) = self.durable.as_deref_mut() else { return };
        durable.answered = durable.answered.max(up_to);
        let refused = durable.touched.partition_point(|(number, _)| *number <= up_to);
        let refused: Vec<Touched> =
            durable.touched.drain(..refused).map(|(_, touched)| touched).collect();
        if refused.contains(&Touched::Fences) {
            // Whoever takes a lock meanwhile says it again, and waits for that.
            durable.fences = 0;
        }
        durable.dirty.extend(refused);
        durable.dirty.sort_unstable_by_key(|touched| touched.order());
        durable.dirty.dedup();
        let is_fatal = is_fatal || durable.trouble.as_ref().is_some_and(|known| known.is_fatal);
        durable.trouble = Some(Trouble { is_fatal, probe: None, retry_at: now.time + RETRY });
        self.metrics.store_refusals += 1;
        for waiting in self.take_waiting(up_to) {
            self.refuse_waiting(waiting, is_fatal, effects);
        }
    }

    fn refuse_waiting(&mut self, waiting: Waiting, is_fatal: bool, effects: &mut Effects) {
        let close = refusal(is_fatal);
        match waiting {
            Waiting::Confirm(session, confirm) => {
                let blame = Some(confirm.from);
                self.refuse_run(Some(session), Some(confirm), blame, &close, effects);
            }
            Waiting::Operated(operator, _) => {
                self.answer_operation(&operator, Err(close), effects);
            }
        }
    }

    fn take_waiting(&mut self, up_to: u64) -> Vec<Waiting> {
        let Some(durable) = self.durable.as_deref_mut() else { return Vec::new() };
        let due = durable.waiting.partition_point(|(number, _)| *number <= up_to);
        durable.waiting.drain(..due).map(|(_, waiting)| waiting).collect()
    }

    /// Answers that wait for the store.
    pub(crate) fn answers_waiting(&self) -> usize {
        self.durable.as_ref().map_or(0, |durable| durable.waiting.len())
    }

    /// The number of the last record.
    pub(crate) fn records_said(&self) -> u64 {
        self.durable.as_ref().map_or(0, |durable| durable.said)
    }

    /// A fence is about to be given: the answer that is to say it waits until a later life is sure to
    /// begin above it.
    pub(crate) fn reserve_fences(&mut self, fence: u64) {
        let shard = self.shard;
        if let Some(durable) = self.durable.as_deref_mut() {
            durable.reserve_fences(shard, fence);
        }
    }

    /// Something begins that will be answered: gives what [`Broker::confirm_stored`] and
    /// [`Broker::answer_stored`] want to know.
    pub(crate) fn begin_saying(&mut self) -> u64 {
        let Some(durable) = self.durable.as_deref_mut() else { return 0 };
        durable.depends = false;
        durable.said
    }

    /// The present answer is to wait for what was said before.
    pub(crate) fn depend_on_records(&mut self) {
        if let Some(durable) = self.durable.as_deref_mut() {
            durable.depends = durable.said > durable.answered;
        }
    }

    /// Confirms a publication, as soon as the records said since `before` are stored.
    pub(crate) fn confirm_stored(
        &mut self,
        before: u64,
        session: SessionId,
        confirm: Confirm,
        effects: &mut Effects,
    ) {
        match self.durable.as_deref_mut() {
            Some(durable) if durable.depends || durable.said != before => {
                let waiting = Waiting::Confirm(session, confirm);
                durable.waiting.push_back((durable.said, waiting));
            }
            _ => self.confirm_anywhere(session, confirm, effects),
        }
    }

    /// Answers an operation; if it was done, as soon as the records said since `before` are stored.
    pub(crate) fn answer_stored(
        &mut self,
        before: u64,
        operator: &Operator,
        result: Operated,
        effects: &mut Effects,
    ) {
        if let Some(durable) = self.durable.as_deref_mut() {
            let depends = durable.depends || durable.said != before;
            if depends {
                self.hold_for_store(operator.session, effects);
            }
            match (result, self.durable.as_deref_mut()) {
                (Ok(outturn), Some(durable)) if depends => {
                    let waiting = Waiting::Operated(Box::new(operator.clone()), Box::new(outturn));
                    durable.waiting.push_back((durable.said, waiting));
                }
                (result, _) => self.answer_operation(operator, result, effects),
            }
            return;
        }
        self.answer_operation(operator, result, effects);
    }

    /// Whether so much waits for the store that publishers wait as well.
    pub(crate) fn store_is_behind(&self) -> bool {
        self.durable.as_ref().is_some_and(|durable| durable.bytes > RECORDS_BYTES_MAX)
    }

    /// Holds a publisher back if too much waits for the store.
    pub(crate) fn hold_for_store(&mut self, session: SessionId, effects: &mut Effects) {
        let behind = |durable: &&mut Durability| durable.bytes > RECORDS_BYTES_MAX;
        let Some(durable) = self.durable.as_deref_mut().filter(behind) else { return };
        let Some(destination) = store_destination() else { return };
        durable.holding |= bit(session.shard);
        if session.shard == self.shard {
            self.wait_for(session, destination, effects);
        } else {
            effects.mail.push((session.shard, Mail::Wait { session, destination }));
        }
    }

    /// On the publisher's shard: the session waits until the destination is let go.
    pub(crate) fn wait_for(
        &mut self,
        session: SessionId,
        destination: Destination,
        effects: &mut Effects,
    ) {
        // Without a grace, so no time counts.
        let now = Now::default();
        self.hold(now, destination.clone(), Some(Span::ZERO), effects);
        self.wait_if_held(now, session, &destination, effects);
    }

    /// Whether a topic of that specification is kept in the store.
    pub(crate) fn is_durable(&self, spec: &TopicSpec) -> bool {
        spec.persistent && self.durable.is_some()
    }

    /// Refuses to publish what would not be stored.
    pub(crate) fn check_store(&self, spec: &TopicSpec) -> Result<(), Close> {
        if spec.persistent { self.check_trouble() } else { Ok(()) }
    }

    /// Refuses what would not be stored.
    fn check_trouble(&self) -> Result<(), Close> {
        match self.durable.as_ref().and_then(|durable| durable.trouble.as_ref()) {
            Some(trouble) => Err(refusal(trouble.is_fatal)),
            None => Ok(()),
        }
    }

    /// Refuses to make a topic that would not survive.
    pub(crate) fn check_persistence(&self, spec: &TopicSpec) -> Result<(), Close> {
        if spec.persistent && self.durable.is_none() {
            let reason = "a topic cannot be persistent here: the server has no store; set its \
                          option store.directory, or leave `persistent` out";
            return Err(Close::new(CloseCode::BadSpecification, reason));
        }
        self.check_store(spec)
    }

    /// Tries a store that was full again, now and then.
    pub(crate) fn retry_store(&mut self, now: Now) {
        let Some(durable) = self.durable.as_deref_mut() else { return };
        let Some(trouble) = &durable.trouble else { return };
        if trouble.is_fatal || trouble.probe.is_some() || now.time < trouble.retry_at {
            return;
        }
        if self.end_again(now) {
            return;
        }
        let before = self.records_said();
        while let Some(touched) = self.durable.as_deref_mut().and_then(|it| it.dirty.pop()) {
            self.say_again(now, touched);
            if self.records_said() != before {
                break;
            }
        }
        let said = self.records_said();
        let Some(durable) = self.durable.as_deref_mut() else { return };
        match &mut durable.trouble {
            Some(trouble) if said != before => trouble.probe = Some(said),
            // All that was refused has ended meanwhile.
            _ => durable.trouble = None,
        }
    }

    /// First what takes no room: says again which streams have ended; whether there are any.
    fn end_again(&mut self, now: Now) -> bool {
        let Some(durable) = self.durable.as_deref_mut() else { return false };
        let before = durable.said;
        for touched in std::mem::take(&mut durable.dirty) {
            match touched {
                Touched::Gone(stream) => durable.say(StoreRecord::Drop { stream }, touched),
                _ => durable.dirty.push(touched),
            }
        }
        if durable.said == before {
            return false;
        }
        durable.ended_again = durable.said;
        if let Some(trouble) = &mut durable.trouble {
            trouble.retry_at = now.time + RETRY;
        }
        true
    }

    /// The store has room again: it is told all that it has refused.
    fn end_trouble(&mut self, now: Now) {
        let Some(durable) = self.durable.as_deref_mut() else { return };
        durable.trouble = None;
        for touched in std::mem::take(&mut durable.dirty) {
            self.say_again(now, touched);
        }
    }
}

impl Touched {
    fn order(&self) -> (u8, u32, u64) {
        match *self {
            Touched::Numbers => (0, 0, 0),
            Touched::Fences => (0, 0, 1),
            Touched::Gone(stream) => (1, 0, stream),
            Touched::Topic(key, stream) => (2, key.slot, stream),
            Touched::View(number) => (3, 0, number),
        }
    }
}

fn store_destination() -> Option<Destination> {
    Some(Destination { kind: Kind::Topic, path: Path::parse(STORE).ok()? })
}

fn refusal(is_fatal: bool) -> Close {
    let reason = match is_fatal {
        true => {
            "the store has failed, so nothing is kept from now on; the server's log says why, and \
             it has to be started again"
        }
        false => {
            "the store has no room, so this may not survive a restart; send it again when there is \
             room"
        }
    };
    Close::new(CloseCode::StoreUnavailable, reason)
}
