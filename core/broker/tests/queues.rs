//! Queues under random consumers, settlements, ends and order of messages between shards: a message is with one consumer
//! at a time and in the end accepted once or dead once; publishers never wait for ever. What was not
//! taken by a client comes back as new, whichever shards its home and its consumer are on. Browsers change none of that.

#![allow(clippy::unwrap_used, clippy::field_reassign_with_default)]

use std::collections::{BTreeMap, BTreeSet};

use crate::support::{Outgoing, Received, Wish, World, for_seeds, names, property};
use tiderace_base::{ShardId, Span};
use tiderace_broker::BrokerOptions;
use tiderace_wire::{Browsing, Outcome, Prefetch};

const QUEUES: [&str; 4] = ["jobs/a", "jobs/b", "jobs/c", "jobs/d"];
const KEYS: u32 = 2;
/// The key by which clients browse.
const BROWSER: u32 = KEYS;
const REDELIVERIES_MAX: u32 = 3;

/// A client, one of its keys, and a home.
type Giving = (usize, u32, ShardId);

#[derive(Default)]
struct Model {
    published: usize,
    accepted: BTreeSet<usize>,
    dead: BTreeSet<usize>,
    /// Who holds what without having settled it.
    held: BTreeMap<usize, (usize, Received)>,
    /// How often each counts as redelivered, and how often as failed.
    redeliveries: BTreeMap<usize, u32>,
    failures: BTreeMap<usize, u32>,
    /// What each consumer that settles got of each home, in order.
    given: BTreeMap<Giving, Vec<usize>>,
    /// How much of it up to the last that it settled.
    settled_up_to: BTreeMap<Giving, usize>,
    /// What each client's browser was shown.
    browsers: BTreeMap<usize, BTreeSet<usize>>,
    /// By client and key.
    consumers: BTreeMap<(usize, u32), Wish>,
    seen: Vec<usize>,
}

impl Model {
    fn taken(&mut self, body: usize, failed: bool) {
        *self.redeliveries.entry(body).or_default() += 1;
        *self.failures.entry(body).or_default() += u32::from(failed);
    }

    fn settled(&mut self, client: usize, message: &Received, body: usize) {
        let giving = (client, message.key, message.home);
        let place = self.given[&giving].iter().rposition(|given| *given == body).unwrap();
        let known = self.settled_up_to.entry(giving).or_default();
        *known = (*known).max(place + 1);
    }

    /// A consumer has gone: what it got before what it settled was taken, and perhaps the next.
    fn gone(&mut self, client: usize, key: u32, lost: bool) {
        let of = |(who, what): &(usize, Received)| *who == client && what.key == key;
        let held: BTreeSet<usize> =
            self.held.iter().filter(|(_, held)| of(held)).map(|(body, _)| *body).collect();
        self.held.retain(|_, held| !of(held));
        let ended = |giving: &&Giving| (giving.0, giving.1) == (client, key);
        for giving in self.given.keys().filter(ended).copied().collect::<Vec<_>>() {
            let given = self.given.remove(&giving).unwrap();
            let settled = self.settled_up_to.remove(&giving).unwrap_or(0);
            // One that came back to it has a place of its own each time; the last one counts.
            let last = |(place, body): &(usize, usize)| {
                given.iter().rposition(|given| given == body) == Some(*place)
            };
            let unsettled: Vec<(usize, usize)> = given
                .iter()
                .copied()
                .enumerate()
                .filter(|(_, body)| held.contains(body))
                .filter(last)
                .collect();
            let (before, behind): (Vec<_>, Vec<_>) =
                unsettled.into_iter().partition(|(place, _)| *place < settled);
            let next = behind.first().filter(|_| lost || settled == 0);
            for (_, body) in before.iter().chain(next) {
                self.taken(*body, lost);
            }
        }
    }
}

struct Run {
    world: World,
    model: Model,
}

impl Run {
    fn new(seed: u64) -> Run {
        let mut options = BrokerOptions::default();
        options.shards = 1 + (seed % 4) as usize;
        options.queue_default.bytes_max = 600;
        options.queue_default.redeliveries_max = REDELIVERIES_MAX;
        options.queue_default.window = Prefetch { messages: 5, bytes: 0 };
        if seed % 5 == 2 {
            options.queue_default.policy.redelivery_delay = Span::from_millis(100);
        }
        if seed.is_multiple_of(3) {
            // Of it most goes to the queues and consumers themselves.
            options.messages_bytes_max = 22_000;
        }
        Run { world: World::new(seed, options), model: Model::default() }
    }

