//! Messages that are left to the store alone when there are too many in memory, and who wants them back.
//!
//! ```text
//!   put, stored ──swap out──▶ in the store alone ──Effect::Load──▶ the store ──loaded──▶ ready in memory
//!                             (if too much is in memory)              for the next consumer, a selection, an operation
//! ```
//! Relies on `swapped` for which messages these are. One part is asked for at a time for each queue, in turns for those
//! who want one. Invariants: what the store has not confirmed is in memory; who takes the next message gets it in the
//! order of versions; what cannot be read is counted and passed over, and stays in the store.

use std::ops::Bound;

use tiderace_base::{Key, MemoryUse, Now};
use tiderace_wire::{is_temporary, rank_of};

use crate::Segment;
use crate::browsers::Browsers;
use crate::effect::Effect;
use crate::lines::Lines;
use crate::queue::Queue;
use crate::queues::Queues;
use crate::swapped::{Look, Swapped, Want};
use crate::weight::Weight;

/// Bytes of one part for who takes the next messages, at most.
const FRONT_BYTES: usize = 1 << 20;
/// The same for who looks for some.
const LOOK_BYTES: usize = 256 << 10;
/// The same for who browses, while memory is short.
const SHORT_BYTES: usize = 16 << 10;
/// Queues for which the store is asked at once while memory is short.
const SINGLE_LOADS_MAX: usize = 2;
/// Queues in which consumers wait behind groups that are gone on with in one tick.
const HELD_UP_MAX: usize = 16;
/// Queues in which a search for expired messages goes on in one tick.
const EXPIRED_MAX: usize = 16;

impl Queue {
    pub(crate) fn swapped_messages(&self) -> u64 {
        self.swapped.as_ref().map_or(0, |swapped| swapped.messages())
    }

    pub(crate) fn swapped_bytes(&self) -> u64 {
        self.swapped.as_ref().map_or(0, |swapped| swapped.bytes())
    }

    /// Whether the store still gives messages that left the range of those in the store alone.
    #[inline]
    pub(crate) fn has_outside(&self, segment: &Segment) -> bool {
        let (first, last) = (segment.first_version(), segment.last_version());
        self.swapped.as_ref().is_some_and(|swapped| swapped.has_outside(first, last))
    }

    /// The first version of a search, up to a number, that nobody has looked at and that may be in the store alone;
    /// `u64::MAX` if there is none.
    pub(crate) fn unseen_from(&self, seen_below: u64, to: u64) -> u64 {
        let stretch = self.swapped.as_ref().and_then(|it| it.stretch(|_| seen_below, to));
        stretch.map_or(u64::MAX, |(first, _)| first)
    }

    /// The same of what consumers with a selection look for.
    pub(crate) fn unseen_by(&self, selection: u32) -> u64 {
        let looked = |rank| self.lines.looked(selection, rank).unwrap_or(u64::MAX);
        let stretch = self.swapped.as_ref().and_then(|it| it.stretch(looked, u64::MAX));
        stretch.map_or(u64::MAX, |(first, _)| first)
    }

    /// Whether a new message with that version belongs to what is in the store alone.
    fn is_behind_swapped(&self, version: u64) -> bool {
        self.swapped.as_ref().is_some_and(|swapped| swapped.is_behind(version))
    }

    /// Bytes of one part.
    fn part_bytes(&self, most: usize) -> usize {
        most.min(self.bytes_max / 4).max(1)
    }

    /// Whether somebody without a selector may take messages.
    fn has_takers(&self) -> bool {
        self.lines.has_plain() || self.is_held_up()
    }

    /// Whether what is in memory belongs to groups of consumers that have no room, and others wait.
    fn is_held_up(&self) -> bool {
        self.groups.as_ref().is_some_and(|groups| groups.has_idle())
    }

