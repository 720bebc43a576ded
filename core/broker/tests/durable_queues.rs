//! Queues that survive, under random publishers, consumers, transactions and crashes, over one to four shards and a store
//! that answers late, has no room or has failed: nothing that was confirmed is lost, nothing whose consumption was
//! confirmed comes again, order is kept, also by priority, and no number is given twice.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::collections::{BTreeMap, BTreeSet};

use crate::support::keeping::Keeping;
use crate::support::{Outgoing, Received, Wish, World, destination, for_seeds, property};
use tiderace_base::{Now, Span};
use tiderace_broker::BrokerOptions;
use tiderace_wire::{
    Command, Commands, Flags, Meta, Outcome, Prefetch, QueueFields, Settle, SubscriptionKey, Token,
    number_of,
};

const QUEUES: [&str; 4] = ["jobs/a", "jobs/b", "jobs/c", "jobs/d"];
pub const REDELIVERIES_MAX: u32 = 2;

pub fn options(seed: u64) -> BrokerOptions {
    let mut options =
        BrokerOptions { epoch: seed, shards: 1 + (seed % 4) as usize, ..BrokerOptions::default() };
    options.queue_default.redeliveries_max = REDELIVERIES_MAX;
    options.queue_default.window = Prefetch { messages: 5, bytes: 0 };
    // With little memory most of a queue is in the store alone.
    options.queue_default.bytes_max = [1 << 20, 600, 100, 1, 1 << 20][(seed / 4 % 5) as usize];
    // From life to life a queue may come to order by priority, or cease to.
    options.queue_default.policy.priorities = !seed.is_multiple_of(3);
    if seed % 7 == 2 {
        options.queue_default.policy.redelivery_delay = Span::from_millis(300);
    }
    options
}

/// What the test knows of one message, by its body.
#[derive(Debug, Default)]
struct Known {
    is_persistent: bool,
    /// Its publisher was told that it is kept.
    is_confirmed: bool,
    /// Somebody has said that it is consumed, not as part of a transaction.
    is_accepted: bool,
    /// And was told that this is kept.
    is_settled: bool,
    /// It may have become a dead letter.
    may_be_dead: bool,
    /// Somebody has rejected it for the last time, and was told that this is kept.
    is_buried: bool,
    failures: u32,
    /// How often it came.
    received: usize,
}

/// Consumes one message and publishes others to queues of the same home.
#[derive(Debug)]
struct Transaction {
    consumed: usize,
    received_before: usize,
    published: Vec<usize>,
}

#[derive(Default)]
struct Model {
    messages: Vec<Known>,
    /// By queue and number: which message.
    versions: BTreeMap<(String, u64), usize>,
    transactions: Vec<Transaction>,
    /// When a message is to be delivered that is delayed.
    due: BTreeMap<usize, u64>,
    /// What has happened, for who looks into a failure.
    log: Vec<String>,
}

pub struct Life {
    pub world: World,
    pub clients: Vec<usize>,
    /// How many messages of each client have been looked at.
    seen: BTreeMap<usize, usize>,
    held: Vec<(usize, usize, Received)>,
    consumers: BTreeSet<(usize, u32)>,
    /// By client and token: messages that are confirmed by it.
    published: BTreeMap<(usize, Token), Vec<usize>>,
    settled: BTreeMap<(usize, Token), usize>,
    /// The same of those that are rejected for the last time.
    buried: BTreeMap<(usize, Token), usize>,
    /// How often a message was rejected in this life.
    rejections: BTreeMap<usize, u32>,
}

pub fn begin(seed: u64, keeping: &mut Keeping) -> Life {
    let mut world = World::new(seed, options(seed));
    world.now = Now { wall_ms: 1_700_000_000_000, ..world.now };
    keeping.restore(&mut world);
    let mut life = Life {
        world,
        clients: Vec::new(),
        seen: BTreeMap::new(),
        held: Vec::new(),
        consumers: BTreeSet::new(),
        published: BTreeMap::new(),
        settled: BTreeMap::new(),
        buried: BTreeMap::new(),
        rejections: BTreeMap::new(),
    };
    for _ in 0..3 {
        life.connect();
    }
    life
}

impl Life {
    fn connect(&mut self) -> usize {
        let shard = self.world.random.below(self.world.brokers.len());
        let client = self.world.connect(shard, "somebody");
        self.clients.push(client);
        client
    }

