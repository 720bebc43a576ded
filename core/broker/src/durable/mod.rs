//! Persistent topics, at their homes: what is appended to the journal, and who waits until it is
//! committed.
//!
//! ```text
//!   publish ─▶ distribute ─▶ journal ──take_records──▶ store ──stored / store_failed──▶ confirm / refuse
//!                  └─▶ fan-out, which does not wait
//! ```
//! What is published or done gives the number of the record that its answer waits for; zero for
//! none. Relies on the store taking records in their order and answering every number. Invariants:
//! nothing is confirmed before all its records are stored; a record that was refused is appended
//! again, together with the rest of its topic, before anything else is appended of that topic;
//! without a store, and for topics that are not persistent, nothing of this costs more than a
//! branch.

mod codec;
mod reservation;
mod restore;
mod state;
mod views;
mod write;

use tiderace_base::{Close, CloseCode, Now, SessionId, Span};
use tiderace_journal::{AnswerKind, RecordSubject, Settled, StoreOutage, StoreRecord};
use tiderace_topics::Path;
use tiderace_wire::{Confirm, Destination, Kind, OperationResult, TopicSpec};

pub use restore::{NumbersGiven, RestoredMessages, RestoredTopic, Unrestorable};

use crate::broker::Broker;
use crate::effects::{Effects, Mail};
use crate::operator::Operated;
use crate::operator::Operator;
use crate::places::{bit, members};

use state::Answer;
pub(crate) use state::Durability;

/// How many numbers are reserved at once, so that they are not given again after a restart.
const NUMBERS_AHEAD: u64 = 1 << 20;
/// The same for fences of locks: two hours of the clock.
const FENCES_AHEAD: u64 = 2 * 3_600_000 * crate::home::locks::FENCES_PER_MS;
/// What publishers are held by when the store is behind: no topic, for nobody publishes there.
const STORE: &str = "$sys/store";

impl Broker {
    /// Takes what the store is to be told, with the number of the last record; to be called once a
    /// turn, unless the records taken before still wait. Every number is to be answered by
    /// [`Broker::stored`] or [`Broker::store_failed`].
    pub fn take_records(&mut self, effects: &mut Effects) -> Option<(u64, Vec<StoreRecord>)> {
        let durable = self.durable.as_deref_mut()?;
        let taken = durable.journal.take()?;
        let throttled = std::mem::take(&mut durable.throttled);
        self.work.unblock();
        if let Some(destination) = store_destination().filter(|_| throttled != 0) {
            for shard in members(throttled) {
                // Without a grace, so no time counts.
                self.tell_pause(shard, destination.clone(), None, effects);
            }
            self.take_loopback(Now::default(), effects);
        }
        Some(taken)
    }

    /// Whether the store is to be told something.
    pub fn has_records(&self) -> bool {
        self.durable.as_ref().is_some_and(|durable| durable.journal.has_records())
    }

    /// All records up to a number are stored: those who waited are answered.
    pub fn stored(&mut self, now: Now, up_to: u64, effects: &mut Effects) {
        let Some(durable) = self.durable.as_deref_mut() else { return };
        let settled = durable.journal.committed(up_to);
        self.answer_settled(now, settled, effects);
        self.end_call(now, effects);
    }

    /// The records up to a number that have no answer yet are not stored: those who waited are
    /// refused, and so are publishers of persistent topics until the store works again, which it
    /// never does if this is fatal.
    pub fn store_failed(&mut self, now: Now, up_to: u64, is_fatal: bool, effects: &mut Effects) {
        let Some(durable) = self.durable.as_deref_mut() else { return };
        let outage = if is_fatal { StoreOutage::Failed } else { StoreOutage::Full };
        let settled = durable.journal.failed(now.time, up_to, outage);
        if durable.journal.has_refused(RecordSubject::Fences) {
            // A lock that is taken meanwhile reserves again, and its answer waits for that.
            durable.fences.forget();
        }
        self.metrics.store_refusals += 1;
        self.answer_settled(now, settled, effects);
        self.end_call(now, effects);
    }

    fn answer_settled(&mut self, now: Now, settled: Settled<Answer>, effects: &mut Effects) {
        for (answer, result) in settled.answers {
            self.give_answer(answer, result.map_err(Close::from), effects);
        }
        for subject in settled.append_again {
            self.append_again(now, subject);
        }
    }

    fn give_answer(&mut self, answer: Answer, result: Result<(), Close>, effects: &mut Effects) {
        match (answer, result) {
            (Answer::Confirm(session, confirm), Ok(())) => {
                self.confirm_anywhere(session, confirm, effects);
            }
            (Answer::Confirm(session, confirm), Err(close)) => {
                let blame = Some(confirm.from);
                self.refuse_run(Some(session), Some(confirm), blame, &close, effects);
            }
            (Answer::Operated(operator, done), result) => {
                self.answer_operation(&operator, result.map(|()| *done), effects);
            }
        }
    }

