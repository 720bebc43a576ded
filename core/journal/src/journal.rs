//! The journal of one home.

use std::collections::VecDeque;

use tiderace_base::Time;

use crate::outage::Attempts;
use crate::refused::Refused;
use crate::refused_bodies::RefusedBodies;
use crate::{Awaited, NotStored, RecordSubject, StoreOutage, StoreRecord};

/// Bytes of records that may wait here before publishers wait for the store.
const RECORDS_BYTES_MAX: usize = 1 << 20;
/// Streams that have the messages of one record: reading them for one stream reads the list of all.
const SHARED_STREAMS_MAX: usize = 1_024;
/// Ends of streams and stretches of settled messages with which a store that is full is tried at once.
const ENDS_AT_ONCE: usize = 1 << 14;

/// Records on their way to the store and the answers, of type `A`, that wait for them.
#[derive(Debug)]
pub struct Journal<A> {
    /// Not taken yet.
    records: Vec<StoreRecord>,
    bytes: usize,
    /// No stream was declared from this one of `records` on.
    declared: usize,
    /// The number of the last record.
    appended: u64,
    /// The number of the last record that was taken.
    taken: u64,
    /// The number up to which the store has committed or refused records.
    answered: u64,
    /// What the records without an answer concern.
    subjects: VecDeque<(u64, RecordSubject)>,
    /// In the order of the records that they wait for.
    held: VecDeque<Held<A>>,
    outage: Option<Attempts>,
    /// The last record that was answered before the store failed for good.
    failed_after: Option<u64>,
    /// What the store does not have as it should be.
    refused: Refused,
    /// The last record by which an end of a stream was appended again.
    ends_appended_again: u64,
    /// The last of `records` whose message has its body in a file: its number, and its place among them.
    with_body: Option<(u64, usize)>,
    /// The last record by which anything was appended again that takes away.
    taken_away_again: u64,
    /// Answers about what was removed while the store has refused to say so.
    removals: Vec<A>,
    /// What the store does not have because it could not keep the files of bodies.
    refused_bodies: RefusedBodies,
}

/// An answer that waits.
#[derive(Debug)]
struct Held<A> {
    /// What it says stands in the records behind this one.
    after: u64,
    until: u64,
    kind: AnswerKind,
    answer: A,
}

/// Records that a journal hands over.
#[derive(Debug)]
pub struct TakenRecords {
    /// The number of the last.
    pub up_to: u64,
    /// In their order.
    pub records: Vec<StoreRecord>,
    /// Something waits until they are committed. Otherwise they say no more than that messages were settled, by somebody
    /// who has not asked for a confirmation: they may wait a moment for other records, to share a write to the disk.
    pub is_awaited: bool,
}

/// What an answer says was done, as far as the store is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerKind {
    /// Something was written, or was there already by earlier records.
    Write,
    /// Something was removed: it is gone, so this waits until the store has said so, however long that takes, and is refused only by a
    /// store that has failed.
    Removal,
    /// Messages of queues were put or consumed: what the answer says stands in its own records alone, so it is sure
    /// as soon as these are committed.
    Messages,
}

/// What an answer of the store has settled.
#[derive(Debug)]
pub struct Settled<A> {
    /// The answers that wait no more, in the order of their records: what they say is committed, or
    /// why it is not.
    pub answers: Vec<(A, Result<(), NotStored>)>,
    /// The store works again: what it had refused, to be appended again.
    pub append_again: Vec<RecordSubject>,
}

impl<A> Default for Journal<A> {
    fn default() -> Journal<A> {
        Journal {
            records: Vec::new(),
            bytes: 0,
            declared: 0,
            appended: 0,
            taken: 0,
            answered: 0,
            subjects: VecDeque::new(),
            held: VecDeque::new(),
            outage: None,
            failed_after: None,
            refused: Refused::default(),
            ends_appended_again: 0,
            with_body: None,
            taken_away_again: 0,
            removals: Vec::new(),
            refused_bodies: RefusedBodies::default(),
        }
    }
}

