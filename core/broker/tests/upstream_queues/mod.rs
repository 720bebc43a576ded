//! Queues of a source, sent to and consumed from through edges: what is confirmed is delivered at least once, what is
//! settled and confirmed is not delivered again, and each consumer has what it asked for and no more; connections are cut
//! and heal, and consumers come and go.

#![allow(clippy::unwrap_used)]

mod answers;
mod chains;
mod nodes;

use std::collections::{BTreeMap, BTreeSet};

use crate::support::faults::{Fault, are_found};
use crate::support::{Outgoing, Received, Wish, for_seeds, names};
use nodes::Nodes;
use tiderace_base::CloseCode;
use tiderace_wire::{Outcome, Token};

const QUEUES: [&str; 3] = ["queue:q/a", "queue:q/b", "queue:q/c/d"];

/// A client that consumes, by where it is.
struct Consumer {
    at: usize,
    client: usize,
    target: &'static str,
    explicit: bool,
    window: u32,
    credit: Option<u64>,
    begun: Token,
    /// How many of what it has received were looked at.
    seen: usize,
    /// What it has and has not settled.
    has: Vec<Received>,
    /// What it has settled by a request: the message and what was said.
    asked: BTreeMap<Token, (Received, Outcome)>,
}

struct Model {
    nodes: Nodes,
    consumers: Vec<Consumer>,
    publishers: Vec<(usize, usize)>,
    next: u64,
    /// Messages by the token that confirms them.
    sent: Vec<(usize, Token, String)>,
    /// Who has received what.
    received: BTreeSet<String>,
    /// What was accepted and confirmed: nobody gets it again.
    done: BTreeSet<String>,
}

impl Model {
    fn new(seed: u64) -> Model {
        let mut nodes = Nodes::new(seed, 2);
        let publishers = (0..2).map(|at| {
            let world = &mut nodes.edges[at].world;
            let shard = world.random.below(world.brokers.len());
            (at, world.connect(shard, "pub"))
        });
        let publishers = publishers.collect();
        Model {
            nodes,
            consumers: Vec::new(),
            publishers,
            next: 0,
            sent: Vec::new(),
            received: BTreeSet::new(),
            done: BTreeSet::new(),
        }
    }

    fn publish(&mut self) {
        let place = self.nodes.source.random.below(self.publishers.len());
        let (at, client) = self.publishers[place];
        let queue = *self.nodes.source.random.pick(&QUEUES);
        let world = &mut self.nodes.edges[at].world;
        if world.clients[client].paused {
            return;
        }
        let count = 1 + self.nodes.source.random.below(3) as u64;
        let bodies = (self.next..self.next + count).map(|number| format!("m{number}"));
        let messages: Vec<Outgoing> = bodies.map(Outgoing::new).collect();
        self.next += count;
        let token = world.publish_all(client, queue, &messages);
        let all = messages.into_iter().map(|message| (place, token, message.body));
        self.sent.extend(all);
    }

