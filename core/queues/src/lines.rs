//! Who stands in line for a queue's messages: consumers that may have room, and no others.
//!
//! A consumer that is found without room leaves its line and comes back when it has room; one with a
//! selector, or that begins at some version, leaves it until there is something new when it has looked at
//! everything. Those that choose alike share what they have looked at. So a message finds its consumer without asking all of those
//! that cannot have it. Invariant: a consumer is at most once in the lines and idle lists of a queue; who
//! has gone is left there until its turn, but never more of these than of others.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use hashbrown::HashMap;
use tiderace_base::{Key, Slab};
use tiderace_filter::Selector;
use tiderace_wire::{Message, rank_of, version_of};

use crate::DispatchPolicy;
use crate::consumer::{Consumer, Place};
use crate::ranks::PerRank;

/// Gone consumers that a list may hold besides as many as there are others.
const GONE_MAX: usize = 16;
/// Numbers of returned messages that are told apart.
const RETURNED_MAX: usize = 64;

/// The consumers of one queue.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    /// How many there are.
    pub(crate) len: usize,
    /// All of them, in the order of coming.
    members: BTreeMap<u64, Key>,
    /// Those without a selector that may have room.
    pub(crate) plain: VecDeque<Key>,
    /// The same by the order of coming, instead, where the first of them gets all that it has room for.
    pub(crate) ordered: Option<BTreeMap<u64, Key>>,
    /// Those that want the queue for themselves, in the order of coming.
    exclusive: BTreeMap<u64, Key>,
    /// Present while some have selectors.
    pub(crate) selective: Option<Box<Selective>>,
    orders: u64,
    /// The number of the next selection. It does not begin anew, for the store may still be asked for an earlier one.
    next_selection: u32,
}

/// Consumers that do not take whatever comes next.
#[derive(Debug, Default)]
pub(crate) struct Selective {
    /// Those that may have room and something to look at.
    pub(crate) line: VecDeque<Key>,
    pub(crate) selections: BTreeMap<u32, Selection>,
    /// Selections with idle members.
    idle: BTreeSet<u32>,
    ranks: PerRank<LookedAt>,
    by_choice: HashMap<Choice, u32, foldhash::fast::RandomState>,
}

/// What selections have looked at of one rank.
#[derive(Debug, Default)]
struct LookedAt {
    /// None has looked further than this.
    highest: u64,
    returned: Returned,
    /// Messages that are in the store alone again, as far as selections have looked at them there.
    left_again: Returned,
}

/// What a consumer takes of what is ready, if not whatever comes next.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Choice {
    pub(crate) selector: Option<Selector>,
    /// Nothing of a lower number.
    pub(crate) start: u64,
}

impl Choice {
    /// Whether a message is taken whose number is not too low, and what it costs to say so.
    pub(crate) fn look(&self, message: &Message<'_>) -> (bool, u32) {
        self.selector.as_ref().map_or((true, 1), |selector| selector.look(message))
    }
}

/// What consumers with the same choice have looked at.
#[derive(Debug)]
pub(crate) struct Selection {
    pub(crate) choice: Choice,
    ranks: PerRank<Cursor>,
    members: usize,
    /// Members for which nothing is left to look at.
    idle: Vec<Key>,
}

/// How far a selection has come in one rank.
#[derive(Clone, Copy, Debug)]
struct Cursor {
    /// Everything ready before this version has been looked at and is not selected, but for what has
    /// come back since.
    ready: u64,
    /// How many messages had come back when it looked last.
    returns: u64,
    /// The same of those in the store alone.
    stored: u64,
    /// How often messages had been left to the store again when it looked there last.
    leaves: u64,
}

impl Cursor {
    /// At the first version of a rank whose number is not too low.
    fn new(rank: u64, start: u64) -> Cursor {
        let first = version_of(rank, start);
        Cursor { ready: first, returns: 0, stored: first, leaves: 0 }
    }
}

/// The versions of messages that have come back, as far as selections have looked further: each selection
/// asks for the lowest when it looks again, so that a message that comes back costs the same however many
/// selections there are.
#[derive(Debug, Default)]
struct Returned {
    /// How many have come back.
    count: u64,
    /// The count at each and its number, both rising: of those in between, none had a lower number than
    /// the next.
    lowest: VecDeque<(u64, u64)>,
}

impl Returned {
    fn note(&mut self, first: u64) {
        self.count += 1;
        while self.lowest.back().is_some_and(|(_, known)| *known >= first) {
            self.lowest.pop_back();
        }
        self.lowest.push_back((self.count, first));
        // Two of the oldest become one; it is looked at more again than need be.
        if self.lowest.len() > RETURNED_MAX
            && let Some((_, first)) = self.lowest.pop_front()
            && let Some(next) = self.lowest.front_mut()
        {
            next.1 = first;
        }
    }

