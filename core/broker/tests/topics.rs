//! Topics under random subscriptions, publications, order of messages between shards and reading: nothing is missed,
//! repeated or reordered while no slow-consumer policy applies.

#![allow(clippy::unwrap_used, clippy::field_reassign_with_default)]

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::support::{Outgoing, Random, Wish, World, for_seeds, names};
use tiderace_base::Span;
use tiderace_broker::{BrokerOptions, TopicPolicy, TopicSpec};
use tiderace_topics::Pattern;
use tiderace_wire::Token;

const TOPICS: [&str; 7] = ["live/a", "live/b", "live/c/d", "kept/a", "kept/b", "kept/c/d", "other"];
const KEYS: u32 = 3;

/// A message as its publisher knows it.
#[derive(Debug)]
struct Published {
    path: &'static str,
    red: bool,
    client: usize,
    token: Token,
    at: usize,
    /// The step at which its receipt was seen.
    confirmed: Option<usize>,
}

/// One subscription from its request to its end.
#[derive(Debug)]
struct Life {
    client: usize,
    key: u32,
    wish: Wish,
    token: Token,
    begun: usize,
    confirmed: Option<usize>,
    ended: Option<usize>,
    /// Paths and bodies as they came.
    received: Vec<(String, usize)>,
}

/// Several targets that name the same topics.
fn overlapping(random: &mut Random) -> Wish {
    let all =
        ["kept/a", "kept/*", "kept/**", "live/a", "live/**", "?live/[ab]", "?.*/(a|c)/**", "**"];
    let mut targets: Vec<String> = all.iter().map(|text| format!("topic:{text}")).collect();
    while targets.len() > 5 || random.one_in(3) && targets.len() > 2 {
        let at = random.below(targets.len());
        targets.swap_remove(at);
    }
    Wish { targets, ..Wish::default() }
}

struct Run {
    world: World,
    step: usize,
    published: Vec<Published>,
    lives: Vec<Life>,
    /// How many messages of each client's were looked at.
    seen: Vec<usize>,
}

impl Run {
    fn new(seed: u64) -> Run {
        let mut options = BrokerOptions::default();
        options.shards = 1 + (seed % 4) as usize;
        let mut kept = TopicSpec::clone(&options.topic_default);
        kept.retain = true;
        options.topic_policies =
            vec![TopicPolicy { pattern: Pattern::parse("kept/**").unwrap(), spec: Arc::new(kept) }];
        Run {
            world: World::new(seed, options),
            step: 0,
            published: Vec::new(),
            lives: Vec::new(),
            seen: Vec::new(),
        }
    }

    fn connect(&mut self) -> usize {
        let shard = self.world.random.below(self.world.brokers.len());
        self.seen.push(0);
        self.world.connect(shard, "somebody")
    }

    fn subscribe(&mut self, client: usize, key: u32, wish: Wish) {
        let token = self.world.subscribe(client, key, wish.clone());
        self.lives.push(Life {
            client,
            key,
            wish,
            token,
            begun: self.step,
            confirmed: None,
            ended: None,
            received: Vec::new(),
        });
    }