    /// Whether who takes the next messages will soon find none in memory.
    fn is_front_low(&self) -> bool {
        let low = self.part_bytes(FRONT_BYTES) as u64;
        let Some(swapped) = &self.swapped else { return false };
        self.is_held_up() && self.bytes <= self.bytes_max
            || self.ready.first().is_none_or(|first| {
                let left = self.ready.barrier().saturating_sub(first.first_version());
                // Those of other ranks have versions in between that are none of a message.
                let left = left.min(self.ready.len() as u64);
                left.saturating_mul(swapped.bytes_each()) < low
            })
    }
}

impl Queues {
    /// There is a store to which messages can be left.
    pub fn set_store(&mut self) {
        self.has_store = true;
    }

    /// Ready messages that are in the store alone, over all queues, and their bytes.
    pub fn swapped(&self) -> (u64, u64) {
        self.swapped
    }

    /// How often messages were asked of the store, since the start.
    pub fn loads_total(&self) -> u64 {
        self.loads
    }

    /// Messages that the store should have had and could not give, since the start.
    pub fn unreadable_total(&self) -> u64 {
        self.unreadable
    }

    /// Whether new messages of a queue, the first with that version, are left to the store alone: also if they would be
    /// too much with what is there, for what is in memory and not in the store stays until it is consumed.
    pub fn leaves_new(&self, key: Key, version: u64, bytes: usize) -> bool {
        let Some(queue) = self.queues.get(key).filter(|_| self.has_store) else { return false };
        if is_temporary(&queue.path) {
            return false;
        }
        // Somebody may take them at once.
        let is_taken = queue.ready.is_empty() && queue.has_takers();
        queue.is_behind_swapped(version)
            || !is_taken && (queue.bytes + bytes > queue.bytes_max || self.has_too_much(queue))
    }

    /// The stream that has messages of a queue, if they are stored, and whether the queue waits for the store to say that
    /// they are gone, by [`Queues::settled`].
    pub fn stream_with(&self, key: Key, segment: &Segment) -> Option<(u64, bool)> {
        let queue = self.queues.get(key)?;
        Some((queue.stream_with(segment)?, queue.has_outside(segment)))
    }

    /// Whether the store still gives a message that left the range of those in the store alone.
    pub fn has_outside(&self, key: Key, version: u64) -> bool {
        let swapped = self.queues.get(key).and_then(|queue| queue.swapped.as_ref());
        swapped.is_some_and(|it| it.has_outside(version, version))
    }

    /// The stream of messages that are not persistent, if the queue has one.
    pub fn volatile_of(&self, key: Key) -> Option<u64> {
        self.queues.get(key)?.volatile
    }

    /// Messages that are not persistent are left to the store in that stream.
    pub fn set_volatile(&mut self, key: Key, stream: u64) {
        if let Some(queue) = self.queues.get_mut(key) {
            queue.volatile = Some(stream);
        }
    }

    /// Takes back which messages of a restored queue the store has: the versions of first and last of each stretch, rising,
    /// and bytes.
    pub fn restore_swapped(
        &mut self,
        now: Now,
        key: Key,
        stored: impl Iterator<Item = (u64, u64, u64)>,
    ) {
        let mut stored = stored.peekable();
        let Some(queue) = self.queues.get_mut(key).filter(|_| stored.peek().is_some()) else {
            return;
        };
        let swapped = queue.swapped.get_or_insert_with(|| Box::new(Swapped::new(now.time)));
        for (first, last, bytes) in stored {
            swapped.restore((first, last), bytes);
        }
        self.note_swapped(key, (0, 0));
    }

    /// The store has messages that were put: the versions between two, both included. If there are too many in memory,
    /// those that nobody has been given are left to it.
    pub fn stored(&mut self, key: Key, range: (u64, u64), effects: &mut Vec<Effect>) {
        let Some(queue) = self.queues.get(key) else { return };
        if queue.is_behind_swapped(range.0) || self.has_too_much(queue) {
            self.swap_out(key, range, effects);
        }
    }

    /// The store has said that messages which were outside the range are gone.
    pub fn settled(&mut self, key: Key, (first, last): (u64, u64)) {
        if let Some(swapped) = self.queues.get_mut(key).and_then(|it| it.swapped.as_mut()) {
            swapped.settled(first, last);
        }
    }

