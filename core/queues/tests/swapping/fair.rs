//! Consumers of many deep queues, and many selections of one: what is read for them is bounded, and everybody is served.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::support::{consumer, options, queues_within, selective, session};
use tiderace_base::{Key, Now, ShardId, Time};
use tiderace_queues::{
    Consume, Effect, Ending, LoadedPart, LoadedRun, QueueOptions, Queues, Settlement,
};
use tiderace_topics::{Path, Pattern};
use tiderace_wire::{
    Browsing, Destination, Flags, Kind, Meta, RunBuilder, SubscriptionKey, Target,
};

const MEMORY: usize = 1 << 20;
const QUEUES: u64 = 200;
/// Messages of each queue, a record each.
const DEPTH: u64 = 100;
const BODY: usize = 8_000;
const KEY: SubscriptionKey = SubscriptionKey(0);

fn deep(path: &Path) -> QueueOptions {
    QueueOptions { bytes_max: 1 << 20, ..options(path) }
}

fn path(number: u64) -> Path {
    Path::parse(&format!("deep/{number}")).unwrap()
}

struct World {
    queues: Queues,
    keys: Vec<Key>,
    numbers: u64,
    /// All messages of a queue are of one group.
    are_grouped: bool,
    /// What was asked of the store and is not answered.
    asked: VecDeque<(Key, u64, u64, usize)>,
    asked_bytes: usize,
    delivered: Vec<(u32, u64)>,
    /// Browsers that have come to the end.
    ended: usize,
}

impl World {
    fn new(count: u64) -> World {
        let mut queues = queues_within(MEMORY);
        queues.set_store();
        let keys = (0..count).map(|number| {
            let key = queues.restore(Now::default(), path(number), (number + 1, DEPTH + 1), deep);
            let bytes = DEPTH * BODY as u64;
            queues.restore_swapped(Now::default(), key, [(1, DEPTH, bytes)].into_iter());
            key
        });
        let keys = keys.collect();
        let (asked, delivered) = (VecDeque::new(), Vec::new());
        let are_grouped = false;
        World { queues, keys, numbers: 1, are_grouped, asked, asked_bytes: 0, delivered, ended: 0 }
    }

    fn apply(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Load { queue, first, last, bytes_max, .. } => {
                    self.asked_bytes += bytes_max;
                    self.asked.push_back((queue, first, last, bytes_max));
                }
                Effect::Deliver { session, segment, .. } => {
                    let all = segment.first()..=segment.last();
                    self.delivered.extend(all.map(|number| (session.slot, number)));
                }
                Effect::Settled { .. } => {}
                Effect::Browsed { .. } => self.ended += 1,
                other => panic!("{other:?}"),
            }
        }
    }

    fn consume(&mut self, consume: &Consume) {
        let mut effects = Vec::new();
        self.queues.consume(Now::default(), consume, deep, &mut effects);
        self.apply(effects);
        self.work();
    }

    fn work(&mut self) {
        while self.queues.has_work() {
            let mut effects = Vec::new();
            self.queues.work(Now::default(), &mut effects);
            self.apply(effects);
        }
    }

    /// The store answers one request: message number `n` of a queue has the property `of` with `n` modulo 4.
    fn answer(&mut self) -> bool {
        let Some((key, first, last, bytes_max)) = self.asked.pop_front() else { return false };
        self.asked_bytes -= bytes_max;
        let at = self.keys.iter().position(|known| *known == key).unwrap() as u64;
        let count = (bytes_max / BODY).max(1) as u64;
        let last = last.min(first + count - 1);
        let runs = (first..=last).map(|version| {
            let destination = Destination { kind: Kind::Queue, path: path(at) };
            let mut builder = RunBuilder::new(destination, Time::ZERO);
            let of = format!("of:{}\n", version % 4);
            builder.properties().extend_from_slice(of.as_bytes());
            let mut flags = Flags::PERSISTENT;
            if self.are_grouped {
                builder.properties().extend_from_slice(b"message_group:one\n");
                flags = flags | Flags::GROUPED;
            }
            builder.finish(&[0; BODY], Meta { flags, expires_ms: None });
            let mut run = builder.build();
            run.number(ShardId(0), self.numbers);
            self.numbers += 1;
            run.set_queue_version(version);
            run.set_stored();
            LoadedRun { run: Arc::new(run), there: vec![(0, 1)] }
        });
        let runs = runs.collect();
        let part = LoadedPart { through: last, runs, unreadable: Vec::new() };
        let mut effects = Vec::new();
        self.queues.loaded(Now::default(), key, &part, &mut effects);
        self.apply(effects);
        self.work();
        true
    }

    fn settle_all(&mut self) -> usize {
        let delivered = std::mem::take(&mut self.delivered);
        for (who, number) in &delivered {
            let mut effects = Vec::new();
            let range = [(*number, *number)];
            let who = session(*who);
            let accept = Settlement::Accept;
            self.queues.settle(Now::default(), who, KEY, &range, accept, &mut effects);
            self.apply(effects);
        }
        self.work();
        delivered.len()
    }
}

