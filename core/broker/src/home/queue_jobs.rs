//! Purges and moves of messages under way at a home, which may take many turns.
//!
//! A job looks at the messages that are ready when it begins, once each, in slices; jobs take turns. One that moves
//! messages waits after each slice until the homes where they go have answered for all of it. Bookkeeping only.
//! Invariant: messages that are on their way belong to one job, and are asked for once.

use std::collections::{BTreeMap, VecDeque};

use tiderace_base::{Close, Key, SessionId};
use tiderace_filter::Selector;
use tiderace_journal::{AnswerKind, Awaited};
use tiderace_queues::{Look, Segment, Slice, Taken};
use tiderace_topics::Path;
use tiderace_wire::{MovedMessages, OperationResult, Peek};

use crate::messages::TransferId;
use crate::places::Place;
use crate::requester::{Operated, Requester};

/// Looks at messages in the store alone that are under way at one home, at most.
const PEEKS_MAX: usize = 256;
/// Queues of which a job remembers that they take nothing.
const REFUSED_MAX: usize = 64;

/// What is done with messages.
#[derive(Debug)]
pub(crate) enum JobKind {
    /// They are removed.
    Purge,
    /// They go to another queue.
    Move {
        /// Which; absent: where each dead letter came from.
        to: Option<Path>,
        /// Whether they begin anew, as if they had never been dead.
        redrive: bool,
    },
}

/// Which messages of a queue are meant.
#[derive(Debug)]
pub(crate) struct Chosen {
    selector: Option<Selector>,
    limit: Option<u64>,
    up_to: Option<u64>,
}

impl Chosen {
    /// Those that match, at most so many, up to a position.
    pub(crate) fn new(
        selector: Option<Selector>,
        limit: Option<u64>,
        up_to: Option<u64>,
    ) -> Chosen {
        Chosen { selector, limit, up_to }
    }

    /// Whether all of them are meant.
    pub(crate) fn is_for_all(&self) -> bool {
        self.selector.is_none() && self.limit.is_none() && self.up_to.is_none()
    }

    /// The number of the last that is meant, if this one is the last that there is: what comes from now on is not,
    /// however long it takes and however often it is asked for.
    pub(crate) fn up_to(&self, last: u64) -> u64 {
        self.up_to.map_or(last, |up_to| up_to.min(last))
    }
}

/// A purge or a move under way.
#[derive(Debug)]
pub(crate) struct QueueJob {
    requester: Requester,
    queue: Key,
    kind: JobKind,
    selector: Option<Selector>,
    /// The version of the message to be looked at next; absent: there is none.
    next: Option<u64>,
    /// The number of the last.
    last: u64,
    /// Of the messages in the store alone, those of lower versions have been looked for.
    seen_below: u64,
    /// Before the next slice, messages from this version on have to be looked for in the store.
    unseen: Option<u64>,
    /// What it has looked for is kept in memory for it.
    has_looked: bool,
    /// How many more may be taken.
    left: u64,
    done: u64,
    kept: u64,
    refused: Option<Close>,
    /// Queues that have refused messages: they are not asked again.
    closed: Vec<Path>,
    /// What homes have yet to answer for.
    under_way: BTreeMap<u32, Transfer>,
    parts: u32,
    /// The record that says that the last of the messages is gone; zero if none was in the store.
    record: u64,
}

/// Messages that have been sent to a home.
#[derive(Debug)]
pub(crate) struct Transfer {
    /// Where the home is.
    to: Place,
    /// The queue there.
    path: Path,
    /// What they are at their own queue.
    segments: Vec<Segment>,
    /// Whether the store is told by the batch that puts them that they are not needed there any more.
    is_settled: bool,
}

impl Transfer {
    /// Messages on their way to a queue of a home.
    pub(crate) fn new(to: Place, path: Path, segments: Vec<Segment>) -> Transfer {
        Transfer { to, path, segments, is_settled: false }
    }

    fn messages(&self) -> u64 {
        self.segments.iter().map(|segment| u64::from(segment.len())).sum()
    }
}

impl QueueJob {
    /// A job for messages of a queue up to a number.
    pub(crate) fn new(
        requester: Requester,
        (queue, last): (Key, u64),
        kind: JobKind,
        chosen: Chosen,
    ) -> QueueJob {
        let Chosen { selector, limit, .. } = chosen;
        let left = limit.unwrap_or(u64::MAX);
        QueueJob {
            requester,
            queue,
            kind,
            selector,
            next: Some(0).filter(|_| left > 0),
            last,
            seen_below: 0,
            unseen: None,
            has_looked: false,
            left,
            done: 0,
            kept: 0,
            refused: None,
            closed: Vec::new(),
            under_way: BTreeMap::new(),
            parts: 0,
            record: 0,
        }
    }

