//! When a queue is full, and what becomes of messages for it then.
//!
//! A queue is full by its bytes, by its messages, or because there is no memory for any; its owner's account may be full as
//! well, for which nobody waits. Publishers then wait, or are
//! refused before anything is taken ([`Queues::refusal`]), or messages are dropped when those that come are in. Relies on
//! queues that count what they have, and on the store for which of its messages are still there. Invariants: what
//! consumers have is never dropped; of a queue whose publishers wait, nothing is; only what takes up the room is dropped
//! for it; no call drops more than [`DROPPED_MAX`] messages and those that have come.

use std::sync::Arc;

use tiderace_base::{Key, MemoryUse};
use tiderace_topics::Path;
use tiderace_wire::rank_of;

use crate::accounts::{Account, OverQuota};
use crate::effect::Effect;
use crate::queue::Queue;
use crate::queues::Queues;
use crate::swapped::Want;
use crate::weight::Weight;
use crate::{Dropped, FullPolicy, LoadedPart, QueueOptions, Segment};

/// Messages that one publication makes a queue drop: a queue may have far more than it may since its bounds were lowered.
const DROPPED_MAX: usize = 4_096;

/// Why a queue refuses a publication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It has so many messages with so many bytes, which is as much as it may have.
    Full(usize, u64),
    /// Its owner has as much as a principal may have in queues.
    Owner(OverQuota),
}

/// What a queue has too much of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Excess {
    /// Messages in memory, by their bytes.
    Memory,
    /// Messages in the store alone, by their bytes.
    Disk,
    Messages,
}

/// Whether the message that has waited longest was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HeadDrop {
    Done,
    /// It will be when the store has said which it is.
    Asked,
    /// There is none that can be.
    None,
}

impl Queue {
    /// Messages: ready, in flight and delayed.
    pub(crate) fn messages(&self) -> usize {
        let delayed = self.delayed.as_ref().map_or(0, |delayed| delayed.len());
        let swapped = usize::try_from(self.swapped_messages()).unwrap_or(usize::MAX);
        (self.ready.len() + self.in_flight + delayed).saturating_add(swapped)
    }

    /// Bytes of all its messages, in memory and in the store alone.
    fn bytes_now(&self) -> u64 {
        (self.bytes as u64).saturating_add(self.swapped_bytes())
    }

    /// Of what it has more than it may, by its own bounds, if it may have so many bytes in memory.
    fn excess(&self, bytes_max: usize) -> Option<Excess> {
        let most = self.policy.messages_max;
        if self.bytes > bytes_max {
            Some(Excess::Memory)
        } else if self.swapped_bytes() > self.disk_bytes_max {
            Some(Excess::Disk)
        } else {
            (most > 0 && self.messages() > most).then_some(Excess::Messages)
        }
    }