impl<A> Journal<A> {
    /// Appends a record; its number.
    pub fn append(&mut self, record: StoreRecord, subject: RecordSubject) -> u64 {
        let number = self.append_answered(record);
        self.subjects.push_back((number, subject));
        number
    }

    /// The same of a record that nothing but answers is about: if it is refused, it is not appended again.
    pub fn append_answered(&mut self, mut record: StoreRecord) -> u64 {
        if matches!(record, StoreRecord::Declare { .. }) {
            // A stream may have messages only behind what it is.
            self.declared = self.records.len() + 1;
        }
        self.appended += 1;
        if let StoreRecord::Put { body: Some(body), .. } = &mut record {
            body.record = self.appended;
            self.with_body = Some((self.appended, self.records.len()));
        }
        self.bytes += record.bytes();
        self.records.push(record);
        self.appended
    }

    /// Appends that messages of a stream are not needed any more as soon as a message is there that was appended with the
    /// number `put`. If that has its body in a file it becomes part of its record, for both are left out if the file cannot
    /// be kept. The number of the record that says it.
    pub fn append_settled_with(&mut self, put: u64, stream: u64, ranges: Vec<(u64, u64)>) -> u64 {
        if let Some((_, place)) = self.with_body.filter(|(number, _)| *number == put)
            && let Some(StoreRecord::Put { body: Some(body), .. }) = self.records.get_mut(place)
        {
            self.bytes += size_of_val(&*ranges);
            body.settles.push((stream, ranges));
            return put;
        }
        self.append_answered(StoreRecord::Settle { stream, ranges })
    }

    /// Appends messages that other streams may have as well, by [`Journal::join_shared`]. Nothing but answers is about
    /// them. Also gives the place where they are until records are taken.
    pub fn append_shared(&mut self, owner: (u64, u64), count: u32, bytes: Vec<u8>) -> (u64, usize) {
        let place = self.records.len();
        let record = StoreRecord::PutShared { owners: vec![owner], count, bytes };
        (self.append_answered(record), place)
    }

    /// Another stream has the messages at a place, from that version on: the number of a record of its own. Absent if
    /// very many streams have them already, or a stream was declared behind them.
    pub fn join_shared(&mut self, place: usize, (stream, first): (u64, u64)) -> Option<u64> {
        let record = self.records.get_mut(place).filter(|_| place >= self.declared)?;
        let StoreRecord::PutShared { owners, .. } = record else { return None };
        if owners.len() >= SHARED_STREAMS_MAX {
            return None;
        }
        owners.push((stream, first));
        self.bytes += size_of::<(u64, u64)>();
        self.appended += 1;
        Some(self.appended)
    }

    /// Appends that messages of a stream, between two versions, are not needed any more. If the last record, not
    /// yet taken, says the same of lower ones, it becomes part of that.
    pub fn append_settled(&mut self, stream: u64, first: u64, last: u64) -> u64 {
        let subject = RecordSubject::Settled(stream, first, last);
        if let Some(StoreRecord::Settle { stream: known, ranges }) = self.records.last_mut()
            && *known == stream
            && let Some(end) = ranges.last_mut()
            && end.1 < first
        {
            if end.1 + 1 == first {
                end.1 = last;
            } else {
                ranges.push((first, last));
                self.bytes += size_of::<(u64, u64)>();
            }
            // A number of its own, for answers that wait for this.
            self.appended += 1;
            match self.subjects.back_mut() {
                Some((number, RecordSubject::Settled(known, _, end)))
                    if *known == stream && *end + 1 == first =>
                {
                    (*number, *end) = (self.appended, last);
                }
                _ => self.subjects.push_back((self.appended, subject)),
            }
            return self.appended;
        }
        self.append(StoreRecord::Settle { stream, ranges: vec![(first, last)] }, subject)
    }

