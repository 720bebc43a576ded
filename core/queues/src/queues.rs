//! All queues of one home shard and their consumers.

use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;
use std::sync::Arc;

use hashbrown::HashMap;
use tiderace_base::{Key, Memory, MemoryUse, Now, SessionId, Slab, Time};
use tiderace_topics::{Path, Pattern, PatternIndex};
use tiderace_wire::{Flags, Prefetch, QueueStart, Run, SubscriptionKey, Target, is_temporary};

use crate::accounts::Accounts;
use crate::browsers::Browsers;
use crate::consumer::{Consumer, Place};
use crate::delayed::Due;
use crate::dispatch::Dispatch;
use crate::effect::Effect;
use crate::private::{is_private, spells_owner};
use crate::queue::{Queue, QueueState};
use crate::survey::Survey;
use crate::walk::{TURN_STEPS, Walk};
use crate::{Consume, Dropped, Ending, QueueOptions, Segment};

type Map<K, V> = HashMap<K, V, foldhash::fast::RandomState>;

/// A consumer under one of its patterns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Named {
    consumer: Key,
    spells_owner: bool,
}

impl Named {
    fn new(consumer: Key, pattern: &Pattern) -> Named {
        Named { consumer, spells_owner: spells_owner(pattern) }
    }
}

/// Queues and consumers; see the crate's documentation.
#[derive(Debug)]
pub struct Queues {
    pub(crate) queues: Slab<Queue>,
    pub(crate) names: Map<Path, Key>,
    pub(crate) consumers: Slab<Consumer>,
    pub(crate) subscriptions: Map<(SessionId, SubscriptionKey), Key>,
    pub(crate) patterns: PatternIndex<Named>,
    /// What those have together that are of one principal.
    pub(crate) accounts: Accounts,
    /// Who is shown messages and takes none.
    pub(crate) browsers: Browsers,
    /// Consumers by patterns that have not yet found all queues that there are.
    pub(crate) walks: VecDeque<Walk>,
    /// Queues in which selectors have yet to look at some ready messages, in turns.
    pub(crate) unseen: VecDeque<Key>,
    /// Consumers that have room for more of what waits for them than one turn can look at.
    pub(crate) resuming: VecDeque<Key>,
    /// Of consumers that have left: queues that have yet to hear of it.
    pub(crate) leaving: VecDeque<(Key, Vec<(Key, Place)>)>,
    /// Messages that wait for their time.
    pub(crate) due: Due,
    /// Queues that are full.
    pub(crate) full: BTreeSet<Key>,
    /// The one that was looked at last.
    pub(crate) full_at: Key,
    /// Queues with messages that expire.
    pub(crate) expiring: BTreeSet<Key>,
    /// The queue and the version with which the search for expired ones goes on.
    pub(crate) expiring_at: (Key, u64),
    /// How many messages have been looked at for that.
    pub(crate) looked: u64,
    /// Where the search for idle queues goes on.
    pub(crate) sweep_at: u32,
    pub(crate) expired: u64,
    pub(crate) dropped: Dropped,
    /// How often a consumer was asked whether it has room.
    pub(crate) asked: u64,
    /// How often a consumer came to a queue.
    pub(crate) attached: u64,
    /// Messages ready in memory in all queues.
    pub(crate) ready: usize,
    /// Bytes of messages in memory in all queues.
    pub(crate) bytes: usize,
    /// Ready messages of all queues that are in the store alone, and their bytes.
    pub(crate) swapped: (u64, u64),
    /// Queues that ask the store again in the next tick.
    pub(crate) stalled: Vec<Key>,
    /// Bytes for which the store is asked.
    pub(crate) loading_bytes: usize,
    /// How many of these requests are for one record.
    pub(crate) single_loads: usize,
    /// Queues that wait for such a request, and the one that was last asked for.
    pub(crate) waiting_short: BTreeSet<Key>,
    pub(crate) resumed_short: Key,
    /// Queues in which consumers wait behind groups of others, and for which memory was short.
    pub(crate) held_up: BTreeSet<Key>,
    /// How often messages were asked of the store.
    pub(crate) loads: u64,
    /// Messages that the store should have had and could not give.
    pub(crate) unreadable: u64,
    /// Whether messages can be left to a store.
    pub(crate) has_store: bool,
    /// Queues with messages in the store alone of which some expire: when the first of them does.
    pub(crate) expiring_swapped: BTreeSet<(u64, Key)>,
    /// Queues that are paused.
    pub(crate) paused: usize,
    pub(crate) survey: Survey,
    /// Counts them, and those of the queues themselves.
    pub(crate) memory: Rc<Memory>,
    /// What may still be spent in the turn of that time on looking for messages and queues.
    pub(crate) left: u32,
    pub(crate) turn: Time,
    /// The time of the call, in milliseconds since 1970.
    pub(crate) wall_ms: u64,
}

