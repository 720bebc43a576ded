//! Messages of queues that are in the store alone: left to it when it has them, read back when somebody wants them.
//!
//! Relies on the journal for when the store has what it was told, and on [`tiderace_queues::Queues`] for which messages
//! are to be read. What is read gets numbers of this home like new messages; versions stay. Invariant: what cannot be read
//! or understood is counted and said, and stays in the store.

use std::sync::Arc;

use tiderace_base::{Key, Now};
use tiderace_journal::{AnswerKind, DamagedRecord, LoadedRecord, StoreLoaded};
use tiderace_queues::{LoadedPart, LoadedRun, Segment};
use tiderace_topics::Path;
use tiderace_wire::Run;

use crate::effects::Effects;
use crate::home_side::HomeSide;
use crate::journal::{Answer, read_queued};
use crate::queued::{Put, ReadPart};

/// Messages of a queue that were asked of the store and are lost to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    /// Which queue.
    pub path: Path,
    /// How many.
    pub messages: u64,
}

impl HomeSide<'_> {
    /// The store has what was put of a queue: it may be all there is of it from now on.
    pub(crate) fn note_put_stored(&mut self, put: Put, effects: &mut Effects) {
        let out = self.home.queues_mut().stored(put.queue, put.versions);
        self.apply(out, effects);
    }

    /// Messages of a queue that the store would still give are gone: waits until it has said so.
    pub(crate) fn hold_gone(&mut self, segment: &Segment, record: u64) {
        let Some(queue) = self.home.queues().find(&segment.run.destination().path) else { return };
        self.hold_gone_of(queue, (segment.first_version(), segment.last_version()), record);
    }

    /// The same of versions, both included.
    pub(crate) fn hold_gone_of(&mut self, queue: Key, versions: (u64, u64), record: u64) {
        let answer = Answer::Gone(queue, versions);
        if let Some(Answer::Gone(queue, versions)) =
            self.journal.hold(record, AnswerKind::Messages, answer)
        {
            self.home.queues_mut().settled(queue, versions);
        }
    }

    /// The store has answered what a queue has asked for: what could not be read of it.
    pub(crate) fn take_loaded(
        &mut self,
        now: Now,
        loaded: StoreLoaded,
        effects: &mut Effects,
    ) -> Option<Unreadable> {
        let part = self.home.queue_loads_mut().answered(loaded)?;
        let queue = part.queue;
        let path = self.home.queues().state(queue)?.path.clone();
        let part = self.read_part(now, &path, part);
        self.journal.note_queue_numbers(self.home.next_number());
        let (messages, out) = self.home.queues_mut().loaded(now, queue, &part);
        self.apply(out, effects);
        (messages > 0).then_some(Unreadable { path, messages })
    }

    /// What the store has of a part, in the order of versions.
    fn read_part(&mut self, now: Now, path: &Path, part: ReadPart) -> LoadedPart {
        let StoreLoaded { records, damaged, next, .. } = part.answer;
        let through = next.map_or(part.last, |next| part.last.min(next.saturating_sub(1)));
        let mut read = LoadedPart { through, ..LoadedPart::default() };
        for DamagedRecord { first, count, gone } in &damaged {
            read.unreadable.extend(versions_left(*first, gone, *count));
        }
        for record in &records {
            match self.read_record(now, path, record) {
                Some(run) => {
                    let there = left(record.first, &record.gone, run.len() as u32);
                    read.runs.push(LoadedRun { run, there });
                }
                None => {
                    let LoadedRecord { first, count, gone, .. } = record;
                    read.unreadable.extend(versions_left(*first, gone, *count));
                }
            }
        }
        read
    }

    fn read_record(&mut self, now: Now, path: &Path, record: &LoadedRecord) -> Option<Arc<Run>> {
        let LoadedRecord { first, count, bytes, body, .. } = record;
        let run = read_queued(now, path, bytes, body.as_ref());
        let mut run = run.filter(|run| run.len() == *count as usize)?;
        self.home.number(&mut run);
        run.set_queue_version(*first);
        run.set_stored();
        Some(Arc::new(run))
    }

    /// Appends messages that are not persistent to what the store keeps for this life of the server.
    #[cold]
    pub(crate) fn leave_run(&mut self, now: Now, queue: Key, run: &mut Run) -> Option<Put> {
        let stream = match self.home.queues().volatile_of(queue) {
            Some(stream) => stream,
            None => {
                let stream = self.journal.volatile_stream()?;
                self.home.queues_mut().set_volatile(queue, stream);
                stream
            }
        };
        run.set_stored();
        let record = self.journal.put_messages(now, stream, run);
        let versions = (run.queue_version(), run.queue_version() + run.len() as u64 - 1);
        Some(Put { queue, versions, record, stays: true })
    }
}

/// The same as versions.
fn versions_left(first: u64, gone: &[(u64, u64)], count: u32) -> impl Iterator<Item = (u64, u64)> {
    let version = move |place: u32| first.saturating_add(u64::from(place));
    let left = left(first, gone, count).into_iter();
    left.map(move |(from, to)| (version(from), version(to).saturating_sub(1)))
}

/// The stretches of a record that are not gone, as places in its run.
fn left(first: u64, gone: &[(u64, u64)], count: u32) -> Vec<(u32, u32)> {
    let place =
        |version: u64| u32::try_from(version.saturating_sub(first)).unwrap_or(u32::MAX).min(count);
    let (mut left, mut from) = (Vec::new(), 0);
    for (low, high) in gone {
        left.push((from, place(*low)));
        from = place(high.saturating_add(1)).max(from);
    }
    left.push((from, count));
    left.retain(|(from, to)| from < to);
    left
}