    fn life(&mut self, client: usize, key: u32) -> Option<&mut Life> {
        self.lives
            .iter_mut()
            .find(|life| life.client == client && life.key == key && life.ended.is_none())
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
                targets: vec!["topic:kept/a".into(), "topic:kept/b".into(), "topic:other".into()],
                ..Wish::default()
            },
            5 => overlapping(random),
            6 => Wish::to("topic:?(live|kept)/[ab]"),
            _ => Wish::to(&format!("topic:{}", random.pick(&TOPICS))),
        };
        wish.selector = random.one_in(4).then_some("colour = 'red'");
        wish
    }

    fn publish(&mut self, client: usize) {
        let path = *self.world.random.pick(&TOPICS);
        let count = 1 + self.world.random.below(4);
        let mut messages = Vec::new();
        for _ in 0..count {
            let red = self.world.random.one_in(2);
            let colour = if red { "red" } else { "blue" };
            let mut message = Outgoing::new((self.published.len()).to_string());
            message.properties = format!("colour:{colour}\n");
            messages.push(message);
            let (token, at) = (self.world.clients[client].tokens + 1, self.step);
            self.published.push(Published { path, red, client, token, at, confirmed: None });
        }
        self.world.publish_all(client, &format!("topic:{path}"), &messages);
    }

    /// Looks at what has come and what was confirmed.
    fn look(&mut self) {
        for client in 0..self.world.clients.len() {
            let news = self.world.clients[client].received.split_off(self.seen[client]);
            for message in &news {
                let body = message.body.parse().unwrap();
                let life = self.life(client, message.key).expect("only live keys get messages");
                life.received.push((message.path.clone(), body));
            }
        }
        let (world, step) = (&self.world, self.step);
        for message in self.published.iter_mut().filter(|message| message.confirmed.is_none()) {
            message.confirmed = world.is_confirmed(message.client, message.token).then_some(step);
        }
        for life in self.lives.iter_mut().filter(|life| life.confirmed.is_none()) {
            life.confirmed = world.is_confirmed(life.client, life.token).then_some(step);
        }
    }

    fn act(&mut self, clients: &mut Vec<usize>) {
        let client = *self.world.random.pick(clients);
        let key = self.world.random.below(KEYS as usize) as u32;
        match self.world.random.below(20) {
            0..=5 => self.publish(client),
            6..=8 => {
                if self.life(client, key).is_none() {
                    let wish = self.any_wish();
                    self.subscribe(client, key, wish);
                }
            }
            9 => self.end_life(client, key),
            10 => {
                self.end_life(client, key);
                let wish = self.any_wish();
                self.subscribe(client, key, wish);
            }
            11 if self.world.random.one_in(3) => {
                for key in 0..KEYS {
                    self.end_life(client, key);
                }
                self.world.close(client);
                clients.retain(|known| *known != client);
                clients.push(self.connect());
            }
            12 => self.world.advance(Span::from_millis(50)),
            13..=16 => {
                self.world.deliver_envelope();
            }
            _ => {
                self.world.pull(client);
            }
        }
        self.look();
        self.step += 1;
    }

    fn end_life(&mut self, client: usize, key: u32) {
        let step = self.step;
        if let Some(life) = self.life(client, key) {
            life.ended = Some(step);
            self.world.unsubscribe(client, key);
        }
    }

    /// The order in which each topic's messages were numbered, as a subscriber of everything
    /// since the beginning saw it.
    fn orders(&self, witness: usize) -> BTreeMap<&'static str, Vec<usize>> {
        let mut orders: BTreeMap<&'static str, Vec<usize>> = BTreeMap::new();
        for (_, body) in &self.lives[witness].received {
            orders.entry(self.published[*body].path).or_default().push(*body);
        }
        orders
    }

    fn check(&self, witness: usize) {
        let orders = self.orders(witness);
        assert_eq!(orders.values().map(Vec::len).sum::<usize>(), self.published.len());
        for (path, order) in &orders {
            let mut last = BTreeMap::new();
            for body in order {
                let before = last.insert(self.published[*body].client, *body);
                assert!(before < Some(*body), "{path}: each publisher's order is kept");
            }
        }
        for life in &self.lives {
            for (path, _) in &life.received {
                assert!(life.wish.targets.iter().any(|target| names(target, path)), "{life:?}");
            }
            for path in TOPICS {
                self.check_topic(life, path, orders.get(path).map_or(&[], Vec::as_slice));
            }
        }
    }

    fn check_topic(&self, life: &Life, path: &str, order: &[usize]) {
        if !life.wish.targets.iter().any(|target| names(target, path)) {
            return;
        }
        let wanted = |body: &&usize| life.wish.selector.is_none() || self.published[**body].red;
        let order: Vec<usize> = order.iter().filter(wanted).copied().collect();
        let got: Vec<usize> =
            life.received.iter().filter(|(at, _)| at == path).map(|(_, body)| *body).collect();
        let start = order.iter().position(|body| Some(body) == got.first());
        let start = start.unwrap_or(order.len());
        let expected = order.get(start..start + got.len());
        assert_eq!(expected, Some(&got[..]), "{path}: no gap, no repetition\n{life:?}\n{order:?}");
        if life.ended.is_none() {
            assert_eq!(start + got.len(), order.len(), "{path}: all to the end\n{life:?}");
        }
        let is_old = |body: &&usize| {
            self.published[**body].confirmed.is_some_and(|confirmed| confirmed < life.begun)
        };
        let old = got.iter().filter(is_old).count();
        let retained = usize::from(path.starts_with("kept/"));
        assert!(old <= retained, "{path}: {old} old messages\n{life:?}");
        if life.ended.is_none()
            && let Some(confirmed) = life.confirmed
        {
            for body in order.iter().filter(|body| self.published[**body].at > confirmed) {
                assert!(got.contains(body), "{path}: published after the confirmation");
            }
            let existed = order.iter().any(|body| is_old(&body));
            let selected = life.wish.selector.is_some();
            let silent = retained == 1 && existed && !selected && got.is_empty();
            assert!(!silent, "{path}: the snapshot is missing\n{life:?}");
        }
    }
}