    fn connect(&mut self) -> usize {
        let shard = self.world.random.below(self.world.brokers.len());
        self.model.seen.push(0);
        self.world.connect(shard, "somebody")
    }

    fn publish(&mut self, client: usize) {
        if self.world.clients[client].paused {
            return;
        }
        let path = *self.world.random.pick(&QUEUES);
        let mut messages = Vec::new();
        for _ in 0..1 + self.world.random.below(4) {
            let mut message = Outgoing::new(self.model.published.to_string());
            message.properties =
                format!("colour:{}\n", if self.world.random.one_in(2) { "red" } else { "blue" });
            messages.push(message);
            self.model.published += 1;
        }
        self.world.publish_all(client, &format!("queue:{path}"), &messages);
    }

    fn consume(&mut self, client: usize, key: u32) {
        if self.model.consumers.contains_key(&(client, key)) {
            return;
        }
        let random = &mut self.world.random;
        let mut wish = match random.below(4) {
            0 => Wish::to("queue:jobs/*"),
            1 => Wish {
                targets: vec!["queue:jobs/a".into(), "queue:jobs/b".into()],
                ..Wish::default()
            },
            _ => Wish::to(&format!("queue:{}", random.pick(&QUEUES))),
        };
        wish.explicit = !random.one_in(3);
        wish.selector = random.one_in(4).then_some("colour = 'red'");
        wish.window = random.one_in(2).then_some(1 + random.below(6) as u32);
        wish.exclusive = random.one_in(6);
        self.world.subscribe(client, key, wish.clone());
        self.model.consumers.insert((client, key), wish);
    }

    /// A client begins to browse, or ends it.
    fn browse(&mut self, client: usize) {
        if self.model.browsers.remove(&client).is_some() {
            self.world.unsubscribe(client, BROWSER);
            return;
        }
        let random = &mut self.world.random;
        let wish = Wish {
            browsing: Some(*random.pick(&[Browsing::ToEnd, Browsing::Following])),
            explicit: random.one_in(2),
            window: random.one_in(2).then_some(1 + random.below(6) as u32),
            ..Wish::to(&format!("queue:{}", random.pick(&QUEUES)))
        };
        self.world.subscribe(client, BROWSER, wish);
        self.model.browsers.insert(client, BTreeSet::new());
    }

    /// A browser is shown a message, and says whatever it likes of it.
    fn shown(&mut self, client: usize, message: &Received) {
        let body: usize = message.body.parse().unwrap();
        let shown = self.model.browsers.get_mut(&client).expect("it browses");
        assert!(shown.insert(body), "{message:?} is shown twice");
        if self.world.random.one_in(2) {
            let outcome = *self.world.random.pick(&[Outcome::Accept, Outcome::Reject]);
            self.world.settle(client, message, outcome);
        }
    }

    fn leave(&mut self, client: usize, key: u32) {
        if self.model.consumers.remove(&(client, key)).is_none() {
            return;
        }
        self.world.unsubscribe(client, key);
        self.model.gone(client, key, false);
    }

    /// A client ends, with a goodbye or without.
    fn close(&mut self, client: usize) {
        let lost = self.world.random.one_in(2);
        if !lost {
            self.world.goodbye(client);
        }
        self.world.close(client);
        self.model.browsers.remove(&client);
        for key in 0..KEYS {
            if self.model.consumers.remove(&(client, key)).is_some() {
                self.model.gone(client, key, lost);
            }
        }
    }

    fn settle(&mut self, client: usize) {
        let mine: Vec<usize> = self
            .model
            .held
            .iter()
            .filter(|(_, held)| held.0 == client)
            .map(|(body, _)| *body)
            .collect();
        if mine.is_empty() {
            return;
        }
        let body = *self.world.random.pick(&mine);
        let (_, message) = self.model.held.remove(&body).unwrap();
        self.model.settled(client, &message, body);
        if self.world.random.one_in(2) {
            self.model.accepted.insert(body);
            self.world.settle(client, &message, Outcome::Accept);
        } else {
            self.model.taken(body, true);
            self.world.settle(client, &message, Outcome::Reject);
        }
    }