    /// New messages, of which most are persistent.
    fn outgoing(&mut self, model: &mut Model) -> (Vec<Outgoing>, Vec<usize>) {
        let (mut messages, mut bodies) = (Vec::new(), Vec::new());
        for _ in 0..1 + self.world.random.below(3) {
            let body = model.messages.len();
            let mut message = Outgoing::new(body.to_string());
            let is_persistent = !self.world.random.one_in(5);
            message.flags = if is_persistent { Flags::PERSISTENT } else { Flags::NONE };
            if self.world.random.one_in(3) {
                message.flags = message.flags | Flags::GROUPED;
                message.properties = format!("message_group:g{}\n", self.world.random.below(3));
            }
            if self.world.random.one_in(2) {
                let block = format!("priority:{}\n", self.world.random.below(10));
                message.flags = message.flags | QueueFields::marks(block.as_bytes());
                message.properties += &block;
            }
            if self.world.random.one_in(6) {
                let due = self.world.now.wall_ms + self.world.random.below(1_000) as u64;
                message.flags = message.flags | Flags::DELAYED;
                message.properties += &format!("deliver-at:{due}\n");
                model.due.insert(body, due);
            }
            model.messages.push(Known { is_persistent, ..Known::default() });
            messages.push(message);
            bodies.push(body);
        }
        (messages, bodies)
    }

    /// What the receipt of the last of some messages stands for: it, and those before it that share its run.
    fn confirmed(messages: &[Outgoing], bodies: &[usize]) -> Vec<usize> {
        let last = messages.last().map(|message| message.flags);
        let alike = messages.iter().rev().take_while(|message| Some(message.flags) == last);
        bodies[bodies.len() - alike.count()..].to_vec()
    }

    fn publish(&mut self, model: &mut Model, client: usize) {
        if self.world.clients[client].paused {
            return;
        }
        let path = *self.world.random.pick(&QUEUES);
        let (messages, bodies) = self.outgoing(model);
        let in_files = self.world.random.one_in(8);
        if in_files || messages.iter().any(|message| message.flags.contains(Flags::DELAYED)) {
            // Each is stored for itself, and so it is confirmed.
            for (message, body) in messages.into_iter().zip(bodies) {
                let path = format!("queue:{path}");
                let token = self.world.publish_alone(client, &path, &message, in_files);
                self.published.insert((client, token), vec![body]);
            }
            return;
        }
        let token = self.world.publish_all(client, &format!("queue:{path}"), &messages);
        self.published.insert((client, token), Life::confirmed(&messages, &bodies));
    }

    /// Consumes a message and publishes others, together.
    fn transact(&mut self, model: &mut Model) {
        if self.held.is_empty() {
            return;
        }
        let at = self.world.random.below(self.held.len());
        let (client, body, message) = self.held.swap_remove(at);
        let mut commands = Commands::new();
        commands.begin_turn(self.world.now.time);
        commands.push(Command::Together(true));
        let (mut all, mut is_one_home) = (Vec::new(), true);
        let wants_receipt = !self.world.random.one_in(4);
        for _ in 0..1 + self.world.random.below(2) {
            let path = format!("queue:{}", self.world.random.pick(&QUEUES));
            let home = destination(&path).home(self.world.brokers.len());
            is_one_home &= home == message.home;
            let (messages, bodies) = self.outgoing(model);
            for (outgoing, body) in messages.iter().zip(&bodies) {
                let block = commands.message(&destination(&path));
                block.extend_from_slice(outgoing.properties.as_bytes());
                let meta = Meta { flags: outgoing.flags, expires_ms: None };
                let token = wants_receipt.then(|| self.world.token(client));
                if let Some(token) = token {
                    self.published.insert((client, token), vec![*body]);
                }
                commands.publish(outgoing.body.as_bytes(), meta, token);
            }
            all.extend(bodies);
        }
        let confirm = wants_receipt.then(|| self.world.token(client));
        if let Some(token) = confirm {
            self.settled.insert((client, token), body);
        }
        commands.push(Command::Settle(Settle {
            key: SubscriptionKey(message.key),
            home: message.home,
            ranges: vec![(message.sequence, message.sequence)],
            outcome: Outcome::Accept,
            confirm,
        }));
        commands.push(Command::Together(false));
        let received_before = model.messages[body].received;
        all.retain(|body| model.messages[*body].is_persistent);
        model.log.push(format!("{client} consumes {body} and publishes {all:?}, {wants_receipt}, one home {is_one_home}"));
        match is_one_home && model.messages[body].is_persistent && !all.is_empty() {
            true => model.transactions.push(Transaction {
                consumed: body,
                received_before,
                published: all,
            }),
            false => model.messages[body].is_accepted = true,
        }
        self.world.commands(client, &mut commands);
    }