    fn begin(&mut self) {
        let random = &mut self.nodes.source.random;
        let at = random.below(2);
        let explicit = !random.one_in(3);
        let window = 1 + random.below(4) as u32;
        let credit = random.one_in(3).then(|| random.below(4) as u64);
        let targets: &[&'static str] = &["queue:q/a", "queue:q/b", "queue:q/**", "queue:q/c/*"];
        let target = *random.pick(targets);
        let world = &mut self.nodes.edges[at].world;
        let shard = world.random.below(world.brokers.len());
        let client = world.connect(shard, "ann");
        let wish = Wish { explicit, window: Some(window), credit, ..Wish::to(target) };
        let begun = world.subscribe(client, 7, wish);
        self.consumers.push(Consumer {
            at,
            client,
            target,
            explicit,
            window,
            credit,
            begun,
            seen: 0,
            has: Vec::new(),
            asked: BTreeMap::new(),
        });
    }

    /// Takes in what consumers have received, and then what they were answered: what one has had for long, another one may
    /// have settled since.
    fn look(&mut self) {
        (0..self.consumers.len()).for_each(|place| self.look_at_messages(place));
        (0..self.consumers.len()).for_each(|place| self.look_at_answers(place));
    }

    fn look_at_messages(&mut self, place: usize) {
        let consumer = &mut self.consumers[place];
        let client = &self.nodes.edges[consumer.at].world.clients[consumer.client];
        for message in &client.received[consumer.seen..] {
            assert!(!self.done.contains(&message.body), "{} is settled", message.body);
            self.received.insert(message.body.clone());
            consumer.has.push(message.clone());
        }
        consumer.seen = client.received.len();
        if let Some(credit) = consumer.credit {
            assert!(consumer.seen as u64 <= credit, "more has come than was asked for");
        }
    }

    fn look_at_answers(&mut self, place: usize) {
        let consumer = &mut self.consumers[place];
        let client = &self.nodes.edges[consumer.at].world.clients[consumer.client];
        let asked: Vec<Token> = consumer.asked.keys().copied().collect();
        for token in asked {
            if client.confirmed.contains(&token) {
                let (message, outcome) = consumer.asked.remove(&token).unwrap();
                if outcome == Outcome::Accept {
                    self.done.insert(message.body);
                }
                continue;
            }
            let refused = client.refused.iter().find(|(known, _)| *known == Some(token));
            if let Some((_, code)) = refused {
                let known = [CloseCode::DeliveryLost, CloseCode::OutcomeUnknown];
                assert!(known.contains(code), "{code:?}");
                consumer.asked.remove(&token);
            }
        }
    }

    fn consume(&mut self) {
        if self.consumers.is_empty() {
            return;
        }
        let place = self.nodes.source.random.below(self.consumers.len());
        let random = &mut self.nodes.source.random;
        let consumer = &mut self.consumers[place];
        let world = &mut self.nodes.edges[consumer.at].world;
        match random.below(10) {
            0 if random.one_in(2) => {
                // It is lost, or leaves.
                match random.below(3) {
                    0 => drop(world.unsubscribe(consumer.client, 7)),
                    1 => {
                        world.goodbye(consumer.client);
                        world.close(consumer.client);
                    }
                    _ => world.close(consumer.client),
                }
                self.consumers.remove(place);
            }
            1..3 => {
                if let Some(credit) = &mut consumer.credit {
                    *credit += 2;
                    world.credit(consumer.client, 7, 2);
                }
            }
            3 => drop(world.pull(consumer.client)),
            _ => {
                if consumer.explicit && !consumer.has.is_empty() {
                    let message = consumer.has.remove(random.below(consumer.has.len()));
                    let rejects = random.one_in(10) && message.redeliveries < 2;
                    let outcome = if rejects { Outcome::Reject } else { Outcome::Accept };
                    let token = world.settle(consumer.client, &message, outcome);
                    consumer.asked.insert(token, (message, outcome));
                }
            }
        }
    }

    fn step(&mut self) {
        let nodes = &mut self.nodes;
        match nodes.source.random.below(24) {
            0..4 => self.publish(),
            4 if self.consumers.len() < 6 => self.begin(),
            5..10 => self.consume(),
            10..16 => {
                let at = nodes.source.random.below(2);
                for _ in 0..4 {
                    nodes.pump(at);
                    nodes.source.deliver_envelope();
                    nodes.edges[at].world.deliver_envelope();
                }
            }
            16 | 17 => {
                let at = nodes.source.random.below(2);
                nodes.edges[at].world.quiesce();
            }
            18 if nodes.source.random.one_in(4) => {
                let at = nodes.source.random.below(2);
                nodes.cut(at);
            }
            19 | 20 => {
                let at = nodes.source.random.below(2);
                nodes.heal(at);
            }
            21 => nodes.advance(50),
            _ => nodes.source.quiesce(),
        }
    }

    /// Consumers that are there get and accept everything that is left for them; what they consume.
    fn consume_all(&mut self) -> Vec<&'static str> {
        let worlds = self.nodes.edges.iter().map(|edge| &edge.world).collect::<Vec<_>>();
        self.consumers.retain(|consumer| {
            let client = &worlds[consumer.at].clients[consumer.client];
            client.confirmed.contains(&consumer.begun) && client.subscriptions_ended.is_empty()
        });
        for consumer in &mut self.consumers {
            if let Some(credit) = &mut consumer.credit {
                *credit += 10_000;
                self.nodes.edges[consumer.at].world.credit(consumer.client, 7, 10_000);
            }
        }
        loop {
            self.nodes.settle();
            self.look();
            let waiting = self.consumers.iter_mut().filter(|it| it.explicit && !it.has.is_empty());
            let mut is_over = true;
            for consumer in waiting {
                is_over = false;
                let world = &mut self.nodes.edges[consumer.at].world;
                for message in consumer.has.drain(..) {
                    let token = world.settle(consumer.client, &message, Outcome::Accept);
                    consumer.asked.insert(token, (message, Outcome::Accept));
                }
            }
            if is_over {
                return self.consumers.iter().map(|consumer| consumer.target).collect();
            }
        }
    }

