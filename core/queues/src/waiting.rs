//! Messages that wait for a time before they are ready.
//!
//! A message waits because its publisher wants that, which its properties say, or because it has failed and is to be
//! delivered again later. It counts in the bytes of its queue, and
//! when its time has come it is ready at its place in the order. Relies on being asked now and then what is due, by the
//! clock of the wall. Invariants: a message that waits is in its queue's [`crate::delayed::Delayed`] and, as part
//! of its segment, in [`crate::delayed::Due`] once; a call looks at no more than what is due, and at no more than [`WAKE_MAX`] segments.

use std::collections::BTreeSet;

use tiderace_base::{Key, Now};
use tiderace_wire::Flags;

use crate::Segment;
use crate::delayed::Waiting;
use crate::effect::Effect;
use crate::queue::Queue;
use crate::queues::Queues;
use crate::ready::has_expired;
use crate::swapped::alone;
use crate::weight::Weight;

/// Segments that become ready in one call: about a millisecond's worth.
const WAKE_MAX: usize = 8_192;

impl Queues {
    /// How many messages wait for their time, over all queues.
    pub fn delayed(&self) -> usize {
        self.due.messages
    }

    /// Whether the time of some has come.
    pub fn is_due(&self, wall_ms: u64) -> bool {
        self.due.times.first().is_some_and(|(due, _, _)| *due <= wall_ms)
    }

    /// Messages that have failed wait, and hold up their groups.
    pub(crate) fn delay_failed(&mut self, key: Key, segment: Segment, due_ms: u64) {
        self.hold_groups(key, &segment);
        self.delay(key, segment, (due_ms, true));
    }

    /// Messages that belong to nobody now wait until their time, or until they expire if that is before. They may wait
    /// long, and do not keep others in memory meanwhile that came with them.
    fn delay(&mut self, key: Key, segment: Segment, (due_ms, has_failed): (u64, bool)) {
        let before = segment.weight();
        let parts = if segment.is_whole() { vec![segment] } else { alone(segment) };
        let after: Weight = parts.iter().map(Segment::weight).sum();
        let Some(queue) = self.queues.get_mut(key) else { return };
        queue.gain(after);
        queue.lose(before);
        self.note_bytes(after);
        self.forget_bytes(before);
        for part in parts {
            self.delay_part(key, part, (due_ms, has_failed));
        }
    }

    fn delay_part(&mut self, key: Key, segment: Segment, (due_ms, has_failed): (u64, bool)) {
        let Some(queue) = self.queues.get_mut(key) else { return };
        let delayed = queue.delayed.get_or_insert_default();
        let mut rest = Some(segment);
        while let Some(mut part) = rest.take() {
            let mut due_ms = due_ms;
            if part.run.any(Flags::EXPIRES) {
                // Each for itself, for their times may differ.
                rest = part.split_off_version(part.first_version() + 1);
                let message = part.run.message(part.from as usize);
                let expires = message.and_then(|message| message.expires_ms);
                due_ms = due_ms.min(expires.unwrap_or(u64::MAX));
            }
            self.due.times.insert((due_ms, key, part.first_version()));
            self.due.messages += part.len() as usize;
            delayed.put(Waiting { due_ms, segment: part, has_failed });
        }
    }

    /// Puts messages into a queue of which some are to be delivered later.
    #[cold]
    pub(crate) fn put_scheduled(&mut self, key: Key, segment: Segment) {
        let mut rest = Some(segment);
        while let Some(mut part) = rest.take() {
            rest = part.split_off_version(part.first_version() + 1);
            let message = part.run.message(part.from as usize);
            match message.and_then(|message| message.deliver_at_ms()) {
                Some(due) if due > self.wall_ms => self.delay(key, part, (due, false)),
                _ => {
                    let marks = part.run.marks();
                    self.put_ready(key, part, marks);
                }
            }
        }
    }

    /// Makes the messages ready whose time has come, some of them if they are very many.
    pub fn wake(&mut self, now: Now, effects: &mut Vec<Effect>) {
        self.begin_turn(now);
        let mut woken = BTreeSet::new();
        for _ in 0..WAKE_MAX {
            let Some((due, key, version)) = self.due.times.first().copied() else { break };
            if due > now.wall_ms {
                break;
            }
            let Some((segment, has_failed)) = self.undelay((due, key, version)) else { continue };
            if has_expired(&segment, now.wall_ms) {
                self.expire_delayed(key, segment, effects);
            } else {
                if !has_failed && !self.browsers.is_empty() {
                    self.note_woken(key, &segment);
                }
                self.put(key, segment);
            }
            woken.insert(key);
        }
        for key in woken {
            self.dispatch(key, effects);
        }
    }

    /// Takes out all that has a message between two versions, both included: of messages that were published together
    /// either all are wanted or none.
    pub(crate) fn take_delayed(&mut self, key: Key, (first, last): (u64, u64)) -> Vec<Segment> {
        let delayed = self.queues.get(key).and_then(|queue| queue.delayed.as_ref());
        let found = delayed.map_or(Vec::new(), |delayed| delayed.between(first, last));
        let found =
            found.into_iter().filter_map(|(due, version)| self.undelay((due, key, version)));
        found.map(|(segment, _)| segment).collect()
    }

    /// A queue has ended: what waited there is not waited for any more.
    pub(crate) fn forget_delayed(&mut self, key: Key, queue: &Queue) {
        let Some(delayed) = &queue.delayed else { return };
        self.due.messages -= delayed.len();
        for (due, version) in delayed.places() {
            self.due.times.remove(&(due, key, version));
        }
    }

    /// Takes one out; whether it has failed.
    fn undelay(&mut self, place: (u64, Key, u64)) -> Option<(Segment, bool)> {
        self.due.times.remove(&place);
        let queue = self.queues.get_mut(place.1)?;
        let delayed = queue.delayed.as_mut()?;
        let Waiting { segment, has_failed, .. } = delayed.take(place.2)?;
        if delayed.len() == 0 {
            queue.delayed = None;
        }
        self.due.messages -= segment.len() as usize;
        if has_failed {
            self.release_groups(place.1, &segment);
        }
        Some((segment, has_failed))
    }

    /// The time of a message was over before it was to be delivered.
    fn expire_delayed(&mut self, key: Key, segment: Segment, effects: &mut Vec<Effect>) {
        let Some(queue) = self.queues.get_mut(key) else { return };
        let weight = segment.weight();
        self.expired += u64::from(segment.len());
        queue.note_expired(key, segment, self.wall_ms, effects);
        self.forget_bytes(weight);
    }
}
