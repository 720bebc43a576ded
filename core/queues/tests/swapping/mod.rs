//! Queues with a store, against a list of versions: publishers, consumers and operators do what they like, the store
//! answers late and in its own time, refuses, and has damage. Every message is ready, in flight, taken out or gone, once; it
//! comes in the order of its queue, whether it was in memory or not; and in the end nothing is left of it, also in the
//! memory budget, whether other queues have the same messages or not.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod browsers;
mod checking;
mod fair;
mod step;
mod store;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;
use std::sync::Arc;

use crate::support::{consumer, destination, options, selective, session};
use browsers::{Shown, browser_of};
use proptest::prelude::*;
use step::{Step, step};
use store::{Load, Store, Told};
use tiderace_base::{Key, Memory, MemoryUse, Now, ShardId, Span, Time};
use tiderace_filter::Selector;
use tiderace_queues::{
    Consume, Effect, Ending, Look, Policy, QueueOptions, Queues, Quota, Quotas, Segment,
    Settlement, Slice,
};
use tiderace_topics::Path;
use tiderace_wire::{
    Flags, Meta, Prefetch, QueueFields, QueueStart, Run, RunBuilder, SubscriptionKey, number_of,
    rank_of, version_of,
};

const RED: &str = "colour = 'red'";
const BLUE: &str = "colour = 'blue'";
const KEY: SubscriptionKey = SubscriptionKey(0);
const OWNER: &str = "ann";
/// More than its queue ever has.
const OWNER_BYTES_MAX: u64 = 1 << 40;
const STREAM: u64 = 1;
const VOLATILE: u64 = 1 << 63;

fn small(path: &Path) -> QueueOptions {
    let owner = Some(OWNER.into());
    QueueOptions { bytes_max: 300, redeliveries_max: 0, owner, ..options(path) }
}

/// The same with the most urgent messages first.
fn urgent(path: &Path) -> QueueOptions {
    let policy = Policy { priorities: true, ..Policy::default() };
    QueueOptions { policy, ..small(path) }
}

/// An operation that takes messages out, which may wait for the store.
#[derive(Clone, Debug)]
struct Taking {
    from: u64,
    to: u64,
    selective: bool,
    messages: u64,
    seen_below: u64,
    has_looked: bool,
}

struct World {
    priorities: bool,
    queues: Queues,
    memory: Rc<Memory>,
    /// Messages that other queues have as well.
    others: Vec<Run>,
    key: Key,
    store: Store,
    now: Now,
    numbers: u64,
    /// By version: whether it is red, and when it expires.
    known: BTreeMap<u64, (bool, Option<u64>)>,
    /// By version: in which stream it was put, if it was.
    streams: BTreeMap<u64, u64>,
    ready: BTreeSet<u64>,
    /// By consumer and number: the version.
    in_flight: BTreeMap<u8, BTreeMap<u64, u64>>,
    /// By consumer with a selector: whether it takes the red ones.
    selective: BTreeMap<u8, bool>,
    /// By consumer: the first version that it takes.
    starts: BTreeMap<u8, u64>,
    taken: Vec<Vec<Segment>>,
    taking: BTreeMap<u64, Taking>,
    looked: VecDeque<(u64, u64)>,
    browsers: BTreeMap<u8, Shown>,
    is_damaged: bool,
    unreadable: u64,
}

fn new_world(options: fn(&Path) -> QueueOptions) -> World {
    let memory = Rc::new(Memory::new(1 << 20));
    let mut queues = Queues::new(memory.clone());
    queues.set_store();
    let usual = Quota { bytes_max: OWNER_BYTES_MAX, queues_max: 0 };
    queues.set_quotas(Quotas { usual, of: Vec::new() });
    let now = Now { time: Time::ZERO, wall_ms: 1_000 };
    let key = queues.restore(now, destination().path, (STREAM, 1), options);
    World {
        priorities: options(&destination().path).policy.priorities,
        queues,
        memory,
        others: Vec::new(),
        key,
        store: Store::default(),
        now,
        numbers: 1,
        known: BTreeMap::new(),
        streams: BTreeMap::new(),
        ready: BTreeSet::new(),
        in_flight: BTreeMap::new(),
        selective: BTreeMap::new(),
        starts: BTreeMap::new(),
        taken: Vec::new(),
        taking: BTreeMap::new(),
        looked: VecDeque::new(),
        browsers: BTreeMap::new(),
        is_damaged: false,
        unreadable: 0,
    }
}

