//! Who gets the next messages: consumers in turn, each up to its window.
//!
//! With several consumers the ready messages are dealt out in equal shares, so that two messages
//! for two idle consumers go one to each, and a large backlog still moves in large pieces. Consumers
//! with selectors and those without take turns. Looking for messages that a selector selects is paid from
//! a budget; when it is used up, the search goes on later where it has stopped.

use tiderace_base::{Key, Slab};
use tiderace_wire::Flags;

use crate::Segment;
use crate::consumer::Consumer;
use crate::effect::Effect;
use crate::queue::Queue;
use crate::ready::Search;

/// What it costs to look whose a message is.
const GROUP_STEPS: u32 = 16;

/// One round of dealing out.
pub(crate) struct Dispatch<'a> {
    pub(crate) key: Key,
    pub(crate) queue: &'a mut Queue,
    pub(crate) consumers: &'a mut Slab<Consumer>,
    /// A consumer that gets nothing now.
    pub(crate) except: Option<Key>,
    /// What selectors may still cost, in steps of about three nanoseconds.
    pub(crate) budget: &'a mut u32,
    /// Counts how often consumers are asked.
    pub(crate) asked: &'a mut u64,
    pub(crate) wall_ms: u64,
    /// Selections that have yet to look at messages in the store alone.
    pub(crate) unseen: &'a mut Vec<u32>,
    pub(crate) effects: &'a mut Vec<Effect>,
}

/// What became of a consumer's turn.
enum Turn {
    /// It has got something.
    Taken,
    /// It has no room, or has gone.
    Parked,
    /// Nothing is selected of what is there, and it has looked at everything.
    Idle(u32),
    /// The budget is used up.
    Stopped,
}