    fn consume(&mut self, client: usize, key: u32) {
        if !self.consumers.insert((client, key)) {
            return;
        }
        let random = &mut self.world.random;
        let mut wish = match random.below(4) {
            0 => Wish::to("queue:jobs/*"),
            1 => Wish::to("queue:dlq/**"),
            _ => Wish::to(&format!("queue:{}", random.pick(&QUEUES))),
        };
        wish.explicit = !random.one_in(5);
        wish.window = Some(1 + random.below(6) as u32);
        self.world.subscribe(client, 2 * key + u32::from(wish.explicit), wish);
    }

    fn leave(&mut self, client: usize, key: u32) {
        if self.consumers.remove(&(client, key)) {
            self.world.unsubscribe(client, 2 * key);
            self.world.unsubscribe(client, 2 * key + 1);
            self.held.retain(|(who, _, held)| *who != client || held.key / 2 != key);
        }
    }

    fn close(&mut self, model: &mut Model, client: usize) {
        for (_, body, _) in self.held.extract_if(.., |(who, ..)| *who == client) {
            // It may count as failed.
            let known = &mut model.messages[body];
            known.failures += 1;
            known.may_be_dead |= known.failures > REDELIVERIES_MAX;
        }
        self.world.close(client);
        self.consumers.retain(|(who, _)| *who != client);
        self.clients.retain(|known| *known != client);
        self.connect();
    }

    fn settle(&mut self, model: &mut Model) {
        if self.held.is_empty() {
            return;
        }
        let at = self.world.random.below(self.held.len());
        let (client, body, message) = self.held.swap_remove(at);
        let known = &mut model.messages[body];
        model.log.push(format!("{client} settles {body}"));
        // What has failed before mostly fails again, so that some become dead letters.
        let has_failed = self.rejections.contains_key(&body);
        if self.world.random.one_in(3) || (has_failed && !self.world.random.one_in(4)) {
            known.failures += 1;
            known.may_be_dead |= known.failures > REDELIVERIES_MAX;
            let token = self.world.settle(client, &message, Outcome::Reject);
            if known.is_persistent && QUEUES.contains(&&*message.path) {
                let rejections = self.rejections.entry(body).or_default();
                *rejections += 1;
                if *rejections > REDELIVERIES_MAX {
                    self.buried.insert((client, token), body);
                }
            }
        } else {
            known.is_accepted = true;
            let token = self.world.settle(client, &message, Outcome::Accept);
            self.settled.insert((client, token), body);
        }
    }

    fn look(&mut self, model: &mut Model) {
        for (client, at) in self.world.clients.iter().zip(0..) {
            let seen = self.seen.entry(at).or_default();
            for message in &client.received[*seen..] {
                let body: usize = message.body.parse().unwrap();
                let known = &mut model.messages[body];
                assert!(
                    !known.is_settled || known.may_be_dead,
                    "{message:?} was settled: {known:?}"
                );
                assert!(
                    !known.is_buried || !QUEUES.contains(&&*message.path),
                    "{message:?} was rejected for the last time: {known:?}"
                );
                known.received += 1;
                let due = model.due.get(&body).copied().unwrap_or(0);
                assert!(due <= self.world.now.wall_ms, "{message:?} came before its time {due}");
                model.log.push(format!("{at} gets {body} by {} of {}", message.key, message.path));
                let name = (message.path.clone(), number_of(message.queue_version));
                let before = model.versions.insert(name, body);
                assert!(before.is_none_or(|before| before == body), "{message:?} and {before:?}");
                if property(message, "dead-letter-queue").is_some() {
                    known.may_be_dead = true;
                }
                match message.key % 2 {
                    1 => self.held.push((at, body, message.clone())),
                    _ => known.is_accepted = true,
                }
            }
            *seen = client.received.len();
        }
        let (clients, messages) = (&self.world.clients, &mut model.messages);
        self.published.retain(|(client, token), bodies| {
            let is_confirmed = clients[*client].confirmed.contains(token);
            for body in bodies.iter().filter(|_| is_confirmed) {
                messages[*body].is_confirmed = true;
            }
            !is_confirmed
        });
        self.settled.retain(|(client, token), body| {
            let is_confirmed = clients[*client].confirmed.contains(token);
            messages[*body].is_settled |= is_confirmed;
            !is_confirmed
        });
        self.buried.retain(|(client, token), body| {
            let is_confirmed = clients[*client].confirmed.contains(token);
            messages[*body].is_buried |= is_confirmed;
            !is_confirmed
        });
    }