    /// An operation wants messages that are in the store alone in memory; the answer is [`Effect::Looked`]. They are kept
    /// there until [`Queues::end_look`].
    pub fn look(&mut self, key: Key, look: Look, effects: &mut Vec<Effect>) {
        let number = look.number;
        match self.queues.get_mut(key).and_then(|queue| queue.swapped.as_mut()) {
            Some(swapped) => {
                swapped.want(Want::Look(Box::new(look)));
                self.load_next(key, effects);
            }
            None => effects.push(Effect::Looked { number, through: u64::MAX }),
        }
    }

    /// An operation has done with what [`Queues::look`] has brought into memory for it.
    pub fn end_look(&mut self, key: Key, effects: &mut Vec<Effect>) {
        let Some(swapped) = self.swapped_of(key) else { return };
        swapped.end_look();
        self.load_next(key, effects);
    }

    /// From which version on a search has to ask for messages that are in the store alone, if it has looked at those
    /// below `seen_below` already and ends with `to`.
    pub fn unseen_from(&self, key: Key, seen_below: u64, to: u64) -> Option<u64> {
        let unseen = self.queues.get(key)?.unseen_from(seen_below, to);
        Some(unseen).filter(|version| *version < u64::MAX)
    }

    /// Everything that is in the store alone is gone; how many messages that were.
    pub fn purge_swapped(&mut self, now: Now, key: Key, effects: &mut Vec<Effect>) -> u64 {
        let Some(queue) = self.queues.get_mut(key) else { return 0 };
        let before = (queue.swapped_messages(), queue.swapped_bytes());
        let Some(swapped) = queue.swapped.as_mut().filter(|it| it.messages() > 0) else { return 0 };
        let ranges = swapped.clear();
        queue.used = now.time;
        let streams = queue.stream.into_iter().chain(queue.volatile).collect();
        effects.push(Effect::Purged { streams, ranges });
        self.note_swapped(key, before);
        self.begin_turn(now);
        self.dispatch(key, effects);
        // Selections that waited for it look at what is behind it.
        self.load_next(key, effects);
        before.0
    }

    /// Somebody who takes whatever comes next may find nothing in memory soon, and selections have not looked at some.
    #[cold]
    pub(crate) fn prefetch(&mut self, key: Key, unseen: Vec<u32>, effects: &mut Vec<Effect>) {
        let is_front_low = self.queues.get(key).is_some_and(Queue::is_front_low);
        let is_front_wanted = is_front_low && self.has_taker(key);
        let Some(queue) = self.queues.get_mut(key) else { return };
        let Some(swapped) = queue.swapped.as_mut().filter(|it| it.messages() > 0) else { return };
        if is_front_wanted {
            swapped.want(Want::Front);
        }
        for id in unseen {
            swapped.want(Want::Selection(id));
        }
        self.load_next(key, effects);
    }

    /// Begins to look for expired messages among those in the store alone.
    pub(crate) fn expire_swapped(&mut self, now: Now, effects: &mut Vec<Effect>) {
        for _ in 0..EXPIRED_MAX {
            let Some((at, key)) = self.expiring_swapped.first().copied() else { return };
            if at > now.wall_ms {
                return;
            }
            self.expiring_swapped.pop_first();
            let swapped = self.queues.get_mut(key).and_then(|queue| queue.swapped.as_mut());
            if let Some(swapped) = swapped {
                swapped.expires_ms = None;
                swapped.want(Want::Expired);
                self.load_next(key, effects);
            }
        }
    }

    /// A queue has gone: nobody waits for its messages any more.
    pub(crate) fn end_swapped(&mut self, key: Key, queue: &mut Queue, effects: &mut Vec<Effect>) {
        let Some(swapped) = queue.swapped.take() else { return };
        self.end_asked(swapped.asked_bytes());
        self.waiting_short.remove(&key);
        self.held_up.remove(&key);
        self.swapped.0 -= swapped.messages().min(self.swapped.0);
        self.swapped.1 -= swapped.bytes().min(self.swapped.1);
        if let Some(expires) = swapped.expires_ms {
            self.expiring_swapped.remove(&(expires, key));
        }
        for want in swapped.into_wants() {
            if let Want::Look(look) = want {
                effects.push(Effect::Looked { number: look.number, through: u64::MAX });
            }
        }
    }

