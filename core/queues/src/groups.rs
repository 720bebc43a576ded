//! Message groups: all messages of a group go to one consumer while it is there, in their order.
//!
//! ```text
//!   group ─hash─▶ ring of points, some for each consumer without a selector ─▶ its owner
//!   group with messages in flight ─▶ the consumer that has them, whatever the ring says
//! ```
//! Consistent hashing moves few groups when consumers come and go; a group moves only when nobody has messages of it.
//! One that waits after a failure holds its group up, so that its order is kept. A consumer with a selector takes what it
//! selects, of a group only while nobody else has messages of it. Each owner looks through the ready messages from a
//! place of its own, so what is not its own costs it one look.
//!
//! Relies on being told of each message that becomes ready, is given, and comes back. Invariants: of a group that nobody
//! has, its owner has not looked past any ready message, and is asked when it has room; only groups with messages in
//! flight or waiting after a failure are remembered, so keys that are never seen again take no memory.

use std::collections::{BTreeMap, BTreeSet};

use hashbrown::HashMap;
use tiderace_base::Key;
use tiderace_wire::{Flags, Message, rank_of, version_of};

use crate::Segment;
use crate::ranks::PerRank;

type Map<K, V> = HashMap<K, V, foldhash::fast::RandomState>;

/// Points of each consumer on the ring.
const POINTS: u64 = 10;
/// What a member takes, in tables that are half empty, with its place in a rank.
pub(crate) const MEMBER_BYTES: usize = 4 * size_of::<(u64, u64)>()
    + 2 * (size_of::<(Key, Member)>()
        + POINTS as usize * size_of::<(u64, Key)>()
        + size_of::<Key>());

/// The groups of one queue, of which some message had one.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    ring: BTreeMap<u64, Key>,
    members: Map<Key, Member>,
    /// Groups that are not where the ring says, or may not be.
    pins: Map<u64, Pin>,
    /// Members with nothing to look at.
    idle: BTreeSet<Key>,
    /// Who has the queue for itself.
    pub(crate) holder: Option<Key>,
}

/// A consumer without a selector.
#[derive(Debug)]
struct Member {
    /// Its place among the consumers of the queue.
    order: u64,
    /// In each rank: nothing ready before this version is for it.
    cursors: PerRank<u64>,
}

/// A group with messages in flight, or waiting after a failure.
#[derive(Debug)]
struct Pin {
    consumer: Key,
    in_flight: u32,
    waiting: u32,
    /// In each rank the lowest ready message of it that somebody has passed over, or that has come since.
    passed: PerRank<u64>,
    /// The lowest that somebody has passed over.
    skipped: Option<u64>,
}

impl Groups {
    /// A consumer without a selector comes.
    pub(crate) fn join(&mut self, key: Key, order: u64) {
        self.members.insert(key, Member { order, cursors: PerRank::default() });
        for point in 0..POINTS {
            self.ring.insert(mixed(order.wrapping_mul(POINTS).wrapping_add(point)), key);
        }
    }

    /// A consumer goes, or somebody else has the queue for itself: everybody looks anew. Those that have to be asked.
    pub(crate) fn part(&mut self, key: Key) -> Vec<Key> {
        if let Some(member) = self.members.remove(&key) {
            for point in 0..POINTS {
                self.ring.remove(&mixed(member.order.wrapping_mul(POINTS).wrapping_add(point)));
            }
        }
        self.members.values_mut().for_each(|member| member.cursors.clear());
        std::mem::take(&mut self.idle).into_iter().filter(|idle| *idle != key).collect()
    }

    /// From which version of a rank on a member has to look.
    pub(crate) fn begin_look(&self, key: Key, rank: u64) -> u64 {
        let cursor = self.members.get(&key).and_then(|member| member.cursors.get(rank));
        cursor.copied().unwrap_or_else(|| version_of(rank, 0))
    }

    /// A member has looked at a rank up to a version.
    pub(crate) fn end_look(&mut self, key: Key, rank: u64, cursor: u64) {
        if let Some(member) = self.members.get_mut(&key) {
            member.cursors.set(rank, cursor);
        }
    }

    /// There is nothing for a member.
    pub(crate) fn rest(&mut self, key: Key) {
        if self.members.contains_key(&key) {
            self.idle.insert(key);
        }
    }

    /// Whether a consumer may have a message now; if not, it is remembered if that can change without the ring.
    pub(crate) fn may_have(&mut self, key: Key, message: &Message<'_>, version: u64) -> bool {
        let Some(group) = group_of(message) else { return true };
        let (owner, is_member) = (self.owner_of(group), self.members.contains_key(&key));
        let Some(pin) = self.pins.get_mut(&group) else {
            // Who has a selector takes what nobody has.
            return !is_member || owner == Some(key);
        };
        // Who has a group that belongs to another gets no more of it, so that it can move.
        let stays = owner.is_none_or(|owner| owner == key);
        // Who has the same selector may have passed over an earlier one.
        let is_next = is_member || pin.skipped.is_none_or(|skipped| version <= skipped);
        let may = pin.waiting == 0 && pin.consumer == key && stays && is_next;
        if !may {
            pin.pass(version);
            let skipped = pin.skipped.unwrap_or(version);
            pin.skipped = Some(skipped.min(version));
        }
        may
    }