    /// The number of the last record; zero before the first.
    pub fn last(&self) -> u64 {
        self.appended
    }

    /// Whether the store has not answered a record yet.
    pub fn is_open(&self, record: u64) -> bool {
        record > self.answered
    }

    /// Holds an answer until all records that it waits for have an answer of the store.
    ///
    /// # Errors
    /// Gives the answer back when there is nothing to wait for.
    pub fn hold(
        &mut self,
        records: impl Into<Awaited>,
        kind: AnswerKind,
        answer: A,
    ) -> Result<(), A> {
        let Awaited { after, until } = records.into();
        if !self.is_open(until) {
            return Err(answer);
        }
        // Nearly always at the end.
        let at = self.held.partition_point(|held| held.until <= until);
        self.held.insert(at, Held { after, until, kind, answer });
        Ok(())
    }

    /// Holds an answer about what was removed by records up to a number, zero for none, until the store has said so, also
    /// if it has refused some of them before.
    ///
    /// # Errors
    /// Gives the answer back when there is nothing to wait for, or no hope.
    pub fn hold_removal(
        &mut self,
        until: u64,
        answer: A,
    ) -> Result<(), (A, Result<(), NotStored>)> {
        if until == 0 {
            return Err((answer, Ok(())));
        }
        let is_doubtful = self.refused.takes_away();
        if self.failed_after.is_some_and(|committed| is_doubtful || until > committed) {
            return Err((answer, Err(NotStored::Outage(StoreOutage::Failed))));
        }
        if is_doubtful {
            self.removals.push(answer);
            return Ok(());
        }
        let until = until.max(self.taken_away_again);
        let held = self.hold(Awaited::before(until), AnswerKind::Removal, answer);
        held.map_err(|answer| (answer, Ok(())))
    }

    /// How many answers wait.
    pub fn held(&self) -> usize {
        self.held.len() + self.removals.len()
    }

    /// Whether so much waits to be taken that publishers are to wait as well.
    pub fn is_behind(&self) -> bool {
        self.bytes > RECORDS_BYTES_MAX
    }

    /// Whether there are records to take.
    pub fn has_records(&self) -> bool {
        !self.records.is_empty()
    }

    /// Takes the records that were not taken yet.
    pub fn take(&mut self) -> Option<TakenRecords> {
        if self.records.is_empty() {
            return None;
        }
        self.bytes = 0;
        self.declared = 0;
        self.with_body = None;
        let before = std::mem::replace(&mut self.taken, self.appended);
        let is_held = self.held.back().is_some_and(|held| held.until > before);
        let records = std::mem::take(&mut self.records);
        let only_settle = records.iter().all(|record| matches!(record, StoreRecord::Settle { .. }));
        Some(TakenRecords { up_to: self.appended, records, is_awaited: is_held || !only_settle })
    }

