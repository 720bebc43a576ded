//! When a queue is full, and what becomes of messages for it then.
//!
//! A queue is full by its bytes, by its messages, or because there is no memory for any. Publishers then wait, or are
//! refused before anything is taken ([`Queues::refusal`]), or messages are dropped when those that come are in. Relies on
//! queues that count what they have. Invariants: what consumers have is never dropped; of a queue whose publishers wait,
//! nothing is; no call drops more than [`DROPPED_MAX`] messages.

use tiderace_base::{Key, MemoryUse};
use tiderace_topics::Path;

use crate::effect::Effect;
use crate::queue::Queue;
use crate::queues::Queues;
use crate::{Dropped, FullPolicy, Segment};

/// Messages that one publication makes a queue drop: a queue may have far more than it may since its bounds were lowered.
const DROPPED_MAX: usize = 4_096;

/// Why a queue refuses a publication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Messages that it has.
    pub messages: usize,
    /// Bytes that they have.
    pub bytes: u64,
}

impl Queue {
    /// Messages: ready, in flight and delayed.
    pub(crate) fn messages(&self) -> usize {
        let delayed = self.delayed.as_ref().map_or(0, |delayed| delayed.len());
        let swapped = usize::try_from(self.swapped_messages()).unwrap_or(usize::MAX);
        (self.ready.len() + self.in_flight + delayed).saturating_add(swapped)
    }

    /// Whether it has more than it may, by its own bounds, if it may have so many bytes in memory.
    fn is_over(&self, bytes_max: usize) -> bool {
        let most = self.policy.messages_max;
        self.bytes > bytes_max
            || self.swapped_bytes() > self.disk_bytes_max
            || (most > 0 && self.messages() > most)
    }

    /// Whether it has all that it may; where publishers wait, whether they do.
    pub(crate) fn shows_full(&self) -> bool {
        if self.policy.full == FullPolicy::Block {
            return self.full;
        }
        let most = self.policy.messages_max;
        self.swapped_bytes() >= self.disk_bytes_max
            || (self.swapped.is_none() && self.bytes >= self.bytes_max)
            || (most > 0 && self.messages() >= most)
    }

    /// Whether it has less than three quarters of what it may: publishers move in long strides.
    fn is_relieved(&self, bytes_max: usize) -> bool {
        let most = self.policy.messages_max;
        self.bytes <= bytes_max / 4 * 3 && (most == 0 || self.messages() <= most - most.div_ceil(4))
    }
}

impl Queues {
    /// Whether a queue has all that it may, whatever becomes of more.
    pub fn is_at_limit(&self, path: &Path) -> bool {
        self.queue(path).is_some_and(Queue::shows_full)
    }

    /// Why a queue refuses so many more messages with so many bytes, if it does: it would have more than it may with
    /// them. An empty one takes any that come alone.
    pub fn refusal(&self, path: &Path, more: (usize, usize), are_alone: bool) -> Option<Refusal> {
        let queue = self.queue(path).filter(|queue| queue.policy.full == FullPolicy::Reject)?;
        let messages = queue.messages();
        let bytes = (queue.bytes as u64).saturating_add(queue.swapped_bytes());
        let most = queue.policy.messages_max;
        let is_full = (most > 0 && messages.saturating_add(more.0) > most)
            || queue.bytes.saturating_add(more.1) > self.bytes_max_of(queue)
            || queue.swapped_bytes() > queue.disk_bytes_max
            || self.memory.is_full();
        ((messages > 0 || !are_alone) && is_full).then_some(Refusal { messages, bytes })
    }

    /// Bytes of messages that a queue may have in memory: what goes to the store alone is there until the store has it.
    fn bytes_max_of(&self, queue: &Queue) -> usize {
        if self.has_store { queue.bytes_max.saturating_mul(2) } else { queue.bytes_max }
    }

    /// How many messages were dropped because their queue was full.
    pub fn dropped(&self) -> Dropped {
        self.dropped
    }

    pub(crate) fn note_bytes(&mut self, bytes: usize) {
        self.bytes += bytes;
        self.memory.charge(MemoryUse::Queues, bytes);
    }

    pub(crate) fn forget_bytes(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_sub(bytes);
        self.memory.refund(MemoryUse::Queues, bytes);
    }

