//! Answers that wait until the store has what they say, and publishers that wait while it is behind.
//!
//! Relies on the journal for the order. Invariant: nothing is confirmed before all its records are stored.

use tiderace_base::{Close, Now, SessionId};
use tiderace_journal::{AnswerKind, Awaited};
use tiderace_topics::Path;
use tiderace_wire::{Confirm, Destination, Kind};

use crate::effects::Effects;
use crate::home_side::HomeSide;
use crate::journal::Answer;
use crate::messages::{ToHome, ToPublisher};
use crate::places::Place;
use crate::requester::{Operated, Requester};

/// What publishers are held by when the store is behind: no topic, for nobody publishes there.
const STORE: &str = "$sys/store";

impl HomeSide<'_> {
    /// Confirms a publication as soon as its records and those before them are stored.
    pub(crate) fn confirm_stored(
        &mut self,
        now: Now,
        records: Awaited,
        session: SessionId,
        confirm: Confirm,
        effects: &mut Effects,
    ) {
        let answer = Answer::Confirm(session, confirm);
        if let Some(answer) = self.journal.hold(records, AnswerKind::Write, answer) {
            self.give_answer(now, answer, Ok(()), effects);
        }
    }

    /// Answers an operation; if it was done, as soon as its records and those before them are stored.
    pub(crate) fn answer_stored(
        &mut self,
        (records, kind): (impl Into<Awaited>, AnswerKind),
        requester: &Requester,
        result: Operated,
        effects: &mut Effects,
    ) {
        let records: Awaited = records.into();
        let is_removal = kind == AnswerKind::Removal && records.until != 0;
        if !is_removal && !self.journal.waits_for(records.until) {
            return self.loopback.answer_operation(requester, result, effects);
        }
        self.hold_for_store(requester.session, effects);
        let result = match result {
            Ok(result) => result,
            Err(close) => return self.loopback.answer_operation(requester, Err(close), effects),
        };
        let answer = Answer::Operated(Box::new(requester.clone()), Box::new(result));
        let released = match kind {
            // Also what the store has answered before: it may have refused a part of what was removed.
            AnswerKind::Removal => self.journal.hold_removal(records.until, answer),
            _ => self.journal.hold(records, kind, answer).map(|answer| (answer, Ok(()))),
        };
        if let Some((answer, result)) = released {
            self.give_answer(Now::default(), answer, result, effects);
        }
    }

    /// Gives an answer that waits no more: what it says is stored, or why it is not.
    pub(crate) fn give_answer(
        &mut self,
        now: Now,
        answer: Answer,
        result: Result<(), Close>,
        effects: &mut Effects,
    ) {
        match (answer, result) {
            (Answer::Confirm(session, confirm), Ok(())) => {
                self.confirm(session, confirm, effects);
            }
            (Answer::Confirm(session, confirm), Err(close)) => {
                let blame = Some(confirm.from);
                self.refuse_run(Some(session), Some(confirm), blame, &close, effects);
            }
            (Answer::Settled(session, confirm, number), result) => {
                self.give_settled(session, (confirm, number), result, effects);
            }
            (Answer::Moved(moved), result) => {
                self.end_dead_letter(moved, result, effects);
            }
            (Answer::Unasked(_), Ok(())) => {}
            (Answer::Unasked(session), Err(close)) => {
                self.refuse_run(Some(session), None, None, &close, effects);
            }
            (Answer::Queued(what), result) => self.give_queued(now, *what, result, effects),
            (Answer::Transferred(to, transfer, put), result) => {
                match (put, &result) {
                    (Some(put), Ok(())) => self.note_put_stored(put, effects),
                    (Some(put), Err(_)) if !put.stays => {
                        let out = self.home.queues_mut().withdraw(put.queue, put.versions);
                        self.apply(out, effects);
                    }
                    // What need not survive has come all the same.
                    (Some(_), Err(_)) => {
                        return self.answer_transfer(to, transfer, Ok(()), effects);
                    }
                    (None, _) => {}
                }
                self.answer_transfer(to, transfer, result, effects);
            }
            (Answer::Gone(queue, versions), Ok(())) => {
                self.home.queues_mut().settled(queue, versions);
            }
            (Answer::Gone(..), Err(_)) => {}
            (Answer::Fed(place, number), result) => {
                let result = result.map_err(Box::new);
                self.send(place, ToHome::Fed { number, result }, effects);
            }
            (Answer::FedPart(number), result) => {
                self.end_feed_part(now, number, result, effects);
            }
            (Answer::FedRecord(number), result) => {
                self.fed_record_stored(now, (number, result), effects);
            }
            (Answer::Operated(requester, done), result) => {
                self.loopback.answer_operation(&requester, result.map(|()| *done), effects);
            }
        }
    }

    /// Holds a publisher back if too much waits for the store.
    pub(crate) fn hold_for_store(&mut self, session: SessionId, effects: &mut Effects) {
        if self.journal.throttle(Place::of(session))
            && let Some(destination) = store_destination()
        {
            self.send(Place::of(session), ToPublisher::Wait { session, destination }, effects);
        }
    }
}

/// What publishers wait for while the store is behind.
pub(crate) fn store_destination() -> Option<Destination> {
    Some(Destination { kind: Kind::Topic, path: Path::parse(STORE).ok()? })
}