    /// The lowest number that has come back behind so many.
    fn lowest_after(&self, count: u64) -> Option<u64> {
        let at = self.lowest.partition_point(|(known, _)| *known <= count);
        self.lowest.get(at).map(|(_, first)| *first)
    }
}

impl Lines {
    pub(crate) fn new(policy: DispatchPolicy) -> Lines {
        let ordered = (policy == DispatchPolicy::First).then(BTreeMap::new);
        Lines { ordered, ..Lines::default() }
    }

    /// The queue has groups from now on, which decide who gets what: all consumers, with their places in the order.
    pub(crate) fn begin_groups(&mut self) -> &BTreeMap<u64, Key> {
        if let Some(ordered) = self.ordered.take() {
            self.plain.extend(ordered.into_values());
        }
        &self.members
    }

    /// Whether some without a selector may have room.
    pub(crate) fn has_plain(&self) -> bool {
        !self.plain.is_empty() || self.ordered.as_ref().is_some_and(|ordered| !ordered.is_empty())
    }

    /// The first of those in order from a place on, and its place.
    pub(crate) fn in_order(&self, from: u64) -> Option<(u64, Key)> {
        self.ordered.as_ref()?.range(from..).next().map(|(order, key)| (*order, *key))
    }

    /// One of them has no room, or has gone.
    pub(crate) fn leave_order(&mut self, order: u64) {
        if let Some(ordered) = &mut self.ordered {
            ordered.remove(&order);
        }
    }

    /// The first of those without a selector that may have room.
    pub(crate) fn first_plain(&self) -> Option<Key> {
        self.in_order(0).map(|(_, key)| key).or_else(|| self.plain.front().copied())
    }

