//! The journal of a shard's persistent topics: what is appended, and which answers wait until it is committed.
//!
//! ```text
//!   a home: check, number, apply ─▶ append ─▶ take ─▶ the store ─▶ committed / failed ─▶ answers, given back
//! ```
//! The journal knows the vocabulary and nothing else: topics, views and numbers are handed to it by the room that
//! appends, and what it gives back (answers that wait no more, subjects that are to be appended again) is handed
//! on by the wiring in `broker/storage.rs`. Without a store it is closed, and every call costs a branch.
//!
//! Appending gives the number of the record that an answer waits for; zero for none. Relies on the store
//! taking records in their order and answering every number. Invariants: nothing is confirmed before all
//! its records are stored; a record that was refused is appended again, together with the rest of its
//! topic, before anything else is appended of that topic, unless it was left out for its body alone: then that is done
//! later, and newer messages of the topic are stored meanwhile.

mod append;
mod codec;
mod durables;
mod fed;
mod queues;
mod reservation;
mod restore;
mod settlers;
mod views;

use std::collections::VecDeque;
use std::sync::Arc;

use tiderace_base::{Close, CloseCode, Key, Now, SessionId};
use tiderace_journal::{
    AnswerKind, Awaited, Journal, RecordSubject, Settled, StoreOutage, Streams, TakenRecords,
};
use tiderace_wire::{Confirm, OperationResult, SharedBytes, TopicSpec};

pub(crate) use append::KeptSubject;
pub(crate) use codec::Description;
pub use durables::queue_owner;
pub(crate) use durables::{account_of, describe_queue, read_durable, read_owner};
pub(crate) use fed::Released;
pub(crate) use queues::versions_of;
pub use restore::{
    NumbersGiven, RestoredMessages, RestoredQueue, RestoredRange, RestoredTopic, Unrestorable,
};
pub(crate) use restore::{RestoredRun, read_messages, read_queued};
pub(crate) use views::{KeptView, read_views};

use crate::messages::TransferId;
use crate::places::{Place, PlaceSet};
use crate::queued::{Put, Queued};
use crate::requester::Requester;

use fed::FedAnswers;
use reservation::Reservation;
use settlers::Settlers;

/// How many numbers are reserved at once, so that they are not given again after a restart.
const NUMBERS_AHEAD: u64 = 1 << 20;
/// The same for fences of locks: two hours of the clock.
const FENCES_AHEAD: u64 = 2 * 3_600_000 * crate::home::locks::FENCES_PER_MS;

/// The journal of one shard; closed if there is no store.
#[derive(Debug, Default)]
pub(crate) struct HomeJournal {
    open: Option<Box<OpenJournal>>,
    /// Answers that wait for other places first.
    fed: FedAnswers<Answer>,
}

/// What a shard with a store keeps for it.
#[derive(Debug)]
struct OpenJournal {
    journal: Journal<Answer>,
    streams: Streams,
    numbers: Reservation,
    fences: Reservation,
    /// Sessions that have settled something and have not asked whether it is stored.
    settlers: Settlers,
    /// Places with publishers that wait for the store.
    throttled: PlaceSet,
    /// The highest number of a message that was restored here.
    restored_to: u64,
    /// Messages of queues have filled their share of the store.
    queues_full: bool,
    /// Streams that end with the server.
    volatile: Streams,
    /// Messages that were appended for several queues, and their places, until they are on their way.
    shared: VecDeque<(Arc<SharedBytes>, usize)>,
    /// Compiled from the description of the topic that was restored last: most have that of the one before.
    restored_spec: Option<(Box<[u8]>, Arc<TopicSpec>)>,
}

/// An answer that is held until its records are committed.
#[derive(Debug)]
pub(crate) enum Answer {
    /// A publication is confirmed.
    Confirm(SessionId, Confirm),
    /// What a session has settled is confirmed, with dead letters up to one that it has caused.
    Settled(SessionId, Confirm, u64),
    /// A dead letter that lay in a queue as a version is settled there.
    Moved((Key, u64)),
    /// Nobody asked for a confirmation of it; but that it was refused is told.
    Unasked(SessionId),
    /// An operation is answered.
    Operated(Box<Requester>, Box<OperationResult>),
    /// Messages were put into a queue, or consumed by a transaction.
    Queued(Box<Queued>),
    /// Messages of another home's queue were put into one here.
    Transferred(Place, TransferId, Option<Put>),
    /// Messages of these versions of a queue are gone.
    Gone(Key, (u64, u64)),
    /// A topic's messages were put into queues here, for the home that has sent them under a number.
    Fed(Place, u64),
    /// A part of those of one run was, of which very many queues get it.
    FedPart(u64),
    /// What the answer waits for that waits for places under this number.
    FedRecord(u64),
}

