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

use tiderace_base::{Close, CloseCode, Key, Now, SessionId};
use tiderace_journal::AnswerKind;
use tiderace_wire::{Confirm, Flags, Kind, Run, is_temporary};

use crate::effects::Effects;
use crate::home_side::HomeSide;
use crate::journal::Answer;
use crate::messages::ToHome;
use crate::places::Place;
use crate::publisher::Recipients;
use crate::queued::{MovedFrom, Put, Queued};

impl HomeSide<'_> {
    /// Whether messages of a session may go into their queue: the one place that decides what becomes of persistent
    /// ones without a store, whatever the protocol.
    #[inline]
    pub(crate) fn check_queue(&self, run: &Run) -> Result<(), Close> {
        if !self.home.queues().may_have(&run.destination().path) {
            return Err(CloseCode::MemoryFull.into());
        }
        match is_kept(run) {
            true => self.journal.check_message(self.options.persistent_in_memory),
            false => Ok(()),
        }
    }

    /// Appends a run that its queue keeps, with its numbers and versions, if it is persistent and there is a store that
    /// works.
    #[inline]
    pub(crate) fn put_run(&mut self, now: Now, queue: Key, run: &mut Run) -> Option<Put> {
        self.journal.note_queue_numbers(self.home.next_number());
        match is_kept(run) && self.journal.stores_messages() {
            true => self.store_run(now, queue, run),
            false => None,
        }
    }

    #[cold]
    fn store_run(&mut self, now: Now, queue: Key, run: &mut Run) -> Option<Put> {
        let stream = match self.home.queues().stream_of(queue) {
            Some(stream) => stream,
            None => {
                let before = run.queue_version().saturating_sub(1);
                let stream = self.journal.begin_queue(queue, &run.destination().path, before)?;
                self.home.queues_mut().set_stream(queue, stream);
                stream
            }
        };
        run.set_stored();
        let record = self.journal.put_messages(now, stream, run);
        self.metrics.queue_stored += run.len() as u64;
        let numbers = (run.first(), run.first() + run.len() as u64 - 1);
        Some(Put { queue, numbers, record })
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
        let Some(put) = put else {
            if let (Some(session), Some(confirm)) = (publisher, confirm) {
                self.confirm(session, confirm, effects);
            }
            return;
        };
        let Some(session) = publisher else { return };
        self.hold_for_store(session, effects);
        // Who asks for no confirmation hears of a refusal too: a later confirmation stands for what was sent before.
        let publisher = Some((session, confirm));
        let what = Queued { publisher, put: Some(put), consumed: Vec::new(), source: None };
        self.hold_queued(now, put.record, what, effects);
    }

    /// Confirms that messages were consumed as soon as a record that says so is stored.
    pub(crate) fn hold_settled(
        &mut self,
        now: Now,
        record: u64,
        session: SessionId,
        confirm: Confirm,
        effects: &mut Effects,
    ) {
        let answer = Answer::Confirm(session, confirm);
        if let Some(answer) = self.journal.hold(record, AnswerKind::Messages, answer) {
            self.give_answer(now, answer, Ok(()), effects);
        }
    }

    fn hold_queued(&mut self, now: Now, record: u64, what: Queued, effects: &mut Effects) {
        let answer = Answer::Queued(Box::new(what));
        if let Some(answer) = self.journal.hold(record, AnswerKind::Messages, answer) {
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
                Some((place, source)) if place == self.here() => {
                    self.home.queues_mut().end_move(source.queue, source.stream);
                }
                Some((place, source)) => self.send(place, ToHome::Moved(source), effects),
                None => {}
            }
            return;
        };
        if let Some(put) = put {
            let out = self.home.queues_mut().withdraw(put.queue, put.numbers);
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
        run: Run,
        source: Option<MovedFrom>,
        effects: &mut Effects,
    ) {
        if is_temporary(&run.destination().path) {
            // Nobody's: no session was told that name for it.
            self.metrics.dropped_temporary += run.len() as u64;
            if let Some(source) = source {
                self.send(from, ToHome::Moved(source), effects);
            }
            return;
        }
        let put = self.enqueue(now, from, run, effects);
        // If it is not stored here, because the store is full, it stays stored where it lay, and comes back there in
        // the next life.
        let (Some(source), Some(put)) = (source, put) else { return };
        let mut record = put.record;
        if from == self.here() {
            // In one batch: both are stored, or neither is.
            record = self.journal.settle_moved(source.stream, source.version);
        }
        let source = Some((from, source));
        let what = Queued { publisher: None, put: None, consumed: Vec::new(), source };
        self.hold_queued(now, record, what, effects);
    }

    /// A dead letter of this home is stored where it goes.
    pub(crate) fn end_move(&mut self, source: MovedFrom) {
        if self.home.queues_mut().end_move(source.queue, source.stream) {
            self.journal.settle_version(source.stream, source.version);
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
                refused = refused.and_then(|()| self.check_queue(run));
            }
        }
        if let Err(close) = refused {
            return parts.into_iter().for_each(|(part, _)| self.refuse_part(part, &close, effects));
        }
        let session = parts.iter().find_map(|(part, _)| match part {
            ToHome::Publish { origin, .. } => *origin,
            _ => None,
        });
        if stores {
            self.journal.begin_together();
            self.home.queues_mut().set_together(true);
        }
        let mut confirms = Vec::new();
        for (mut part, recipients) in parts {
            if let ToHome::Settle { session, confirm, .. } = &mut part
                && let Some(confirm) = confirm.take_if(|_| stores)
            {
                // It waits for all of the transaction.
                confirms.push((*session, confirm));
            }
            self.on_message(now, from, part, recipients, effects);
        }
        self.home.queues_mut().set_together(false);
        let (consumed, record) = (self.journal.end_together(), self.journal.last_record());
        if !consumed.is_empty() {
            let publisher = session.map(|session| (session, None));
            let what = Queued { publisher, put: None, consumed, source: None };
            self.hold_queued(now, record, what, effects);
        }
        for (session, confirm) in confirms {
            self.hold_settled(now, record, session, confirm, effects);
        }
    }

    /// Refuses what a transaction was to do.
    fn refuse_part(&mut self, part: ToHome, close: &Close, effects: &mut Effects) {
        match part {
            ToHome::Publish { origin, confirm, .. } => {
                let blame = confirm.map(|confirm| confirm.from);
                self.refuse_run(origin, confirm, blame, close, effects);
            }
            ToHome::Settle { session, confirm, .. } => {
                let token = confirm.map(|confirm| confirm.to);
                self.refuse(session, token, close.clone(), effects);
            }
            _ => {}
        }
    }
}

/// Whether a queue keeps a run in the store, if there is one: what goes to a temporary queue ends with its session.
#[inline]
fn is_kept(run: &Run) -> bool {
    run.any(Flags::PERSISTENT) && !is_temporary(&run.destination().path)
}