    /// Who asked for it.
    pub(crate) fn requester(&self) -> &Requester {
        &self.requester
    }

    /// Whose messages.
    pub(crate) fn queue(&self) -> Key {
        self.queue
    }

    /// What is done with them.
    pub(crate) fn kind(&self) -> &JobKind {
        &self.kind
    }

    /// The next slice of so many messages, bytes and steps; `None` if there is no more to do.
    pub(crate) fn slice(&self, messages: u64, bytes: usize, steps: u64) -> Option<Slice<'_>> {
        Some(Slice {
            from: self.next?,
            to: self.last,
            seen_below: self.seen_below,
            selector: self.selector.as_ref(),
            messages: messages.min(self.left),
            bytes,
            steps,
        })
    }

    /// A slice has taken these out.
    pub(crate) fn note_taken(&mut self, taken: &Taken) {
        (self.next, self.unseen) = (taken.next, taken.unseen);
    }

    /// What has to be looked for in the store before the next slice: so many messages and bytes at most.
    pub(crate) fn look(&mut self, number: u64, messages: u64, bytes: usize) -> Option<Look> {
        let from = self.unseen.take().filter(|_| self.next.is_some())?;
        let (selector, messages) = (self.selector.clone(), messages.min(self.left));
        Some(Look { number, from, to: self.last, selector, messages, bytes })
    }

    /// Whether something was kept in memory for it, which it has done with before it looks again or is over.
    pub(crate) fn end_look(&mut self) -> bool {
        let goes_on = self.unseen.is_none() && self.next.is_some();
        !goes_on && std::mem::take(&mut self.has_looked)
    }

    /// Whether a queue has refused messages.
    pub(crate) fn is_closed(&self, path: &Path) -> bool {
        self.closed.contains(path)
    }

    /// So many messages are gone, the last by this record.
    pub(crate) fn note_done(&mut self, messages: u64, record: u64) {
        self.done += messages;
        self.record = self.record.max(record);
    }

    /// So many messages stay, for that reason.
    pub(crate) fn note_kept(&mut self, messages: u64, why: Close) {
        self.kept += messages;
        self.refused.get_or_insert(why);
    }

    /// Messages have been sent; their part of the job.
    pub(crate) fn begin(&mut self, transfer: Transfer) -> u32 {
        self.parts = self.parts.wrapping_add(1);
        self.under_way.insert(self.parts, transfer);
        self.parts
    }

    /// Counts what is no longer allowed: so many were asked for.
    pub(crate) fn spend(&mut self, messages: u64) {
        self.left = self.left.saturating_sub(messages);
        self.next = self.next.filter(|_| self.left > 0);
    }

    /// Whether it waits for homes.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.under_way.is_empty()
    }

    /// Whether there is more to do.
    pub(crate) fn has_more(&self) -> bool {
        self.next.is_some()
    }

    /// A queue has refused messages: it is not asked again, and if there is no other the job is over.
    fn close(&mut self, path: Path) {
        if matches!(self.kind, JobKind::Move { to: Some(_), .. }) {
            self.next = None;
        }
        if self.closed.len() < REFUSED_MAX {
            self.closed.push(path);
        }
    }

    /// What is answered when all is done, and the record that this waits for.
    pub(crate) fn result(&mut self) -> ((Awaited, AnswerKind), Operated) {
        let up_to = self.last;
        let result = match self.kind {
            JobKind::Purge => OperationResult::Purged { messages: self.done, up_to },
            JobKind::Move { .. } => {
                let refused = self.refused.take();
                let (messages, kept) = (self.done, self.kept);
                OperationResult::Moved(Box::new(MovedMessages { messages, kept, refused, up_to }))
            }
        };
        let kind = match self.kind {
            JobKind::Purge => AnswerKind::Removal,
            JobKind::Move { .. } => AnswerKind::Write,
        };
        ((Awaited::before(self.record), kind), Ok(result))
    }
}

/// The jobs of one home.
#[derive(Debug, Default)]
pub(crate) struct QueueJobs {
    /// Those that can go on.
    ready: VecDeque<QueueJob>,
    /// Those that wait for homes.
    waiting: BTreeMap<u64, QueueJob>,
    /// Those that wait for the store.
    looking: BTreeMap<u64, QueueJob>,
    /// Who wants to see messages that are in the store alone.
    peeking: BTreeMap<u64, (Requester, Peek)>,
    /// The same, when they are here: up to which version.
    peeked: VecDeque<(Requester, Peek, u64)>,
    next: u64,
}

