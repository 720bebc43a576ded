//! A queue that drops what has waited longest, and has messages in the store alone.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::support::{consumer, destination, options, queues_within, session};
use tiderace_base::{Key, Now, ShardId, Time};
use tiderace_queues::{
    Dropped, Effect, FullPolicy, LoadedPart, LoadedRun, Policy, QueueOptions, Queues, Settlement,
};
use tiderace_topics::Path;
use tiderace_wire::{Flags, Meta, Run, RunBuilder, SubscriptionKey};

const KEY: SubscriptionKey = SubscriptionKey(0);
const STREAM: u64 = 7;
const BODY: usize = 100;

/// A queue with a store, of single messages.
struct World {
    queues: Queues,
    key: Key,
    options: QueueOptions,
    /// Versions that the store has.
    stored: BTreeSet<u64>,
    numbers: u64,
    delivered: Vec<u64>,
    loads: usize,
    /// The store cannot read.
    is_stalled: bool,
    asked: Option<(u64, u64, usize)>,
}

impl World {
    /// The store has these versions from an earlier life of the server.
    fn restored(options: QueueOptions, versions: impl IntoIterator<Item = u64>) -> World {
        let stored: BTreeSet<u64> = versions.into_iter().collect();
        let mut queues = queues_within(1 << 24);
        queues.set_store();
        let last = *stored.last().unwrap();
        let own = |_: &Path| options.clone();
        let path = destination().path;
        let key = queues.restore(Now::default(), path, (STREAM, last + 1), own);
        let each = stored.iter().map(|version| (*version, *version, (BODY + 16) as u64));
        queues.restore_swapped(Now::default(), key, each);
        World {
            queues,
            key,
            options,
            stored,
            numbers: 1_000,
            delivered: Vec::new(),
            loads: 0,
            is_stalled: false,
            asked: None,
        }
    }

    fn message(&mut self, version: Option<u64>) -> Run {
        let mut builder = RunBuilder::new(destination(), Time::ZERO);
        builder.finish(&[0; BODY], Meta { flags: Flags::PERSISTENT, expires_ms: None });
        let mut run = builder.build();
        run.number(ShardId(0), self.numbers);
        self.numbers += 1;
        if let Some(version) = version {
            run.set_queue_version(version);
        }
        run.set_stored();
        run
    }

    /// Publishes a message; the store has it if it is said so.
    fn publish(&mut self, is_stored: bool) -> u64 {
        let mut run = self.message(None);
        let options = self.options.clone();
        let key = self.queues.admit(Now::default(), &mut run, |_| options);
        let version = run.queue_version();
        self.stored.insert(version);
        let mut effects = Vec::new();
        self.queues.publish(Now::default(), key, Arc::new(run), &mut effects);
        self.apply(effects);
        if is_stored {
            self.confirm(version);
        }
        version
    }

    fn confirm(&mut self, version: u64) {
        let mut effects = Vec::new();
        self.queues.stored(self.key, (version, version), &mut effects);
        self.apply(effects);
    }

    fn apply(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Settled { segment, is_outside, .. } => {
                    let range = (segment.first_version(), segment.last_version());
                    self.stored.retain(|version| !(range.0..=range.1).contains(version));
                    if is_outside {
                        self.queues.settled(self.key, range);
                    }
                }
                Effect::Purged { ranges, .. } => {
                    for (first, last) in ranges {
                        self.stored.retain(|version| !(first..=last).contains(version));
                    }
                }
                Effect::Load { first, last, bytes_max, .. } => {
                    assert!(self.asked.replace((first, last, bytes_max)).is_none());
                }
                Effect::Deliver { segment, .. } => {
                    self.delivered.extend(segment.first_version()..=segment.last_version());
                }
                other => panic!("{other:?}"),
            }
        }
        while !self.is_stalled
            && let Some(asked) = self.asked.take()
        {
            self.answer(asked);
        }
    }

    fn answer(&mut self, (first, last, bytes_max): (u64, u64, usize)) {
        self.loads += 1;
        let most = (bytes_max / BODY).max(1);
        let all: Vec<u64> = self.stored.range(first..=last).copied().collect();
        let through = all.get(most).map_or(last, |next| next - 1);
        let some = all.into_iter().take(most);
        let runs = some.map(|version| {
            let run = Arc::new(self.message(Some(version)));
            LoadedRun { run, there: vec![(0, 1)] }
        });
        let part = LoadedPart { through, runs: runs.collect(), unreadable: Vec::new() };
        self.loaded(&part);
    }

    fn loaded(&mut self, part: &LoadedPart) {
        let mut effects = Vec::new();
        assert_eq!(self.queues.loaded(Now::default(), self.key, part, &mut effects), 0);
        self.apply(effects);
    }

    fn consume(&mut self, window: u32) {
        let (options, mut effects) = (self.options.clone(), Vec::new());
        let who = consumer(1u8, window);
        self.queues.consume(Now::default(), &who, |_| options.clone(), &mut effects);
        self.apply(effects);
    }

    /// The consumer takes all that there is: the versions in the order in which they came.
    fn drain(&mut self) -> Vec<u64> {
        let mut all = Vec::new();
        while !self.delivered.is_empty() {
            all.append(&mut self.delivered);
            let (mut effects, range) = (Vec::new(), [(0, u64::MAX)]);
            let accept = Settlement::Accept;
            self.queues.settle(Now::default(), session(1u8), KEY, &range, accept, &mut effects);
            self.apply(effects);
        }
        all
    }

    fn messages(&self) -> usize {
        self.queues.state(self.key).unwrap().messages
    }
}

