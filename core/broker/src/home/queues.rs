//! The queues whose home one shard is, and which shards hold back publishers of those that are full.
//!
//! Relies on [`Queues`] for what a queue does; gives what comes of each call as its effects. Invariant: a
//! shard that was told to hold publishers back is told to let them go.

mod accounts;

use std::sync::Arc;

use tiderace_base::{Key, Memory, Now, SessionId, Span};
use tiderace_queues::{
    Consume, Consumed, ConsumerState, Dropped, Effect, Ending, FullPolicy, LoadedPart, Look,
    QueueChoices, QueueState, Queues, Quotas, Segment, Settlement, Slice, Taken,
};
use tiderace_topics::Path;
use tiderace_wire::{Run, SubscriptionKey};

use super::dead_letters::DeadLetters;
use crate::BrokerOptions;
use crate::collections::Map;
use crate::maker::Maker;
use crate::places::{Place, PlaceSet};
use crate::queued::MovedFrom;

/// The queues of one home.
#[derive(Debug)]
pub(crate) struct QueueHome {
    queues: Queues,
    /// Shards told to hold back publishers of a full queue.
    full: Map<Path, PlaceSet>,
    dead_letters: DeadLetters,
}

impl QueueHome {
    pub(crate) fn new(memory: std::rc::Rc<Memory>) -> QueueHome {
        let (queues, full) = (Queues::new(memory), Map::default());
        QueueHome { queues, full, dead_letters: DeadLetters::default() }
    }

    /// The queue of a numbered run, which gets its versions. It is made by who has sent it, if it is not there.
    pub(crate) fn admit(
        &mut self,
        now: Now,
        run: &mut Run,
        maker: Maker<'_>,
        options: &BrokerOptions,
    ) -> Key {
        self.queues.admit(now, run, |path| options.queue_of(path, maker))
    }

    /// What principals may have in queues; to be said before there are any.
    pub(crate) fn set_quotas(&mut self, quotas: Quotas) {
        self.queues.set_quotas(quotas);
    }

    /// In whose account a queue counts.
    pub(crate) fn owner_of(&self, key: Key) -> Option<&Arc<str>> {
        self.queues.owner_of(key)
    }

    /// What the owner of a queue has in bytes, and may have.
    pub(crate) fn account_of(&self, key: Key) -> Option<(u64, u64)> {
        self.queues.account_of(key)
    }

    /// Takes a run into its queue.
    pub(crate) fn publish(&mut self, now: Now, key: Key, run: Arc<Run>) -> Vec<Effect> {
        let mut effects = Vec::new();
        self.queues.publish(now, key, run, &mut effects);
        effects
    }

