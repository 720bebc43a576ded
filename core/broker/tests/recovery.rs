//! Clients that vanish at any moment and come back with the position they had: if they are told
//! that nothing is missing, nothing is, and nothing comes twice; and if not, they have the newest
//! values.

#![allow(clippy::unwrap_used, clippy::field_reassign_with_default)]

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::support::{Outgoing, Wish, World, for_seeds, names};
use tiderace_base::Span;
use tiderace_broker::{BrokerOptions, PageLimits, SlowConsumer, TopicPolicy, TopicSpec};
use tiderace_topics::Pattern;
use tiderace_wire::{Position, Token};

const TOPICS: [&str; 7] = ["live/a", "live/b", "live/c/d", "kept/a", "kept/b", "kept/c/d", "other"];

/// A message as its publisher knows it.
#[derive(Debug)]
struct Published {
    path: &'static str,
    red: bool,
    at: usize,
}

/// Somebody with subscriptions that survive connections.
#[derive(Debug)]
struct Person {
    wishes: Vec<Wish>,
    client: Option<usize>,
    tokens: Vec<Token>,
    /// By subscription: whether the connection was told how coming back went.
    told: Vec<bool>,
    /// What was known when the last connection broke.
    position: Option<Position>,
    /// By subscription: the step from which on nothing may be missing.
    since: Vec<Option<usize>>,
    /// By subscription: number, path and body, as they came.
    received: Vec<Vec<(u64, String, usize)>>,
    seen: usize,
    /// By subscription: how much had come before the present connection, and the position then.
    before: (Vec<usize>, Option<Position>),
}

struct Run {
    world: World,
    case: Case,
    step: usize,
    published: Vec<Published>,
    people: Vec<Person>,
    writer: usize,
    witness: usize,
    incomplete: usize,
}

/// What differs between scenarios.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Case {
    /// Room for everything, and nobody stays away for long.
    Brief,
    /// Room for everything.
    Roomy,
    /// Room for everything, but values come in small pages, and little is looked at.
    Paged,
    /// Histories and backlogs are short.
    Tight,
    /// Slow subscribers get only the newest messages.
    Conflating,
}

impl Run {
    fn new(seed: u64, case: Case) -> Run {
        let mut options = BrokerOptions::default();
        options.epoch = seed;
        options.shards = 1 + (seed % 4) as usize;
        match case {
            Case::Brief | Case::Roomy => {
                Arc::make_mut(&mut options.topic_default).slow_consumer = SlowConsumer::Block
            }
            Case::Paged => {
                Arc::make_mut(&mut options.topic_default).slow_consumer = SlowConsumer::Block;
                options.page = PageLimits { bytes: 600, values: 2, looked_at: 3 };
            }
            Case::Tight => {
                Arc::make_mut(&mut options.topic_default).slow_consumer = SlowConsumer::Block;
                options.history_bytes_max = 4_000;
                options.history_bytes_per_topic = 1_500;
                (options.backlog_bytes_high, options.backlog_bytes_low) = (3_000, 500);
            }
            Case::Conflating => {
                Arc::make_mut(&mut options.topic_default).slow_consumer = SlowConsumer::Conflate;
                Arc::make_mut(&mut options.topic_default).grace = Span::ZERO;
                (options.backlog_bytes_high, options.backlog_bytes_low) = (1_000, 900);
            }
        }
        let mut kept = TopicSpec::clone(&options.topic_default);
        kept.retain = true;
        options.topic_policies =
            vec![TopicPolicy { pattern: Pattern::parse("kept/**").unwrap(), spec: Arc::new(kept) }];
        let mut world = World::new(seed, options);
        let witness = world.connect(0, "witness");
        world.subscribe(witness, 0, Wish { deltas: true, ..Wish::to("topic:**") });
        let writer = world.connect(0, "writer");
        world.deliver_envelopes();
        Run {
            world,
            case,
            step: 1,
            published: Vec::new(),
            people: Vec::new(),
            writer,
            witness,
            incomplete: 0,
        }
    }

    fn any_wish(&mut self) -> Wish {
        let random = &mut self.world.random;
        let mut wish = match random.below(8) {
            0 => Wish::to("topic:live/*"),
            1 => Wish::to("topic:kept/**"),
            2 => Wish::to("topic:**"),
            3 => Wish {
                targets: vec!["topic:live/a".into(), "topic:kept/*".into()],
                ..Wish::default()
            },
            4 => Wish {
                targets: vec!["topic:**".into(), "topic:kept/a".into(), "topic:?live/[ab]".into()],
                ..Wish::default()
            },
            5 => Wish::to("topic:?kept/(a|c)/**"),
            _ => Wish::to(&format!("topic:{}", random.pick(&TOPICS))),
        };
        wish.selector = random.one_in(5).then_some("colour = 'red'");
        wish.unretained = random.one_in(4);
        wish.deltas = random.one_in(3);
        wish.recoverable = true;
        wish
    }