fn scenario(seed: u64) {
    let mut run = Run::new(seed);
    let witness = run.connect();
    run.subscribe(witness, 0, Wish::to("topic:**"));
    let exact = run.connect();
    let targets = TOPICS.iter().map(|path| format!("topic:{path}")).collect();
    run.subscribe(exact, 0, Wish { targets, ..Wish::default() });
    run.world.deliver_envelopes();
    run.step += 1;
    run.look();
    let mut clients: Vec<usize> = (0..4).map(|_| run.connect()).collect();
    for _ in 0..120 {
        run.act(&mut clients);
    }
    run.world.quiesce();
    run.look();
    assert!(run.lives.iter().all(|life| life.ended.is_some() || life.confirmed.is_some()));
    run.check(0);
    let metrics = run.world.metrics();
    assert_eq!((metrics.slow_consumers, metrics.publishers_paused), (0, 0));
    run.world.end();
    run.world.sweep();
}

#[test]
fn nothing_is_missed_repeated_or_reordered() {
    for_seeds(0..2_000, scenario);
}

#[test]
fn the_next_topic_of_a_slot_begins_anew() {
    let mut world = World::new(0, BrokerOptions { shards: 1, ..BrokerOptions::default() });
    let (publisher, one, two) =
        (world.connect(0, "ann"), world.connect(0, "bob"), world.connect(0, "eve"));
    world.subscribe(one, 0, Wish::to("topic:a/*"));
    world.subscribe(two, 0, Wish::to("topic:b/*"));
    world.deliver_envelopes();
    for (topic, body) in [("other", ""), ("a/x", "first"), ("other", "")] {
        world.publish(publisher, &format!("topic:{topic}"), body);
        world.quiesce();
    }
    assert_eq!(world.metrics().topics, 2);
    for _ in 0..3 {
        world.advance(Span::from_secs(100));
        world.deliver_envelopes();
    }
    assert_eq!(world.metrics().topics, 0);
    world.publish(publisher, "topic:b/x", "second");
    world.quiesce();
    let bodies = |client: usize| -> Vec<String> {
        world.clients[client].received.iter().map(|message| message.body.clone()).collect()
    };
    assert_eq!((bodies(one), bodies(two)), (vec!["first".to_owned()], vec!["second".to_owned()]));
    let second = &world.clients[two].received[0];
    assert_eq!(second.version, second.sequence, "its versions begin with its first number");
}