fn dropping(messages_max: usize) -> QueueOptions {
    let policy = Policy { full: FullPolicy::DropHead, messages_max, ..Policy::default() };
    QueueOptions { bytes_max: 400, policy, ..options(&destination().path) }
}

#[test]
fn the_oldest_in_the_store_are_dropped_though_others_between_them_are_gone() {
    // Every second one was consumed in an earlier life.
    let mut world = World::restored(dropping(10), (1..=20).map(|number| number * 2));
    let new: Vec<u64> = (0..4).map(|_| world.publish(true)).collect();
    assert_eq!(new, [41, 42, 43, 44]);
    let kept: Vec<u64> = [30, 32, 34, 36, 38, 40].into_iter().chain(new).collect();
    assert_eq!(world.stored.iter().copied().collect::<Vec<_>>(), kept);
    assert_eq!(world.messages(), 10);
    assert_eq!(world.queues.dropped(), Dropped { head: 14, tail: 0 });
    world.consume(3);
    assert_eq!(world.drain(), kept, "all that is left is given");
    assert!(world.stored.is_empty(), "{:?}", world.stored);
    assert_eq!(world.queues.depth(), (0, 0));
}

#[test]
fn nothing_is_read_to_be_dropped_where_all_are_there() {
    let mut world = World::restored(dropping(10), 1..=10);
    (0..30).for_each(|_| _ = world.publish(true));
    assert_eq!((world.loads, world.messages()), (0, 10));
    assert_eq!(world.stored.iter().copied().collect::<Vec<_>>(), (31..=40).collect::<Vec<_>>());
}

#[test]
fn what_comes_is_dropped_while_the_store_cannot_be_read() {
    let mut world = World::restored(dropping(10), (1..=10).map(|number| number * 2));
    world.is_stalled = true;
    world.publish(true);
    let asked = world.asked.take().unwrap();
    world.loaded(&LoadedPart { through: asked.0 - 1, ..LoadedPart::default() });
    (0..50).for_each(|_| _ = world.publish(true));
    assert!(world.messages() <= 11, "{}", world.messages());
    world.is_stalled = false;
    let mut effects = Vec::new();
    world.queues.tick(Now::default(), &mut effects);
    world.apply(effects);
    assert_eq!(world.messages(), 10);
    world.consume(3);
    assert_eq!(world.drain().len(), 10);
    assert!(world.stored.is_empty());
}

#[test]
fn for_room_on_the_disk_only_what_is_there_is_dropped() {
    let each = (BODY + 16) as u64;
    let bounds = QueueOptions { disk_bytes_max: 100 * each, bytes_max: 4_000, ..dropping(0) };
    let mut world = World::restored(bounds, 1..=100);
    world.consume(1);
    let in_memory = world.messages() as u64 - world.queues.swapped().0;
    assert!(in_memory > 4, "some were read ahead: {in_memory}");
    let before = world.messages();
    // As many as bring it above its bound, and five.
    for _ in 0..in_memory + 1 + 5 {
        world.publish(true);
    }
    // The last is dropped for when the next one comes.
    let after = world.messages() as u64;
    assert!(after >= before as u64 + in_memory, "{before}, then {after}");
    let kept = world.queues.swapped();
    assert_eq!(kept.0, 101, "{kept:?}");
}

#[test]
fn for_room_in_memory_nothing_is_dropped_that_is_not_there() {
    let bounds = QueueOptions { bytes_max: 1_000, ..dropping(0) };
    let mut world = World::restored(bounds, 1..=100);
    // The store is late: what comes fills the memory.
    for _ in 0..40 {
        world.publish(false);
    }
    assert_eq!(world.queues.swapped().0, 100, "what the store has stays");
    assert!(world.queues.depth().1 <= 2_000, "{:?}", world.queues.depth());
    let head = 40 - 2_000 / (BODY as u64 + 16);
    assert_eq!(world.queues.dropped(), Dropped { head, tail: 0 });
    for version in 101..=140 {
        world.confirm(version);
    }
    world.consume(3);
    let rest = 1..=100;
    assert_eq!(world.drain(), rest.chain(101 + head..=140).collect::<Vec<_>>());
    assert!(world.stored.is_empty());
}
