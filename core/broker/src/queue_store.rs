//! Queues that survive: what their home appends, which answers wait for it, and what is undone if the store refuses.
//!
//! ```text
//!   persistent run ─▶ versions ─▶ Put ─────────────▶ stored ─▶ confirmation
//!                          └─▶ ready, to consumers at once
//!   settlement ─▶ gone ─▶ Settle ──────────────────▶ stored ─▶ confirmation
//!   dead letter ─▶ Put where it goes ─▶ stored ─▶ Settle where it lay
//! ```
//! Relies on the journal for the order. Invariants: a stored message is settled in the store only when it has been
//! consumed, has expired, or is stored elsewhere; a publisher that is refused after the fact finds nothing of its
//! messages in the queue, but for those that somebody has been given; what a transaction does at one home is one batch,
//! and is undone as a whole if the store refuses it.

use tiderace_base::{Close, CloseCode, Key, Now, SessionId, Span};
use tiderace_journal::{AnswerKind, Awaited};
use tiderace_queues::{Consumed, Segment, Settlement};
use tiderace_wire::{Confirm, Flags, Kind, Run, SubscriptionKey, is_temporary};

use crate::effects::Effects;
use crate::feeding::check_durable;
use crate::home::dead_letters::{Arrived, Given};
use crate::home_side::HomeSide;
use crate::journal::{Answer, describe_queue, versions_of};
use crate::maker::Maker;
use crate::messages::ToHome;
use crate::places::Place;
use crate::publisher::{Recipients, Room};
use crate::queued::{MovedFrom, Put, Queued};
use crate::runs::size_of_run;
use crate::server_topics::Publication;