#[test]
fn a_consumer_of_many_deep_queues_has_no_more_read_than_memory_is_for() {
    let mut world = World::new(QUEUES);
    let target = Target::Pattern(Kind::Queue, Pattern::parse("deep/**").unwrap());
    world.consume(&Consume { target, ..consumer(1u8, 1) });
    let record = 2 * BODY;
    let mut received = 0;
    for _ in 0..20 * QUEUES * DEPTH {
        let in_memory = world.queues.depth().1;
        assert!(
            in_memory + world.asked_bytes <= MEMORY / 2 + (256 << 10) + QUEUES as usize,
            "{in_memory} in memory, {} asked for",
            world.asked_bytes
        );
        assert!(world.delivered.len() <= 1);
        if !world.answer() {
            received += world.settle_all();
            if world.asked.is_empty() && world.delivered.is_empty() {
                break;
            }
        }
        assert!(world.queues.depth().1 <= MEMORY / 2 + (256 << 10) + record);
    }
    assert_eq!(received as u64, QUEUES * DEPTH,);
    let loads = world.queues.loads_total();
    assert!(loads <= 4 * QUEUES * DEPTH, "{loads} requests to the store");
}

#[test]
fn a_selection_that_comes_while_another_is_answered_sees_the_front() {
    let mut world = World::new(1);
    let one = Target::Exact(Destination { kind: Kind::Queue, path: path(0) });
    let selecting = |number: u8, of: u8| {
        let selective = selective(number, &format!("of = '{of}'"));
        Consume { target: one.clone(), ..selective }
    };
    world.consume(&selecting(1, 3));
    world.answer();
    assert!(world.asked.front().is_some_and(|(_, first, ..)| *first > 1), "it looks on behind");
    world.delivered.clear();
    let mut effects = Vec::new();
    world.queues.leave(Now::default(), session(1u8), KEY, (0, Ending::Orderly), &mut effects);
    world.apply(effects);
    world.consume(&selecting(2, 1));
    let mut received = 0;
    while world.answer() || !world.delivered.is_empty() {
        received += world.settle_all();
    }
    assert_eq!(received as u64, DEPTH / 4);
}

#[test]
fn many_selections_of_one_queue_are_all_served() {
    let mut world = World::new(1);
    let one = Target::Exact(Destination { kind: Kind::Queue, path: path(0) });
    for number in 0..40u8 {
        let selector = format!("of = '{}' AND {number} = {number}", number % 4);
        world.consume(&Consume { target: one.clone(), ..selective(number, &selector) });
    }
    let mut received = 0;
    for _ in 0..10_000 {
        if !world.answer() {
            received += world.settle_all();
            if world.asked.is_empty() && world.delivered.is_empty() {
                break;
            }
        }
    }
    assert_eq!(received as u64, DEPTH);
    assert_eq!(world.queues.depth(), (0, 0));
}