    /// Answers as soon as a record and those before it are stored.
    fn answer_after(
        &mut self,
        record: u64,
        kind: AnswerKind,
        answer: Answer,
        effects: &mut Effects,
    ) {
        let answer = match self.durable.as_deref_mut() {
            Some(durable) => match durable.journal.hold(record, kind, answer) {
                Ok(()) => return,
                Err(answer) => answer,
            },
            None => answer,
        };
        self.give_answer(answer, Ok(()), effects);
    }

    /// Answers that wait for the store.
    pub(crate) fn answers_held(&self) -> usize {
        self.durable.as_ref().map_or(0, |durable| durable.journal.held())
    }

    /// The number of the last record; zero without a store.
    pub(crate) fn last_record(&self) -> u64 {
        self.durable.as_ref().map_or(0, |durable| durable.journal.last())
    }

    /// The last record, if any were appended after the record `before`; else zero.
    pub(crate) fn appended_since(&self, before: u64) -> u64 {
        let last = self.last_record();
        if last == before { 0 } else { last }
    }

    /// A fence is about to be given: the record that the answer with it waits for, so that a later
    /// run of the server is sure to begin above it.
    pub(crate) fn reserve_fences(&mut self, fence: u64) -> u64 {
        let durable = self.durable.as_deref_mut();
        durable.map_or(0, |durable| durable.fences.cover(fence, &mut durable.journal))
    }

    /// Confirms a publication as soon as a record and those before it are stored.
    pub(crate) fn confirm_stored(
        &mut self,
        record: u64,
        session: SessionId,
        confirm: Confirm,
        effects: &mut Effects,
    ) {
        let answer = Answer::Confirm(session, confirm);
        self.answer_after(record, AnswerKind::Write, answer, effects);
    }

    /// Answers an operation; if it was done, as soon as a record and those before it are stored.
    pub(crate) fn answer_stored(
        &mut self,
        record: u64,
        operator: &Operator,
        result: Operated,
        effects: &mut Effects,
    ) {
        if self.durable.as_ref().is_none_or(|durable| !durable.journal.is_open(record)) {
            return self.answer_operation(operator, result, effects);
        }
        self.hold_for_store(operator.session, effects);
        match result {
            Ok(result) => {
                let kind = match result {
                    OperationResult::Removed { .. } => AnswerKind::Removal,
                    _ => AnswerKind::Write,
                };
                let answer = Answer::Operated(Box::new(operator.clone()), Box::new(result));
                self.answer_after(record, kind, answer, effects);
            }
            Err(close) => self.answer_operation(operator, Err(close), effects),
        }
    }

    /// Whether so much waits for the store that publishers wait as well.
    pub(crate) fn store_is_behind(&self) -> bool {
        self.durable.as_ref().is_some_and(|durable| durable.journal.is_behind())
    }

    /// Holds a publisher back if too much waits for the store.
    pub(crate) fn hold_for_store(&mut self, session: SessionId, effects: &mut Effects) {
        let is_behind = |durable: &&mut Durability| durable.journal.is_behind();
        let Some(durable) = self.durable.as_deref_mut().filter(is_behind) else { return };
        let Some(destination) = store_destination() else { return };
        durable.throttled |= bit(session.shard);
        self.send(session.shard, Mail::Wait { session, destination }, effects);
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
        self.sessions.pause(now, destination.clone(), Some(Span::ZERO), effects);
        if self.sessions.wait_if_paused(now, session, &destination, effects) {
            self.metrics.publishers_paused += 1;
        }
    }

    /// Whether a topic of that specification is kept in the store.
    pub(crate) fn is_durable(&self, spec: &TopicSpec) -> bool {
        spec.persistent && self.durable.is_some()
    }

    /// Refuses to publish what would not be stored.
    pub(crate) fn check_store(&self, spec: &TopicSpec) -> Result<(), Close> {
        if spec.persistent { self.check_outage() } else { Ok(()) }
    }

    /// Refuses what would not be stored.
    fn check_outage(&self) -> Result<(), Close> {
        match self.durable.as_ref().and_then(|durable| durable.journal.outage()) {
            Some(outage) => Err(outage.into()),
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

    /// Tries a store that was full again, now and then, with the first of what it has refused.
    pub(crate) fn retry_store(&mut self, now: Now) {
        let Some(durable) = self.durable.as_deref_mut() else { return };
        if !durable.journal.begin_retry(now.time) {
            return;
        }
        let before = self.last_record();
        while let Some(subject) = self.next_refused() {
            self.append_again(now, subject);
            if self.last_record() != before {
                break;
            }
        }
        if let Some(durable) = self.durable.as_deref_mut() {
            durable.journal.end_retry(before);
        }
    }

    fn next_refused(&mut self) -> Option<RecordSubject> {
        self.durable.as_deref_mut()?.journal.next_refused()
    }
}

fn store_destination() -> Option<Destination> {
    Some(Destination { kind: Kind::Topic, path: Path::parse(STORE).ok()? })
}