impl HomeSide<'_> {
    /// Whether messages of a session may go into their queue: the one place that decides what becomes of persistent
    /// ones without a store, whatever the protocol.
    #[inline]
    pub(crate) fn check_queue(&self, now: Now, run: &Run, maker: Maker<'_>) -> Result<(), Close> {
        let (path, room) = (&run.destination().path, (size_of_run(run), true));
        self.check_kind(now, run)?;
        self.home.check_room(path, room, maker, self.options)
    }

    /// Whether a queue may have messages of that kind, if there is room for them.
    #[inline]
    pub(crate) fn check_kind(&self, now: Now, run: &Run) -> Result<(), Close> {
        if !self.home.queues().may_have(&run.destination().path) {
            return Err(CloseCode::MemoryFull.into());
        }
        check_durable(self.home, &run.destination().path)?;
        let marks = run.marks();
        if marks.contains(Flags::DELAYED) {
            let policy = &self.options.queue(&run.destination().path).policy;
            check_schedule(now, run, policy.delay_max)?;
        }
        match marks.contains(Flags::PERSISTENT) && !is_temporary(&run.destination().path) {
            true => self.journal.check_message(self.options.persistent_in_memory),
            false => Ok(()),
        }
    }

    /// Whether messages of a session go into their queue.
    #[inline]
    pub(crate) fn admit_to_queue(
        &self,
        now: Now,
        (origin, maker): (Option<SessionId>, Maker<'_>),
        (run, room): (&Run, Room),
    ) -> Result<(), Close> {
        match (origin, room) {
            (None, _) => Ok(()),
            (Some(_), Room::Unknown) => self.check_queue(now, run, maker),
            (Some(_), Room::Known) => self.check_kind(now, run),
        }
    }

    /// Counts messages that their queue refuses.
    pub(crate) fn note_refused(&mut self, run: &Run, close: &Close) {
        let refused = run.len() as u64;
        self.metrics.queue_refused += refused * u64::from(close.code == CloseCode::QueueFull);
        self.metrics.account_refused += refused * u64::from(close.code == CloseCode::AccountFull);
    }

    /// Appends a run that its queue keeps, with its numbers and versions, if it is persistent and there is a store that
    /// works.
    #[inline]
    pub(crate) fn put_run(&mut self, now: Now, queue: Key, run: &mut Run) -> Option<Put> {
        self.journal.note_queue_numbers(self.home.next_number());
        if !self.journal.stores_messages() {
            return None;
        }
        match is_kept(run) {
            true => self.store_run(now, queue, run),
            // A body that lies in a file takes no memory that would have to be freed.
            false if run.body_in_file().is_some() => None,
            false if self.journal.takes_volatile() && self.home.queues().leaves(queue, run) => {
                self.leave_run(now, queue, run)
            }
            false => None,
        }
    }

    #[cold]
    fn store_run(&mut self, now: Now, queue: Key, run: &mut Run) -> Option<Put> {
        let stream = match self.home.queues().stream_of(queue) {
            Some(stream) => stream,
            None => {
                let before = run.queue_version().saturating_sub(1);
                let path = &run.destination().path;
                let owner = self.home.queues().owner_of(queue);
                let description = describe_queue(self.home.feeds().get(path), owner);
                let stream = self.journal.begin_queue(queue, path, before, description)?;
                self.home.queues_mut().set_stream(queue, stream);
                stream
            }
        };
        run.set_stored();
        let record = self.journal.put_messages(now, stream, run);
        self.metrics.queue_stored += run.len() as u64;
        let versions = (run.queue_version(), run.queue_version() + run.len() as u64 - 1);
        Some(Put { queue, versions, record, stays: false })
    }

    /// Messages of a session, or of the server, are in their queue: confirms them, when they are stored if they are.
    pub(crate) fn answer_queued(
        &mut self,
        now: Now,
        publisher: Option<SessionId>,
        confirm: Option<Confirm>,
        put: Option<Put>,
        effects: &mut Effects,
    ) {
        if put.is_none_or(|put| put.stays)
            && let (Some(session), Some(confirm)) = (publisher, confirm)
        {
            self.confirm(session, confirm, effects);
        }
        let Some(put) = put else { return };
        if let Some(session) = publisher {
            self.hold_for_store(session, effects);
        }
        // Who asks for no confirmation hears of a refusal too: a later confirmation stands for what was sent before.
        let publisher = publisher.filter(|_| !put.stays).map(|session| (session, confirm));
        let what = Queued { publisher, put: Some(put), consumed: Vec::new(), source: None };
        self.hold_queued(now, put.record, what, effects);
    }

    /// Confirms that messages were consumed as soon as a record that says so is stored; without one, all that is said here.
    pub(crate) fn hold_settled(
        &mut self,
        now: Now,
        record: Option<u64>,
        session: SessionId,
        confirm: Confirm,
        effects: &mut Effects,
    ) {
        let answer = match self.home.queues_mut().dead_letters_mut().announce(session) {
            Some(number) => Answer::Settled(session, confirm, number),
            None => Answer::Confirm(session, confirm),
        };
        if let Some((answer, result)) = self.journal.hold_settled(session, record, answer) {
            self.give_answer(now, answer, result, effects);
        }
    }

    /// The records of a receipt are stored, or not: it waits for the dead letters that its session has caused before it.
    pub(crate) fn give_settled(
        &mut self,
        session: SessionId,
        (confirm, number): (Confirm, u64),
        result: Result<(), Close>,
        effects: &mut Effects,
    ) {
        let letters = self.home.queues_mut().dead_letters_mut();
        let given = match result {
            Ok(()) => letters.hold(session, (number, confirm)),
            Err(close) => {
                letters.renounce(session, number);
                Some((confirm, Err(close)))
            }
        };
        self.give_receipts(session, given, effects);
    }

    fn give_receipts(
        &mut self,
        session: SessionId,
        receipts: impl IntoIterator<Item = Given>,
        effects: &mut Effects,
    ) {
        for (confirm, result) in receipts {
            self.give_answer(Now::default(), Answer::Confirm(session, confirm), result, effects);
        }
    }

    /// A dead letter of this home is stored where it goes and nowhere else, or why that will not come to pass.
    pub(crate) fn end_dead_letter(
        &mut self,
        moved: (Key, u64),
        result: Result<(), Close>,
        effects: &mut Effects,
    ) {
        let ended = self.home.queues_mut().dead_letters_mut().end(moved, result);
        if let Some((session, receipts)) = ended {
            self.give_receipts(session, receipts, effects);
        }
    }

    fn hold_queued(
        &mut self,
        now: Now,
        records: impl Into<Awaited>,
        what: Queued,
        effects: &mut Effects,
    ) {
        let answer = Answer::Queued(Box::new(what));
        if let Some(answer) = self.journal.hold(records, AnswerKind::Messages, answer) {
            self.give_answer(now, answer, Ok(()), effects);
        }
    }

    /// Gives an answer about messages of queues: they are stored, or why they are not.
    pub(crate) fn give_queued(
        &mut self,
        now: Now,
        what: Queued,
        result: Result<(), Close>,
        effects: &mut Effects,
    ) {
        let Queued { publisher, put, consumed, source } = what;
        let Err(close) = result else {
            if let Some((session, Some(confirm))) = publisher {
                self.confirm(session, confirm, effects);
            }
            match source {
                // It was settled in the batch that has put it.
                Some((place, source)) if place == self.here() => {
                    let MovedFrom { queue, version, .. } = source;
                    self.home.queues_mut().end_move(&source, true);
                    self.home.queues_mut().settled(queue, (version, version));
                    self.end_dead_letter((queue, version), Ok(()), effects);
                }
                Some(source) => self.tell_moved(source, Ok(()), effects),
                None => {}
            }
            if let Some(put) = put {
                self.note_put_stored(put, effects);
            }
            return;
        };
        if let Some(source) = source {
            self.tell_moved(source, Err(close.clone()), effects);
        }
        if let Some(put) = put.filter(|put| !put.stays) {
            let out = self.home.queues_mut().withdraw(put.queue, put.versions);
            self.apply(out, effects);
        }
        for segment in consumed {
            let out = self.home.queues_mut().give_back(now, segment, self.options);
            self.apply(out, effects);
        }
        if let Some((session, confirm)) = publisher {
            let blame = confirm.map(|confirm| confirm.from);
            self.refuse_run(Some(session), confirm, blame, &close, effects);
        }
    }

    /// A dead letter has come to where it goes.
    pub(crate) fn take_dead_letter(
        &mut self,
        now: Now,
        from: Place,
        (run, owner, source): (Run, Maker<'_>, Option<MovedFrom>),
        effects: &mut Effects,
    ) {
        if is_temporary(&run.destination().path) {
            // Nobody's: no session was told that name for it.
            self.metrics.dropped_temporary += run.len() as u64;
            if let Some(source) = source {
                self.tell_moved((from, source), Ok(()), effects);
            }
            return;
        }
        let put = self.enqueue(now, (from, owner), run, effects);
        let put = put.map(|put| Put { stays: true, ..put });
        let Some(source) = source else {
            return self.answer_queued(now, None, None, put, effects);
        };
        // If it is not stored here, because the store is full, it stays stored where it lay, and comes back there in
        // the next life.
        let Some(put) = put else {
            let close = CloseCode::StoreUnavailable.into();
            return self.tell_moved((from, source), Err(close), effects);
        };
        let mut record = put.record;
        if from == self.here() {
            // In one batch: both are stored, or neither is.
            let version = (source.version, source.version);
            record = self.journal.settle_moved(put.record, source.stream, [version]);
        }
        let source = Some((from, source));
        let what = Queued { publisher: None, put: Some(put), consumed: Vec::new(), source };
        let records = Awaited { until: record, ..Awaited::from(put.record) };
        self.hold_queued(now, records, what, effects);
    }

    /// Tells the home of a dead letter's queue what has become of it.
    fn tell_moved(
        &mut self,
        (place, source): (Place, MovedFrom),
        result: Result<(), Close>,
        effects: &mut Effects,
    ) {
        let result = result.map_err(Box::new);
        self.send(place, ToHome::Moved { source, result }, effects);
    }

    /// The home of its queue says what has become of a dead letter of this home.
    pub(crate) fn take_moved(
        &mut self,
        now: Now,
        source: MovedFrom,
        result: Result<(), Close>,
        effects: &mut Effects,
    ) {
        let before = self.journal.last_record();
        self.end_move(source, result.is_ok());
        let moved = (source.queue, source.version);
        if result.is_err() {
            return self.end_dead_letter(moved, result, effects);
        }
        let record = self.journal.appended_since(before);
        match self.home.queues_mut().dead_letters_mut().arrive(moved) {
            // Nobody waits, so the record shares a write with others.
            Arrived::Nobodys => {}
            Arrived::Unasked(session) => {
                self.end_dead_letter(moved, Ok(()), effects);
                self.journal.note_settled(session, record);
            }
            Arrived::Awaited => {
                let held = self.journal.hold_removal(record, Answer::Moved(moved));
                if let Some((answer, result)) = held {
                    self.give_answer(now, answer, result, effects);
                }
            }
        }
    }

    /// A dead letter of this home is where it goes, and stored there or not.
    pub(crate) fn end_move(&mut self, source: MovedFrom, is_stored: bool) {
        let MovedFrom { queue, stream, version } = source;
        if self.home.queues_mut().end_move(&source, is_stored) {
            self.journal.settle_version(stream, version);
            if self.home.queues().has_outside(queue, version) {
                self.hold_gone_of(queue, (version, version), self.journal.last_record());
            }
        }
    }

    /// What a transaction does at this home, all of it or nothing. The wiring says who of the sessions here gets what is
    /// published.
    pub(crate) fn do_together(
        &mut self,
        now: Now,
        from: Place,
        parts: Vec<(ToHome, Recipients)>,
        effects: &mut Effects,
    ) {
        let mut stores = false;
        let mut refused = Ok(());
        for (part, _) in &parts {
            if let ToHome::Publish { run, origin: Some(_), .. } = part
                && run.destination().kind == Kind::Queue
            {
                stores |= is_kept(run);
                refused = refused.and_then(|()| self.check_kind(now, run));
            }
        }
        let refused = refused.and_then(|()| self.home.check_room_together(&parts, self.options));
        if let Err(close) = refused {
            return parts.into_iter().for_each(|(part, _)| self.refuse_part(part, &close, effects));
        }
        let session = parts.iter().find_map(|(part, _)| match part {
            ToHome::Publish { origin, .. } => *origin,
            _ => None,
        });
        let (mut consumed, mut confirms) = (Vec::new(), Vec::new());
        for (part, recipients) in parts {
            match part {
                ToHome::Publish { run, origin, author, confirm } => {
                    let what = (*run, origin, author, confirm);
                    self.publish_whole(now, from, what, recipients, effects);
                }
                ToHome::Settle { session, key, ranges, settlement, confirm } if stores => {
                    // It waits for all of the transaction.
                    confirms.extend(confirm.map(|confirm| (session, confirm)));
                    match settlement {
                        Settlement::Accept => {
                            let whose = (session, key);
                            self.accept_together(now, whose, &ranges, &mut consumed, effects);
                        }
                        _ => {
                            let what = (&*ranges, settlement);
                            self.settle_at_home(now, (session, key), what, None, effects);
                        }
                    }
                }
                ToHome::Settle { session, key, ranges, settlement, confirm } => {
                    let what = (&*ranges, settlement);
                    self.settle_at_home(now, (session, key), what, confirm, effects);
                }
                ToHome::PublishAsOwner { run, origin, author, confirm, blame } => {
                    let publication = Publication { run: *run, origin, author, confirm, blame };
                    if let Some(admitted) = self.admit_as_owner(publication, effects) {
                        let Publication { run, origin, author, confirm, .. } = admitted;
                        let what = (run, Some(origin), Some(author), confirm);
                        self.publish_whole(now, from, what, recipients, effects);
                    }
                }
                _ => debug_assert!(false, "a transaction publishes and settles"),
            }
        }
        let record = self.journal.last_record();
        if !consumed.is_empty() {
            let publisher = session.map(|session| (session, None));
            let what = Queued { publisher, put: None, consumed, source: None };
            // No body of a transaction lies in a file.
            self.hold_queued(now, Awaited::before(record), what, effects);
        }
        for (session, confirm) in confirms {
            self.hold_settled(now, Some(record), session, confirm, effects);
        }
    }

    /// Accepts messages as part of a transaction that puts others: `consumed` gets them, for the store may refuse it.
    fn accept_together(
        &mut self,
        now: Now,
        whose: (SessionId, SubscriptionKey),
        ranges: &[(u64, u64)],
        consumed: &mut Vec<Segment>,
        effects: &mut Effects,
    ) {
        let (gone, out) = self.home.queues_mut().accept_together(now, whose, ranges);
        for Consumed { stream, is_outside, segment } in gone {
            if let Some(stream) = stream {
                let record = self.journal.settle_together(stream, [versions_of(&segment)]);
                if is_outside {
                    self.hold_gone(&segment, record);
                }
            }
            consumed.push(segment);
        }
        self.apply(out, effects);
    }

    /// Refuses what a transaction was to do.
    pub(crate) fn refuse_part(&mut self, part: ToHome, close: &Close, effects: &mut Effects) {
        match part {
            ToHome::Publish { run, origin, confirm, .. } => {
                self.note_refused(&run, close);
                let blame = confirm.map(|confirm| confirm.from);
                self.refuse_run(origin, confirm, blame, close, effects);
            }
            ToHome::PublishAsOwner { origin, confirm, blame, .. } => {
                self.refuse_run(Some(origin), confirm, blame, close, effects);
            }
            ToHome::Settle { session, confirm, .. } => {
                let token = confirm.map(|confirm| confirm.to);
                self.refuse(session, token, close.clone(), effects);
            }
            _ => {}
        }
    }
}

/// Whether messages may wait for as long as their publisher wants.
#[cold]
fn check_schedule(now: Now, run: &Run, most: Span) -> Result<(), Close> {
    let path = &run.destination().path;
    let most_ms = u64::try_from(most.as_millis()).unwrap_or(u64::MAX);
    for message in run.messages() {
        let delay = message.deliver_at_ms().unwrap_or(0).saturating_sub(now.wall_ms);
        if delay > most_ms {
            let reason = format!(
                "a message for the queue {path} would wait for {delay} ms, at most {most_ms} ms are allowed \
                 (`queues.delay_max`)"
            );
            return Err(Close::new(CloseCode::BadSchedule, reason));
        }
    }
    Ok(())
}

/// Whether a queue keeps a run in the store, if there is one: what goes to a temporary queue ends with its session.
#[inline]
fn is_kept(run: &Run) -> bool {
    run.any(Flags::PERSISTENT) && !is_temporary(&run.destination().path)
}