    /// Makes a queue that stays although nothing may be in it, or lets one go.
    pub(crate) fn set_staying(
        &mut self,
        now: Now,
        (path, maker): (&Path, Maker<'_>),
        stays: bool,
        options: &BrokerOptions,
    ) -> Key {
        self.queues.set_staying(now, path, stays, |path| options.queue_of(path, maker))
    }

    /// How often consumers came to a queue, and how often one was asked whether it has room, since the start.
    pub(crate) fn asked(&self) -> (u64, u64) {
        (self.queues.attached_total(), self.queues.asked_total())
    }

    /// The stream in which a queue is kept, if it has one.
    pub(crate) fn stream_of(&self, key: Key) -> Option<u64> {
        self.queues.stream_of(key)?.0
    }

    /// A queue is kept in a stream from now on.
    pub(crate) fn set_stream(&mut self, key: Key, stream: u64) {
        self.queues.set_stream(key, stream);
    }

    /// Whether a queue of that name is kept in a stream.
    pub(crate) fn is_kept(&self, path: &Path) -> bool {
        self.queues.key_of(path).is_some_and(|key| self.stream_of(key).is_some())
    }

    /// The path of a queue that is kept, its stream and the number of its last message.
    pub(crate) fn kept(&self, key: Key) -> Option<(&Path, u64, u64)> {
        let (stream, version) = self.queues.stream_of(key)?;
        Some((self.queues.path_of(key)?, stream?, version))
    }

    /// Takes out messages that the store has not taken, as far as nobody has been given them.
    pub(crate) fn withdraw(&mut self, key: Key, versions: (u64, u64)) -> Vec<Effect> {
        let mut effects = Vec::new();
        self.queues.withdraw(key, versions, &mut effects);
        effects
    }

    /// A consumer accepts messages as part of a transaction.
    pub(crate) fn accept_together(
        &mut self,
        now: Now,
        (session, key): (SessionId, SubscriptionKey),
        ranges: &[(u64, u64)],
    ) -> (Vec<Consumed>, Vec<Effect>) {
        let mut effects = Vec::new();
        let consumed = self.queues.accept_together(now, session, key, ranges, &mut effects);
        (consumed, effects)
    }

    /// Takes back messages of which the store has not taken that they were consumed.
    pub(crate) fn give_back(
        &mut self,
        now: Now,
        segment: Segment,
        options: &BrokerOptions,
    ) -> Vec<Effect> {
        let mut effects = Vec::new();
        self.queues.give_back(now, segment, |path| options.queue(path), &mut effects);
        effects
    }

    /// A dead letter has come to where it goes, and is stored there or not: whether it is to be settled here.
    pub(crate) fn end_move(&mut self, source: &MovedFrom, is_stored: bool) -> bool {
        self.queues.end_move(source.queue, source.stream, source.version, is_stored)
    }

    /// Whether the store still gives a message that it was told to be gone.
    pub(crate) fn has_outside(&self, key: Key, version: u64) -> bool {
        self.queues.has_outside(key, version)
    }

    pub(crate) fn dead_letters_mut(&mut self) -> &mut DeadLetters {
        &mut self.dead_letters
    }

    /// A dead letter has come back.
    pub(crate) fn undo_move(&mut self, now: Now, source: &MovedFrom) -> (bool, Vec<Effect>) {
        let mut effects = Vec::new();
        let from = (source.queue, source.version);
        (self.queues.undo_move(now, from, &mut effects), effects)
    }

    /// Dead letters to some queues come back.
    pub(crate) fn undo_moves(&mut self, now: Now, is_lost: impl Fn(&Path) -> bool) -> Vec<Effect> {
        let mut effects = Vec::new();
        self.queues.undo_moves(now, is_lost, &mut effects);
        effects
    }

    /// A queue is there again.
    pub(crate) fn restore(
        &mut self,
        now: Now,
        (path, owner): (Path, Maker<'_>),
        kept: (u64, u64),
        options: &BrokerOptions,
    ) -> Key {
        self.queues.restore(now, path, kept, |path| options.queue_of(path, owner))
    }

    /// The store has messages of a restored queue: first and last version of each stretch, and bytes.
    pub(crate) fn restore_swapped(
        &mut self,
        now: Now,
        key: Key,
        stored: impl Iterator<Item = (u64, u64, u64)>,
    ) {
        self.queues.restore_swapped(now, key, stored);
    }

    /// There is a store, to which messages can be left.
    pub(crate) fn set_store(&mut self) {
        self.queues.set_store();
    }

    /// Whether new messages of a queue are left to the store.
    pub(crate) fn leaves(&self, key: Key, run: &Run) -> bool {
        self.queues.leaves_new(key, run.queue_version(), run.bytes())
    }

    /// Whether any message is ready from a version on, in memory or in the store alone.
    pub(crate) fn has_ready_from(&self, key: Key, version: u64) -> bool {
        self.queues.ready_from(key, version, u64::MAX).next().is_some()
            || self.queues.unseen_from(key, version, u64::MAX).is_some()
    }

    /// The stream that has messages of a queue, if they are stored, and whether the queue waits for the store to say that
    /// they are gone.
    pub(crate) fn stream_with(&self, key: Key, segment: &Segment) -> Option<(u64, bool)> {
        self.queues.stream_with(key, segment)
    }

    /// The stream of a queue's messages that need not survive, if it has one.
    pub(crate) fn volatile_of(&self, key: Key) -> Option<u64> {
        self.queues.volatile_of(key)
    }

    /// Messages of a queue that need not survive are left to the store in that stream.
    pub(crate) fn set_volatile(&mut self, key: Key, stream: u64) {
        self.queues.set_volatile(key, stream);
    }

    /// The store has messages of these versions.
    pub(crate) fn stored(&mut self, key: Key, versions: (u64, u64)) -> Vec<Effect> {
        let mut effects = Vec::new();
        self.queues.stored(key, versions, &mut effects);
        effects
    }

    /// The store has said that messages of these versions are gone.
    pub(crate) fn settled(&mut self, key: Key, versions: (u64, u64)) {
        self.queues.settled(key, versions);
    }

    /// The store has given messages: how many it could not give.
    pub(crate) fn loaded(&mut self, now: Now, key: Key, part: &LoadedPart) -> (u64, Vec<Effect>) {
        let mut effects = Vec::new();
        let unreadable = self.queues.loaded(now, key, part, &mut effects);
        (unreadable, effects)
    }

    /// An operation wants messages in memory that are in the store alone.
    pub(crate) fn look(&mut self, key: Key, look: Look) -> Vec<Effect> {
        let mut effects = Vec::new();
        self.queues.look(key, look, &mut effects);
        effects
    }

    /// An operation has done with what it has looked for.
    pub(crate) fn end_look(&mut self, key: Key) -> Vec<Effect> {
        let mut effects = Vec::new();
        self.queues.end_look(key, &mut effects);
        effects
    }

    /// From which version on a search has to look for messages in the store.
    pub(crate) fn unseen_from(&self, key: Key, seen_below: u64, to: u64) -> Option<u64> {
        self.queues.unseen_from(key, seen_below, to)
    }

    /// All messages that are in the store alone are gone; how many they were.
    pub(crate) fn purge_swapped(&mut self, now: Now, key: Key) -> (u64, Vec<Effect>) {
        let mut effects = Vec::new();
        let messages = self.queues.purge_swapped(now, key, &mut effects);
        (messages, effects)
    }

    /// The number of a queue's last message.
    pub(crate) fn last_number(&self, key: Key) -> u64 {
        self.queues.stream_of(key).map_or(0, |(_, version)| version)
    }

    /// Ready messages that are in the store alone, and their bytes; how often some were asked for, and how many could not
    /// be given.
    pub(crate) fn swapped(&self) -> (u64, u64, u64, u64) {
        let (messages, bytes) = self.queues.swapped();
        (messages, bytes, self.queues.loads_total(), self.queues.unreadable_total())
    }

    /// Whether a queue is full of which a shard has not been told yet; now it will be.
    pub(crate) fn begin_pause(&mut self, path: &Path, from: Place) -> bool {
        if !self.queues.is_full(path) {
            return false;
        }
        let told = self.full.entry(path.clone()).or_default();
        told.insert(from)
    }

    /// Whether a queue has all that it may, whatever becomes of more.
    pub(crate) fn is_at_limit(&self, path: &Path) -> bool {
        self.queues.is_at_limit(path)
    }

    /// Whether a queue has all that it may, and publishers wait or are refused for that.
    pub(crate) fn is_closed(&self, path: &Path) -> bool {
        let policy = self.queues.key_of(path).and_then(|key| self.queues.choices(key));
        let holds = |choices: QueueChoices<'_>| {
            matches!(choices.policy.full, FullPolicy::Block | FullPolicy::Reject)
        };
        policy.is_some_and(holds)
            && (self.queues.is_at_limit(path) || self.queues.is_owner_full(path))
    }

    /// Messages that were dropped because their queue was full.
    pub(crate) fn dropped(&self) -> Dropped {
        self.queues.dropped()
    }

    /// A queue is full.
    pub(crate) fn note_full(&mut self, path: Path) {
        self.full.entry(path).or_default();
    }

    /// A queue is full no longer: the shards that were told so.
    pub(crate) fn end_pause(&mut self, path: &Path) -> PlaceSet {
        self.full.remove(path).unwrap_or_default()
    }

    pub(crate) fn consume(
        &mut self,
        now: Now,
        consume: &Consume,
        options: &BrokerOptions,
    ) -> Vec<Effect> {
        let mut effects = Vec::new();
        let of = |path: &Path| options.queue_of(path, consume.owner.as_ref());
        self.queues.consume(now, consume, of, &mut effects);
        effects
    }

    pub(crate) fn settle(
        &mut self,
        now: Now,
        (session, key): (SessionId, SubscriptionKey),
        ranges: &[(u64, u64)],
        settlement: Settlement,
    ) -> Vec<Effect> {
        let mut effects = Vec::new();
        self.queues.settle(now, session, key, ranges, settlement, &mut effects);
        effects
    }

    pub(crate) fn credit(
        &mut self,
        now: Now,
        session: SessionId,
        key: SubscriptionKey,
        messages: u64,
    ) -> Vec<Effect> {
        let mut effects = Vec::new();
        self.queues.credit(now, session, key, messages, &mut effects);
        effects
    }

    pub(crate) fn leave(
        &mut self,
        now: Now,
        session: SessionId,
        key: SubscriptionKey,
        end: (u64, Ending),
    ) -> Vec<Effect> {
        let mut effects = Vec::new();
        self.queues.leave(now, session, key, end, &mut effects);
        effects
    }

    /// Goes on with searches that were too long for one turn.
    pub(crate) fn work(&mut self, now: Now) -> Vec<Effect> {
        let mut effects = Vec::new();
        self.queues.work(now, &mut effects);
        effects
    }

    pub(crate) fn tick(&mut self, now: Now) -> Vec<Effect> {
        let mut effects = Vec::new();
        self.queues.tick(now, &mut effects);
        effects
    }

    /// Whether the time of some messages has come that wait for it.
    pub(crate) fn is_due(&self, wall_ms: u64) -> bool {
        self.queues.is_due(wall_ms)
    }

    /// Makes them ready.
    pub(crate) fn wake(&mut self, now: Now) -> Vec<Effect> {
        let mut effects = Vec::new();
        self.queues.wake(now, &mut effects);
        effects
    }

    /// How many messages wait for their time.
    pub(crate) fn delayed(&self) -> usize {
        self.queues.delayed()
    }

    /// A queue is gone, with all that is in it.
    pub(crate) fn discard(&mut self, path: &Path) -> Vec<Effect> {
        let mut effects = Vec::new();
        self.queues.discard(path, &mut effects);
        effects
    }

    /// The consumers of a place's sessions.
    pub(crate) fn consumers_of(&self, place: Place) -> Vec<(SessionId, SubscriptionKey)> {
        let all = self.queues.subscriptions();
        let mut of: Vec<_> = all.filter(|(session, _)| Place::of(*session) == place).collect();
        of.sort_unstable();
        of
    }

    /// A place is lost: no publisher there waits any more.
    pub(crate) fn lose(&mut self, place: Place) {
        self.queues.lose_elsewhere(number_of(place));
        for told in self.full.values_mut() {
            told.remove(place);
        }
    }

    /// Takes ready messages out for an operation.
    pub(crate) fn take_out(&mut self, queue: Key, slice: &Slice<'_>) -> Taken {
        self.queues.take_out(queue, slice)
    }

    /// They come back to their places.
    pub(crate) fn return_taken(
        &mut self,
        now: Now,
        queue: Key,
        segments: Vec<Segment>,
    ) -> Vec<Effect> {
        let mut effects = Vec::new();
        self.queues.return_taken(now, queue, segments, &mut effects);
        effects
    }

    /// They are gone for good.
    pub(crate) fn drop_taken(
        &mut self,
        now: Now,
        queue: Key,
        segments: Vec<Segment>,
    ) -> Vec<Effect> {
        let mut effects = Vec::new();
        self.queues.drop_taken(now, queue, segments, &mut effects);
        effects
    }

    /// The same of messages of which the store has been told.
    pub(crate) fn forget_taken(
        &mut self,
        now: Now,
        queue: Key,
        segments: &[Segment],
    ) -> Vec<Effect> {
        let mut effects = Vec::new();
        self.queues.forget_taken(now, queue, segments, &mut effects);
        effects
    }

    /// Pauses a queue, or resumes it.
    pub(crate) fn pause(
        &mut self,
        now: Now,
        path: &Path,
        on: bool,
        options: &BrokerOptions,
    ) -> Vec<Effect> {
        let mut effects = Vec::new();
        self.queues.pause(now, path, on, |path| options.queue(path), &mut effects);
        effects
    }

    /// The queue of that name.
    pub(crate) fn find(&self, path: &Path) -> Option<Key> {
        self.queues.key_of(path)
    }

    /// How a queue stands.
    pub(crate) fn state(&self, queue: Key) -> Option<QueueState<'_>> {
        self.queues.state(queue)
    }

