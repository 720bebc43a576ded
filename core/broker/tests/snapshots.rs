//! Snapshots in pages, and what is published meanwhile: each subscriber gets of each topic the value
//! first and everything newer after it, whatever happens in between; and however large a snapshot is,
//! its session's backlog stays small.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::field_reassign_with_default)]

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::support::asking::{create, tell};
use crate::support::{Outgoing, Wish, World, for_seeds, names};
use tiderace_base::Span;
use tiderace_broker::{BrokerOptions, PageLimits, TopicPolicy, TopicSpec};
use tiderace_topics::Pattern;
use tiderace_wire::{Flags, Token};

/// A message as its publisher knows it.
#[derive(Clone, Copy, Debug)]
struct Published {
    red: bool,
    effect: Effect,
    at: usize,
}

/// What a message does to its topic's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effect {
    Sets,
    Removes,
    Keeps,
}

/// One subscription from its request to its end.
#[derive(Debug)]
struct Life {
    client: usize,
    key: u32,
    target: &'static str,
    red: bool,
    token: Token,
    confirmed: Option<usize>,
    ended: bool,
    received: Vec<(String, usize)>,
}

struct Run {
    world: World,
    topics: Vec<String>,
    step: usize,
    published: Vec<Published>,
    lives: Vec<Life>,
    seen: Vec<usize>,
    writer: usize,
    early: usize,
}

const WISHES: [&str; 6] = [
    "topic:**",
    "topic:kept/**",
    "topic:*/a/*",
    "topic:mixed/b/**",
    "topic:kept/a/1",
    "topic:none/**",
];

impl Run {
    fn new(seed: u64) -> Run {
        let mut options = BrokerOptions::default();
        options.shards = 1 + (seed % 4) as usize;
        options.page = PageLimits { bytes: 900, values: 3, looked_at: 5 };
        let mut kept = TopicSpec::default();
        kept.retain = true;
        options.topic_policies =
            vec![TopicPolicy { pattern: Pattern::parse("kept/**").unwrap(), spec: Arc::new(kept) }];
        let topics = ["kept/a", "kept/b", "mixed/a", "mixed/b"]
            .iter()
            .flat_map(|part| (0..7).map(move |number| format!("{part}/{number}")))
            .collect();
        let mut run = Run {
            world: World::new(seed, options),
            topics,
            step: 0,
            published: Vec::new(),
            lives: Vec::new(),
            seen: Vec::new(),
            writer: 0,
            early: 0,
        };
        let witness = run.connect();
        run.subscribe(witness, 0, "topic:**", false);
        run.world.deliver_envelopes();
        run.writer = run.connect();
        run
    }

    fn connect(&mut self) -> usize {
        let shard = self.world.random.below(self.world.brokers.len());
        self.seen.push(0);
        self.world.connect(shard, "somebody")
    }

    fn subscribe(&mut self, client: usize, key: u32, target: &'static str, red: bool) {
        let recoverable = self.world.random.one_in(3);
        let selector = red.then_some("colour = 'red'");
        let confirm_values = self.world.random.one_in(3);
        let wish = Wish { selector, recoverable, confirm_values, ..Wish::to(target) };
        let token = self.world.subscribe(client, key, wish);
        let received = Vec::new();
        let (confirmed, ended) = (None, false);
        self.lives.push(Life { client, key, target, red, token, confirmed, ended, received });
    }

    fn publish(&mut self) {
        let path = self.world.random.pick(&self.topics).clone();
        let count = 1 + self.world.random.below(2);
        let mut messages = Vec::new();
        for _ in 0..count {
            let red = self.world.random.one_in(2);
            let mut message = Outgoing::new(self.published.len().to_string());
            message.properties = format!("colour:{}\n", if red { "red" } else { "blue" });
            let effect = match self.world.random.below(6) {
                0 => Effect::Removes,
                1 | 2 => Effect::Sets,
                _ if path.starts_with("kept/") => Effect::Sets,
                _ => Effect::Keeps,
            };
            message.flags = match effect {
                Effect::Removes => Flags::RETAIN_REMOVE,
                Effect::Sets => Flags::RETAIN,
                Effect::Keeps => Flags::NONE,
            };
            messages.push(message);
            self.published.push(Published { red, effect, at: self.step });
        }
        self.world.publish_all(self.writer, &format!("topic:{path}"), &messages);
    }

    fn look(&mut self) {
        for client in 0..self.world.clients.len() {
            let news = self.world.clients[client].received.split_off(self.seen[client]);
            for message in &news {
                let body = message.body.parse().unwrap();
                let life = self.lives.iter_mut().find(|life| {
                    (life.client, life.key, life.ended) == (client, message.key, false)
                });
                life.unwrap().received.push((message.path.clone(), body));
            }
        }
        let (world, step) = (&self.world, self.step);
        for life in self.lives.iter_mut().filter(|life| life.confirmed.is_none()) {
            life.confirmed = world.is_confirmed(life.client, life.token).then_some(step);
        }
    }