    /// Whether the first message of the last rank is in memory, and not in the store alone.
    fn is_least_in_memory(&self) -> bool {
        let stored = self.swapped.as_ref().and_then(|it| it.ranges().next_back());
        let stored = stored.map(|(rank, range)| (rank, range.first));
        let ready = self.ready.least();
        ready.is_some_and(|ready| {
            stored.is_none_or(|(rank, first)| {
                rank_of(ready) > rank || rank_of(ready) == rank && ready < first
            })
        })
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

    /// Why a queue refuses so many more messages with so many bytes ([`Segment::bytes_of_run`]), if it does: it or its
    /// owner would have more than they may with them. An empty one takes any that come alone. If it is not there, `options` says what it would be.
    pub fn refusal(
        &self,
        path: &Path,
        more: (usize, usize),
        are_alone: bool,
        options: impl FnOnce(&Path) -> QueueOptions,
    ) -> Option<Refusal> {
        let Some(queue) = self.queue(path) else {
            return self.refuses_queue(&options(path), more.1).map(Refusal::Owner);
        };
        // Publishers do not wait for an account: what makes room may come by the connection that would wait.
        if let Some(account) = queue.counting()
            && !queue.policy.full.drops()
            && let Some(over) = account.refuses(more.1, are_alone)
        {
            return Some(Refusal::Owner(over));
        }
        self.refusal_of_queue(queue, more, are_alone)
    }

    /// The same for what lies in another queue of that owner. If this one is the owner's as well, its account has the
    /// bytes already.
    pub fn refusal_of_moved(
        &self,
        path: &Path,
        more: (usize, usize),
        owner: Option<&Arc<str>>,
        options: impl FnOnce(&Path) -> QueueOptions,
    ) -> Option<Refusal> {
        let Some(queue) = self.queue(path) else {
            let options = options(path);
            let bytes = if owner.is_some() && options.owner.as_ref() == owner { 0 } else { more.1 };
            return self.refuses_queue(&options, bytes).map(Refusal::Owner);
        };
        match queue.account().map(|account| account.name()) {
            own if own == owner => self.refusal_of_queue(queue, more, true),
            _ => self.refusal(path, more, true, options),
        }
    }

    /// Why a queue refuses so much more by its own bounds.
    fn refusal_of_queue(
        &self,
        queue: &Queue,
        more: (usize, usize),
        are_alone: bool,
    ) -> Option<Refusal> {
        if queue.policy.full != FullPolicy::Reject {
            return None;
        }
        let messages = queue.messages();
        let bytes = queue.bytes_now();
        let most = queue.policy.messages_max;
        let is_full = (most > 0 && messages.saturating_add(more.0) > most)
            || queue.bytes.saturating_add(more.1) > self.bytes_max_of(queue)
            || queue.swapped_bytes() > queue.disk_bytes_max
            || self.memory.is_full();
        ((messages > 0 || !are_alone) && is_full).then_some(Refusal::Full(messages, bytes))
    }

    /// Bytes of messages that a queue may have in memory: what goes to the store alone is there until the store has it.
    fn bytes_max_of(&self, queue: &Queue) -> usize {
        if self.has_store { queue.bytes_max.saturating_mul(2) } else { queue.bytes_max }
    }

    /// How many messages were dropped because their queue was full.
    pub fn dropped(&self) -> Dropped {
        self.dropped
    }

    pub(crate) fn note_bytes(&mut self, Weight { charged, .. }: Weight) {
        self.bytes += charged;
        self.memory.charge(MemoryUse::Queues, charged);
    }

    pub(crate) fn forget_bytes(&mut self, Weight { charged, .. }: Weight) {
        self.bytes = self.bytes.saturating_sub(charged);
        self.memory.refund(MemoryUse::Queues, charged);
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
            queue.excess(bytes_max).is_some() || (queue.bytes > 0 && self.memory.is_full())
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
        ((first, last), came_bytes): ((u64, u64), usize),
        effects: &mut Vec<Effect>,
    ) {
        let Some(queue) = self.queues.get(key) else { return };
        let policy = queue.policy.full;
        if !policy.drops() {
            return;
        }
        let bytes_max = self.bytes_max_of(queue);
        // If there is no memory, or its owner has no room, as many bytes go as have come.
        let limit = queue.bytes_now().saturating_sub(came_bytes as u64);
        let came = (last - first + 1) as usize;
        let mut tail = last;
        for dropped in 0..DROPPED_MAX.saturating_add(came) {
            let Some(queue) = self.queues.get(key) else { return };
            let has_no_room =
                || self.memory.is_full() || queue.counting().is_some_and(Account::is_over);
            let no_room = (queue.bytes_now() > limit && has_no_room()).then_some(Excess::Memory);
            let Some(excess) = queue.excess(bytes_max).or(no_room) else { break };
            if policy == FullPolicy::DropHead && dropped < DROPPED_MAX {
                match self.drop_head(key, excess, effects) {
                    HeadDrop::Done => {
                        self.dropped.head += 1;
                        continue;
                    }
                    HeadDrop::Asked => break,
                    HeadDrop::None => {}
                }
            }
            // Of what has come, the last that nobody has.
            let Some((version, segment)) = self.take_tail(key, (first, tail)) else { break };
            self.dropped.tail += 1;
            self.drop_segment(key, segment, effects);
            let Some(before) = version.checked_sub(1).filter(|it| *it >= first) else { break };
            tail = before;
        }
    }

    /// Drops the message that has waited longest of those that take up what there is too much of; of the least urgent
    /// ones, if the queue orders by priority.
    fn drop_head(&mut self, key: Key, excess: Excess, effects: &mut Vec<Effect>) -> HeadDrop {
        let Some(queue) = self.queues.get_mut(key) else { return HeadDrop::None };
        let segment = match excess {
            Excess::Memory => queue.ready.take_least(),
            Excess::Messages if queue.is_least_in_memory() => queue.ready.take_least(),
            Excess::Messages | Excess::Disk => None,
        };
        if let Some(segment) = segment {
            self.ready = self.ready.saturating_sub(1);
            self.drop_segment(key, segment, effects);
            return HeadDrop::Done;
        }
        if excess == Excess::Memory {
            return HeadDrop::None;
        }
        let before = (queue.swapped_messages(), queue.swapped_bytes());
        let Some(swapped) = queue.swapped.as_mut().filter(|it| it.messages() > 0) else {
            return HeadDrop::None;
        };
        let Some(version) = swapped.take_least() else {
            if swapped.is_stalled() {
                return HeadDrop::None;
            }
            swapped.want(Want::Drop);
            self.load_next(key, effects);
            return HeadDrop::Asked;
        };
        let streams = queue.stream.into_iter().chain(queue.volatile).collect();
        effects.push(Effect::Purged { streams, ranges: vec![(version, version)] });
        self.note_swapped(key, before);
        HeadDrop::Done
    }

    /// The store has said which messages have waited longest of those that it alone has: drops what is still too much.
    /// How many could not be read. The caller counts what the range has now.
    pub(crate) fn drop_loaded(
        &mut self,
        key: Key,
        part: &LoadedPart,
        (segments, effects): (&[Segment], &mut Vec<Effect>),
    ) -> u64 {
        let unreadable = self.pass_unreadable(key, part, part.through);
        let Some(queue) = self.queues.get_mut(key) else { return unreadable };
        let mut ranges = Vec::<(u64, u64)>::new();
        let (mut dropped, mut missing) = (0, 0);
        'parts: for segment in segments {
            for (at, version) in (segment.from..segment.to).zip(segment.first_version()..) {
                // Memory is not relieved by them.
                if queue.excess(usize::MAX).is_none() || dropped == DROPPED_MAX as u64 {
                    break 'parts;
                }
                let Some(swapped) = &mut queue.swapped else { break 'parts };
                let one = Segment { from: at, to: at + 1, ..segment.clone() };
                swapped.forget(version, 1, one.bytes() as u64);
                missing += swapped.pass(version);
                dropped += 1;
                match ranges.last_mut() {
                    Some((_, last)) if *last + 1 == version => *last = version,
                    _ => ranges.push((version, version)),
                }
            }
        }
        self.dropped.head += dropped;
        if dropped > 0 {
            let streams = queue.stream.into_iter().chain(queue.volatile).collect();
            effects.push(Effect::Purged { streams, ranges });
        }
        let is_over = queue.excess(usize::MAX).is_some();
        let Some(swapped) = &mut queue.swapped else { return unreadable };
        if is_over {
            swapped.want(Want::Drop);
        }
        // What is missing up to there the store does not have.
        missing += if segments.is_empty() { swapped.pass(part.through) } else { 0 };
        unreadable + missing
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
        let weight = segment.weight();
        queue.note_gone(segment, effects);
        self.forget_bytes(weight);
    }
}
