//! Purging queues, and moving messages between them, in slices.
//!
//! ```text
//!   source's home: take out ─▶ Transfer ─▶ the other's home: as a publication, or refused
//!                  drop, or put back at their places ◀─ Transferred (when they are stored, if they are to be)
//! ```
//! What was taken out counts at its queue until the other home has answered, so a message that cannot be taken there is
//! where it was, and one is twice in the server only if a place was lost in between. What is stored is put and settled in
//! one batch where both queues have one home; otherwise it is settled when it is stored at the other one, so that a crash in
//! between leaves what was on its way (at most [`TRANSFER_MESSAGES`] of a job) at both. Relies on rights being the same
//! on all shards: the source's home asks for them. Invariants: a slice costs no more than [`price::QUEUE_SLICE`] and
//! one message; the answer comes when all is done.

use std::collections::BTreeMap;
use std::sync::Arc;

use tiderace_base::{Close, CloseCode, MemoryUse, Now};
use tiderace_journal::{AnswerKind, Awaited};
use tiderace_queues::{Segment, Taken};
use tiderace_topics::Path;
use tiderace_wire::{
    Destination, Flags, Kind, Message, Meta, MoveMessages, Run, RunBuilder, host_of, is_temporary,
    meant_at, properties,
};

use crate::Action;
use crate::authorise::denied;
use crate::effects::Effects;
use crate::home::queue_jobs::{Chosen, JobKind, QueueJob, Transfer};
use crate::home_side::HomeSide;
use crate::journal::{Answer, versions_of};
use crate::maker::Maker;
use crate::messages::{ToHome, TransferId};
use crate::peer_lost::lost;
use crate::places::Place;
use crate::price;
use crate::queue_operations::queue_unknown;
use crate::queueing::{ORIGIN, append_origin, without_death};
use crate::requester::Requester;

/// Messages and bytes that are on their way for one job at a time.
const TRANSFER_MESSAGES: u64 = 256;
const TRANSFER_BYTES: usize = 256 << 10;
/// Messages and bytes that one slice of a purge removes.
const PURGE_MESSAGES: u64 = 1 << 16;
const PURGE_BYTES: usize = 16 << 20;

/// Messages for one queue, as one run.
struct Batch {
    run: RunBuilder,
    published: tiderace_base::Time,
    segments: Vec<Segment>,
}

impl Batch {
    /// Whether messages of a segment may be in the run, which is persistent as a whole or not at all and has one priority.
    fn takes(&self, segment: &Segment) -> bool {
        let first = segment.run.message(segment.from as usize);
        let differs = first.is_some_and(|first| self.run.differs(first.flags, Flags::OF_RUN));
        self.run.takes(&segment.run) && !differs
    }
}