    fn person(&mut self) {
        let count = if self.world.random.one_in(3) { 2 } else { 1 };
        let wishes: Vec<Wish> = (0..count).map(|_| self.any_wish()).collect();
        self.people.push(Person {
            client: None,
            tokens: Vec::new(),
            told: Vec::new(),
            position: None,
            since: vec![None; wishes.len()],
            received: vec![Vec::new(); wishes.len()],
            wishes,
            seen: 0,
            before: (Vec::new(), None),
        });
    }

    fn arrive(&mut self, who: usize) {
        let shard = self.world.random.below(self.world.brokers.len());
        let client = self.world.connect(shard, "somebody");
        let person = &mut self.people[who];
        if let Some(position) = &person.position {
            self.world.clients[client].position = position.clone();
        }
        person.told = vec![false; person.wishes.len()];
        person.seen = 0;
        person.client = Some(client);
        let mut wishes = person.wishes.clone();
        for (key, wish) in wishes.iter_mut().enumerate() {
            // Somebody who was never told that it subscribed begins anew.
            match person.since[key] {
                Some(_) => wish.since = person.position.clone(),
                None => person.received[key].clear(),
            }
        }
        self.people[who].tokens = self.world.subscribe_all(client, wishes);
        let person = &mut self.people[who];
        person.before = (person.received.iter().map(Vec::len).collect(), person.position.clone());
    }

    fn vanish(&mut self, who: usize) {
        self.look(who);
        let Some(client) = self.people[who].client.take() else { return };
        let position = self.world.clients[client].position.clone();
        let person = &mut self.people[who];
        let paged = !matches!(self.case, Case::Brief | Case::Roomy);
        let before = person.before.1.clone().unwrap_or_else(|| Position::new(position.epoch));
        if paged && before == position {
            // Values from before were still on their way: all of it comes again.
            for (key, len) in person.before.0.iter().enumerate() {
                person.received[key].truncate(*len);
                person.since[key] = person.since[key].filter(|_| person.told[key]);
            }
        }
        person.position = Some(Position::decode(&position.encode()).unwrap());
        self.world.close(client);
    }

    /// Notes what has come.
    fn look(&mut self, who: usize) {
        let person = &mut self.people[who];
        let Some(client) = person.client else { return };
        let client = &self.world.clients[client];
        for (token, key) in person.tokens.iter().zip(0..) {
            if let Some((complete, received)) = client.recovered.get(token) {
                if person.wishes.len() == 1 && person.since[key].is_some() {
                    assert!(*received == 0, "the news comes before the messages");
                }
                if !std::mem::replace(&mut person.told[key], true) && !complete {
                    self.incomplete += 1;
                    person.since[key] = person.since[key].map(|_| self.step);
                }
            } else if person.tokens.iter().all(|token| client.confirmed.contains(token))
                && person.since[key].is_none()
                && !client.ready
            {
                // The confirmation may overtake the values that come first; and the position is
                // known only when all have been confirmed that began together.
                person.since[key] = Some(self.step);
            }
        }
        for message in &client.received[person.seen..] {
            let body = message.body.parse().unwrap();
            let entry = (message.sequence, message.path.clone(), body);
            person.received[message.key as usize].push(entry);
        }
        person.seen = client.received.len();
    }

    fn publish(&mut self) {
        let path = *self.world.random.pick(&TOPICS);
        let count = 1 + self.world.random.below(4);
        let mut messages = Vec::new();
        for _ in 0..count {
            let red = self.world.random.one_in(2);
            let mut message = Outgoing::new(self.published.len().to_string());
            let colour = if red { "red" } else { "blue" };
            message.properties = format!("colour:{colour}\n");
            messages.push(message);
            self.published.push(Published { path, red, at: self.step });
        }
        self.world.publish_all(self.writer, &format!("topic:{path}"), &messages);
    }

    fn act(&mut self, case: Case) {
        let who = self.world.random.below(self.people.len());
        match self.world.random.below(20) {
            0..=4 => {
                let times = if case == Case::Conflating { 4 } else { 1 };
                for _ in 0..times {
                    self.publish();
                }
            }
            5 | 6 => self.vanish(who),
            7..=9 => {
                if self.people[who].client.is_none() {
                    self.arrive(who);
                }
            }
            10 => self.world.advance(Span::from_millis(50)),
            11 if case != Case::Brief && self.world.random.one_in(4) => {
                let seconds = *self.world.random.pick(&[10, 70, 130]);
                self.world.advance(Span::from_secs(seconds));
                self.world.advance(Span::from_secs(5));
            }
            12..=16 => {
                self.world.deliver_envelope();
            }
            _ => {
                if let Some(client) = self.people[who].client {
                    self.world.pull(client);
                }
            }
        }
        for who in 0..self.people.len() {
            self.look(who);
        }
        self.world.drain(self.witness);
        self.step += 1;
    }

