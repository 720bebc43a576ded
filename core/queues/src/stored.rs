//! What queues have of the store: versions of their messages, the streams in which they keep some, and the way back.
//!
//! The store itself is the caller's: it is told by [`Effect::Settled`] and [`Effect::Ended`] what is not needed any
//! more, and gives back at the start what it has. Relies on runs that say whether they are stored. Invariants: numbers
//! of a queue rise by one for each message and none is given twice; a stored message that leaves its queue is told by an
//! effect once, except with the whole stream.

use tiderace_base::{Key, Now};
use tiderace_topics::Path;
use tiderace_wire::{Run, number_of, rank_of, rank_of_priority, version_of};

use crate::effect::Effect;
use crate::queue::Queue;
use crate::queues::Queues;
use crate::weight::Weight;
use crate::{QueueOptions, Segment};

impl Queues {
    /// The queue of a numbered run, which is made if it is not there. The run gets its versions.
    pub fn admit(
        &mut self,
        now: Now,
        run: &mut Run,
        options: impl FnOnce(&Path) -> QueueOptions,
    ) -> Key {
        let key = match self.names.get(&run.destination().path) {
            Some(key) => *key,
            None => self.ensure(now, run.destination().path.clone(), options),
        };
        if let Some(queue) = self.queues.get_mut(key) {
            if queue.next_number == 0 {
                // There were never more messages in an earlier queue of that name than numbers.
                queue.next_number = run.first().max(1);
            }
            let rank = match queue.policy.priorities {
                true => rank_of_priority(run.priority()),
                false => queue.rank,
            };
            run.set_queue_version(version_of(rank, queue.next_number));
            queue.next_number += run.len() as u64;
        }
        key
    }

    /// The stream in which a queue is kept, if it has stored messages or had some, and the number of its last message.
    pub fn stream_of(&self, key: Key) -> Option<(Option<u64>, u64)> {
        let queue = self.queues.get(key)?;
        Some((queue.stream, queue.next_number.saturating_sub(1)))
    }

    /// A queue is kept in a stream from now on.
    pub fn set_stream(&mut self, key: Key, stream: u64) {
        if let Some(queue) = self.queues.get_mut(key) {
            queue.stream = Some(stream);
        }
    }

    /// The queue of that name, if it is there.
    pub fn key_of(&self, path: &Path) -> Option<Key> {
        self.names.get(path).copied()
    }

    /// The path of a queue that is still there.
    pub fn path_of(&self, key: Key) -> Option<&Path> {
        self.queues.get(key).map(|queue| &queue.path)
    }

    /// The store has not taken messages that were published: those between two versions, both included, that nobody has
    /// been given are taken out. How many there were.
    pub fn withdraw(
        &mut self,
        key: Key,
        (first, last): (u64, u64),
        effects: &mut Vec<Effect>,
    ) -> usize {
        let delayed = self.take_delayed(key, (first, last));
        let Some(queue) = self.queues.get_mut(key) else { return 0 };
        let taken = queue.ready.take_range(first, last);
        let count = |segments: &[Segment]| segments.iter().map(|it| it.len() as usize).sum();
        let (ready, waited): (usize, usize) = (count(&taken), count(&delayed));
        let weight: Weight = taken.iter().chain(&delayed).map(Segment::weight).sum();
        queue.lose(weight);
        self.ready = self.ready.saturating_sub(ready);
        self.forget_bytes(weight);
        match waited {
            0 => self.review(key, effects),
            // Others of a group may have waited for one of them.
            _ => self.dispatch(key, effects),
        }
        ready + waited
    }

    /// The store has not taken that messages were consumed: they come back to their place, as redelivered.
    pub fn give_back(
        &mut self,
        now: Now,
        mut segment: Segment,
        options: impl FnOnce(&Path) -> QueueOptions,
        effects: &mut Vec<Effect>,
    ) {
        self.begin_turn(now);
        segment.redeliveries += 1;
        let key = self.ensure(now, segment.run.destination().path.clone(), options);
        self.add(now, key, segment);
        self.dispatch(key, effects);
    }

    /// A dead letter has come to where it goes. If it is stored there, what the store has of it here is not needed any
    /// more: whether its stream is still there. If not, it stays here in the store, and so does the queue, with which
    /// it would go.
    pub fn end_move(&mut self, key: Key, stream: u64, version: u64, is_stored: bool) -> bool {
        let queue = self.queues.get_mut(key);
        let is_of = |queue: &&mut Queue| [queue.stream, queue.volatile].contains(&Some(stream));
        let Some(queue) = queue.filter(is_of) else { return false };
        let was_moving = queue.moving.remove(&version).is_some();
        queue.has_unread |= was_moving && !is_stored;
        was_moving && is_stored
    }

    /// Dead letters to some queues will not come to where they go: those that are stored are ready again where they lay.
    pub fn undo_moves(
        &mut self,
        now: Now,
        is_lost: impl Fn(&Path) -> bool,
        effects: &mut Vec<Effect>,
    ) {
        self.begin_turn(now);
        for slot in 0..self.queues.slots() {
            let Some(key) = self.queues.key_of(slot) else { continue };
            let Some(queue) = self.queues.get_mut(key) else { continue };
            if !queue.dead_letter.as_ref().is_some_and(&is_lost) {
                continue;
            }
            for (_, segment) in std::mem::take(&mut queue.moving) {
                self.add(now, key, segment);
            }
            self.dispatch(key, effects);
        }
    }

    /// The same of one of them. Whether it was on its way.
    pub fn undo_move(
        &mut self,
        now: Now,
        (key, version): (Key, u64),
        effects: &mut Vec<Effect>,
    ) -> bool {
        let Some(queue) = self.queues.get_mut(key) else { return false };
        let Some(segment) = queue.moving.remove(&version) else { return false };
        self.begin_turn(now);
        self.add(now, key, segment);
        self.dispatch(key, effects);
        true
    }

    /// A queue is there again that the store has, in its stream, with a version whose number is above all that were given,
    /// and whose rank is that of the last message in its order.
    pub fn restore(
        &mut self,
        now: Now,
        path: Path,
        (stream, next_version): (u64, u64),
        options: impl FnOnce(&Path) -> QueueOptions,
    ) -> Key {
        let key = self.ensure(now, path, options);
        if let Some(queue) = self.queues.get_mut(key) {
            queue.stream = Some(stream);
            queue.next_number = queue.next_number.max(number_of(next_version));
            queue.rank = rank_of(next_version);
            queue.stored_below = queue.next_number;
        }
        key
    }

    /// The store has messages of a queue that could not be read: the queue is not removed for being idle, for they would
    /// go with it.
    pub fn note_unread(&mut self, key: Key) {
        if let Some(queue) = self.queues.get_mut(key) {
            queue.has_unread = true;
        }
    }

    /// Puts messages into a queue that did not count there.
    pub(crate) fn add(&mut self, now: Now, key: Key, segment: Segment) {
        let Some(queue) = self.queues.get_mut(key) else { return };
        let weight = segment.weight();
        self.wall_ms = now.wall_ms;
        queue.used = now.time;
        queue.gain(weight);
        self.note_bytes(weight);
        self.put(key, segment);
    }
}

impl Queue {
    /// Stored messages begin their way to another queue.
    pub(crate) fn begin_move(&mut self, segment: &Segment) {
        let first = segment.run.queue_version();
        for from in segment.from..segment.to {
            let version = first + u64::from(from);
            self.moving.insert(version, Segment { from, to: from + 1, ..segment.clone() });
        }
    }
}
