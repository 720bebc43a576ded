//! All queues of one home shard and their consumers.

use std::rc::Rc;
use std::sync::Arc;

use hashbrown::HashMap;
use tiderace_base::{Key, Memory, MemoryUse, Now, SessionId, Slab};
use tiderace_topics::{Path, Pattern};
use tiderace_wire::{Run, SubscriptionKey, Target, Window, is_temporary};

use crate::consumer::{Consumer, Flight};
use crate::dispatch::dispatch;
use crate::private::reaches;
use crate::queue::{Attached, Queue};
use crate::{Consume, Ending, QueueOptions, Segment, Settlement};

type Map<K, V> = HashMap<K, V, foldhash::fast::RandomState>;

/// What the queues want done.
#[derive(Debug)]
pub enum Effect {
    /// Give messages to a consumer.
    Deliver {
        /// Its session.
        session: SessionId,
        /// Its subscription.
        key: SubscriptionKey,
        /// The messages.
        segment: Segment,
    },
    /// A message was rejected, or lost with its consumer, too often.
    DeadLetter {
        /// Where it lay.
        from: Path,
        /// Where it should go; `None`: drop it.
        to: Option<Path>,
        /// One message.
        segment: Segment,
    },
    /// The queue has more than it may hold, or no longer: publishers wait in between.
    Full {
        /// Which queue.
        path: Path,
        /// Whether they wait.
        on: bool,
    },
}

/// Queues and consumers; see the crate's documentation.
#[derive(Debug)]
pub struct Queues {
    queues: Slab<Queue>,
    names: Map<Path, Key>,
    consumers: Slab<Consumer>,
    subscriptions: Map<(SessionId, SubscriptionKey), Key>,
    patterns: Vec<(Pattern, Key)>,
    expired: u64,
    /// Counts the bytes of messages in all queues, and of the queues themselves.
    memory: Rc<Memory>,
    /// The time of the call, in milliseconds since 1970.
    wall_ms: u64,
}