    /// Bodies of each topic in their order, from what the witness saw; checks versions on the way.
    fn orders(&self) -> BTreeMap<&'static str, Vec<(u64, usize)>> {
        let mut orders: BTreeMap<&'static str, Vec<(u64, usize)>> = BTreeMap::new();
        let mut versions: BTreeMap<&'static str, (u64, String)> = BTreeMap::new();
        for message in &self.world.clients[self.witness].received {
            let body: usize = message.body.parse().unwrap();
            let path = self.published[body].path;
            orders.entry(path).or_default().push((message.sequence, body));
            let last = versions.insert(path, (message.version, message.body.clone()));
            let Some((version, body)) = last else { continue };
            assert!(message.version > version, "{path}: versions are never used again");
            if let Some(previous) = &message.previous {
                assert_eq!((version + 1, &body), (message.version, previous));
            }
        }
        orders
    }

    fn check(&self, case: Case) {
        let orders = self.orders();
        let all: usize = orders.values().map(Vec::len).sum();
        assert_eq!(all, self.published.len(), "the witness saw everything");
        for person in &self.people {
            for (key, wish) in person.wishes.iter().enumerate() {
                for (path, order) in &orders {
                    if wish.targets.iter().any(|target| names(target, path)) {
                        self.check_topic(person, key, path, order, case);
                    }
                }
            }
        }
    }

    fn check_topic(
        &self,
        person: &Person,
        key: usize,
        path: &str,
        order: &[(u64, usize)],
        case: Case,
    ) {
        let received = &person.received[key];
        let here = received.iter().filter(|(_, known, _)| known == path);
        let numbers: Vec<u64> = here.clone().map(|(number, ..)| *number).collect();
        let got: BTreeSet<usize> = here.map(|(.., body)| *body).collect();
        if person.wishes.len() == 1 && case != Case::Conflating {
            let rising = numbers.windows(2).all(|pair| pair[0] < pair[1]);
            assert!(rising, "{path}: in order, none twice: {numbers:?}\n{person:?}");
        }
        let since = person.since[key].unwrap();
        let red = person.wishes[key].selector.is_some();
        let wanted = order.iter().filter(|(_, body)| !red || self.published[*body].red);
        let newest = wanted.clone().next_back();
        for (_, body) in wanted {
            let new = self.published[*body].at > since;
            if new && case != Case::Conflating {
                assert!(got.contains(body), "{path}: {body} is missing\n{person:?}");
            }
        }
        let Some((_, newest)) = newest else { return };
        let retained = path.starts_with("kept/") && !person.wishes[key].unretained && !red;
        if retained || self.published[*newest].at > since {
            assert!(got.contains(newest), "{path}: the newest value {newest}\n{person:?}");
        }
    }
}

fn scenario(seed: u64, case: Case) -> u64 {
    let mut run = Run::new(seed, case);
    for who in 0..4 {
        run.person();
        if who % 2 == 0 {
            run.arrive(who);
        }
    }
    for _ in 0..200 {
        run.act(case);
    }
    for who in 0..run.people.len() {
        if run.people[who].client.is_none() {
            run.arrive(who);
        }
    }
    // Not all at once, so that the witness is never slow.
    while run.world.deliver_envelope() {
        run.world.drain(run.witness);
    }
    run.world.quiesce();
    for who in 0..run.people.len() {
        run.look(who);
    }
    run.check(case);
    if case == Case::Brief {
        assert_eq!(run.incomplete, 0);
    }
    let complete = run.world.metrics().recoveries_complete;
    run.world.end();
    run.world.sweep();
    let left = run.world.metrics();
    assert_eq!((left.history_bytes, left.history_messages), (0, 0));
    complete
}

#[test]
fn who_comes_back_misses_nothing_and_gets_nothing_twice() {
    let complete = Cell::new(0);
    for_seeds(0..2_000, |seed| {
        complete.set(complete.get() + scenario(seed, Case::Roomy) + scenario(seed, Case::Brief));
    });
    assert!(complete.get() > 10_000, "{}", complete.get());
}

#[test]
fn who_leaves_amid_a_snapshot_misses_nothing_either() {
    let complete = Cell::new(0);
    for_seeds(0..2_000, |seed| complete.set(complete.get() + scenario(seed, Case::Paged)));
    assert!(complete.get() > 2_000, "{}", complete.get());
}

#[test]
fn who_comes_back_too_late_is_told_and_has_the_newest_values() {
    for_seeds(0..2_000, |seed| {
        scenario(seed, Case::Tight);
    });
}

#[test]
fn conflation_hides_no_newest_value_from_who_comes_back() {
    for_seeds(0..2_000, |seed| {
        scenario(seed, Case::Conflating);
    });
}
