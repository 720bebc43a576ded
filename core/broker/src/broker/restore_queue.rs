//! Queues come back: wiring between what the store has and the home that keeps it.
//!
//! Relies on being called before any other call of the broker, as `restore.rs` does. Messages get numbers of this life,
//! in the order of their versions, which they keep; versions go on above all that were ever given. Invariant: a message
//! that was stored and not settled is ready again, once, and nothing else is.

use std::sync::Arc;

use tiderace_base::{Key, Now};
use tiderace_topics::Path;
use tiderace_wire::{Flags, Run};

use super::Broker;
use crate::journal::{
    RestoredQueue, RestoredRecord, RestoringQueue, Unrestorable, is_queue, read_queued,
};

impl Broker {
    /// Takes a queue back, which is to be given its messages by [`Broker::restore_messages`]; `None` if its home is
    /// another shard.
    ///
    /// # Errors
    /// When it cannot be understood; it stays in the store as it is.
    pub fn restore_queue(
        &mut self,
        now: Now,
        restored: &RestoredQueue<'_>,
    ) -> Result<Option<RestoringQueue>, Unrestorable> {
        let Ok(path) = Path::parse(restored.path) else {
            return Err(Unrestorable::Path(restored.path.to_owned()));
        };
        if self.options.home_of(&path) != self.loopback.here() {
            return Ok(None);
        }
        if !is_queue(restored.description) {
            return Err(Unrestorable::Description { path });
        }
        if self.home.queues().is_kept(&path) {
            return Err(Unrestorable::Twice { path });
        }
        let next_version = restored.version.max(self.home.earlier_numbers()).saturating_add(1);
        let stream = restored.stream;
        let kept = (stream, next_version);
        let queue = self.home.queues_mut().restore(now, path.clone(), kept, &self.options);
        self.metrics.queues_restored += 1;
        Ok(Some(RestoringQueue { queue, stream, path }))
    }

    /// Gives a queue the next of its messages, in the order of their versions.
    ///
    /// # Errors
    /// When they cannot be understood; they stay in the store as they are.
    pub fn restore_messages(
        &mut self,
        now: Now,
        restoring: &RestoringQueue,
        record: &RestoredRecord<'_>,
    ) -> Result<(), Unrestorable> {
        let mut run = read_queued(now, &restoring.path, record)?;
        self.home.number(&mut run);
        run.set_queue_version(record.first);
        run.set_stored();
        let run = Arc::new(run);
        for (from, to) in left(record, run.len() as u32) {
            self.restore_stretch(now, (restoring.queue, restoring.stream), &run, (from, to));
        }
        Ok(())
    }

    /// Some of a queue's messages could not be read or understood. They stay in the store, and the queue is not removed
    /// for being idle, with which they would go.
    pub fn note_unread(&mut self, restoring: &RestoringQueue) {
        self.home.queues_mut().note_unread(restoring.queue);
    }

    /// Messages that were not settled. In stores of earlier versions of the server some of them are not persistent:
    /// these were stored only because they came together with others, and do not come back.
    fn restore_stretch(
        &mut self,
        now: Now,
        (queue, stream): (Key, u64),
        run: &Arc<Run>,
        (from, to): (u32, u32),
    ) {
        let mut begin = from;
        for index in from..to {
            let message = run.message(index as usize);
            if message.is_some_and(|message| message.flags.contains(Flags::PERSISTENT)) {
                continue;
            }
            self.home.queues_mut().restore_run(now, queue, run, begin, index);
            self.journal.settle_version(stream, run.queue_version() + u64::from(index));
            begin = index + 1;
        }
        self.home.queues_mut().restore_run(now, queue, run, begin, to);
    }
}

/// The stretches of a record that are not gone, as places in its run.
fn left(record: &RestoredRecord<'_>, count: u32) -> Vec<(u32, u32)> {
    let place = |version: u64| {
        u32::try_from(version.saturating_sub(record.first)).unwrap_or(u32::MAX).min(count)
    };
    let (mut left, mut from) = (Vec::new(), 0);
    for (first, last) in record.gone {
        left.push((from, place(*first)));
        from = place(last.saturating_add(1)).max(from);
    }
    left.push((from, count));
    left.retain(|(from, to)| from < to);
    left
}