#[test]
fn groups_whose_consumers_have_no_room_are_read_ahead_of_within_the_memory_too() {
    let count = 8;
    let mut world = World::new(count);
    world.are_grouped = true;
    // Of each queue the one that has its group has room for one message, and the others have nothing to do.
    for number in 0..count {
        let target = Target::Exact(Destination { kind: Kind::Queue, path: path(number) });
        for member in 0..3u32 {
            let who = 3 * number as u32 + member;
            world.consume(&Consume { target: target.clone(), ..consumer(who, 1) });
        }
    }
    // A part for somebody, and of each queue a message that was given and one that is next.
    let most = MEMORY / 2 + (256 << 10) + count as usize * 2 * (BODY + 100);
    assert!(most < MEMORY);
    while world.answer() {
        assert!(world.queues.depth().1 <= most, "{:?} in memory", world.queues.depth());
    }
    // Those that have something go on, and all comes in the end.
    let mut received = 0;
    for _ in 0..20 * count * DEPTH {
        received += world.settle_all();
        let mut effects = Vec::new();
        world.queues.tick(Now::default(), &mut effects);
        world.apply(effects);
        while world.answer() {}
        if world.delivered.is_empty() {
            break;
        }
    }
    assert_eq!(received as u64, count * DEPTH);
}

#[test]
fn a_group_behind_another_that_is_held_up_is_read_when_memory_has_room_again() {
    let mut world = World::new(2);
    world.are_grouped = true;
    let target = |number| Target::Exact(Destination { kind: Kind::Queue, path: path(number) });
    // One takes up the memory.
    world.consume(&Consume { target: target(1), ..consumer(9u32, 1_000) });
    while world.answer() {}
    let before = world.queues.depth().1;
    assert!(before > MEMORY / 2, "{before}");
    let of_first = std::mem::take(&mut world.delivered);
    // Of the other one somebody has a message and does not settle it.
    for who in 1..4u32 {
        world.consume(&Consume { target: target(0), ..consumer(who, 1) });
    }
    while world.answer() {}
    let swapped = world.queues.swapped().0;
    assert_eq!(world.delivered.len(), 1);
    world.delivered = of_first;
    world.settle_all();
    while !world.delivered.is_empty() || world.answer() {
        world.settle_all();
    }
    let mut effects = Vec::new();
    world.queues.tick(Now::default(), &mut effects);
    world.apply(effects);
    while world.answer() {}
    assert!(
        world.queues.swapped().0 < swapped - 10,
        "{swapped}, then {:?}",
        world.queues.swapped()
    );
}

/// Browsers get every other part at most, and nothing of what is read for them is kept.
#[test]
fn many_browsers_of_a_deep_queue_hold_no_consumer_up_and_take_no_memory() {
    let mut world = World::new(1);
    let target = Target::Exact(Destination { kind: Kind::Queue, path: path(0) });
    for who in 100..150u32 {
        let browsing = Some(Browsing::ToEnd);
        world.consume(&Consume { target: target.clone(), browsing, ..consumer(who, 10) });
    }
    world.consume(&Consume { target, ..consumer(1u8, 10) });
    let (mut taken, mut loads) = (0, 0);
    while taken < DEPTH {
        for _ in 0..4 {
            loads += usize::from(world.answer());
            assert!(world.queues.depth().1 <= 1 << 20, "{:?} in memory", world.queues.depth());
        }
        taken += world.delivered.iter().filter(|(who, _)| *who == 1).count() as u64;
        world.settle_all();
        assert!(loads < 200, "{taken} messages with {loads} loads");
    }
    while world.answer() || !world.delivered.is_empty() {
        world.settle_all();
    }
    assert_eq!(world.ended, 50, "each has come to the end");
    assert_eq!(world.queues.depth(), (0, 0));
}

#[test]
fn a_browser_of_a_deep_queue_sees_all_of_it_in_order_and_leaves_it_in_the_store() {
    let mut world = World::new(1);
    let target = Target::Exact(Destination { kind: Kind::Queue, path: path(0) });
    let browsing = Some(Browsing::ToEnd);
    world.consume(&Consume { target, browsing, ..consumer(1u8, 7) });
    let mut seen = Vec::new();
    while world.answer() || !world.delivered.is_empty() {
        seen.extend(world.delivered.iter().map(|(_, number)| *number));
        world.settle_all();
        assert_eq!((world.queues.swapped().0, world.queues.depth().1), (DEPTH, 0));
    }
    assert_eq!((seen.len() as u64, world.ended), (DEPTH, 1));
    assert!(seen.is_sorted());
}