impl Dispatch<'_> {
    /// Deals out what can be dealt out; how many messages were found expired and dropped.
    pub(crate) fn run(mut self) -> usize {
        let mut expired = 0;
        let exclusive = self.queue.lines.exclusive();
        let takers = self.queue.lines.len.saturating_sub(usize::from(self.except.is_some()));
        let share = match exclusive {
            None if takers > 1 && self.queue.lines.ordered.is_none() => {
                self.queue.ready.len().div_ceil(takers) as u32
            }
            _ => u32::MAX,
        };
        loop {
            if self.queue.has_expiring {
                expired += self.queue.expire_front((self.key, self.wall_ms), self.effects);
            }
            if self.queue.ready.is_empty() && self.queue.swapped.is_none() {
                return expired;
            }
            let taken = match exclusive {
                Some(_) if exclusive == self.except => false,
                Some(key) => matches!(self.turn_of(key, share), Turn::Taken),
                None => {
                    let plain = match (&self.queue.groups, &self.queue.lines.ordered) {
                        (Some(_), _) => self.next_of_groups(),
                        (None, None) => self.next_plain(share),
                        (None, Some(_)) => self.next_in_order(),
                    };
                    let is_left = !self.queue.ready.is_empty() || self.queue.swapped.is_some();
                    (is_left && self.next_selective()) || plain
                }
            };
            if !taken {
                return expired;
            }
        }
    }

    /// The next consumer without a selector that has room gets something: whether there was one.
    fn next_plain(&mut self, share: u32) -> bool {
        if self.queue.ready.first().is_none() {
            return false;
        }
        let mut passed_over = None;
        let mut taken = false;
        while !taken && let Some(key) = self.queue.lines.plain.pop_front() {
            if Some(key) == self.except {
                passed_over = Some(key);
                continue;
            }
            taken = matches!(self.turn_of(key, share), Turn::Taken);
            self.stand(key, taken);
        }
        self.queue.lines.plain.extend(passed_over);
        taken
    }

    /// The next consumer without a selector that has room and finds something of its groups gets it: whether there was
    /// one.
    fn next_of_groups(&mut self) -> bool {
        let (mut passed_over, mut taken) = (None, false);
        while let Some(key) = self.queue.lines.plain.pop_front() {
            if Some(key) == self.except {
                passed_over = Some(key);
                continue;
            }
            let turn = self.turn_of(key, u32::MAX);
            taken = matches!(turn, Turn::Taken);
            let stays = matches!(turn, Turn::Taken | Turn::Stopped);
            self.stand(key, stays);
            if stays {
                break;
            }
        }
        self.queue.lines.plain.extend(passed_over);
        taken
    }

    /// The first consumer without a selector that has room, in the order of coming, gets something: whether there was
    /// one.
    fn next_in_order(&mut self) -> bool {
        if self.queue.ready.first().is_none() {
            return false;
        }
        let mut from = 0;
        while let Some((order, key)) = self.queue.lines.in_order(from) {
            from = order + 1;
            if Some(key) == self.except {
                continue;
            }
            if matches!(self.turn_of(key, u32::MAX), Turn::Taken) {
                return true;
            }
            self.queue.lines.leave_order(order);
            let place = self.consumers.get_mut(key).and_then(|it| it.queues.get_mut(&self.key));
            if let Some(place) = place {
                place.listed = false;
            }
        }
        false
    }

    /// The next consumer with a selector that has room and finds something gets it: whether there was
    /// one.
    fn next_selective(&mut self) -> bool {
        let mut passed_over = None;
        let mut taken = false;
        while !taken && let Some(key) = self.pop_selective() {
            if Some(key) == self.except {
                passed_over = Some(key);
                continue;
            }
            let turn = self.turn_of(key, u32::MAX);
            taken = matches!(turn, Turn::Taken);
            let selective = self.queue.lines.selective.as_mut();
            match (turn, selective) {
                (Turn::Taken | Turn::Stopped, Some(selective)) => selective.line.push_back(key),
                (Turn::Idle(id), Some(selective)) => selective.idle(id, key),
                _ => self.stand(key, false),
            }
        }
        if let Some(selective) = &mut self.queue.lines.selective {
            selective.line.extend(passed_over);
        }
        taken
    }

    /// The next one in line, unless looking on would cost more than there is.
    fn pop_selective(&mut self) -> Option<Key> {
        let line = &mut self.queue.lines.selective.as_mut()?.line;
        if *self.budget == 0 {
            self.queue.has_unseen |= !line.is_empty();
            return None;
        }
        line.pop_front()
    }

    /// A consumer that was taken out of the line goes to its end, or is out of it.
    fn stand(&mut self, key: Key, listed: bool) {
        let place = self.consumers.get_mut(key).and_then(|it| it.queues.get_mut(&self.key));
        let Some(place) = place else { return };
        place.listed = listed;
        if listed {
            self.queue.lines.plain.push_back(key);
        }
    }

    fn turn_of(&mut self, key: Key, share: u32) -> Turn {
        *self.asked += 1;
        let Some(consumer) = self.consumers.get_mut(key) else { return Turn::Parked };
        let messages = consumer.room_messages().min(share);
        if messages == 0 {
            consumer.park(self.key);
            return Turn::Parked;
        }
        let selection = consumer.queues.get(&self.key).and_then(|place| place.selection);
        if let Some(selection) = selection {
            return self.select(key, selection);
        }
        if self.queue.groups.is_some() {
            return self.take_of_groups(key);
        }
        let Some(first) = self.queue.ready.first() else { return Turn::Parked };
        if consumer.can_wait(first.bytes()) {
            consumer.park(self.key);
            return Turn::Parked;
        }
        // A message with an expiry date goes alone, so that each is looked at when its turn comes.
        let alone = self.queue.has_expiring && first.run.any(Flags::EXPIRES);
        let messages = if alone { 1 } else { messages };
        let room = consumer.room_bytes();
        match self.queue.ready.take_first(messages, room) {
            Some(segment) => self.give(key, segment),
            None => Turn::Stopped,
        }
    }

    fn give(&mut self, key: Key, segment: Segment) -> Turn {
        let Some(consumer) = self.consumers.get_mut(key) else { return Turn::Parked };
        self.effects.push(Effect::Deliver {
            session: consumer.session,
            key: consumer.key,
            segment: segment.clone(),
        });
        self.queue.in_flight += segment.len() as usize;
        if let Some(groups) = &mut self.queue.groups {
            groups.note_given(key, &segment);
        }
        consumer.take_off(self.key, segment);
        Turn::Taken
    }

    /// A consumer without a selector has room in a queue with groups: it gets the next message that it may have.
    fn take_of_groups(&mut self, key: Key) -> Turn {
        let wall_ms = self.wall_ms;
        let budget = &mut *self.budget;
        let Queue { ready, groups: Some(groups), .. } = &mut *self.queue else {
            return Turn::Parked;
        };
        // Those that are in the store alone come before what lies behind them.
        let search = ready.by_rank(ready.barrier(), |rank, before| {
            let range = (groups.begin_look(key, rank), before);
            let search = ready.search(range, budget, |message, version| {
                let price = GROUP_STEPS + message.properties.len() as u32 / 16;
                (!message.is_expired(wall_ms) && groups.may_have(key, message, version), price)
            });
            groups.end_look(key, rank, search.version());
            search
        });
        match search {
            Search::Found(version) => {
                if let Some(segment) = self.queue.ready.take_one(version) {
                    return self.give(key, segment);
                }
            }
            Search::Seen(_) => {}
            Search::Stopped(_) => {
                self.queue.has_unseen = true;
                return Turn::Stopped;
            }
        }
        if let Some(groups) = &mut self.queue.groups {
            groups.rest(key);
        }
        Turn::Parked
    }

    /// A consumer with a selector has room: it gets the next message that is selected.
    fn select(&mut self, key: Key, id: u32) -> Turn {
        // Behind it are messages that have to be read from the store first.
        let unseen = self.queue.unseen_by(id);
        let (wall_ms, budget) = (self.wall_ms, &mut *self.budget);
        let Queue { ready, groups, lines, .. } = &mut *self.queue;
        let Some(selective) = lines.selective.as_mut() else { return Turn::Parked };
        let search = ready.by_rank(unseen, |rank, before| {
            let Some((cursor, choice)) = selective.begin_look(id, rank) else {
                return Search::Seen(before);
            };
            let search = ready.search((cursor, before), budget, |message, version| {
                let (selected, price) = choice.look(message);
                let is_wanted = selected
                    && !message.is_expired(wall_ms)
                    && groups.as_mut().is_none_or(|groups| groups.may_have(key, message, version));
                (is_wanted, price)
            });
            selective.end_look(id, rank, search.version());
            search
        });
        match search {
            Search::Found(version) => match self.queue.ready.take_one(version) {
                Some(segment) => self.give(key, segment),
                None => Turn::Idle(id),
            },
            Search::Seen(_) => {
                if unseen < u64::MAX {
                    self.unseen.push(id);
                }
                Turn::Idle(id)
            }
            Search::Stopped(_) => {
                self.queue.has_unseen = true;
                Turn::Stopped
            }
        }
    }
}
