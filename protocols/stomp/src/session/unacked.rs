//! Delivered messages of one subscription that wait for their acknowledgement.
//!
//! Relies on tags rising within the session. Invariant: each message is decided once, by the client or by the
//! transaction that holds it; finding it takes a binary search, deciding it constant time on average.

use std::collections::VecDeque;

use tiderace_base::ShardId;

/// Stretches of one shard's message numbers.
pub(super) type Ranges = Vec<(ShardId, Vec<(u64, u64)>)>;

/// Delivered messages that wait for their acknowledgement, oldest first.
#[derive(Debug, Default)]
pub(super) struct Unacked {
    entries: VecDeque<Waiting>,
    /// Entries that are settled but still in the list.
    settled: usize,
    /// No entry up to this tag can be acknowledged any more.
    floor: u64,
}

/// One delivered message.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    tag: u64,
    sequence: u64,
    home: u16,
    hold: Hold,
}

/// Who decides about a delivered message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hold {
    /// The client has not yet said.
    Free,
    /// An action of an open transaction.
    Action(u32),
    /// It is decided.
    Settled,
}

impl Unacked {
    /// Takes in a message that the client has been sent; tags rise.
    #[inline]
    pub(super) fn push(&mut self, tag: u64, home: u16, sequence: u64) {
        self.entries.push_back(Waiting { tag, sequence, home, hold: Hold::Free });
    }

    /// Where the message of that tag stands, if it is undecided.
    pub(super) fn free_entry(&self, tag: u64) -> Option<usize> {
        let at = self.entries.binary_search_by_key(&tag, |entry| entry.tag).ok()?;
        (self.entries.get(at)?.hold == Hold::Free).then_some(at)
    }

    /// Settles the message, and with `cumulative` all undecided ones before it.
    pub(super) fn decide(&mut self, at: usize, cumulative: bool) -> Ranges {
        let mut list = self.take(at, cumulative, Hold::Settled);
        self.tidy();
        list.reverse();
        grouped(list)
    }

    /// Marks the message, and with `cumulative` all undecided ones before it; gives their places
    /// in the world, latest first.
    fn take(&mut self, at: usize, cumulative: bool, hold: Hold) -> Vec<(u16, u64)> {
        let mut taken = Vec::new();
        let start = if cumulative { 0 } else { at };
        let mut highest = 0;
        for entry in self.entries.range_mut(start..=at).rev() {
            // Everything up to the floor has been decided before.
            if cumulative && entry.tag <= self.floor {
                break;
            }
            highest = highest.max(entry.tag);
            if entry.hold == Hold::Free {
                entry.hold = hold;
                taken.push((entry.home, entry.sequence));
            }
        }
        if cumulative {
            self.floor = self.floor.max(highest);
        }
        if hold == Hold::Settled {
            self.settled += taken.len();
        }
        taken
    }

    /// Marks the message, and with `cumulative` all undecided ones before it, as an action's; gives the first
    /// and the last tag that it may have marked.
    pub(super) fn hold(&mut self, at: usize, cumulative: bool, hold: Hold) -> Option<(u64, u64)> {
        let to = self.entries.get(at)?.tag;
        let from = if cumulative { self.floor + 1 } else { to };
        self.take(at, cumulative, hold);
        Some((from, to))
    }

    /// Settles what an action holds between two tags.
    pub(super) fn settle_held(&mut self, tags: (u64, u64), held: Hold) -> Ranges {
        let list = self.mark_held(tags, held, Hold::Settled);
        self.settled += list.len();
        self.tidy();
        grouped(list)
    }

    /// Lets the client decide again about what an action holds between two tags.
    pub(super) fn release_held(&mut self, tags: (u64, u64), held: Hold) {
        self.mark_held(tags, held, Hold::Free);
        self.floor = self.floor.min(tags.0 - 1);
    }

    fn mark_held(&mut self, (from, to): (u64, u64), held: Hold, hold: Hold) -> Vec<(u16, u64)> {
        let first = self.entries.partition_point(|entry| entry.tag < from);
        let mut list = Vec::new();
        for entry in self.entries.range_mut(first..) {
            if entry.tag > to {
                break;
            }
            if entry.hold == held {
                entry.hold = hold;
                list.push((entry.home, entry.sequence));
            }
        }
        list
    }

    /// Forgets settled entries at the front, and all of them when they are the most.
    fn tidy(&mut self) {
        while self.entries.front().is_some_and(|entry| entry.hold == Hold::Settled) {
            self.entries.pop_front();
            self.settled -= 1;
        }
        if self.settled > 64 && self.settled * 2 > self.entries.len() {
            self.entries.retain(|entry| entry.hold != Hold::Settled);
            self.settled = 0;
        }
        if self.entries.is_empty() && self.entries.capacity() > 64 {
            self.entries = VecDeque::new();
        }
    }
}

/// Groups numbers by shard, in order, consecutive ones as one stretch.
fn grouped(list: Vec<(u16, u64)>) -> Ranges {
    let mut groups: Ranges = Vec::new();
    for (home, sequence) in list {
        let home = ShardId(home);
        let at = groups.iter().position(|(known, _)| *known == home).unwrap_or_else(|| {
            groups.push((home, Vec::new()));
            groups.len() - 1
        });
        if let Some((_, ranges)) = groups.get_mut(at) {
            join(ranges, (sequence, sequence));
        }
    }
    groups
}

/// Appends a stretch, to the last one if it goes on there.
pub(super) fn join(ranges: &mut Vec<(u64, u64)>, (from, to): (u64, u64)) {
    match ranges.last_mut() {
        Some((_, end)) if *end + 1 == from => *end = to,
        _ => ranges.push((from, to)),
    }
}