    fn act(&mut self, model: &mut Model, keeping: &mut Keeping) {
        let client = *self.world.random.pick(&self.clients.clone());
        let key = self.world.random.below(2) as u32;
        let shard = self.world.random.below(self.world.brokers.len());
        match self.world.random.below(32) {
            0..=5 => self.publish(model, client),
            6..=8 => self.consume(client, key),
            9 => self.leave(client, key),
            10 if self.world.random.one_in(3) => self.close(model, client),
            11..=13 => self.settle(model),
            14 | 15 => self.transact(model),
            16..=18 => keeping.take(&mut self.world, shard),
            19 | 20 => {
                keeping.answer(&mut self.world, shard);
            }
            21 => {
                keeping.give_loaded(&mut self.world, shard);
            }
            22 if self.world.random.one_in(8) => keeping.full = !keeping.full,
            23 => self.world.advance(Span::from_millis(400)),
            24..=27 => {
                self.world.deliver_envelope();
            }
            _ => {
                self.world.pull(client);
            }
        }
        self.look(model);
        let refused =
            |client: &usize| format!("{client} {:?}", self.world.clients[*client].refused);
        let refused: Vec<String> = self.clients.iter().map(refused).collect();
        model.log.push(format!("full {} {refused:?}", keeping.full));
    }

    /// Everybody leaves, and one client takes all there is.
    fn finish(&mut self, model: &mut Model, keeping: &mut Keeping) {
        keeping.full = false;
        for client in self.clients.clone() {
            for key in 0..2 {
                self.leave(client, key);
            }
        }
        for _ in 0..4 {
            self.world.deliver_envelopes();
            keeping.finish(&mut self.world);
            self.world.advance(Span::from_secs(2));
        }
        self.world.quiesce();
        self.look(model);
        let last = self.connect();
        for (key, target) in [(0, "queue:jobs/*"), (2, "queue:dlq/**")] {
            self.world.subscribe(last, key, Wish::to(target));
        }
        for _ in 0..4 {
            keeping.settle_down(&mut self.world);
            self.world.advance(Span::from_millis(250));
        }
        let mut rising = BTreeMap::new();
        for message in &self.world.clients[last].received {
            let version = message.queue_version;
            let before = rising.insert(message.path.clone(), version).unwrap_or_default();
            assert!(before < version, "{message:?} behind {before}");
        }
        self.look(model);
    }
}

fn check(model: &Model) {
    let seen_again = |body: usize, before: usize| model.messages[body].received > before;
    for transaction in &model.transactions {
        let published = transaction.published.iter().all(|body| seen_again(*body, 0));
        let again = seen_again(transaction.consumed, transaction.received_before);
        // Its publisher may have been refused after somebody had it.
        let is_owed = model.messages[transaction.consumed].is_confirmed;
        assert!(
            published || again || !is_owed,
            "{transaction:?} has lost something: {:#?}",
            model.log
        );
    }
    let in_transactions: BTreeSet<usize> =
        model.transactions.iter().map(|transaction| transaction.consumed).collect();
    for (body, known) in model.messages.iter().enumerate() {
        if known.is_persistent && known.is_confirmed && !in_transactions.contains(&body) {
            assert!(known.is_accepted, "{body} is lost: {known:?}");
        }
    }
}

#[test]
fn what_was_confirmed_is_there_and_what_was_settled_is_gone_after_crashes_at_any_moment() {
    for_seeds(0..1_000, |seed| {
        let (mut keeping, mut model) = (Keeping::default(), Model::default());
        for number in 0..3 {
            let mut life = begin(seed + number * 7, &mut keeping);
            for _ in 0..life.world.random.below(150) {
                life.act(&mut model, &mut keeping);
            }
            if life.world.random.one_in(9) {
                life.world.fail_store();
                life.look(&mut model);
            }
            keeping.crash(&mut life.world);
            keeping.full = false;
        }
        let mut life = begin(seed + 21, &mut keeping);
        life.finish(&mut model, &mut keeping);
        check(&model);
        assert_eq!(keeping.queued(), 0, "all is settled in the store");
        life.world.advance(Span::from_secs(60));
        life.world.advance(Span::from_secs(60));
        keeping.finish(&mut life.world);
        // Those with consumers stay.
        life.world.end();
        life.world.advance(Span::from_secs(60));
        life.world.advance(Span::from_secs(60));
        keeping.finish(&mut life.world);
        assert_eq!(keeping.streams(), 0, "no stream is left of queues that have ended");
    });
}

#[test]
fn a_full_store_loses_nothing_that_was_confirmed_and_takes_everything_later() {
    for_seeds(0..500, |seed| {
        let (mut keeping, mut model) = (Keeping::default(), Model::default());
        let mut life = begin(seed, &mut keeping);
        for _ in 0..200 {
            life.act(&mut model, &mut keeping);
        }
        life.finish(&mut model, &mut keeping);
        check(&model);
    });
}