    /// Messages were given to a consumer.
    pub(crate) fn note_given(&mut self, key: Key, segment: &Segment) {
        for group in groups_of(segment) {
            let pin = self.pins.entry(group).or_insert(Pin::of(key));
            pin.consumer = key;
            pin.in_flight += 1;
        }
    }

    /// Messages have come back from their consumer, or are done with: the lowest versions that others have passed over
    /// for them.
    pub(crate) fn note_landed(&mut self, segment: &Segment) -> Vec<(u64, u64)> {
        self.unpin(segment, |pin| pin.in_flight = pin.in_flight.saturating_sub(1))
    }

    /// Messages wait after a failure.
    pub(crate) fn hold(&mut self, segment: &Segment) {
        for group in groups_of(segment) {
            self.pins.entry(group).or_insert(Pin::of(Key::default())).waiting += 1;
        }
    }

    /// They wait no longer; as [`Groups::note_landed`].
    pub(crate) fn release(&mut self, segment: &Segment) -> Vec<(u64, u64)> {
        self.unpin(segment, |pin| pin.waiting = pin.waiting.saturating_sub(1))
    }

    /// What is free now of what was passed over: groups, and the lowest version of each.
    fn unpin(&mut self, segment: &Segment, less: impl Fn(&mut Pin)) -> Vec<(u64, u64)> {
        let mut free = Vec::new();
        for group in groups_of(segment) {
            let Some(pin) = self.pins.get_mut(&group) else { continue };
            let waited = pin.waiting > 0;
            less(pin);
            if pin.waiting > 0 {
                continue;
            }
            if pin.in_flight > 0 {
                // Its consumer goes on with it.
                let passed = pin.passed.iter().filter(|_| waited);
                free.extend(passed.map(|(_, version)| (group, *version)));
                continue;
            }
            let passed = self.pins.remove(&group).map(|pin| pin.passed).unwrap_or_default();
            free.extend(passed.iter().map(|(_, version)| (group, *version)));
        }
        free
    }

    /// Who has to look at a message of a group.
    pub(crate) fn reader_of(&mut self, group: u64, version: u64) -> Option<Key> {
        match self.pins.get_mut(&group) {
            Some(pin) => {
                pin.pass(version);
                (pin.waiting == 0).then_some(pin.consumer)
            }
            None => self.owner_of(group),
        }
    }

    /// Who has a group, or whose it is.
    pub(crate) fn holder_of(&self, group: u64) -> Option<Key> {
        self.pins.get(&group).map(|pin| pin.consumer).or_else(|| self.owner_of(group))
    }

    /// Whose a group is that nobody has.
    pub(crate) fn owner_of(&self, group: u64) -> Option<Key> {
        if let Some(holder) = self.holder {
            return Some(holder);
        }
        let next = self.ring.range(group..).next().or_else(|| self.ring.first_key_value());
        next.map(|(_, key)| *key)
    }

    /// A member has to look at that version; whether it was idle.
    pub(crate) fn wake(&mut self, key: Key, version: u64) -> bool {
        let Some(member) = self.members.get_mut(&key) else { return false };
        if let Some(cursor) = member.cursors.get_mut(rank_of(version)) {
            *cursor = (*cursor).min(version);
        }
        self.idle.remove(&key)
    }

    /// A member that has nothing to look at, if there is any.
    pub(crate) fn next_idle(&self) -> Option<Key> {
        self.idle.first().copied()
    }

    /// More can be given than before: those that had nothing to look at.
    pub(crate) fn take_idle(&mut self) -> BTreeSet<Key> {
        std::mem::take(&mut self.idle)
    }

    /// Whether some have nothing to look at.
    pub(crate) fn has_idle(&self) -> bool {
        !self.idle.is_empty()
    }

    /// Bytes that its members take.
    pub(crate) fn bytes(&self) -> usize {
        self.members.len() * MEMBER_BYTES
    }

    /// How many groups are remembered.
    pub(crate) fn len(&self) -> usize {
        self.pins.len()
    }
}

impl Pin {
    fn of(consumer: Key) -> Pin {
        Pin { consumer, in_flight: 0, waiting: 0, passed: PerRank::default(), skipped: None }
    }

    fn pass(&mut self, version: u64) {
        if let Some(passed) = self.passed.entry(rank_of(version), || version) {
            *passed = (*passed).min(version);
        }
    }
}

/// The groups of a segment's messages, once for each message that has one.
fn groups_of(segment: &Segment) -> impl Iterator<Item = u64> {
    let messages = match segment.run.any(Flags::GROUPED) {
        true => segment.from..segment.to,
        false => 0..0,
    };
    let group = |index| group_of(&segment.run.message(index as usize)?);
    messages.filter_map(group)
}

/// What a message's group comes to on the ring: groups that come to the same are one.
pub(crate) fn group_of(message: &Message<'_>) -> Option<u64> {
    let group = message.group()?;
    // FNV-1a, and mixed, since the ring wants all bits.
    let hash = group.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    Some(mixed(hash))
}

/// A number whose bits are spread (the finalizer of SplitMix64).
pub(crate) fn mixed(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}