    fn end(&mut self, client: usize, key: u32) {
        let open = |life: &&mut Life| (life.client, life.key, life.ended) == (client, key, false);
        if let Some(life) = self.lives.iter_mut().find(open) {
            life.ended = true;
            self.world.unsubscribe(client, key);
        }
    }

    fn act(&mut self, clients: &mut Vec<usize>) {
        let client = *self.world.random.pick(clients);
        let key = self.world.random.below(2) as u32;
        match self.world.random.below(24) {
            0..=4 => self.publish(),
            5..=7 => {
                self.end(client, key);
                let target = *self.world.random.pick(&WISHES);
                let red = self.world.random.one_in(4);
                self.subscribe(client, key, target, red);
            }
            8 if self.world.random.one_in(2) => self.end(client, key),
            9 if self.world.random.one_in(3) => {
                (0..2).for_each(|key| self.end(client, key));
                self.world.close(client);
                clients.retain(|known| *known != client);
                clients.push(self.connect());
            }
            10 => self.world.advance(Span::from_millis(50)),
            11..=17 => {
                self.world.deliver_envelope();
            }
            _ => {
                self.world.pull(client);
            }
        }
        self.look();
        self.step += 1;
    }

    /// Of each topic: the bodies in their order, from what the witness saw.
    fn orders(&self) -> BTreeMap<&str, Vec<usize>> {
        let mut orders: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (path, body) in &self.lives[0].received {
            orders.entry(path).or_default().push(*body);
        }
        let all: usize = orders.values().map(Vec::len).sum();
        assert_eq!(all, self.published.len(), "the witness saw everything");
        orders
    }

    fn check(&mut self) {
        let mut early = 0;
        for (path, order) in &self.orders() {
            for life in self.lives.iter().filter(|life| names(life.target, path)) {
                early += usize::from(self.check_topic(life, path, order));
            }
        }
        self.early = early;
    }

    /// Whether a value came that was followed by something that did not replace it.
    fn check_topic(&self, life: &Life, path: &str, order: &[usize]) -> bool {
        let got: Vec<usize> =
            life.received.iter().filter(|(at, _)| at == path).map(|(_, body)| *body).collect();
        let wanted = |body: &usize| !life.red || self.published[*body].red;
        // What was published before the request may be in the value only; what was published after
        // the confirmation is live.
        let latest = match life.confirmed {
            Some(step) => order.iter().position(|body| self.published[*body].at > step),
            None => None,
        };
        let latest = latest.unwrap_or(order.len());
        for start in 0..=latest {
            let (before, after) = order.split_at(start);
            let mut value = None;
            for body in before {
                match self.published[*body].effect {
                    Effect::Sets => value = Some(*body),
                    Effect::Removes => value = None,
                    Effect::Keeps => {}
                }
            }
            let live: Vec<usize> = after.iter().copied().filter(|body| wanted(body)).collect();
            let with: Vec<usize> =
                value.into_iter().filter(|body| wanted(body)).chain(live.clone()).collect();
            let is = |expected: &[usize]| match life.ended {
                true => expected.starts_with(&got),
                false => expected == got,
            };
            // A value that was replaced in time need not come.
            let replaced = after.first().is_some_and(|body| {
                // Its run may go on with a message that does.
                let run = self.published[*body].at;
                let same = after.iter().take_while(|body| self.published[**body].at == run);
                same.clone().any(|body| self.published[*body].effect != Effect::Keeps)
            });
            if is(&with) {
                return value.is_some()
                    && !got.is_empty()
                    && after
                        .first()
                        .is_some_and(|body| self.published[*body].effect == Effect::Keeps);
            }
            if replaced && is(&live) {
                return false;
            }
        }
        panic!("{path}: {got:?} of {order:?}\n{life:?}\n{:?}", self.published);
    }
}

fn scenario(seed: u64) -> usize {
    let mut run = Run::new(seed);
    for _ in 0..40 {
        run.publish();
    }
    run.world.quiesce();
    run.look();
    run.step += 1;
    let mut clients: Vec<usize> = (0..3).map(|_| run.connect()).collect();
    for _ in 0..150 {
        run.act(&mut clients);
    }
    run.world.quiesce();
    run.look();
    assert!(run.lives.iter().all(|life| life.ended || life.confirmed.is_some()));
    run.check();
    let metrics = run.world.metrics();
    assert_eq!((metrics.slow_consumers, metrics.publishers_paused), (0, 0));
    assert_eq!(metrics.snapshots, 0, "every snapshot was given completely");
    run.world.end();
    run.world.sweep();
    run.early
}