    /// What was chosen for a queue.
    pub(crate) fn choices(&self, queue: Key) -> Option<QueueChoices<'_>> {
        self.queues.choices(queue)
    }

    /// How many queues are paused.
    pub(crate) fn paused(&self) -> usize {
        self.queues.paused()
    }

    /// Places of which some have a consumer.
    pub(crate) fn consumer_slots(&self) -> u32 {
        self.queues.consumer_slots()
    }

    /// The consumer at a place, if it consumes from the queue.
    pub(crate) fn consumer_at(&self, queue: Key, slot: u32) -> Option<ConsumerState<'_>> {
        self.queues.consumer_at(queue, slot)
    }

    /// The ready messages of a queue that are in memory, from a version up to another, with their places in the runs of
    /// their segments.
    pub(crate) fn ready_from(
        &self,
        queue: Key,
        from: u64,
        to: u64,
    ) -> impl Iterator<Item = (&Segment, usize)> {
        self.queues.ready_from(queue, from, to)
    }

    pub(crate) fn has_work(&self) -> bool {
        self.queues.has_work()
    }

    /// Whether there is a queue of that name.
    pub(crate) fn has(&self, path: &Path) -> bool {
        self.queues.has(path)
    }

    /// Whether there is one, or may be.
    pub(crate) fn may_have(&self, path: &Path) -> bool {
        self.queues.may_have(path)
    }

    /// Bytes that wait in a queue, if it is there.
    pub(crate) fn bytes_of(&self, path: &Path) -> Option<usize> {
        self.queues.bytes_of(path)
    }

    /// Places of which some have a queue.
    pub(crate) fn slots(&self) -> u32 {
        self.queues.slots()
    }

    /// The queue at a place.
    pub(crate) fn at(&self, slot: u32) -> Option<QueueState<'_>> {
        self.queues.at(slot)
    }

    /// Messages in flight, and how old the oldest of the ready ones is.
    pub(crate) fn surveyed(&self) -> (usize, Span) {
        self.queues.surveyed()
    }

    /// Queues, and the messages and bytes in them.
    pub(crate) fn depth(&self) -> (usize, usize, usize) {
        let (messages, bytes) = self.queues.depth();
        (self.queues.len(), messages, bytes)
    }

    /// Messages whose time was over before they were delivered.
    pub(crate) fn expired_total(&self) -> u64 {
        self.queues.expired_total()
    }
}

/// A place as the queues know it.
fn number_of(place: Place) -> u64 {
    u64::from(place.node.0) << 16 | u64::from(place.shard.0)
}