    /// Asks the store again for what it could not read.
    pub(crate) fn resume_loads(&mut self, effects: &mut Vec<Effect>) {
        self.resume_short(effects);
        self.resume_held_up(effects);
        for key in std::mem::take(&mut self.stalled) {
            if let Some(swapped) = self.swapped_of(key) {
                swapped.resume();
                self.load_next(key, effects);
            }
        }
    }

    /// Whether a queue has more in memory than it should, or all queues together have.
    fn has_too_much(&self, queue: &Queue) -> bool {
        queue.bytes > queue.bytes_max
            || self.memory.is_full()
            || self.memory.used_for(MemoryUse::Queues) > self.memory.max() / 2
    }

    /// The store has answered, or nobody waits for it.
    pub(crate) fn end_asked(&mut self, bytes: usize) {
        self.loading_bytes = self.loading_bytes.saturating_sub(bytes);
        self.single_loads = self.single_loads.saturating_sub(usize::from(bytes == 1));
    }

    /// Goes on with queues whose consumers have room, and that have waited because memory was short.
    pub(crate) fn resume_short(&mut self, effects: &mut Vec<Effect>) {
        for _ in 0..self.waiting_short.len() {
            if self.is_short() && self.single_loads >= SINGLE_LOADS_MAX {
                return;
            }
            let behind = (Bound::Excluded(self.resumed_short), Bound::Unbounded);
            let next = self.waiting_short.range(behind).next().or(self.waiting_short.first());
            let Some(key) = next.copied() else { return };
            self.resumed_short = key;
            self.waiting_short.remove(&key);
            self.prefetch(key, Vec::new(), effects);
        }
    }

    /// Goes on with queues in which some consumers wait behind the groups of others, when memory is short no more.
    fn resume_held_up(&mut self, effects: &mut Vec<Effect>) {
        for _ in 0..self.held_up.len().min(HELD_UP_MAX) {
            if self.is_short() {
                return;
            }
            let Some(key) = self.held_up.pop_first() else { return };
            self.prefetch(key, Vec::new(), effects);
        }
    }

    /// Whether so much is in memory, or will be when the store has answered, that no more is read ahead.
    pub(crate) fn is_short(&self) -> bool {
        let used = self.memory.used_for(MemoryUse::Queues).saturating_add(self.loading_bytes);
        self.memory.is_full() || used > self.memory.max() / 2
    }

    /// Whether a consumer that takes whatever comes next has room. Who has none waits until it has.
    pub(crate) fn has_taker(&mut self, key: Key) -> bool {
        let Some(queue) = self.queues.get_mut(key) else { return false };
        if queue.groups.as_ref().is_some_and(|groups| groups.has_idle()) {
            return true;
        }
        if let Some(holder) = queue.lines.exclusive() {
            let holder = self.consumers.get(holder);
            return holder.is_some_and(|it| it.is_plain() && it.room_messages() > 0);
        }
        while let Some(first) = queue.lines.first_plain() {
            if let Some(consumer) = self.consumers.get_mut(first) {
                if consumer.room_messages() > 0 {
                    return true;
                }
                consumer.park(key);
                if let Some(place) = consumer.queues.get_mut(&key) {
                    place.listed = false;
                }
            }
            queue.lines.leave_first_plain();
        }
        false
    }