impl OpenJournal {
    /// Reserves the numbers of messages beyond the next one, if too few of them are left.
    fn reserve_numbers(&mut self, next: u64) {
        self.numbers.cover(next, &mut self.journal);
    }
}

impl HomeJournal {
    /// Answers that wait for other places first.
    pub(crate) fn fed_mut(&mut self) -> &mut FedAnswers<Answer> {
        &mut self.fed
    }

    /// Whether there is a store.
    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// The records that were not taken yet, and the places whose publishers waited until they are taken.
    pub(crate) fn take(&mut self) -> Option<(TakenRecords, PlaceSet)> {
        let open = self.open.as_deref_mut()?;
        let taken = open.journal.take()?;
        open.shared.clear();
        Some((taken, std::mem::take(&mut open.throttled)))
    }

    /// Whether there are records to take.
    pub(crate) fn has_records(&self) -> bool {
        self.open.as_ref().is_some_and(|open| open.journal.has_records())
    }

    /// All records up to a number are stored.
    pub(crate) fn stored(&mut self, up_to: u64) -> Option<Settled<Answer>> {
        Some(self.open.as_deref_mut()?.journal.committed(up_to))
    }

    /// The records up to a number that have no answer yet are not stored.
    pub(crate) fn failed(
        &mut self,
        now: Now,
        up_to: u64,
        is_fatal: bool,
    ) -> Option<Settled<Answer>> {
        let open = self.open.as_deref_mut()?;
        let outage = if is_fatal { StoreOutage::Failed } else { StoreOutage::Full };
        let settled = open.journal.failed(now.time, up_to, outage);
        if open.journal.has_refused(RecordSubject::Fences) {
            // A lock that is taken meanwhile reserves again, and its answer waits for that.
            open.fences.forget();
        }
        Some(settled)
    }

    /// Everything was appended again that the store's last answer has given back.
    pub(crate) fn end_append_again(&mut self) {
        if let Some(open) = self.open.as_deref_mut() {
            open.journal.end_append_again();
        }
    }

    /// The store has left a record out, for it could not keep the file of its body.
    pub(crate) fn body_refused(&mut self, record: u64) {
        if let Some(open) = self.open.as_deref_mut() {
            open.journal.body_refused(record);
        }
    }

    /// The next subject whose records were left out that is to be appended again; it is noted no more.
    pub(crate) fn next_refused_body(&mut self, now: Now) -> Option<RecordSubject> {
        self.open.as_deref_mut()?.journal.next_refused_body(now.time)
    }

    /// Something was appended of such a subject.
    pub(crate) fn end_body_retry(&mut self, now: Now, subject: RecordSubject) {
        if let Some(open) = self.open.as_deref_mut() {
            open.journal.end_body_retry(now.time, subject);
        }
    }

    /// Holds an answer until its records and those before them are stored. Given back if there is nothing to wait
    /// for.
    pub(crate) fn hold(
        &mut self,
        records: impl Into<Awaited>,
        kind: AnswerKind,
        answer: Answer,
    ) -> Option<Answer> {
        match self.open.as_deref_mut() {
            Some(open) => open.journal.hold(records, kind, answer).err(),
            None => Some(answer),
        }
    }

    /// Holds an answer until it is stored that something is gone, as records up to a number say. Given back if there is nothing
    /// to wait for, or nothing will be stored.
    pub(crate) fn hold_removal(&mut self, until: u64, answer: Answer) -> Option<Released<Answer>> {
        let Some(open) = self.open.as_deref_mut() else { return Some((answer, Ok(()))) };
        let held = open.journal.hold_removal(until, answer);
        held.err().map(|(answer, result)| (answer, result.map_err(Close::from)))
    }

    /// Holds an answer about what a session has consumed until a record is stored, or all by which it has settled something
    /// without asking. Given back if there is nothing to wait for, or nothing will be stored.
    pub(crate) fn hold_settled(
        &mut self,
        session: SessionId,
        record: Option<u64>,
        answer: Answer,
    ) -> Option<Released<Answer>> {
        let Some(record) = record else {
            let open = self.open.as_deref_mut();
            let until = open.map_or(0, |open| open.settlers.take(session));
            return self.hold_removal(until, answer);
        };
        let held = self.hold(Awaited::before(record), AnswerKind::Messages, answer);
        held.map(|answer| (answer, Ok(())))
    }