#[test]
fn a_snapshot_and_what_comes_after_it_have_no_gap_and_no_inversion() {
    let early = Cell::new(0);
    for_seeds(0..4_000, |seed| early.set(early.get() + scenario(seed)));
    assert!(early.get() > 1_000, "{}", early.get());
}

#[test]
fn a_large_snapshot_takes_little_of_the_backlog() {
    for shards in 1..=4 {
        let mut options = BrokerOptions { shards, ..BrokerOptions::default() };
        (options.backlog_bytes_high, options.backlog_bytes_low) = (64 << 10, 32 << 10);
        let low = options.backlog_bytes_low as u64;
        let mut world = World::new(shards as u64, options);
        let (writer, reader) = (world.connect(0, "writer"), world.connect(0, "reader"));
        const TOPICS: usize = 5_000;
        for number in 0..TOPICS {
            let mut message = Outgoing::new("x".repeat(200));
            message.flags = Flags::RETAIN;
            world.publish_all(writer, &format!("topic:load/{}/{number}", number % 7), &[message]);
        }
        world.deliver_envelopes();
        let token = world.subscribe(reader, 0, Wish::to("topic:**"));
        let late = Wish { confirm_values: true, ..Wish::to("topic:load/3/**") };
        let last = world.subscribe(reader, 1, late);
        world.deliver_envelopes();
        assert!(world.is_confirmed(reader, token), "it is live before all has come");
        let mut pulls = 0;
        loop {
            assert!(world.metrics().backlog_bytes <= low, "{}", world.metrics().backlog_bytes);
            assert!(pulls > 1_000 || !world.is_confirmed(reader, last));
            world.deliver_envelopes();
            if world.pull(reader) == 0 {
                break;
            }
            pulls += 1;
        }
        let received = &world.clients[reader].received;
        let mut paths: Vec<(u32, &str)> =
            received.iter().map(|message| (message.key, &*message.path)).collect();
        let count = paths.len();
        paths.sort_unstable();
        paths.dedup();
        assert_eq!(
            (count, paths.len()),
            (TOPICS + (0..TOPICS).filter(|number| number % 7 == 3).count(), count)
        );
        assert!(world.is_confirmed(reader, last));
        let metrics = world.metrics();
        assert_eq!(
            (metrics.snapshots, metrics.slow_consumers, metrics.publishers_paused),
            (0, 0, 0)
        );
        let strays = metrics.topics - TOPICS as u64;
        assert!(strays <= 5, "values make no topics known elsewhere: {strays}");
        world.end();
    }
}

#[test]
fn a_session_that_ends_amid_a_snapshot_leaves_nothing() {
    for shards in 1..=4 {
        let options = BrokerOptions {
            shards,
            page: PageLimits { bytes: 500, ..PageLimits::default() },
            ..BrokerOptions::default()
        };
        let mut world = World::new(shards as u64, options);
        let (writer, reader) = (world.connect(0, "writer"), world.connect(0, "reader"));
        for number in 0..100 {
            let mut message = Outgoing::new("x".repeat(200));
            message.flags = Flags::RETAIN;
            world.publish_all(writer, &format!("topic:load/{number}"), &[message]);
        }
        world.deliver_envelopes();
        for steps in 0..20 {
            world.subscribe(reader, 0, Wish::to("topic:**"));
            (0..steps).for_each(|_| _ = world.deliver_envelope());
            world.pull(reader);
            world.unsubscribe(reader, 0);
            world.deliver_envelopes();
            world.drain(reader);
            let metrics = world.metrics();
            assert_eq!((metrics.snapshots, metrics.backlog_bytes), (0, 0), "{steps}");
        }
        world.subscribe(reader, 0, Wish::to("topic:**"));
        world.deliver_envelope();
        world.end();
    }
}

#[test]
fn what_a_topic_was_created_as_counts_from_its_value_on() {
    for_seeds(0..24, |seed| {
        let shards = 1 + (seed % 3) as usize;
        let mut world = World::new(seed, BrokerOptions { shards, ..BrokerOptions::default() });
        let ann = world.connect(0, "ann");
        let bob = world.connect(shards - 1, "bob");
        for number in 0..30 {
            let priority = ["low", "default", "high"][number % 3];
            let spec = format!(r#"{{"priority":"{priority}"}}"#);
            let name = format!("t/{number:02}/{priority}");
            tell(&mut world, ann, create(&name, &spec, Some("1"))).unwrap();
        }
        // What nobody here has heard of waits in its order as well.
        world.subscribe(bob, 0, Wish::to("topic:**"));
        world.deliver_envelopes();
        world.quiesce();
        let heard = world.clients[bob].received.iter();
        let order: Vec<usize> = heard
            .map(|message| {
                ["high", "default", "low"].iter().position(|name| message.path.ends_with(name))
            })
            .map(Option::unwrap)
            .collect();
        assert_eq!(order.len(), 30);
        assert!(order.is_sorted(), "{order:?}");
    });
}