fn versions(segments: &[Segment]) -> Vec<u64> {
    segments.iter().flat_map(|it| it.first_version()..=it.last_version()).collect()
}

impl World {
    fn is_expired(&self, version: u64) -> bool {
        self.known[&version].1.is_some_and(|expires| expires <= self.now.wall_ms)
    }

    fn publish(&mut self, count: u8, (persistent, expires): (bool, bool), priority: u8) {
        let mut builder = RunBuilder::new(destination(), self.now.time);
        for offset in 0..count {
            let is_red = (self.numbers + u64::from(offset)).is_multiple_of(3);
            let colour = if is_red { "red" } else { "blue" };
            builder.properties().extend_from_slice(format!("colour:{colour}\n").as_bytes());
            let flags = if persistent { Flags::PERSISTENT } else { Flags::NONE };
            let flags = flags | QueueFields::marks(format!("priority:{priority}\n").as_bytes());
            let expires_ms = expires.then_some(self.now.wall_ms + 40 + u64::from(offset) * 7);
            builder.finish(b"body", Meta { flags, expires_ms });
        }
        let mut run = builder.build();
        if count.is_multiple_of(2) {
            run.share(|bytes| self.memory.charge_body(bytes));
            self.others.push(run.shared_with(destination()));
            run = run.shared_with(destination());
        }
        run.number(ShardId(0), self.numbers);
        self.numbers += u64::from(count);
        let key = self.queues.admit(self.now, &mut run, small);
        let rank = if self.priorities { 9 - u64::from(priority) } else { 0 };
        assert_eq!(rank_of(run.queue_version()), rank);
        for (message, version) in run.messages().zip(run.queue_version()..) {
            let is_red = message.properties.starts_with(b"colour:red");
            self.known.insert(version, (is_red, message.expires_ms));
            self.ready.insert(version);
            self.browsers.values_mut().for_each(|it| it.note_ready(version, is_red));
        }
        let mut stream = persistent.then_some(STREAM);
        if !persistent && self.queues.leaves_new(key, run.queue_version(), run.bytes()) {
            self.queues.set_volatile(key, VOLATILE);
            stream = Some(VOLATILE);
        }
        if stream.is_some() {
            run.set_stored();
        }
        let run = Arc::new(run);
        let run_versions = run.queue_version()..run.queue_version() + run.len() as u64;
        if let Some(stream) = stream {
            self.streams.extend(run_versions.map(|version| (version, stream)));
            self.store.told.push_back(Told::Put { stream, run: run.clone() });
        }
        let mut effects = Vec::new();
        self.queues.publish(self.now, key, run, &mut effects);
        self.apply(effects);
    }

    fn deliver(&mut self, consumer: u8, segment: &Segment) {
        let numbers = segment.first()..=segment.last();
        for (number, version) in numbers.zip(segment.first_version()..) {
            let wanted = self.selective.get(&consumer).copied();
            let is_selected = |red: bool| wanted.is_none_or(|wanted| wanted == red);
            let start = self.starts.get(&consumer).copied().unwrap_or(0);
            assert!(number_of(version) >= start, "{version} comes before {start}");
            let mut before = self.ready.range(..version).filter(|version| {
                number_of(**version) >= start
                    && !self.is_expired(**version)
                    && is_selected(self.known[*version].0)
            });
            // A message that damage has taken is known to be gone when it is passed.
            assert!(self.is_damaged || before.next().is_none(), "{version} too early");
            assert!(self.ready.remove(&version), "{version} was not ready");
            assert!(is_selected(self.known[&version].0));
            let held = self.in_flight.entry(consumer).or_default();
            assert_eq!(held.insert(number, version), None, "a number for two messages");
        }
    }

