//! What can be seen of queues from outside, without changing them.
//!
//! Relies on places of queues and consumers to stay as long as these are there. Invariant: a look costs no more than
//! what it gives, and never the depth of a queue.

use tiderace_base::{Key, SessionId, Span, Time};
use tiderace_filter::Selector;
use tiderace_topics::Path;
use tiderace_wire::{Prefetch, SubscriptionKey};

use crate::accounts::Account;
use crate::queue::Queue;
use crate::queues::Queues;
use crate::{Policy, QueueState, Segment};

/// What was chosen for a queue when it was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueChoices<'a> {
    /// Bytes of messages that it keeps in memory.
    pub bytes_max: usize,
    /// Bytes of messages in the store alone at which publishers are asked to wait.
    pub disk_bytes_max: u64,
    /// The window of consumers that name none.
    pub window: Prefetch,
    /// Failures after which a message is dead; 0 for never.
    pub redeliveries_max: u32,
    /// Where it goes then; `None`: it is dropped.
    pub dead_letter: Option<&'a Path>,
    /// How long it is kept without messages and consumers.
    pub idle: Span,
    /// How it treats its messages.
    pub policy: Policy,
}

/// How a consumer stands.
#[derive(Clone, Copy, Debug)]
pub struct ConsumerState<'a> {
    /// Its session.
    pub session: SessionId,
    /// Its subscription.
    pub key: SubscriptionKey,
    /// Messages in flight to it, of all queues that it consumes from.
    pub messages: u32,
    /// Their bytes.
    pub bytes: usize,
    /// How much may be under way to it.
    pub window: Prefetch,
    /// How many messages it may still be given, if it gives credit.
    pub credit: Option<u64>,
    /// What it selects.
    pub selector: Option<&'a Selector>,
    /// Whether it wants the queue for itself.
    pub exclusive: bool,
    /// Whether it gets messages: nobody else has the queue for itself.
    pub active: bool,
    /// Whether its client settles.
    pub explicit: bool,
}

impl Queues {
    /// How a queue stands.
    pub fn state(&self, key: Key) -> Option<QueueState<'_>> {
        self.queues.get(key).map(|queue| queue.state(self.browsers.count_of(&queue.path)))
    }

    /// What was chosen for a queue.
    pub fn choices(&self, key: Key) -> Option<QueueChoices<'_>> {
        let queue = self.queues.get(key)?;
        Some(QueueChoices {
            bytes_max: queue.bytes_max,
            disk_bytes_max: queue.disk_bytes_max,
            window: queue.window,
            redeliveries_max: queue.redeliveries_max,
            dead_letter: queue.dead_letter.as_ref(),
            idle: queue.idle,
            policy: queue.policy,
        })
    }

    /// Messages of all queues that consumers have and have not settled, and how long ago the oldest of those that are ready
    /// was published.
    pub fn surveyed(&self) -> (usize, Span) {
        self.survey.figures()
    }

    /// How many queues are paused.
    pub fn paused(&self) -> usize {
        self.paused
    }

    /// Places of which some have a consumer: all are below.
    pub fn consumer_slots(&self) -> u32 {
        self.consumers.slots()
    }

    /// The consumer at a place, if it consumes from the queue; it stays there as long as it is there.
    pub fn consumer_at(&self, queue: Key, slot: u32) -> Option<ConsumerState<'_>> {
        let consumer = self.consumers.at(slot)?;
        let holder = self.queues.get(queue)?.lines.exclusive();
        consumer.queues.contains_key(&queue).then_some(ConsumerState {
            session: consumer.session,
            key: consumer.key,
            messages: consumer.messages,
            bytes: consumer.bytes,
            window: consumer.window,
            credit: consumer.credit,
            selector: consumer.selector.as_ref(),
            exclusive: consumer.exclusive,
            active: holder.is_none_or(|holder| self.consumers.key_of(slot) == Some(holder)),
            explicit: consumer.explicit,
        })
    }

    /// The ready messages of a queue that are in memory, from a version up to another, in order: the segment of each, and
    /// its place in the segment's run.
    pub fn ready_from(
        &self,
        key: Key,
        from: u64,
        to: u64,
    ) -> impl Iterator<Item = (&Segment, usize)> {
        let queue = self.queues.get(key);
        let segments = queue.map(|queue| queue.ready.from(from)).into_iter().flatten();
        let segments = segments.take_while(move |segment| segment.first_version() <= to);
        segments.flat_map(move |segment| {
            let passed = from.saturating_sub(segment.first_version()).min(u64::from(segment.len()));
            let first = segment.from + passed as u32;
            let behind = segment.last_version().saturating_sub(to).min(u64::from(segment.len()));
            (first..segment.to - behind as u32).map(move |place| (segment, place as usize))
        })
    }
}

impl Queue {
    /// How it stands, with so many who browse it.
    pub(crate) fn state(&self, browsers: usize) -> QueueState<'_> {
        QueueState {
            path: &self.path,
            messages: self.ready.len() + self.swapped_messages() as usize,
            in_flight: self.in_flight,
            delayed: self.delayed.as_ref().map_or(0, |delayed| delayed.len()),
            groups: self.groups.as_ref().map_or(0, |groups| groups.len()),
            bytes: self.bytes,
            swapped: self.swapped_messages(),
            swapped_bytes: self.swapped_bytes(),
            consumers: self.lines.len,
            browsers,
            full: self.shows_full() || self.counting().is_some_and(Account::is_full),
            paused: self.paused,
            oldest: self.oldest(),
            owner: self.account().map(|account| account.name()),
        }
    }

    /// When the first of the ready messages was published.
    pub(crate) fn oldest(&self) -> Option<Time> {
        let waiting = self.swapped.as_ref().map(|swapped| swapped.since);
        self.ready.first().map(|segment| segment.run.published()).or(waiting)
    }
}