    /// Says whether the publishers of a queue wait, if that has changed.
    pub(crate) fn review(&mut self, key: Key, effects: &mut Vec<Effect>) {
        let Some(queue) = self.queues.get(key) else { return };
        if queue.policy.full != FullPolicy::Block {
            return;
        }
        let bytes_max = self.bytes_max_of(queue);
        let Some(queue) = self.queues.get_mut(key) else { return };
        // Once full, a queue stays so until a quarter has gone.
        let disk_level =
            if queue.is_disk_full { queue.disk_bytes_max / 4 * 3 } else { queue.disk_bytes_max };
        queue.is_disk_full = queue.swapped_bytes() > disk_level;
        let full = if queue.full {
            let room = self.memory.max() / 4;
            let has_room = self.memory.has_room(MemoryUse::Queues, room);
            !queue.is_relieved(bytes_max) || (queue.bytes > 0 && !has_room)
        } else {
            queue.is_over(bytes_max) || (queue.bytes > 0 && self.memory.is_full())
        };
        let full = full || queue.is_disk_full;
        if full != queue.full {
            queue.full = full;
            if full {
                self.full.insert(key);
            } else {
                self.full.remove(&key);
            }
            effects.push(Effect::Full { path: queue.path.clone(), on: full });
        }
    }

    /// Messages between two versions have come, and consumers have got what they have room for: drops what is too much.
    pub(crate) fn drop_excess(
        &mut self,
        key: Key,
        (first, last): (u64, u64),
        effects: &mut Vec<Effect>,
    ) {
        let Some(queue) = self.queues.get(key) else { return };
        let policy = queue.policy.full;
        if !matches!(policy, FullPolicy::DropHead | FullPolicy::DropTail) {
            return;
        }
        let bytes_max = self.bytes_max_of(queue);
        // If there is no memory, as many go as have come.
        let came = (last - first + 1) as usize;
        let mut tail = last;
        for dropped in 0..DROPPED_MAX {
            let Some(queue) = self.queues.get(key) else { return };
            let is_full = queue.is_over(bytes_max) || (dropped < came && self.memory.is_full());
            if !is_full {
                break;
            }
            if policy == FullPolicy::DropHead && self.drop_head(key, effects) {
                self.dropped.head += 1;
                continue;
            }
            // Of what has come, the last that nobody has.
            let Some((version, segment)) = self.take_tail(key, (first, tail)) else { break };
            self.dropped.tail += 1;
            self.drop_segment(key, segment, effects);
            let Some(before) = version.checked_sub(1).filter(|it| *it >= first) else { break };
            tail = before;
        }
    }

    /// Drops the message that has waited longest, in memory or in the store alone; whether there was any.
    fn drop_head(&mut self, key: Key, effects: &mut Vec<Effect>) -> bool {
        let Some(queue) = self.queues.get_mut(key) else { return false };
        if let Some(segment) = queue.ready.take_first(1, usize::MAX) {
            self.ready = self.ready.saturating_sub(1);
            self.drop_segment(key, segment, effects);
            return true;
        }
        let before = (queue.swapped_messages(), queue.swapped_bytes());
        let Some(version) = queue.swapped.as_mut().and_then(|swapped| swapped.take_first()) else {
            return false;
        };
        let streams = queue.stream.into_iter().chain(queue.volatile).collect();
        effects.push(Effect::Purged { streams, ranges: vec![(version, version)] });
        self.note_swapped(key, before);
        true
    }

    /// The last message between two versions that is ready or delayed, with its version.
    fn take_tail(&mut self, key: Key, (first, last): (u64, u64)) -> Option<(u64, Segment)> {
        for version in (first..=last).rev() {
            let queue = self.queues.get_mut(key)?;
            if let Some(segment) = queue.ready.take_one(version) {
                self.ready = self.ready.saturating_sub(1);
                return Some((version, segment));
            }
            if let Some(segment) = self.take_delayed(key, (version, version)).pop() {
                return Some((version, segment));
            }
        }
        None
    }

    fn drop_segment(&mut self, key: Key, segment: Segment, effects: &mut Vec<Effect>) {
        let Some(queue) = self.queues.get_mut(key) else { return };
        let bytes = segment.bytes();
        queue.note_gone(segment, effects);
        self.forget_bytes(bytes);
    }
}