impl HomeSide<'_> {
    /// Begins to remove ready messages.
    pub(crate) fn begin_purge(
        &mut self,
        now: Now,
        requester: Requester,
        path: &Path,
        chosen: Chosen,
        effects: &mut Effects,
    ) {
        self.begin_job(now, requester, path, (JobKind::Purge, chosen), effects);
    }

    /// Begins to move ready messages to another queue.
    pub(crate) fn begin_move(
        &mut self,
        now: Now,
        requester: Requester,
        asked: MoveMessages,
        effects: &mut Effects,
    ) {
        let MoveMessages { from, to, redrive, selector, limit, up_to } = asked;
        if let Some(to) = &to
            && let Err(close) =
                may_be_moved_to(to).and_then(|()| self.may_on_queue(&requester, Action::Send, to))
        {
            return self.loopback.answer_operation(&requester, Err(close), effects);
        }
        let kind = JobKind::Move { to, redrive };
        let chosen = Chosen::new(selector, limit, up_to);
        self.begin_job(now, requester, &from, (kind, chosen), effects);
    }

    fn begin_job(
        &mut self,
        now: Now,
        requester: Requester,
        path: &Path,
        (kind, chosen): (JobKind, Chosen),
        effects: &mut Effects,
    ) {
        let queue = self.may_on_queue(&requester, Action::Manage, path).and_then(|()| {
            let queue = self.home.queues().find(path).ok_or_else(|| queue_unknown(path))?;
            self.home.long_jobs_mut().begin(requester.session)?;
            Ok(queue)
        });
        match queue {
            Ok(queue) => {
                let last = chosen.up_to(self.home.queues().last_number(queue));
                let is_for_all = matches!(kind, JobKind::Purge) && chosen.is_for_all();
                let mut job = QueueJob::new(requester, (queue, last), kind, chosen);
                if is_for_all {
                    self.purge_swapped(now, &mut job, effects);
                }
                self.go_on_with(now, job, effects);
            }
            Err(close) => self.loopback.answer_operation(&requester, Err(close), effects),
        }
    }

    /// Removes all that is in the store alone, which needs no look at it.
    fn purge_swapped(&mut self, now: Now, job: &mut QueueJob, effects: &mut Effects) {
        let before = self.journal.last_record();
        let (messages, out) = self.home.queues_mut().purge_swapped(now, job.queue());
        self.apply(out, effects);
        job.note_done(messages, self.journal.appended_since(before));
        self.metrics.messages_purged += messages;
    }

    /// Goes on with the jobs that can, a slice at a time, as long as the turn's budget lasts.
    pub(crate) fn work_on_queue_jobs(&mut self, now: Now, effects: &mut Effects) {
        while self.work.left(now) > 0 {
            if let Some((requester, peek, through)) = self.home.queue_jobs_mut().next_peeked() {
                self.end_peek(now, &requester, &peek, through, effects);
                continue;
            }
            let Some(job) = self.home.queue_jobs_mut().next() else { return };
            self.go_on_with(now, job, effects);
        }
    }

    /// One slice of a job.
    fn go_on_with(&mut self, now: Now, mut job: QueueJob, effects: &mut Effects) {
        let (messages, bytes) = slice_of(job.kind());
        if let Some(slice) = job.slice(messages, bytes, price::QUEUE_SLICE) {
            let taken = self.home.queues_mut().take_out(job.queue(), &slice);
            job.note_taken(&taken);
            self.work.charge_at(now, price::OPERATION + taken.spent);
            match job.kind() {
                JobKind::Purge => self.drop_purged(now, &mut job, taken, effects),
                JobKind::Move { .. } => {
                    let number = self.home.queue_jobs_mut().number();
                    self.send_taken(now, (number, &mut job), taken, effects);
                    if job.is_waiting() {
                        return self.home.queue_jobs_mut().wait(number, job);
                    }
                }
            }
        }
        self.end_slice_of(job, effects);
    }

    /// A slice of a job is over: it goes on in its turn, or is answered.
    fn end_slice_of(&mut self, mut job: QueueJob, effects: &mut Effects) {
        if job.end_look() {
            let out = self.home.queues_mut().end_look(job.queue());
            self.apply(out, effects);
        }
        let number = self.home.queue_jobs_mut().number();
        let (messages, bytes) = slice_of(job.kind());
        if let Some(look) = job.look(number, messages, bytes) {
            let queue = job.queue();
            self.home.queue_jobs_mut().wait_for_look(number, job);
            let out = self.home.queues_mut().look(queue, look);
            return self.apply(out, effects);
        }
        if job.has_more() {
            return self.home.queue_jobs_mut().defer(job);
        }
        self.home.long_jobs_mut().end(job.requester().session);
        let (until, result) = job.result();
        self.answer_stored(until, job.requester(), result, effects);
    }

    fn drop_purged(&mut self, now: Now, job: &mut QueueJob, taken: Taken, effects: &mut Effects) {
        let messages = taken.messages;
        let record = self.drop_taken(now, job.queue(), taken.segments, effects);
        job.note_done(messages, record);
        self.metrics.messages_purged += messages;
    }

    /// Sends what a slice has taken out to the homes where it is to go; what cannot go comes back at once.
    fn send_taken(
        &mut self,
        now: Now,
        (number, job): (u64, &mut QueueJob),
        taken: Taken,
        effects: &mut Effects,
    ) {
        let JobKind::Move { to, redrive } = job.kind() else { return };
        let (to, redrive) = (to.clone(), *redrive);
        let own = self.home.queues().state(job.queue()).map(|state| state.path.clone());
        let (mut batches, mut kept) = (Vec::new(), Vec::new());
        for segment in taken.segments {
            let mut rest = Some(segment);
            while let Some(mut part) = rest {
                let goal = |index: u32| goal_of(&part, index, to.as_ref());
                let first = goal(part.from);
                let alike = (part.from..part.to).take_while(|index| goal(*index) == first).count();
                rest = part.split_off(part.first() + alike as u64);
                match first.filter(|path| own.as_ref() != Some(path)) {
                    Some(path) => match self.may_go(job, &path) {
                        Ok(()) => add(&mut batches, &path, part, redrive),
                        Err(why) => {
                            job.note_kept(u64::from(part.len()), why);
                            kept.push(part);
                        }
                    },
                    None => {
                        job.note_kept(u64::from(part.len()), no_origin());
                        kept.push(part);
                    }
                }
            }
        }
        let mut copied = 0;
        for Batch { run, segments, .. } in batches {
            let run = run.build();
            let path = run.destination().path.clone();
            copied += run.bytes() as u64 / price::COPIED_BYTES + price::MOVED * run.len() as u64;
            job.spend(run.len() as u64);
            let to = self.options.home_of(&path);
            let part = job.begin(Transfer::new(to, path, segments));
            let transfer = TransferId { job: number, part };
            let (run, mover) = (Box::new(run), job.requester().principal.name.clone());
            let owner = self.home.queues().owner_of(job.queue()).cloned();
            self.send(to, ToHome::Transfer { transfer, run, mover, owner }, effects);
        }
        self.work.charge_at(now, copied);
        if !kept.is_empty() {
            self.return_taken(now, job.queue(), kept, effects);
        }
    }

    /// Whether messages of a job may go to a queue.
    fn may_go(&self, job: &QueueJob, path: &Path) -> Result<(), Close> {
        if job.is_closed(path) {
            return Err(CloseCode::QueueFull.into());
        }
        may_be_moved_to(path)?;
        self.may_on_queue(job.requester(), Action::Send, path)
    }

    /// At the home where they are to go: takes messages of another queue.
    pub(crate) fn take_transfer(
        &mut self,
        now: Now,
        from: Place,
        transfer: TransferId,
        (run, (owner, mover)): (Run, (Maker<'_>, &Arc<str>)),
        effects: &mut Effects,
    ) {
        if let Err(close) = self.check_transfer(now, &run, (owner, mover)) {
            return self.answer_transfer(from, transfer, Err(close), effects);
        }
        let put = self.enqueue(now, (from, Some(mover)), run, effects);
        let record = put.as_ref().map_or(0, |put| put.record);
        let mut records = Awaited::from(record);
        if let Some(put) = put.as_ref().filter(|_| from == self.here()) {
            // In one batch: they are stored at one of both queues, whatever happens.
            records.until = self.settle_transfer(transfer, put.record).max(record);
        }
        let answer = Answer::Transferred(from, transfer, put);
        if let Some(answer) = self.journal.hold(records, AnswerKind::Messages, answer) {
            self.give_answer(now, answer, Ok(()), effects);
        }
    }

    /// Messages of a queue of this home are put into another one here, by the record `put`: settles those that are stored.
    fn settle_transfer(&mut self, transfer: TransferId, put: u64) -> u64 {
        let Some((segments, queue)) = self.home.queue_jobs_mut().settle(transfer) else { return 0 };
        let (segments, mut by_stream) = (segments.to_vec(), BTreeMap::<u64, Vec<_>>::new());
        let mut outside = Vec::new();
        for segment in segments {
            let stored = self.home.queues().stream_with(queue, &segment);
            let Some((stream, is_outside)) = stored else { continue };
            by_stream.entry(stream).or_default().push(versions_of(&segment));
            outside.extend(is_outside.then_some(segment));
        }
        let mut record = 0;
        for (stream, versions) in by_stream {
            record = self.journal.settle_moved(put, stream, versions);
        }
        for segment in outside {
            self.hold_gone(&segment, record);
        }
        record
    }

    /// Whether a queue here has room for messages of another one, which that owner has.
    fn check_transfer(
        &self,
        now: Now,
        run: &Run,
        (owner, mover): (Maker<'_>, &Arc<str>),
    ) -> Result<(), Close> {
        let (path, queues) = (&run.destination().path, self.home.queues());
        may_be_moved_to(path)?;
        if queues.is_at_limit(path) {
            return Err(Close::new(CloseCode::QueueFull, format!("the queue {path} is full")));
        }
        if !self.memory.has_room(MemoryUse::Queues, run.bytes()) {
            return Err(CloseCode::MemoryFull.into());
        }
        self.check_kind(now, run)?;
        self.home.check_room_for_moved(run, (owner, Some(mover)), self.options)
    }

    /// Says what became of messages of another home's queue.
    pub(crate) fn answer_transfer(
        &mut self,
        to: Place,
        transfer: TransferId,
        result: Result<(), Close>,
        effects: &mut Effects,
    ) {
        let result = result.map_err(Box::new);
        self.send(to, ToHome::Transferred { transfer, result }, effects);
    }

    /// At the home that they come from: the other has answered for messages.
    pub(crate) fn transferred(
        &mut self,
        now: Now,
        transfer: TransferId,
        result: Result<(), Box<Close>>,
        effects: &mut Effects,
    ) {
        let refused = result.err();
        let answered = self.home.queue_jobs_mut().answered(transfer, refused.as_deref());
        let Some((segments, queue, is_settled)) = answered else { return };
        if refused.is_some() {
            self.return_taken(now, queue, segments, effects);
        } else {
            let messages = segments.iter().map(|segment| u64::from(segment.len())).sum::<u64>();
            self.metrics.messages_moved += messages;
            if is_settled {
                let out = self.home.queues_mut().forget_taken(now, queue, &segments);
                self.apply(out, effects);
            } else {
                let record = self.drop_taken(now, queue, segments, effects);
                self.home.queue_jobs_mut().note_record(transfer, record);
            }
        }
        if let Some(job) = self.home.queue_jobs_mut().take_answered(transfer) {
            self.end_slice_of(job, effects);
        }
    }

    /// A place is lost: what it has not answered for is where it was.
    pub(crate) fn lose_transfers(&mut self, now: Now, place: Place, effects: &mut Effects) {
        for transfer in self.home.queue_jobs().waits_for(place) {
            self.transferred(now, transfer, Err(Box::new(lost(place))), effects);
        }
    }

    /// Whether somebody may do that with a queue.
    pub(crate) fn may_on_queue(
        &self,
        requester: &Requester,
        action: Action,
        path: &Path,
    ) -> Result<(), Close> {
        if self.options.may(requester.caller(), action, Kind::Queue, path) {
            return Ok(());
        }
        Err(denied(&requester.principal.name, action, Kind::Queue, path.as_str()))
    }
}

/// Messages and bytes of one slice.
fn slice_of(kind: &JobKind) -> (u64, usize) {
    match kind {
        JobKind::Purge => (PURGE_MESSAGES, PURGE_BYTES),
        JobKind::Move { .. } => (TRANSFER_MESSAGES, TRANSFER_BYTES),
    }
}

/// Where a message is to go.
fn goal_of(segment: &Segment, index: u32, to: Option<&Path>) -> Option<Path> {
    if let Some(to) = to {
        return Some(to.clone());
    }
    let message = segment.run.message(index as usize)?;
    let from = properties::find(message.properties, ORIGIN)?;
    // It says so as its host does; so nothing that it says leads out of that.
    meant_at(&segment.run.destination().path, &from)
}

/// Why a message stays that does not say where it came from.
fn no_origin() -> Close {
    let reason = "a message has no property dead-letter-queue that names another queue: say where it is to go";
    Close::new(CloseCode::BadDestination, reason)
}

/// Adds messages to the last run for a queue, or to new ones.
fn add(batches: &mut Vec<Batch>, path: &Path, segment: Segment, redrive: bool) {
    let published = segment.run.published();
    let crosses = host_of(&segment.run.destination().path) != host_of(path);
    let mut rest = Some(segment);
    let change = match redrive {
        true => Change::Alive,
        false if crosses => Change::Crosses(path),
        false => Change::None,
    };
    while let Some(mut part) = rest.take() {
        let is_of = |batch: &&mut Batch| batch.run.destination().path == *path;
        let last = batches.iter_mut().rev().find(is_of);
        let Some(batch) = last.filter(|it| it.published == published && it.takes(&part)) else {
            let destination = Destination { kind: Kind::Queue, path: path.clone() };
            let run = RunBuilder::new(destination, published);
            batches.push(Batch { run, published, segments: Vec::new() });
            rest = Some(part);
            continue;
        };
        let mut next = part.from;
        while next < part.to && batch.run.has_room() {
            if let Some(message) = part.run.message(next as usize) {
                write(&mut batch.run, (&part.run, &message), change);
            }
            next += 1;
        }
        rest = part.split_off(part.run.first() + u64::from(next));
        batch.segments.push(part);
    }
}

/// What of its properties a message loses when it is moved.
#[derive(Clone, Copy)]
enum Change<'a> {
    /// That it was dead.
    Alive,
    /// To the tree of another virtual host, or out of one: there it says in other words where it was.
    Crosses(&'a Path),
    /// Nothing.
    None,
}

/// Writes a message with its change.
fn write(run: &mut RunBuilder, (from, message): (&Run, &Message<'_>), change: Change<'_>) {
    let block = run.properties();
    let start = block.len();
    match change {
        Change::Alive => block.extend_from_slice(&without_death(message.properties)),
        Change::Crosses(to) => {
            let lines = message.properties.split_inclusive(|byte| *byte == b'\n');
            let others = lines.filter(|line| properties::find(line, ORIGIN).is_none());
            others.for_each(|line| block.extend_from_slice(line));
            let origin = properties::find(message.properties, ORIGIN);
            let origin = origin.and_then(|name| meant_at(&from.destination().path, &name));
            if let Some(origin) = origin {
                append_origin(block, to, &origin);
            }
        }
        Change::None => block.extend_from_slice(message.properties),
    }
    let own = block.get(start..).unwrap_or_default();
    let escaped = if own.contains(&b'\\') { Flags::ESCAPED } else { Flags::NONE };
    // Its time has come already.
    let flags = message.flags.without(Flags::DELAYED) | escaped;
    run.finish_as(from, message, Meta { flags, expires_ms: message.expires_ms });
}

/// Refuses a temporary queue as a destination: it ends with its session and is not stored, so messages that were
/// moved there could be lost, and a redriven message would go where its publisher chose.
fn may_be_moved_to(path: &Path) -> Result<(), Close> {
    if is_temporary(path) {
        let reason =
            format!("messages are not moved to {path}: a temporary queue ends with its session");
        return Err(Close::new(CloseCode::BadDestination, reason));
    }
    Ok(())
}