impl Queues {
    /// No queues yet. When the memory is full, all that have any messages are full.
    pub fn new(memory: Rc<Memory>) -> Queues {
        Queues {
            queues: Slab::new(),
            names: Map::default(),
            consumers: Slab::new(),
            subscriptions: Map::default(),
            patterns: Vec::new(),
            expired: 0,
            memory,
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

    /// Messages dropped because they expired, since the start.
    pub fn expired_total(&self) -> u64 {
        self.expired
    }

    /// Messages ready and bytes held, over all queues.
    pub fn depth(&self) -> (usize, usize) {
        self.queues.iter().fold((0, 0), |(messages, bytes), (_, queue)| {
            (messages + queue.ready_messages, bytes + queue.bytes)
        })
    }

    /// Whether the queue is there, or there is memory for one of that name.
    pub fn may_have(&self, path: &Path) -> bool {
        self.names.contains_key(path) || self.memory.has_room(MemoryUse::Names, price_of(path))
    }

    /// Whether the queue asks its publishers to wait.
    pub fn is_full(&self, path: &Path) -> bool {
        self.queue(path).is_some_and(|queue| queue.full)
    }

    /// Takes the messages of a numbered run.
    pub fn publish(
        &mut self,
        now: Now,
        run: Arc<Run>,
        options: impl FnOnce(&Path) -> QueueOptions,
        effects: &mut Vec<Effect>,
    ) {
        self.wall_ms = now.wall_ms;
        let key = self.ensure(now, run.destination().path.clone(), options);
        let Some(queue) = self.queues.get_mut(key) else {
            return;
        };
        let segment = Segment::whole(run);
        queue.used = now.time;
        queue.bytes += segment.bytes();
        self.memory.charge(MemoryUse::Queues, segment.bytes());
        queue.put(segment);
        self.dispatch(key, effects);
    }

    /// Adds a consumer, or another target to one.
    pub fn consume(
        &mut self,
        now: Now,
        consume: &Consume,
        options: impl Fn(&Path) -> QueueOptions,
        effects: &mut Vec<Effect>,
    ) {
        self.wall_ms = now.wall_ms;
        let name = (consume.session, consume.key);
        let consumer = match self.subscriptions.get(&name) {
            Some(key) => *key,
            None => {
                let key = self.consumers.insert(Consumer::new(consume));
                self.subscriptions.insert(name, key);
                key
            }
        };
        let found: Vec<Key> = match &consume.target {
            Target::Exact(destination) => vec![self.ensure(now, destination.path.clone(), options)],
            Target::Pattern(_, pattern) => {
                self.patterns.push((pattern.clone(), consumer));
                self.queues
                    .iter()
                    .filter(|(_, queue)| reaches(pattern, &queue.path))
                    .map(|(key, _)| key)
                    .collect()
            }
        };
        for queue in found {
            self.attach(queue, consumer);
            self.dispatch(queue, effects);
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
        let consumer = self.subscriptions.get(&(session, key)).copied();
        let Some(consumer) = consumer.and_then(|key| self.consumers.get_mut(key)) else { return };
        self.wall_ms = now.wall_ms;
        consumer.credit = consumer.credit.map(|credit| credit.saturating_add(messages));
        for queue in consumer.queues.clone() {
            self.dispatch(queue, effects);
        }
    }

    /// Settles messages in flight; those that are not in flight are passed over.
    pub fn settle(
        &mut self,
        now: Now,
        session: SessionId,
        key: SubscriptionKey,
        ranges: &[(u64, u64)],
        settlement: Settlement,
        effects: &mut Vec<Effect>,
    ) {
        let Some(consumer_key) = self.subscriptions.get(&(session, key)).copied() else {
            return;
        };
        let Some(consumer) = self.consumers.get_mut(consumer_key) else {
            return;
        };
        self.wall_ms = now.wall_ms;
        let landed: Vec<Flight> =
            ranges.iter().flat_map(|(first, last)| consumer.land(*first, *last)).collect();
        if settlement != Settlement::Return {
            landed.iter().for_each(|flight| consumer.note_settled(flight));
        }
        let queues = consumer.queues.clone();
        for flight in landed {
            match settlement {
                Settlement::Accept => self.accepted(&flight),
                Settlement::Reject => self.taken(flight, true, effects),
                Settlement::Return => self.put_back(flight),
            }
        }
        for key in queues {
            if let Some(queue) = self.queues.get_mut(key) {
                queue.used = now.time;
            }
            match settlement {
                Settlement::Accept => self.dispatch(key, effects),
                // Others come first: whoever rejected gets it again only if nobody else has room.
                Settlement::Reject => {
                    self.dispatch_except(key, Some(consumer_key), effects);
                    self.dispatch(key, effects);
                }
                // What is returned would only come back to the consumer that leaves.
                Settlement::Return => {}
            }
        }
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
            return;
        };
        let Some(mut consumer) = self.consumers.remove(consumer_key) else {
            return;
        };
        self.patterns.retain(|(_, owner)| *owner != consumer_key);
        for queue in &consumer.queues {
            if let Some(queue) = self.queues.get_mut(*queue) {
                queue.consumers.retain(|attached| attached.consumer != consumer_key);
                queue.used = now.time;
            }
        }
        let queues = std::mem::take(&mut consumer.queues);
        let left = consumer.end(handed, ending);
        for flight in left.taken {
            self.taken(flight, ending == Ending::Lost, effects);
        }
        for flight in left.unread {
            self.put_back(flight);
        }
        for queue in queues {
            let orphaned = self
                .queues
                .get(queue)
                .is_some_and(|queue| queue.consumers.is_empty() && is_temporary(&queue.path));
            if orphaned {
                self.remove(queue, effects);
            } else {
                self.dispatch(queue, effects);
            }
        }
    }

    /// Drops expired messages and queues nobody has used for long.
    pub fn tick(&mut self, now: Now, effects: &mut Vec<Effect>) {
        self.wall_ms = now.wall_ms;
        let expiring: Vec<Key> = self
            .queues
            .iter()
            .filter(|(_, queue)| queue.has_expiring)
            .map(|(key, _)| key)
            .collect();
        for key in expiring {
            if let Some(queue) = self.queues.get_mut(key) {
                let before = queue.bytes;
                self.expired += queue.expire(now.wall_ms) as u64;
                self.memory.refund(MemoryUse::Queues, before - queue.bytes);
            }
            self.dispatch(key, effects);
        }
        let waiting: Vec<Key> = self
            .queues
            .iter()
            .filter(|(_, queue)| queue.full || queue.has_unseen)
            .map(|(key, _)| key)
            .collect();
        for key in waiting {
            if let Some(queue) = self.queues.get_mut(key) {
                queue.has_unseen = false;
            }
            self.dispatch(key, effects);
        }
        let idle: Vec<Key> = self
            .queues
            .iter()
            .filter(|(_, queue)| queue.is_idle(now.time))
            .map(|(key, _)| key)
            .collect();
        for key in idle {
            self.remove(key, effects);
        }
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

    fn queue(&self, path: &Path) -> Option<&Queue> {
        self.queues.get(*self.names.get(path)?)
    }

    fn ensure(&mut self, now: Now, path: Path, options: impl FnOnce(&Path) -> QueueOptions) -> Key {
        if let Some(key) = self.names.get(&path) {
            return *key;
        }
        let options = options(&path);
        let key = self.queues.insert(Queue::new(path.clone(), &options, now.time));
        let waiting: Vec<Key> = self
            .patterns
            .iter()
            .filter(|(pattern, _)| reaches(pattern, &path))
            .map(|(_, consumer)| *consumer)
            .collect();
        self.memory.charge(MemoryUse::Names, price_of(&path));
        self.names.insert(path, key);
        for consumer in waiting {
            self.attach(key, consumer);
        }
        key
    }

    fn attach(&mut self, queue_key: Key, consumer_key: Key) {
        let Some(queue) = self.queues.get_mut(queue_key) else {
            return;
        };
        let Some(consumer) = self.consumers.get_mut(consumer_key) else {
            return;
        };
        if consumer.queues.contains(&queue_key) {
            return;
        }
        if consumer.window == (Window { messages: 0, bytes: 0 }) {
            consumer.window = queue.window;
        }
        consumer.queues.push(queue_key);
        queue.consumers.push(Attached { consumer: consumer_key, cursor: 0 });
    }

    /// Messages are consumed.
    fn accepted(&mut self, flight: &Flight) {
        let Some(queue) = self.queues.get_mut(flight.queue) else { return };
        queue.bytes = queue.bytes.saturating_sub(flight.segment.bytes());
        self.memory.refund(MemoryUse::Queues, flight.segment.bytes());
    }

    /// Messages that no client has taken come back to their place, as new as they were.
    fn put_back(&mut self, flight: Flight) {
        if let Some(queue) = self.queues.get_mut(flight.queue) {
            queue.put(flight.segment);
        }
    }

    /// Messages that a client has taken come back to their place, or go to the dead-letter queue if
    /// they have failed too often.
    fn taken(&mut self, mut flight: Flight, failed: bool, effects: &mut Vec<Effect>) {
        flight.segment.redeliveries += 1;
        flight.segment.failures += u32::from(failed);
        let Some(queue) = self.queues.get(flight.queue) else { return };
        if !failed
            || queue.redeliveries_max == 0
            || flight.segment.failures <= queue.redeliveries_max
        {
            return self.put_back(flight);
        }
        let (from, to) = (queue.path.clone(), queue.dead_letter.clone());
        self.accepted(&flight);
        effects.push(Effect::DeadLetter { from, to, segment: flight.segment });
    }

    fn dispatch(&mut self, key: Key, effects: &mut Vec<Effect>) {
        self.dispatch_except(key, None, effects);
    }

    fn dispatch_except(&mut self, key: Key, except: Option<Key>, effects: &mut Vec<Effect>) {
        let Some(queue) = self.queues.get_mut(key) else {
            return;
        };
        let before = queue.bytes;
        let expired = dispatch(key, queue, &mut self.consumers, except, self.wall_ms, effects);
        self.expired += expired as u64;
        self.memory.refund(MemoryUse::Queues, before - queue.bytes);
        let (level, max) = (queue.bytes, queue.bytes_max);
        // Once full, a queue stays so until a quarter has gone: publishers move in long strides.
        let full = if queue.full {
            let room = self.memory.max() / 4;
            level > max / 4 * 3 || (level > 0 && !self.memory.has_room(MemoryUse::Queues, room))
        } else {
            level > max || (level > 0 && self.memory.is_full())
        };
        if full != queue.full {
            queue.full = full;
            effects.push(Effect::Full { path: queue.path.clone(), on: full });
        }
    }

    fn remove(&mut self, key: Key, effects: &mut Vec<Effect>) {
        let Some(queue) = self.queues.remove(key) else {
            return;
        };
        self.names.remove(&queue.path);
        self.memory.refund(MemoryUse::Queues, queue.bytes);
        self.memory.refund(MemoryUse::Names, price_of(&queue.path));
        if queue.full {
            effects.push(Effect::Full { path: queue.path, on: false });
        }
    }
}

/// Bytes that a queue takes, whatever is in it: its record, its name and its places in maps.
fn price_of(path: &Path) -> usize {
    // Its name, and that of its queue of dead letters.
    QUEUE_BYTES + 2 * path.as_str().len()
}

/// The record with its share of the tables.
const QUEUE_BYTES: usize = 2 * size_of::<Queue>() + 128;