impl Queues {
    /// No queues yet. When the memory is full, all that have any messages are full.
    pub fn new(memory: Rc<Memory>) -> Queues {
        Queues {
            queues: Slab::new(),
            names: Map::default(),
            consumers: Slab::new(),
            subscriptions: Map::default(),
            patterns: PatternIndex::default(),
            accounts: Accounts::new(memory.clone()),
            browsers: Browsers::new(memory.clone()),
            walks: VecDeque::new(),
            unseen: VecDeque::new(),
            resuming: VecDeque::new(),
            leaving: VecDeque::new(),
            due: Due::default(),
            full: BTreeSet::new(),
            full_at: Key::default(),
            expiring: BTreeSet::new(),
            expiring_at: (Key::default(), 0),
            looked: 0,
            sweep_at: 0,
            expired: 0,
            dropped: Dropped::default(),
            asked: 0,
            attached: 0,
            ready: 0,
            bytes: 0,
            swapped: (0, 0),
            stalled: Vec::new(),
            loading_bytes: 0,
            single_loads: 0,
            waiting_short: BTreeSet::new(),
            resumed_short: Key::default(),
            held_up: BTreeSet::new(),
            loads: 0,
            unreadable: 0,
            has_store: false,
            expiring_swapped: BTreeSet::new(),
            survey: Survey::default(),
            paused: 0,
            memory,
            left: TURN_STEPS,
            turn: Time::ZERO,
            wall_ms: 0,
        }
    }

    /// How many queues there are.
    pub fn len(&self) -> usize {
        self.queues.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.queues.is_empty()
    }