    /// The store has committed all records up to a number that it has not refused before.
    pub fn committed(&mut self, up_to: u64) -> Settled<A> {
        let left_out = self.refused_bodies.take(up_to);
        let subjects: Vec<_> = self
            .answer_subjects(up_to)
            .filter(|(number, _)| !left_out.is_empty() && left_out.contains(number))
            .collect();
        subjects.into_iter().for_each(|(_, subject)| self.refused_bodies.note(subject));
        let works = self.outage.as_ref().is_some_and(|attempts| attempts.have_succeeded(up_to));
        // What was to be gone might come back, whatever has been appended since.
        let is_doubtful = self.ends_appended_again > up_to || self.refused.has_ends();
        let are_under_way = self.taken_away_again > up_to;
        let is_removal_doubtful = are_under_way || self.refused.takes_away();
        let outage = self.outage.as_ref().map(|attempts| attempts.outage);
        let (mut answers, mut removals) = (Vec::new(), Vec::new());
        for Held { after, until, kind, answer } in self.set_free(up_to) {
            // During an outage only a removal is sure: another answer may be about what was refused
            // before.
            let is_sure = match kind {
                AnswerKind::Messages => true,
                AnswerKind::Removal
                    if is_removal_doubtful && outage != Some(StoreOutage::Failed) =>
                {
                    removals.push(answer);
                    continue;
                }
                AnswerKind::Removal => !is_removal_doubtful,
                AnswerKind::Write => !is_doubtful && (outage.is_none() || works),
            };
            // What was removed is gone, and what earlier records say is there, whatever else was left out.
            let lacks_body = kind != AnswerKind::Removal
                && !left_out.is_empty()
                && after < until
                && left_out.range(after + 1..=until).next().is_some();
            let result = match (lacks_body, is_sure) {
                (true, _) => Err(NotStored::Body),
                (false, true) => Ok(()),
                (false, false) => Err(NotStored::Outage(outage.unwrap_or(StoreOutage::Full))),
            };
            answers.push((answer, result));
        }
        let mut append_again = match works {
            true => {
                self.outage = None;
                self.refused.take()
            }
            false => Vec::new(),
        };
        append_again.extend(self.refused_bodies.answered(up_to, true));
        self.removals.append(&mut removals);
        if !works && are_under_way {
            self.hold_removals(self.taken_away_again);
        }
        Settled { answers, append_again }
    }

    /// The store has refused the records up to a number that have no answer yet. From now on there
    /// is an outage: until the store works again, or for ever if it has failed.
    pub fn failed(&mut self, now: Time, up_to: u64, outage: StoreOutage) -> Settled<A> {
        let known = self.outage.as_ref().map(|attempts| attempts.outage);
        let outage = if known == Some(StoreOutage::Failed) { StoreOutage::Failed } else { outage };
        if outage == StoreOutage::Failed {
            self.failed_after.get_or_insert(self.answered);
        }
        let refused: Vec<(u64, RecordSubject)> = self.answer_subjects(up_to).collect();
        for (_, subject) in refused {
            self.note_refused(subject, outage);
        }
        // All of these were refused, whatever became of their bodies.
        self.refused_bodies.take(up_to);
        self.refused_bodies.answered(up_to, false);
        self.outage = Some(Attempts::new(now, outage));
        let refusal = NotStored::Outage(outage);
        // What is noted is said again as soon as it can be.
        let waits = outage == StoreOutage::Full && self.refused.takes_away();
        let mut removals: Vec<A> = match waits {
            true => Vec::new(),
            false => std::mem::take(&mut self.removals),
        };
        let mut answers = Vec::new();
        for Held { kind, answer, .. } in self.set_free(up_to) {
            match kind {
                AnswerKind::Removal => removals.push(answer),
                _ => answers.push((answer, Err(refusal))),
            }
        }
        match waits {
            true => self.removals.append(&mut removals),
            false => answers.extend(removals.into_iter().map(|answer| (answer, Err(refusal)))),
        }
        Settled { answers, append_again: Vec::new() }
    }

    /// The store has left a record out, for it could not keep the file of its body. To be said before the answer to that
    /// record, which is about the others.
    pub fn body_refused(&mut self, record: u64) {
        if self.is_open(record) {
            self.refused_bodies.insert(record);
        }
    }

    /// The next subject whose records were left out that is to be appended again; it is noted no more. If something is
    /// appended that is to be said by [`Journal::end_body_retry`]; if not, it has ended meanwhile.
    pub fn next_refused_body(&mut self, now: Time) -> Option<RecordSubject> {
        if self.outage.is_some() { None } else { self.refused_bodies.next(now) }
    }

    /// A subject was appended again: whether the others will be is decided by what becomes of that.
    pub fn end_body_retry(&mut self, now: Time, subject: RecordSubject) {
        self.refused_bodies.appended(now, subject, self.appended);
    }

