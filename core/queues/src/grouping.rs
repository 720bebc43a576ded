//! Telling the groups of a queue what becomes of its messages and consumers, and asking those who can go on for that.
//!
//! Relies on [`crate::groups`] for who is to have what. Invariant: who has to look at a message stands in a line of the
//! queue, or waits for room.

use std::collections::BTreeSet;

use tiderace_base::{Key, MemoryUse};

use crate::Segment;
use crate::groups::{Groups, MEMBER_BYTES, group_of, mixed};
use crate::queues::Queues;

impl Queues {
    /// Messages are about to be ready in a queue with groups, or one that gets its first: their consumers have to be
    /// asked.
    #[cold]
    pub(crate) fn note_grouped(&mut self, key: Key, segment: &Segment) {
        let Some(queue) = self.queues.get_mut(key) else { return };
        if queue.groups.is_none() {
            let mut groups = Groups::default();
            groups.holder = queue.lines.exclusive();
            for (order, member) in queue.lines.begin_groups() {
                let place = self.consumers.get(*member).and_then(|it| it.queues.get(&key));
                if place.is_some_and(|place| place.selection.is_none()) {
                    groups.join(*member, *order);
                }
            }
            self.memory.charge(MemoryUse::Names, groups.bytes());
            queue.groups = Some(Box::new(groups));
        }
        for (index, version) in (segment.from..segment.to).zip(segment.first_version()..) {
            let Some(message) = segment.run.message(index as usize) else { continue };
            let Some(groups) = self.queues.get_mut(key).and_then(|it| it.groups.as_mut()) else {
                return;
            };
            let (reader, other) = match group_of(&message) {
                Some(group) => (groups.reader_of(group, version), None),
                // Anybody may have it: one has to look at it, and one that has nothing else to do.
                None => (groups.owner_of(mixed(version)), groups.next_idle()),
            };
            for member in [reader, other].into_iter().flatten() {
                self.wake_member(key, member, version);
            }
        }
    }

    /// Messages have come back from their consumer, or are done with; whether somebody can go on for that.
    pub(crate) fn note_landed(&mut self, key: Key, segment: &Segment) -> bool {
        let groups = self.queues.get_mut(key).and_then(|queue| queue.groups.as_mut());
        let free = groups.map_or(Vec::new(), |groups| groups.note_landed(segment));
        self.wake_readers(key, free)
    }

    /// Messages that have failed wait, and their groups with them.
    pub(crate) fn hold_groups(&mut self, key: Key, segment: &Segment) {
        let groups = self.queues.get_mut(key).and_then(|queue| queue.groups.as_mut());
        if let Some(groups) = groups {
            groups.hold(segment);
        }
    }

    /// They wait no longer.
    pub(crate) fn release_groups(&mut self, key: Key, segment: &Segment) {
        let groups = self.queues.get_mut(key).and_then(|queue| queue.groups.as_mut());
        let free = groups.map_or(Vec::new(), |groups| groups.release(segment));
        self.wake_readers(key, free);
    }

    /// A consumer without a selector has come to a queue, or one that has it for itself.
    pub(crate) fn join_groups(&mut self, key: Key, consumer: Key, order: u64, is_plain: bool) {
        let Some(queue) = self.queues.get_mut(key) else { return };
        let holder = queue.lines.exclusive();
        let Some(groups) = &mut queue.groups else { return };
        groups.holder = holder;
        if is_plain {
            groups.join(consumer, order);
            self.memory.charge(MemoryUse::Names, MEMBER_BYTES);
        }
    }

    /// A consumer has left a queue.
    pub(crate) fn leave_groups(&mut self, key: Key, consumer: Key) {
        let Some(queue) = self.queues.get_mut(key) else { return };
        let holder = queue.lines.exclusive();
        let Some(groups) = &mut queue.groups else { return };
        groups.holder = holder;
        let before = groups.bytes();
        let woken = groups.part(consumer);
        self.memory.refund(MemoryUse::Names, before - groups.bytes());
        for member in woken {
            self.list_member(key, member);
        }
    }

    /// Messages may be given that had to wait for others, which were in the store alone.
    pub(crate) fn wake_idle(&mut self, key: Key) {
        let groups = self.queues.get_mut(key).and_then(|queue| queue.groups.as_mut());
        for member in groups.map_or(BTreeSet::new(), |groups| groups.take_idle()) {
            self.list_member(key, member);
        }
    }

    fn wake_readers(&mut self, key: Key, free: Vec<(u64, u64)>) -> bool {
        let mut woken = false;
        for (group, version) in free {
            let Some(queue) = self.queues.get_mut(key) else { return false };
            // Who has a selector may have passed it over as well.
            self.asked += queue.lines.note_ready(version) as u64;
            let Some(groups) = &mut queue.groups else { return false };
            let reader = groups.holder_of(group);
            woken = true;
            if let Some(reader) = reader {
                self.wake_member(key, reader, version);
            }
        }
        woken
    }

    fn wake_member(&mut self, key: Key, member: Key, version: u64) {
        let groups = self.queues.get_mut(key).and_then(|queue| queue.groups.as_mut());
        if groups.is_some_and(|groups| groups.wake(member, version)) {
            self.list_member(key, member);
        }
    }

    fn list_member(&mut self, key: Key, member: Key) {
        let place = self.consumers.get_mut(member).and_then(|it| it.queues.get_mut(&key));
        if let (Some(queue), Some(place)) = (self.queues.get_mut(key), place)
            && !place.parked
        {
            queue.lines.list(member, place);
        }
    }
}