    fn apply(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Deliver { session, segment, .. } => match browser_of(session) {
                    Some(number) => self.show(number, &segment),
                    None => self.deliver(session.slot as u8, &segment),
                },
                Effect::Browsed { session, .. } => self.browsed(browser_of(session).unwrap()),
                Effect::Settled { stream, segment, is_outside } => {
                    let (first, last) = (segment.first_version(), segment.last_version());
                    for version in first..=last {
                        let was_ready = self.ready.remove(&version);
                        assert!(self.is_expired(version) || !was_ready);
                    }
                    let of = |version: u64| self.streams.get(&version).copied();
                    assert!((first..=last).all(|version| of(version) == Some(stream)), "{stream}");
                    self.store.told.push_back(Told::Gone { first, last, is_outside });
                }
                Effect::Purged { streams, ranges } => {
                    assert_eq!(streams.first(), Some(&STREAM));
                    for (first, last) in ranges {
                        self.store.told.push_back(Told::Gone { first, last, is_outside: false });
                    }
                }
                Effect::Load { queue, streams, first, last, bytes_max } => {
                    assert_eq!(queue, self.key);
                    assert!(
                        self.store.asked.is_empty() && self.store.read.is_empty(),
                        "one at a time"
                    );
                    self.store.loads += 1;
                    self.store.asked.push_back(Load { streams, first, last, bytes_max });
                }
                Effect::Looked { number, through } => self.looked.push_back((number, through)),
                Effect::Full { .. } => {}
                Effect::DeadLetter { .. } | Effect::Ended { .. } => unreachable!("{effect:?}"),
            }
        }
        self.forget_due();
        while let Some((number, through)) = self.looked.pop_front() {
            if let Some(mut taking) = self.taking.remove(&number) {
                taking.seen_below = through.saturating_add(1);
                taking.has_looked = true;
                self.take_out(number, taking);
            }
        }
    }

    fn take_out(&mut self, number: u64, mut taking: Taking) {
        let red = Selector::parse(RED).unwrap();
        let selector = taking.selective.then_some(&red);
        let Taking { from, to, seen_below, messages, .. } = taking;
        let slice =
            Slice { from, to, seen_below, selector, messages, bytes: 10_000, steps: 1_000_000 };
        let out = self.queues.take_out(self.key, &slice);
        for version in versions(&out.segments) {
            assert!(version >= from && number_of(version) <= to, "{version}");
            assert!(self.ready.remove(&version), "{version}");
            assert!(!taking.selective || self.known[&version].0);
        }
        self.taken.push(out.segments);
        if std::mem::take(&mut taking.has_looked) {
            let mut effects = Vec::new();
            self.queues.end_look(self.key, &mut effects);
            self.apply(effects);
        }
        let left = messages - out.messages;
        let Some(next) = out.next.filter(|_| left > 0) else { return };
        let taking = Taking { from: next, messages: left, ..taking };
        let Some(unseen) = out.unseen else { return self.take_out(number, taking) };
        let selector = selector.cloned();
        self.taking.insert(number, taking);
        let look = Look { number, from: unseen, to, selector, messages: left, bytes: 200 };
        let mut effects = Vec::new();
        self.queues.look(self.key, look, &mut effects);
        self.apply(effects);
    }

    /// Versions of the ready messages that are in memory.
    fn in_memory(&self) -> BTreeSet<u64> {
        let here = self.queues.ready_from(self.key, 0, u64::MAX);
        here.map(|(segment, place)| segment.run.queue_version() + place as u64).collect()
    }

    /// The store answers what it was told first.
    fn commit(&mut self, refuse: bool) -> bool {
        let Some(told) = self.store.told.pop_front() else { return false };
        let mut effects = Vec::new();
        match told {
            Told::Put { stream, run } => {
                let range = (run.queue_version(), run.queue_version() + run.len() as u64 - 1);
                if !refuse {
                    self.store.puts.insert((stream, range.0), run);
                    self.queues.stored(self.key, range, &mut effects);
                } else if stream == STREAM {
                    let ready: Vec<u64> = self.ready.range(range.0..=range.1).copied().collect();
                    let count = self.queues.withdraw(self.key, range, &mut effects);
                    assert!(count <= ready.len());
                    ready.iter().for_each(|version| assert!(self.ready.remove(version)));
                }
            }
            Told::Gone { first, last, is_outside } => {
                // It takes what takes away, also when it is full.
                self.store.gone.extend(first..=last);
                if is_outside {
                    self.queues.settled(self.key, (first, last));
                }
            }
        }
        self.apply(effects);
        true
    }

    fn give(&mut self) -> bool {
        let Some(part) = self.store.read.pop_front() else { return false };
        let (mut effects, here) = (Vec::new(), self.in_memory());
        let unreadable = self.queues.loaded(self.now, self.key, &part, &mut effects);
        self.unreadable += unreadable;
        assert!(self.is_damaged || unreadable == 0, "{unreadable} of {part:?}");
        if unreadable > 0 {
            for (first, last) in &part.unreadable {
                self.ready.retain(|version| {
                    here.contains(version) || !(*first..=*last).contains(version)
                });
            }
        }
        self.apply(effects);
        true
    }

    fn consume(&mut self, number: u8, consume: &Consume) {
        if self.in_flight.contains_key(&number) {
            return;
        }
        self.in_flight.insert(number, BTreeMap::new());
        match consume.selector.as_ref().map(|it| *it == Selector::parse(RED).unwrap()) {
            Some(is_red) => self.selective.insert(number, is_red),
            None => self.selective.remove(&number),
        };
        let QueueStart::Version(start) = consume.start else { unreachable!() };
        self.starts.insert(number, start);
        let mut effects = Vec::new();
        self.queues.consume(self.now, consume, small, &mut effects);
        self.apply(effects);
    }

    fn settle(&mut self, number: u8, place: u8, count: u8, settlement: Settlement) {
        let Some(held) = self.in_flight.get_mut(&number) else { return };
        let place = usize::from(place) % held.len().max(1);
        let Some((first, _)) = held.iter().nth(place) else { return };
        let (first, last) = (*first, *first + u64::from(count) - 1);
        let settled: Vec<(u64, u64)> =
            held.range(first..=last).map(|(number, version)| (*number, *version)).collect();
        for (number, version) in settled {
            held.remove(&number);
            if settlement != Settlement::Accept {
                self.ready.insert(version);
            }
        }
        let (mut effects, who) = (Vec::new(), session(number));
        self.queues.settle(self.now, who, KEY, &[(first, last)], settlement, &mut effects);
        self.apply(effects);
    }

    fn leave(&mut self, number: u8, ending: Ending) {
        let Some(held) = self.in_flight.remove(&number) else { return };
        self.ready.extend(held.into_values());
        let mut effects = Vec::new();
        self.queues.leave(self.now, session(number), KEY, (u64::MAX, ending), &mut effects);
        self.apply(effects);
    }

    fn act(&mut self, step: Step, looks: u64) {
        let mut effects = Vec::new();
        match step {
            Step::Publish { count, persistent, expires, priority } => {
                self.publish(count, (persistent, expires), priority)
            }
            Step::Consume { number, messages, red, from } => {
                let (window, start) = (Prefetch { messages, bytes: 0 }, QueueStart::Version(from));
                let selecting = red.map(|red| selective(number, if red { RED } else { BLUE }));
                let consume = selecting.unwrap_or_else(|| consumer(number, messages));
                self.consume(number, &Consume { window, start, ..consume });
            }
            Step::Settle { number, place, count, settlement } => {
                let all = [
                    Settlement::Accept,
                    Settlement::Accept,
                    Settlement::Reject,
                    Settlement::Return,
                ];
                self.settle(number, place, count, all[usize::from(settlement)]);
            }
            Step::Leave { number, lost } => {
                self.leave(number, if lost { Ending::Lost } else { Ending::Orderly });
            }
            Step::Commit { count, refuse } => {
                for _ in 0..count {
                    self.commit(refuse);
                }
            }
            // Now and then it cannot read just now.
            Step::Read if looks.is_multiple_of(7) => self.store.stall(),
            Step::Read => self.store.read_next(&mut self.numbers),
            Step::Give => {
                self.give();
            }
            Step::TakeOut { from, rank, more, selective, messages } => {
                let to = from + more;
                let from = if self.priorities { version_of(rank, from) } else { from };
                self.take_out(
                    looks,
                    Taking { from, to, selective, messages, seen_below: 0, has_looked: false },
                );
            }
            Step::Drop(place) if !self.taken.is_empty() => {
                let segments = self.taken.swap_remove(usize::from(place) % self.taken.len());
                self.queues.drop_taken(self.now, self.key, segments, &mut effects);
            }
            Step::GiveBack(place) if !self.taken.is_empty() => {
                let segments = self.taken.swap_remove(usize::from(place) % self.taken.len());
                self.ready.extend(versions(&segments));
                self.queues.return_taken(self.now, self.key, segments, &mut effects);
            }
            Step::Drop(_) | Step::GiveBack(_) => {}
            Step::Purge => {
                let here = self.in_memory();
                let before = self.queues.state(self.key).unwrap().swapped;
                let count = self.queues.purge_swapped(self.now, self.key, &mut effects);
                assert_eq!(count, before);
                for effect in &effects {
                    let Effect::Purged { ranges, .. } = effect else { continue };
                    for (first, last) in ranges {
                        self.ready.retain(|version| {
                            here.contains(version) || !(*first..=*last).contains(version)
                        });
                    }
                }
            }
            Step::Pass(milliseconds) => {
                let span = Span::from_millis(u64::from(milliseconds));
                self.now.time = self.now.time + span;
                self.now.wall_ms += u64::from(milliseconds);
                self.queues.tick(self.now, &mut effects);
            }
            Step::Damage => {
                let known: Vec<u64> = self.store.puts.keys().map(|(_, first)| *first).collect();
                if let Some(first) = known.get(looks as usize % known.len().max(1)) {
                    self.is_damaged = true;
                    self.store.damaged.insert(*first);
                }
            }
            Step::Browse { number, messages, red, follows, from } => {
                self.browse(number, (messages, red, follows), from);
            }
            Step::Write { number, count } => self.write(number, count),
            Step::LeaveBrowser(number) => self.leave_browser(number),
        }
        self.apply(effects);
        self.work();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]
    #[test]
    fn messages_come_once_and_in_order_wherever_they_were(steps in proptest::collection::vec(step(), 1..120)) {
        let mut world = new_world(small);
        for (step, number) in steps.into_iter().zip(1..) {
            world.act(step, number);
            world.check();
        }
        world.finish();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]
    #[test]
    fn the_most_urgent_messages_come_first_wherever_they_were(steps in proptest::collection::vec(step(), 1..120)) {
        let mut world = new_world(urgent);
        for (step, number) in steps.into_iter().zip(1..) {
            world.act(step, number);
            world.check();
        }
        world.finish();
    }
}

/// Earlier versions of the server stored messages that are not persistent if they came together with others.
#[test]
fn what_is_not_persistent_does_not_come_back_from_an_earlier_life() {
    let mut world = new_world(small);
    let mut builder = RunBuilder::new(destination(), Time::ZERO);
    for flags in [Flags::PERSISTENT, Flags::NONE, Flags::NONE, Flags::PERSISTENT] {
        builder.finish(b"body", Meta { flags, expires_ms: None });
    }
    let mut run = builder.build();
    run.set_queue_version(1);
    run.set_stored();
    world.store.puts.insert((STREAM, 1), Arc::new(run));
    let path = Path::parse("jobs").unwrap();
    world.key = world.queues.restore(world.now, path, (STREAM, 5), small);
    world.queues.restore_swapped(world.now, world.key, [(1, 4, 400)].into_iter());
    for version in 1..=4 {
        world.known.insert(version, (false, None));
        world.streams.insert(version, STREAM);
    }
    world.ready = BTreeSet::from([1, 4]);
    world.finish();
    assert_eq!(world.store.gone, BTreeSet::from([1, 2, 3, 4]));
}