    /// Notes what is to be appended again. A store that has failed will take nothing: of that only what decides over
    /// answers is noted.
    fn note_refused(&mut self, subject: RecordSubject, outage: StoreOutage) {
        use RecordSubject::{Fences, Gone, Numbers};
        if outage == StoreOutage::Full || matches!(subject, Numbers | Fences | Gone(_)) {
            self.refused.note(subject);
        }
    }

    /// Why nothing can be committed now, if that is so.
    pub fn outage(&self) -> Option<StoreOutage> {
        self.outage.as_ref().map(|attempts| attempts.outage)
    }

    /// Whether the store has refused what concerns a subject, which is no settlement.
    pub fn has_refused(&self, subject: RecordSubject) -> bool {
        self.refused.has(subject)
    }

    /// Begins to try a store that is full again: whether something that was refused is to be
    /// appended, as [`Journal::next_refused`] gives it, up to [`Journal::end_retry`]. Ends of
    /// streams and of their messages come first, by themselves, for they take no room; some of them if
    /// they are many.
    pub fn begin_retry(&mut self, now: Time) -> bool {
        if !self.outage.as_ref().is_some_and(|attempts| attempts.are_due(now)) {
            return false;
        }
        let before = self.appended;
        let mut ends = false;
        for subject in self.refused.take_ends(ENDS_AT_ONCE) {
            match subject {
                RecordSubject::Gone(stream) => {
                    ends = true;
                    self.append(StoreRecord::Drop { stream }, subject);
                }
                RecordSubject::Settled(stream, first, last) => {
                    self.append_settled(stream, first, last);
                }
                _ => {}
            }
        }
        if self.appended == before {
            return true;
        }
        if ends {
            self.ends_appended_again = self.appended;
        }
        self.taken_away_again = self.appended;
        self.hold_removals(self.appended);
        if let Some(attempts) = &mut self.outage {
            attempts.wait_again(now);
        }
        false
    }

    /// Everything was appended that [`Settled::append_again`] has given.
    pub fn end_append_again(&mut self) {
        if !self.removals.is_empty() && self.is_open(self.appended) {
            self.taken_away_again = self.appended;
            self.hold_removals(self.appended);
        }
    }

    /// All that takes away is appended again, up to a record: who waits for that waits for the store alone.
    fn hold_removals(&mut self, until: u64) {
        if self.removals.is_empty() || self.refused.takes_away() {
            return;
        }
        let at = self.held.partition_point(|held| held.until <= until);
        let later = self.held.split_off(at);
        let removals = std::mem::take(&mut self.removals).into_iter();
        let (after, kind) = (until, AnswerKind::Removal);
        self.held.extend(removals.map(|answer| Held { after, until, kind, answer }));
        self.held.extend(later);
    }

    /// The next subject that the store has refused; it is noted no more.
    pub fn next_refused(&mut self) -> Option<RecordSubject> {
        self.refused.take_last()
    }

    /// Ends what [`Journal::begin_retry`] began: the store works when it commits what was appended
    /// after the record `before`. If that is nothing, then all that was refused has ended
    /// meanwhile, and so has the outage.
    pub fn end_retry(&mut self, before: u64) {
        match &mut self.outage {
            Some(attempts) if self.appended != before => attempts.probe_with(self.appended),
            _ => self.outage = None,
        }
    }

    /// What the records concern that are answered by an answer up to a number.
    fn answer_subjects(&mut self, up_to: u64) -> impl Iterator<Item = (u64, RecordSubject)> {
        self.answered = self.answered.max(up_to);
        let answered = self.subjects.partition_point(|(number, _)| *number <= up_to);
        self.subjects.drain(..answered)
    }

    fn set_free(&mut self, up_to: u64) -> impl Iterator<Item = Held<A>> {
        let free = self.held.partition_point(|held| held.until <= up_to);
        self.held.drain(..free)
    }
}