    /// It has none.
    pub(crate) fn leave_first_plain(&mut self) {
        match &mut self.ordered {
            Some(ordered) => _ = ordered.pop_first(),
            None => _ = self.plain.pop_front(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The consumer that has the queue for itself.
    pub(crate) fn exclusive(&self) -> Option<Key> {
        self.exclusive.first_key_value().map(|(_, key)| *key)
    }

    /// A consumer comes; how it stands here.
    pub(crate) fn attach(&mut self, key: Key, consumer: &Consumer) -> Place {
        self.len += 1;
        self.orders += 1;
        self.members.insert(self.orders, key);
        if consumer.exclusive {
            self.exclusive.insert(self.orders, key);
        }
        let selection = (!consumer.is_plain()).then(|| {
            let choice = Choice { selector: consumer.selector.clone(), start: consumer.start };
            let selective = self.selective.get_or_insert_default();
            let next = self.next_selection;
            let id = *selective.by_choice.entry(choice.clone()).or_insert(next);
            if id == next {
                self.next_selection = next.wrapping_add(1);
            }
            let ranks = PerRank::default();
            let empty = || Selection { choice, ranks, members: 0, idle: Vec::new() };
            selective.selections.entry(id).or_insert_with(empty).members += 1;
            id
        });
        let mut place = Place { order: self.orders, listed: false, parked: false, selection };
        self.list(key, &mut place);
        place
    }

    /// A consumer goes.
    pub(crate) fn detach(&mut self, place: Place, consumers: &Slab<Consumer>) {
        self.len -= 1;
        self.exclusive.remove(&place.order);
        self.members.remove(&place.order);
        self.leave_order(place.order);
        sweep(&mut self.plain, self.len, consumers);
        let (Some(selective), Some(id)) = (&mut self.selective, place.selection) else { return };
        sweep(&mut selective.line, self.len, consumers);
        let Some(selection) = selective.selections.get_mut(&id) else { return };
        selection.members -= 1;
        if selection.idle.len() > 2 * selection.members + GONE_MAX {
            selection.idle.retain(|key| consumers.get(*key).is_some());
        }
        if selection.members == 0
            && let Some(selection) = selective.selections.remove(&id)
        {
            selective.by_choice.remove(&selection.choice);
        }
        if selective.selections.is_empty() {
            self.selective = None;
        }
    }

    /// A consumer may have room: it stands at the end of its line.
    pub(crate) fn list(&mut self, key: Key, place: &mut Place) {
        if std::mem::replace(&mut place.listed, true) {
            return;
        }
        match (&mut self.selective, place.selection, &mut self.ordered) {
            (Some(selective), Some(_), _) => selective.line.push_back(key),
            (_, _, Some(ordered)) => _ = ordered.insert(place.order, key),
            _ => self.plain.push_back(key),
        }
    }

    /// There is a message with that version: consumers with a selector may have something to look at. How many
    /// selections that concerns at once: those with members that wait for a message, and not for room.
    pub(crate) fn note_ready(&mut self, first: u64) -> usize {
        let Some(selective) = &mut self.selective else { return 0 };
        if let Some(rank) = selective.ranks.get_mut(rank_of(first))
            && first < rank.highest
        {
            rank.returned.note(first);
        }
        let idle = std::mem::take(&mut selective.idle);
        for id in &idle {
            let Some(selection) = selective.selections.get_mut(id) else { continue };
            selective.line.extend(selection.idle.drain(..));
        }
        idle.len()
    }

    /// What a selection selects, if it has members.
    pub(crate) fn choice(&self, id: u32) -> Option<&Choice> {
        Some(&self.selective.as_ref()?.selections.get(&id)?.choice)
    }

    /// Up to which version of a rank a selection has looked at messages that are in the store alone, if it has members.
    pub(crate) fn looked(&self, id: u32, rank: u64) -> Option<u64> {
        let selective = self.selective.as_ref()?;
        let selection = selective.selections.get(&id)?;
        let start = version_of(rank, selection.choice.start);
        let Some(cursor) = selection.ranks.get(rank) else { return Some(start) };
        let left_again = selective.ranks.get(rank).map(|it| &it.left_again);
        let again = left_again.and_then(|it| it.lowest_after(cursor.leaves)).unwrap_or(u64::MAX);
        Some(cursor.stored.min(again).max(start))
    }

    /// A selection has looked at those of a rank up to that version.
    pub(crate) fn note_looked(&mut self, id: u32, version: u64) {
        let Some(selective) = &mut self.selective else { return };
        let rank = rank_of(version);
        let leaves = selective.ranks.get(rank).map_or(0, |it| it.left_again.count);
        if let Some(selection) = selective.selections.get_mut(&id)
            && let Some(cursor) = selection.cursor(rank)
        {
            (cursor.stored, cursor.leaves) = (version.saturating_add(1), leaves);
        }
        self.wake(id);
    }

    /// Messages of a rank from that version on are in the store alone again.
    pub(crate) fn look_again(&mut self, version: u64) {
        if let Some(selective) = &mut self.selective
            && let Some(rank) = selective.ranks.entry(rank_of(version), LookedAt::default)
        {
            rank.left_again.note(version);
        }
    }

    /// Members of a selection may have something to look at.
    pub(crate) fn wake(&mut self, id: u32) {
        let Some(selective) = &mut self.selective else { return };
        if selective.idle.remove(&id)
            && let Some(selection) = selective.selections.get_mut(&id)
        {
            selective.line.extend(selection.idle.drain(..));
        }
    }
}

impl Selective {
    /// A selection is about to look at a rank: up to which version it has looked already, and for what.
    pub(crate) fn begin_look(&mut self, id: u32, rank: u64) -> Option<(u64, &Choice)> {
        let Selective { selections, ranks, .. } = self;
        let selection = selections.get_mut(&id)?;
        let start = version_of(rank, selection.choice.start);
        let cursor = selection.cursor(rank)?;
        if let Some(known) = ranks.get(rank) {
            let lowest = known.returned.lowest_after(cursor.returns);
            let lowest = lowest.map_or(cursor.ready, |lowest| lowest.min(cursor.ready));
            (cursor.ready, cursor.returns) = (lowest.max(start), known.returned.count);
        }
        let ready = cursor.ready;
        Some((ready, &selection.choice))
    }

    /// A selection has looked at a rank up to that version.
    pub(crate) fn end_look(&mut self, id: u32, rank: u64, cursor: u64) {
        if let Some(known) = self.ranks.entry(rank, LookedAt::default) {
            known.highest = known.highest.max(cursor);
        }
        if let Some(known) = self.selections.get_mut(&id).and_then(|it| it.cursor(rank)) {
            known.ready = cursor;
        }
    }

    /// A member of a selection has nothing left to look at.
    pub(crate) fn idle(&mut self, id: u32, key: Key) {
        let Some(selection) = self.selections.get_mut(&id) else { return };
        selection.idle.push(key);
        self.idle.insert(id);
    }
}

impl Selection {
    fn cursor(&mut self, rank: u64) -> Option<&mut Cursor> {
        let start = self.choice.start;
        self.ranks.entry(rank, || Cursor::new(rank, start))
    }
}

/// Takes out who has gone if they are more than the others.
fn sweep(line: &mut VecDeque<Key>, members: usize, consumers: &Slab<Consumer>) {
    if line.len() > 2 * members + GONE_MAX {
        line.retain(|key| consumers.get(*key).is_some());
    }
}