    #[cold]
    fn swap_out(&mut self, key: Key, range: (u64, u64), effects: &mut Vec<Effect>) {
        let Some(queue) = self.queues.get_mut(key) else { return };
        let before = (queue.swapped_messages(), queue.swapped_bytes());
        let (mut left, mut weight, mut count) = (Vec::new(), Weight::default(), 0);
        for segment in queue.ready.take_range(range.0, range.1) {
            // How often it was delivered stands in memory alone.
            if segment.redeliveries > 0 || segment.failures > 0 {
                queue.ready.put(segment);
                continue;
            }
            weight = weight + segment.weight();
            count += segment.len() as usize;
            left.push(segment);
        }
        if left.is_empty() && before.0 == 0 {
            return;
        }
        queue.lose(weight);
        let since = queue.used;
        let swapped = queue.swapped.get_or_insert_with(|| Box::new(Swapped::new(since)));
        let expired_before = swapped.expires_ms;
        swapped.extend(range, &left);
        let expires = (expired_before, swapped.expires_ms);
        self.note_expiring_swapped(key, expires);
        self.ready = self.ready.saturating_sub(count);
        self.forget_bytes(weight);
        self.note_swapped(key, before);
        self.review(key, effects);
        self.prefetch(key, Vec::new(), effects);
    }

    /// Counts what the range has now, and not what it had.
    pub(crate) fn note_swapped(&mut self, key: Key, (messages, bytes): (u64, u64)) {
        let Some(queue) = self.queues.get_mut(key) else { return };
        self.swapped.0 = (self.swapped.0 + queue.swapped_messages()).saturating_sub(messages);
        self.swapped.1 = (self.swapped.1 + queue.swapped_bytes()).saturating_sub(bytes);
        queue.count_swapped();
        let Some(swapped) = &queue.swapped else { return };
        let barrier = swapped.barrier();
        let moves = queue.groups.is_some() && barrier > queue.ready.barrier();
        queue.ready.set_barrier(barrier);
        if swapped.is_over() {
            if let Some(expires) = swapped.expires_ms {
                self.expiring_swapped.remove(&(expires, key));
            }
            queue.swapped = None;
        }
        if moves {
            self.wake_idle(key);
        }
    }

    pub(crate) fn note_expiring_swapped(
        &mut self,
        key: Key,
        (before, after): (Option<u64>, Option<u64>),
    ) {
        if before == after {
            return;
        }
        if let Some(before) = before {
            self.expiring_swapped.remove(&(before, key));
        }
        if let Some(after) = after {
            self.expiring_swapped.insert((after, key));
        }
    }

    /// Asks the store for the next part, if somebody wants one and none is under way.
    pub(crate) fn load_next(&mut self, key: Key, effects: &mut Vec<Effect>) {
        self.leave_again(key);
        let is_short = self.is_short();
        let Some(queue) = self.queues.get_mut(key) else { return };
        let (mut front, look) = (queue.part_bytes(FRONT_BYTES), queue.part_bytes(LOOK_BYTES));
        // Nothing is read ahead then, and only as much as cannot be divided.
        let reads_front = !is_short || queue.ready.first().is_none();
        let is_held_up = queue.is_held_up();
        if is_short {
            front = 1;
        }
        let Some(swapped) = &mut queue.swapped else { return };
        let mut wakes = false;
        let expired_before = swapped.expires_ms;
        while let Some(want) = swapped.next_want() {
            let mut bytes_max = look;
            let stretch = stretch_of(&want, swapped, &queue.lines, &self.browsers);
            let (mut first, last) = stretch.unwrap_or((u64::MAX, 0));
            match &want {
                Want::Front if !reads_front => {
                    // Who has the others may have no room for long.
                    if is_held_up {
                        self.held_up.insert(key);
                    }
                    first = u64::MAX;
                }
                Want::Front if is_short && self.single_loads >= SINGLE_LOADS_MAX => {
                    self.waiting_short.insert(key);
                    first = u64::MAX;
                }
                Want::Front => bytes_max = front,
                Want::Browser(at) => {
                    let most = if is_short { SHORT_BYTES } else { look };
                    let each = swapped.bytes_each();
                    bytes_max = self.browsers.read_bytes(*at, each, most.min(look));
                }
                Want::Selection(_) | Want::Drop | Want::Expired | Want::Look(_) => {}
            }
            if first > last {
                match want {
                    Want::Look(look) => {
                        swapped.begin_look();
                        effects.push(Effect::Looked { number: look.number, through: u64::MAX });
                    }
                    Want::Selection(id) => {
                        queue.lines.wake(id);
                        wakes = true;
                    }
                    Want::Browser(at) => self.browsers.postpone(at),
                    Want::Expired => swapped.end_search(),
                    Want::Front | Want::Drop => {}
                }
                continue;
            }
            swapped.begin_load(want, first, bytes_max);
            self.loading_bytes = self.loading_bytes.saturating_add(bytes_max);
            self.single_loads += usize::from(bytes_max == 1);
            self.loads += 1;
            let streams = queue.stream.into_iter().chain(queue.volatile).collect();
            effects.push(Effect::Load { queue: key, streams, first, last, bytes_max });
            break;
        }
        if wakes && !std::mem::replace(&mut queue.has_unseen, true) {
            self.unseen.push_back(key);
        }
        let expires = (expired_before, swapped.expires_ms);
        let known = (swapped.messages(), swapped.bytes());
        self.note_expiring_swapped(key, expires);
        self.note_swapped(key, known);
    }