    /// The subscriptions that consume or browse, in no order.
    pub fn subscriptions(&self) -> impl Iterator<Item = (SessionId, SubscriptionKey)> + '_ {
        self.subscriptions.keys().copied().chain(self.browsers.subscriptions())
    }

    /// Messages dropped because they expired, since the start.
    pub fn expired_total(&self) -> u64 {
        self.expired
    }

    /// How often consumers, and the selectors that they share, were asked whether they can take a message,
    /// and patterns for the consumers of a new queue, since the start.
    pub fn asked_total(&self) -> u64 {
        self.asked
    }

    /// How many messages were looked at for those whose time is over, since the start.
    pub fn looked_total(&self) -> u64 {
        self.looked
    }

    /// How often consumers came to a queue, those by patterns to each that they name, since the start.
    pub fn attached_total(&self) -> u64 {
        self.attached
    }

    /// Whether there is a queue of that name.
    pub fn has(&self, path: &Path) -> bool {
        self.names.contains_key(path)
    }

    /// Places of which some have a queue: all are below.
    pub fn slots(&self) -> u32 {
        self.queues.slots()
    }

    /// The queue at a place; it stays there as long as it is there.
    pub fn at(&self, slot: u32) -> Option<QueueState<'_>> {
        let queue = self.queues.at(slot)?;
        Some(queue.state(self.browsers.count_of(&queue.path)))
    }

    /// Messages ready, and bytes held in memory, over all queues.
    pub fn depth(&self) -> (usize, usize) {
        (self.ready + self.swapped.0 as usize, self.bytes + self.memory.bodies())
    }

    /// Whether the queue is there, or there is memory for one of that name.
    pub fn may_have(&self, path: &Path) -> bool {
        self.names.contains_key(path) || self.memory.has_room(MemoryUse::Names, price_of(path))
    }

    /// Whether the queue asks its publishers to wait.
    pub fn is_full(&self, path: &Path) -> bool {
        self.queue(path).is_some_and(|queue| queue.full)
    }

    /// Takes the messages of a run that [`Queues::admit`] has given this queue.
    pub fn publish(&mut self, now: Now, key: Key, run: Arc<Run>, effects: &mut Vec<Effect>) {
        self.begin_turn(now);
        let versions = (run.queue_version(), run.queue_version() + run.len() as u64 - 1);
        let bytes = Segment::bytes_of_run(&run);
        self.add(now, key, Segment::whole(run));
        self.dispatch(key, effects);
        self.drop_excess(key, (versions, bytes), effects);
    }

    /// Adds a consumer, or another target to one; or somebody who browses.
    pub fn consume(
        &mut self,
        now: Now,
        consume: &Consume,
        options: impl Fn(&Path) -> QueueOptions,
        effects: &mut Vec<Effect>,
    ) {
        self.begin_turn(now);
        if let Some(browsing) = consume.browsing {
            return self.browse(consume, browsing, options, effects);
        }
        let name = (consume.session, consume.key);
        let consumer = match self.subscriptions.get(&name) {
            Some(key) => *key,
            None => {
                let key = self.consumers.insert(Consumer::new(consume));
                self.subscriptions.insert(name, key);
                key
            }
        };
        match &consume.target {
            Target::Exact(destination) => {
                let queue = self.ensure(now, destination.path.clone(), options);
                let next = self.queues.get(queue).map_or(0, |queue| queue.next_number);
                if let Some(known) = self.consumers.get_mut(consumer) {
                    known.start = first_of(consume.start, next);
                }
                self.attach(queue, consumer);
                self.dispatch(queue, effects);
            }
            Target::Pattern(_, pattern) => {
                self.patterns.insert(pattern, Named::new(consumer, pattern));
                if let Some(known) = self.consumers.get_mut(consumer) {
                    known.patterns.push(pattern.clone());
                }
                self.walks.push_back(Walk { consumer, pattern: pattern.clone(), slot: 0 });
                self.walk(effects);
            }
        }
    }

    /// A consumer that has credit gets more.
    pub fn credit(
        &mut self,
        now: Now,
        session: SessionId,
        key: SubscriptionKey,
        messages: u64,
        effects: &mut Vec<Effect>,
    ) {
        let Some(at) = self.subscriptions.get(&(session, key)).copied() else {
            return self.credit_browser(now, (session, key), messages, effects);
        };
        let Some(consumer) = self.consumers.get_mut(at) else { return };
        consumer.credit = consumer.credit.map(|credit| credit.saturating_add(messages));
        self.begin_turn(now);
        self.unpark(at, effects);
    }

    /// A consumer ends; what is in flight to it goes back. Of the messages that it was given, the
    /// first `handed` have reached its session; those that the session did not put on the connection
    /// have been returned by it.
    ///
    /// What its client has taken counts as a redelivery: what it was given before a message that it
    /// settled, and the first one behind if the connection was lost or it settled none. If the
    /// connection was lost, these count as failures too. All others come back as new.
    pub fn leave(
        &mut self,
        now: Now,
        session: SessionId,
        key: SubscriptionKey,
        (handed, ending): (u64, Ending),
        effects: &mut Vec<Effect>,
    ) {
        let Some(consumer_key) = self.subscriptions.remove(&(session, key)) else {
            return self.leave_browser((session, key));
        };
        let Some(mut consumer) = self.consumers.remove(consumer_key) else {
            return;
        };
        for pattern in &consumer.patterns {
            self.patterns.remove(pattern, &Named::new(consumer_key, pattern));
        }
        let queues = std::mem::take(&mut consumer.queues);
        let left = consumer.end(handed, ending);
        self.begin_turn(now);
        for flight in left.taken.iter().chain(&left.unread) {
            self.note_landed(flight.queue, &flight.segment);
        }
        for flight in left.taken {
            self.taken(flight, ending == Ending::Lost, effects);
        }
        for flight in left.unread {
            self.put_back(flight.queue, flight.segment);
        }
        let queues = queues.into_iter().rev().collect();
        self.leave_queues(now, (consumer_key, queues), effects);
    }

    /// Bytes of the messages of a queue, ready and in flight, if it is there.
    pub fn bytes_of(&self, path: &Path) -> Option<usize> {
        Some(self.queue(path)?.bytes)
    }

    /// Ends a queue with all that is in it.
    pub fn discard(&mut self, path: &Path, effects: &mut Vec<Effect>) {
        if let Some(key) = self.names.get(path).copied() {
            self.remove(key, effects);
        }
    }

    pub(crate) fn queue(&self, path: &Path) -> Option<&Queue> {
        self.queues.get(*self.names.get(path)?)
    }

    pub(crate) fn ensure(
        &mut self,
        now: Now,
        path: Path,
        options: impl FnOnce(&Path) -> QueueOptions,
    ) -> Key {
        if let Some(key) = self.names.get(&path) {
            return *key;
        }
        let options = options(&path);
        let mut queue = Queue::new(path.clone(), &options, now.time);
        if let Some(owner) = &options.owner {
            queue.set_account(self.accounts.begin_queue(owner));
        }
        let key = self.queues.insert(queue);
        let mut waiting: Vec<Key> = Vec::new();
        let (mut asked, private, temporary) = (0, is_private(&path), is_temporary(&path));
        self.patterns.matches(&path, &mut |named| {
            asked += 1;
            if !private || named.spells_owner && !temporary {
                waiting.push(named.consumer);
            }
        });
        self.asked += asked;
        self.memory.charge(MemoryUse::Names, price_of(&path));
        let is_browsed = !self.browsers.waiting(&path).is_empty();
        if let Some(queue) = self.queues.get_mut(key).filter(|_| is_browsed) {
            queue.is_browsed = true;
        }
        self.names.insert(path, key);
        for consumer in waiting {
            self.attach(key, consumer);
        }
        key
    }

    pub(crate) fn attach(&mut self, queue_key: Key, consumer_key: Key) {
        let Some(queue) = self.queues.get_mut(queue_key) else {
            return;
        };
        let Some(consumer) = self.consumers.get_mut(consumer_key) else {
            return;
        };
        if consumer.queues.contains_key(&queue_key) {
            return;
        }
        if consumer.window == (Prefetch { messages: 0, bytes: 0 }) {
            consumer.window = queue.window;
        }
        let place = queue.lines.attach(consumer_key, consumer);
        consumer.queues.insert(queue_key, place);
        let is_plain = place.selection.is_none();
        self.join_groups(queue_key, consumer_key, place.order, is_plain);
        self.attached += 1;
        self.memory.charge(MemoryUse::Names, PLACE_BYTES);
    }

    /// Puts messages at their place in a queue, when their time has come if they are delayed.
    pub(crate) fn put(&mut self, key: Key, segment: Segment) {
        let marks = segment.run.marks();
        if marks.contains(Flags::DELAYED) {
            return self.put_scheduled(key, segment);
        }
        self.put_ready(key, segment, marks);
    }

    /// Puts messages at their place in a queue, whatever is said of their time.
    pub(crate) fn put_ready(&mut self, key: Key, segment: Segment, marks: Flags) {
        let Some(mut queue) = self.queues.get_mut(key) else { return };
        if queue.groups.is_some() || marks.contains(Flags::GROUPED) {
            self.note_grouped(key, &segment);
            let Some(again) = self.queues.get_mut(key) else { return };
            queue = again;
        }
        self.ready += segment.len() as usize;
        self.asked += queue.put(segment, marks) as u64;
        if queue.has_expiring {
            self.expiring.insert(key);
        }
    }

    pub(crate) fn dispatch(&mut self, key: Key, effects: &mut Vec<Effect>) {
        self.dispatch_except(key, None, effects);
    }

    pub(crate) fn dispatch_except(
        &mut self,
        key: Key,
        except: Option<Key>,
        effects: &mut Vec<Effect>,
    ) {
        let Some(mut queue) = self.queues.get_mut(key) else {
            return;
        };
        if queue.is_browsed {
            // Before anybody takes what they wait for.
            self.show_news(key, effects);
            let Some(again) = self.queues.get_mut(key) else { return };
            queue = again;
        }
        if queue.paused {
            return self.review(key, effects);
        }
        let mut unseen = Vec::new();
        let (weight, ready, had_unseen) = (queue.weight(), queue.ready.len(), queue.has_unseen);
        let dispatch = Dispatch {
            key,
            queue,
            consumers: &mut self.consumers,
            except,
            budget: &mut self.left,
            asked: &mut self.asked,
            wall_ms: self.wall_ms,
            unseen: &mut unseen,
            effects,
        };
        self.expired += dispatch.run() as u64;
        let Some(queue) = self.queues.get_mut(key) else { return };
        if queue.has_unseen && !had_unseen {
            self.unseen.push_back(key);
        }
        let less = weight.without(queue.weight());
        self.ready = self.ready.saturating_sub(ready - queue.ready.len());
        let is_swapped = queue.swapped.is_some();
        self.forget_bytes(less);
        self.review(key, effects);
        if is_swapped {
            self.prefetch(key, unseen, effects);
        }
    }

    pub(crate) fn remove(&mut self, key: Key, effects: &mut Vec<Effect>) {
        let Some(mut queue) = self.queues.remove(key) else {
            return;
        };
        self.names.remove(&queue.path);
        if let Some((account, bytes)) = queue.end_account() {
            self.accounts.end_queue(&account, bytes);
        }
        self.forget_bytes(queue.weight());
        let members = queue.groups.as_ref().map_or(0, |groups| groups.bytes());
        self.memory.refund(MemoryUse::Names, price_of(&queue.path) + members);
        self.ready = self.ready.saturating_sub(queue.ready.len());
        self.expiring.remove(&key);
        self.forget_delayed(key, &queue);
        self.end_swapped(key, &mut queue, effects);
        for stream in queue.stream.into_iter().chain(queue.volatile) {
            effects.push(Effect::Ended { stream });
        }
        self.end_browsing(&queue.path, effects);
        self.paused = self.paused.saturating_sub(usize::from(queue.paused));
        if queue.full {
            self.full.remove(&key);
            effects.push(Effect::Full { path: queue.path, on: false });
        }
    }
}

/// The first number that somebody is to have who begins there in a queue whose next message has that number.
pub(crate) fn first_of(start: QueueStart, next: u64) -> u64 {
    match start {
        QueueStart::Version(version) => version,
        QueueStart::Next => next,
    }
}

/// Bytes that a queue takes, whatever is in it: its record, its name and its places in maps.
fn price_of(path: &Path) -> usize {
    // Its name, and that of its queue of dead letters.
    QUEUE_BYTES + 2 * path.as_str().len()
}

/// What a consumer takes at one queue: its place in both, in tables that are half empty after they have grown.
pub(crate) const PLACE_BYTES: usize =
    2 * (size_of::<(Key, Place)>() + size_of::<Key>() + size_of::<(u64, Key)>());
/// The record with its share of the tables.
const QUEUE_BYTES: usize = 2 * size_of::<Queue>() + 128;