impl QueueJobs {
    /// Jobs of some sessions are not to go on: those that wait end when homes or the store have answered. Whose the others
    /// were, and the queues in which they have looked for something.
    pub(crate) fn cancel(
        &mut self,
        is_meant: impl Fn(SessionId) -> bool,
    ) -> (Vec<SessionId>, Vec<Key>) {
        let waiting = self.waiting.values_mut().chain(self.looking.values_mut());
        waiting.filter(|job| is_meant(job.requester.session)).for_each(|job| job.next = None);
        let (mut ended, mut looked) = (Vec::new(), Vec::new());
        self.ready.retain(|job| {
            let ends = is_meant(job.requester.session);
            ended.extend(ends.then_some(job.requester.session));
            looked.extend((ends && job.has_looked).then_some(job.queue));
            !ends
        });
        (ended, looked)
    }

    /// Whether one can go on.
    pub(crate) fn has_work(&self) -> bool {
        !(self.ready.is_empty() && self.peeked.is_empty())
    }

    /// Whether another one may wait to see messages.
    pub(crate) fn may_peek(&self) -> bool {
        self.peeking.len() + self.peeked.len() < PEEKS_MAX
    }

    /// A job waits for the store.
    pub(crate) fn wait_for_look(&mut self, number: u64, job: QueueJob) {
        self.looking.insert(number, job);
    }

    /// Somebody who wants to see messages waits for the store.
    pub(crate) fn wait_to_peek(&mut self, number: u64, requester: Requester, peek: Peek) {
        self.peeking.insert(number, (requester, peek));
    }

    /// What was looked for in the store is in memory, up to a version: who waited for it can go on.
    pub(crate) fn looked(&mut self, number: u64, through: u64) {
        if let Some(mut job) = self.looking.remove(&number) {
            job.seen_below = through.saturating_add(1);
            job.has_looked = true;
            self.ready.push_back(job);
        } else if let Some((requester, peek)) = self.peeking.remove(&number) {
            self.peeked.push_back((requester, peek, through));
        }
    }

    /// Who can be shown messages, and up to which version they are here.
    pub(crate) fn next_peeked(&mut self) -> Option<(Requester, Peek, u64)> {
        self.peeked.pop_front()
    }

    /// One that can go on is to get its turn behind the others.
    pub(crate) fn defer(&mut self, job: QueueJob) {
        self.ready.push_back(job);
    }

    /// The one whose turn it is.
    pub(crate) fn next(&mut self) -> Option<QueueJob> {
        self.ready.pop_front()
    }

    /// The number under which a job will wait.
    pub(crate) fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// A job waits for homes.
    pub(crate) fn wait(&mut self, number: u64, job: QueueJob) {
        self.waiting.insert(number, job);
    }

    /// Messages of a job that are under way are put where they go: what they are at their own queue, and that queue. The
    /// same batch is to settle them there, and does so if they are stored.
    pub(crate) fn settle(&mut self, id: TransferId) -> Option<(&[Segment], Key)> {
        let job = self.waiting.get_mut(&id.job)?;
        let transfer = job.under_way.get_mut(&id.part)?;
        transfer.is_settled = true;
        Some((&transfer.segments, job.queue))
    }

    /// A home has answered for messages: what they are at their own queue, that queue, and whether they are settled
    /// there.
    pub(crate) fn answered(
        &mut self,
        id: TransferId,
        refused: Option<&Close>,
    ) -> Option<(Vec<Segment>, Key, bool)> {
        let job = self.waiting.get_mut(&id.job)?;
        let transfer = job.under_way.remove(&id.part)?;
        match refused {
            None => job.done += transfer.messages(),
            Some(close) => {
                job.note_kept(transfer.messages(), close.clone());
                job.close(transfer.path.clone());
            }
        }
        Some((transfer.segments, job.queue, transfer.is_settled))
    }

    /// The record that says that messages of a job are gone.
    pub(crate) fn note_record(&mut self, id: TransferId, record: u64) {
        if let Some(job) = self.waiting.get_mut(&id.job) {
            job.record = job.record.max(record);
        }
    }

    /// A job that waits no more.
    pub(crate) fn take_answered(&mut self, id: TransferId) -> Option<QueueJob> {
        let is_done = self.waiting.get(&id.job).is_some_and(|job| !job.is_waiting());
        if is_done { self.waiting.remove(&id.job) } else { None }
    }

    /// What a place has yet to answer for.
    pub(crate) fn waits_for(&self, place: Place) -> Vec<TransferId> {
        let of_job = |(job, it): (&u64, &QueueJob)| {
            let job = *job;
            let parts = it.under_way.iter().filter(|(_, transfer)| transfer.to == place);
            parts.map(move |(part, _)| TransferId { job, part: *part }).collect::<Vec<_>>()
        };
        self.waiting.iter().flat_map(of_job).collect()
    }
}