    /// Everything is there again: what was confirmed has been delivered, or is now.
    fn check_at_rest(&mut self) {
        (0..2).for_each(|at| self.nodes.heal(at));
        self.nodes.settle();
        self.look();
        for consumer in &self.consumers {
            let client = &self.nodes.edges[consumer.at].world.clients[consumer.client];
            assert!(consumer.asked.is_empty(), "not answered: {:?}", consumer.asked);
            let refused = client.refused.iter().any(|(token, _)| *token == Some(consumer.begun));
            assert!(client.confirmed.contains(&consumer.begun) != refused);
        }
        let consumed = self.consume_all();
        for consumer in self.consumers.drain(..) {
            assert!(consumer.window > 0);
            self.nodes.edges[consumer.at].world.close(consumer.client);
        }
        self.nodes.settle();
        let reader = self.nodes.source.connect(0, "reader");
        self.nodes.source.subscribe(reader, 1, Wish::to("queue:q/**"));
        self.nodes.settle();
        let received = &self.nodes.source.clients[reader].received;
        for message in received {
            let has_consumer = consumed.iter().any(|target| names(target, &message.path));
            assert!(!has_consumer, "{} has not come to a consumer", message.body);
        }
        let left: Vec<String> = received.iter().map(|message| message.body.clone()).collect();
        let twice = left.iter().collect::<BTreeSet<_>>().len() != left.len();
        assert!(!twice, "a queue has a message twice: {left:?}");
        for body in &left {
            assert!(!self.done.contains(body), "{body} was settled");
            self.received.insert(body.clone());
        }
        for (place, token, body) in &self.sent {
            let (at, client) = self.publishers[*place];
            let client = &self.nodes.edges[at].world.clients[client];
            if client.confirmed.contains(token) {
                assert!(self.received.contains(body), "{body} was confirmed and is lost");
            }
        }
        self.nodes.end();
    }
}

fn play(seed: u64, fault: Fault) -> Model {
    let mut model = Model::new(seed);
    model.nodes.fault = fault;
    for _ in 0..400 {
        model.step();
        model.look();
    }
    model.check_at_rest();
    model
}

#[test]
fn what_is_confirmed_is_delivered_and_what_is_settled_is_not_delivered_again() {
    let done = std::cell::Cell::new(0);
    for_seeds(0..400, |seed| done.set(done.get() + play(seed, Fault::None).done.len()));
    assert!(done.get() > 1_500, "too little was settled to say anything: {}", done.get());
}

#[test]
fn faults_of_queues_are_found() {
    let faults =
        [Fault::QueuedLost, Fault::QueuedTwice, Fault::SettledOtherwise, Fault::AnswerLost];
    are_found(&faults, |seed, fault| drop(play(seed, fault)));
}