    fn look(&mut self) {
        for client in 0..self.world.clients.len() {
            let news = self.world.clients[client].received.split_off(self.model.seen[client]);
            for message in news {
                if message.key == BROWSER {
                    self.shown(client, &message);
                    continue;
                }
                let body = message.body.parse().unwrap();
                let model = &mut self.model;
                assert!(!model.accepted.contains(&body), "{message:?} was accepted already");
                assert!(!model.held.contains_key(&body), "{message:?} is with somebody else");
                assert!(!model.dead.contains(&body), "{message:?} is dead already");
                if let Some(from) = property(&message, "dead-letter-queue") {
                    assert_eq!(message.path, format!("dlq/{from}"));
                    assert!(model.failures[&body] > REDELIVERIES_MAX, "{message:?}");
                    model.dead.insert(body);
                    continue;
                }
                let wish = &model.consumers[&(client, message.key)];
                assert!(wish.targets.iter().any(|target| names(target, &message.path)));
                let red = property(&message, "colour").as_deref() == Some("red");
                assert!(wish.selector.is_none() || red);
                let redeliveries = model.redeliveries.get(&body).copied().unwrap_or_default();
                let failures = model.failures.get(&body).copied().unwrap_or_default();
                assert!(failures <= REDELIVERIES_MAX, "{message:?} should be dead");
                assert_eq!(message.redeliveries, redeliveries, "{message:?}");
                if wish.explicit {
                    let giving = (client, message.key, message.home);
                    model.given.entry(giving).or_default().push(body);
                    model.held.insert(body, (client, message));
                } else {
                    model.accepted.insert(body);
                }
            }
        }
    }

    fn act(&mut self, clients: &mut Vec<usize>) {
        let client = *self.world.random.pick(clients);
        let key = self.world.random.below(KEYS as usize) as u32;
        match self.world.random.below(25) {
            24 => self.browse(client),
            0..=4 => self.publish(client),
            5 | 6 => self.consume(client, key),
            7 => self.leave(client, key),
            8 => {
                self.leave(client, key);
                self.consume(client, key);
            }
            9 if self.world.random.one_in(2) => {
                self.close(client);
                clients.retain(|known| *known != client);
                clients.push(self.connect());
            }
            10 => self.world.advance(Span::from_millis(250)),
            11..=14 => self.settle(client),
            15..=19 => {
                self.world.deliver_envelope();
            }
            _ => {
                self.world.pull(client);
            }
        }
        self.look();
    }

    /// Everybody leaves and one client takes all there is.
    fn finish(&mut self, clients: &[usize]) {
        for client in clients {
            for key in 0..KEYS {
                self.leave(*client, key);
            }
            if self.model.browsers.contains_key(client) {
                self.browse(*client);
            }
        }
        self.world.deliver_envelopes();
        // What has failed is back at its place.
        self.world.advance(Span::from_secs(1));
        self.world.deliver_envelopes();
        let last = self.connect();
        for (key, target) in [(0, "queue:jobs/*"), (1, "queue:dlq/**")] {
            self.world.subscribe(last, key, Wish::to(target));
            self.model.consumers.insert((last, key), Wish::to(target));
        }
        for _ in 0..4 {
            self.world.quiesce();
            self.world.advance(Span::from_millis(250));
        }
        let mut rising = BTreeMap::new();
        for message in &self.world.clients[last].received {
            let before = rising.insert(message.path.clone(), message.sequence);
            assert!(before < Some(message.sequence), "{} is in order", message.path);
        }
        self.look();
    }
}

fn scenario(seed: u64) {
    let mut run = Run::new(seed);
    let mut clients: Vec<usize> = (0..4).map(|_| run.connect()).collect();
    for _ in 0..150 {
        run.act(&mut clients);
    }
    run.finish(&clients);
    let (world, model) = (&mut run.world, &run.model);
    assert_eq!(model.accepted.len() + model.dead.len(), model.published);
    assert!(model.accepted.is_disjoint(&model.dead));
    assert!(world.clients.iter().all(|client| !client.paused), "everybody goes on");
    let metrics = world.metrics();
    assert_eq!((metrics.queue_messages, metrics.queue_bytes), (0, 0));
    assert_eq!(metrics.dead_lettered as usize, model.dead.len());
    for client in clients {
        for path in QUEUES {
            world.publish(client, &format!("queue:{path}"), "once more");
            world.quiesce();
            assert!(!world.clients[client].paused, "no queue is full any longer");
        }
    }
    world.end();
    world.sweep();
}

#[test]
fn every_message_is_with_one_consumer_and_ends_once() {
    for_seeds(0..2_000, scenario);
}