    /// If there is too much in memory, what somebody has looked for and nobody has taken is left to the store again.
    fn leave_again(&mut self, key: Key) {
        let Some(queue) = self.queues.get(key) else { return };
        let Some(swapped) = queue.swapped.as_ref().filter(|it| it.may_put_back()) else { return };
        if !self.has_too_much(queue) {
            return;
        }
        let (before, last) = ((swapped.messages(), swapped.bytes()), swapped.last());
        let expired_before = swapped.expires_ms;
        let is_new = |segment: &&Segment| segment.redeliveries == 0 && segment.failures == 0;
        let stands = queue.ready.from(swapped.barrier());
        let stands = stands.take_while(|it| it.first_version() <= last).filter(is_new);
        let stands =
            stands.filter(|segment| segment.run.is_stored() && swapped.is_outside(segment));
        let ranges: Vec<(u64, u64)> =
            stands.map(|segment| (segment.first_version(), segment.last_version())).collect();
        let Some(queue) = self.queues.get_mut(key) else { return };
        let Some(swapped) = &mut queue.swapped else { return };
        swapped.begin_put_back();
        if ranges.is_empty() {
            return;
        }
        // From the first of each rank on.
        for of_rank in ranges.chunk_by(|one, next| rank_of(one.0) == rank_of(next.0)) {
            of_rank.first().into_iter().for_each(|(first, _)| queue.lines.look_again(*first));
        }
        let (mut weight, mut messages) = (Weight::default(), 0);
        for (first, last) in &ranges {
            for segment in queue.ready.take_range(*first, *last) {
                weight = weight + segment.weight();
                messages += segment.len() as usize;
                swapped.put_back(&segment);
            }
        }
        let expires = (expired_before, swapped.expires_ms);
        queue.lose(weight);
        self.ready = self.ready.saturating_sub(messages);
        self.forget_bytes(weight);
        self.note_expiring_swapped(key, expires);
        self.note_swapped(key, before);
    }

    pub(crate) fn swapped_of(&mut self, key: Key) -> Option<&mut Swapped> {
        self.queues.get_mut(key)?.swapped.as_deref_mut()
    }
}

/// Between which versions the next part for somebody lies, all of one rank, if there is any.
fn stretch_of(
    want: &Want,
    swapped: &Swapped,
    lines: &Lines,
    browsers: &Browsers,
) -> Option<(u64, u64)> {
    match want {
        Want::Front => swapped.stretch(|_| 0, u64::MAX),
        // What is least urgent goes first.
        Want::Drop => swapped.ranges().next_back().map(|(_, range)| (range.first, range.last)),
        Want::Selection(id) => {
            swapped.stretch(|rank| lines.looked(*id, rank).unwrap_or(u64::MAX), u64::MAX)
        }
        Want::Expired => swapped.stretch(|_| swapped.search.0, u64::MAX),
        Want::Look(look) => swapped.stretch(|_| look.from, look.to),
        Want::Browser(at) => browsers.get(*at)?.next_stored(swapped),
    }
}