    /// A session has settled messages by a record, without asking for a confirmation.
    pub(crate) fn note_settled(&mut self, session: SessionId, record: u64) {
        if let Some(open) = self.open.as_deref_mut().filter(|_| record != 0) {
            open.settlers.note(session, record);
        }
    }

    /// Whether the store has not answered a record yet.
    pub(crate) fn waits_for(&self, record: u64) -> bool {
        self.open.as_ref().is_some_and(|open| open.journal.is_open(record))
    }

    /// Answers that wait for the store.
    pub(crate) fn answers_held(&self) -> usize {
        self.open.as_ref().map_or(0, |open| open.journal.held())
    }

    /// The number of the last record; zero without a store.
    #[inline]
    pub(crate) fn last_record(&self) -> u64 {
        self.open.as_ref().map_or(0, |open| open.journal.last())
    }

    /// The last record, if any were appended after the record `before`; else zero.
    #[inline]
    pub(crate) fn appended_since(&self, before: u64) -> u64 {
        let last = self.last_record();
        if last == before { 0 } else { last }
    }

    /// A fence is about to be given: the record that the answer with it waits for, so that a later
    /// run of the server is sure to begin above it.
    pub(crate) fn reserve_fences(&mut self, fence: u64) -> u64 {
        let open = self.open.as_deref_mut();
        open.map_or(0, |open| open.fences.cover(fence, &mut open.journal))
    }

    /// Whether so much waits for the store that publishers wait as well.
    pub(crate) fn is_behind(&self) -> bool {
        self.open.as_ref().is_some_and(|open| open.journal.is_behind())
    }

    /// If so much waits for the store that publishers wait as well: notes that one of a place does.
    pub(crate) fn throttle(&mut self, from: Place) -> bool {
        let open = self.open.as_deref_mut().filter(|open| open.journal.is_behind());
        open.is_some_and(|open| {
            open.throttled.insert(from);
            true
        })
    }

    /// A place is lost: no publisher there waits any more.
    pub(crate) fn lose(&mut self, place: Place) {
        if let Some(open) = self.open.as_deref_mut() {
            open.throttled.remove(place);
        }
    }

    /// Whether a topic of that specification is kept in the store.
    #[inline]
    pub(crate) fn keeps(&self, spec: &TopicSpec) -> bool {
        spec.persistent && self.is_open()
    }

    /// Refuses to publish what would not be stored.
    pub(crate) fn check(&self, spec: &TopicSpec) -> Result<(), Close> {
        if spec.persistent { self.check_outage() } else { Ok(()) }
    }

    /// Refuses what would not be stored.
    pub(crate) fn check_outage(&self) -> Result<(), Close> {
        match self.open.as_ref().and_then(|open| open.journal.outage()) {
            Some(outage) => Err(outage.into()),
            None => Ok(()),
        }
    }

    /// Refuses to make a topic that would not survive.
    pub(crate) fn check_persistence(&self, spec: &TopicSpec) -> Result<(), Close> {
        if spec.persistent && !self.is_open() {
            let reason = "a topic cannot be persistent here: the server has no store; set its \
                          option store.directory, or leave `persistent` out";
            return Err(Close::new(CloseCode::BadSpecification, reason));
        }
        self.check(spec)
    }

    /// At a home: up to which number all that it gave to messages of persistent topics in earlier
    /// runs is known to have been stored. What came after may have been lost.
    pub(crate) fn restored_to(&self) -> u64 {
        self.open.as_ref().map_or(0, |open| open.restored_to)
    }

    /// Begins to try a store that was full again: whether refused subjects are to be appended, until one of
    /// them has appended something.
    pub(crate) fn begin_retry(&mut self, now: Now) -> bool {
        self.open.as_deref_mut().is_some_and(|open| open.journal.begin_retry(now.time))
    }

    /// The next subject that the store has refused; it is noted no more.
    pub(crate) fn next_refused(&mut self) -> Option<RecordSubject> {
        self.open.as_deref_mut()?.journal.next_refused()
    }

    /// Ends what [`HomeJournal::begin_retry`] began: something was appended after the record `before`, or all
    /// that was refused has ended.
    pub(crate) fn end_retry(&mut self, before: u64) {
        if let Some(open) = self.open.as_deref_mut() {
            open.journal.end_retry(before);
        }
    }
}
