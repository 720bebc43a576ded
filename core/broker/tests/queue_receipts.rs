//! Receipts of queues that survive: who hears when, and what becomes of what the store refuses.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use crate::durable_queues::{Life, REDELIVERIES_MAX, begin, options};
use crate::support::keeping::Keeping;
use crate::support::{Outgoing, Received, Wish, World, destination, for_seeds};
use tiderace_base::{CloseCode, Span};
use tiderace_wire::{Command, Commands, Flags, Meta, Outcome, Settle, SubscriptionKey, Token};

fn persistent(body: &str) -> Outgoing {
    Outgoing { flags: Flags::PERSISTENT, ..Outgoing::new(body) }
}

#[test]
fn a_publisher_hears_after_the_store_and_consumers_before() {
    let mut keeping = Keeping::default();
    let Life { mut world, clients, .. } = begin(1, &mut keeping);
    let client = clients[0];
    world.subscribe(client, 1, Wish { explicit: true, ..Wish::to("queue:jobs/a") });
    let kept = world.publish_all(client, "queue:jobs/a", &[persistent("1")]);
    let other = world.publish(client, "queue:jobs/a", "2");
    world.quiesce();
    let received = world.clients[client].received.clone();
    assert_eq!(received.iter().map(|message| &*message.body).collect::<Vec<_>>(), ["1", "2"]);
    assert!(world.is_confirmed(client, other) && !world.is_confirmed(client, kept));
    keeping.finish(&mut world);
    world.quiesce();
    assert!(world.is_confirmed(client, kept));
    let settled = world.settle(client, &received[0], Outcome::Accept);
    let free = world.settle(client, &received[1], Outcome::Accept);
    world.quiesce();
    assert!(world.is_confirmed(client, free) && !world.is_confirmed(client, settled));
    keeping.finish(&mut world);
    world.quiesce();
    assert!(world.is_confirmed(client, settled));
    assert_eq!(keeping.queued(), 0);
}

/// A message that a client has rejected as often as it may be, but for the last time, on one to four shards; and where it and
/// its dead letter have their homes.
struct Doomed {
    world: World,
    client: usize,
    message: Received,
    lies: usize,
    goes: usize,
}

fn doomed(seed: u64, keeping: &mut Keeping) -> Doomed {
    let Life { mut world, clients, .. } = begin(seed, keeping);
    let client = clients[0];
    let wish = Wish { explicit: true, ..Wish::to("queue:jobs/a") };
    world.subscribe(client, 1, wish);
    world.publish_all(client, "queue:jobs/a", &[persistent("1")]);
    world.quiesce();
    keeping.finish(&mut world);
    let next = |world: &mut World, redeliveries| {
        world.quiesce();
        // Redelivery may be delayed.
        world.advance(Span::from_millis(1_000));
        world.quiesce();
        let message = world.clients[client].received.last().unwrap().clone();
        assert_eq!(message.redeliveries, redeliveries);
        message
    };
    for redeliveries in 0..REDELIVERIES_MAX {
        let message = next(&mut world, redeliveries);
        let token = world.settle(client, &message, Outcome::Reject);
        world.quiesce();
        assert!(world.is_confirmed(client, token));
    }
    let message = next(&mut world, REDELIVERIES_MAX);
    let home = |path: &str| destination(path).home(world.brokers.len()).index();
    let (lies, goes) = (home("queue:jobs/a"), home("queue:dlq/jobs/a"));
    Doomed { world, client, message, lies, goes }
}

impl Doomed {
    /// Rejects it for the last time without asking.
    fn reject(&mut self) {
        let (key, home) = (SubscriptionKey(self.message.key), self.message.home);
        let ranges = vec![(self.message.sequence, self.message.sequence)];
        let settle = Settle { key, home, ranges, outcome: Outcome::Reject, confirm: None };
        self.world.command(self.client, Command::Settle(settle));
    }

    /// Asks for a receipt that covers what was settled before.
    fn ask(&mut self) -> Token {
        let (key, home) = (SubscriptionKey(self.message.key), self.message.home);
        let (ranges, token) = (Vec::new(), self.world.token(self.client));
        let settle = Settle { key, home, ranges, outcome: Outcome::Reject, confirm: Some(token) };
        self.world.command(self.client, Command::Settle(settle));
        token
    }

    fn reject_and_ask(&mut self, covers: bool) -> Token {
        if covers {
            self.reject();
            return self.ask();
        }
        self.world.settle(self.client, &self.message.clone(), Outcome::Reject)
    }

    fn is_confirmed(&self, token: Token) -> bool {
        self.world.is_confirmed(self.client, token)
    }

    fn refused(&self, token: Token) -> Option<CloseCode> {
        let refused = &self.world.clients[self.client].refused;
        refused.iter().find(|(about, _)| *about == Some(token)).map(|(_, code)| *code)
    }

    /// The store takes what a home has to say, and answers.
    fn store(&mut self, keeping: &mut Keeping, home: usize) {
        keeping.take(&mut self.world, home);
        while keeping.answer(&mut self.world, home) {}
        self.world.quiesce();
    }
}

#[test]
fn a_rejection_is_confirmed_when_the_dead_letter_is_stored_where_it_goes() {
    let mut apart = 0;
    for (seed, covers) in (0..8).flat_map(|seed| [(seed, false), (seed, true)]) {
        let mut keeping = Keeping::default();
        let mut doomed = doomed(seed, &mut keeping);
        let token = doomed.reject_and_ask(covers);
        doomed.world.quiesce();
        assert!(!doomed.is_confirmed(token), "of {seed}");
        if doomed.lies != doomed.goes {
            apart += 1;
            doomed.store(&mut keeping, doomed.goes);
            assert!(!doomed.is_confirmed(token), "it is not settled where it lay: {seed}");
        }
        doomed.store(&mut keeping, doomed.lies);
        assert!(doomed.is_confirmed(token), "of {seed}");
        keeping.settle_down(&mut doomed.world);
        assert_eq!(keeping.queued(), 1);
    }
    assert!(apart > 0);
}

#[test]
fn a_rejection_whose_dead_letter_is_not_stored_is_refused_whenever_its_receipt_is_asked_for() {
    for (seed, asks_at_once, covers) in
        (0..8).flat_map(|seed| [(seed, true, false), (seed, true, true), (seed, false, true)])
    {
        let mut keeping = Keeping::default();
        let mut doomed = doomed(seed, &mut keeping);
        keeping.full = true;
        let token = match asks_at_once {
            true => doomed.reject_and_ask(covers),
            false => {
                doomed.reject();
                keeping.settle_down(&mut doomed.world);
                doomed.ask()
            }
        };
        keeping.settle_down(&mut doomed.world);
        assert_eq!(
            doomed.refused(token),
            Some(CloseCode::StoreUnavailable),
            "{seed} {asks_at_once} {covers}"
        );
        let again = doomed.ask();
        keeping.settle_down(&mut doomed.world);
        assert!(doomed.is_confirmed(again) && !doomed.is_confirmed(token));
        // It is there in the next life, where it lay.
        assert_eq!(keeping.queued(), 1);
    }
}

#[test]
fn what_is_rejected_without_a_receipt_is_settled_where_it_lay_all_the_same() {
    for seed in 0..8 {
        let mut keeping = Keeping::default();
        let mut doomed = doomed(seed, &mut keeping);
        doomed.reject();
        keeping.settle_down(&mut doomed.world);
        assert_eq!(keeping.queued(), 1);
        let token = doomed.ask();
        doomed.world.quiesce();
        assert!(doomed.is_confirmed(token), "nothing is left to wait for: {seed}");
    }
}

#[test]
fn what_the_store_refuses_is_taken_out_and_its_publisher_hears_with_a_receipt_or_without() {
    for wants_receipt in [false, true] {
        let mut keeping = Keeping::default();
        let Life { mut world, clients, .. } = begin(0, &mut keeping);
        keeping.full = true;
        let (publisher, consumer) = (clients[0], clients[1]);
        let mut commands = Commands::new();
        commands.begin_turn(world.now.time);
        commands.message(&destination("queue:jobs/a"));
        let token = wants_receipt.then(|| world.token(publisher));
        let meta = Meta { flags: Flags::PERSISTENT, expires_ms: None };
        commands.publish(b"1", meta, token);
        world.commands(publisher, &mut commands);
        world.quiesce();
        assert!(world.clients[publisher].refused.is_empty(), "the store has not answered");
        keeping.take(&mut world, 0);
        assert!(keeping.answer(&mut world, 0));
        world.quiesce();
        let refused = world.clients[publisher].refused.iter().map(|(about, _)| *about);
        assert_eq!(refused.collect::<Vec<_>>(), [token]);
        world.subscribe(consumer, 0, Wish::to("queue:jobs/a"));
        world.publish(publisher, "queue:jobs/a", "2");
        world.quiesce();
        let received = &world.clients[consumer].received;
        let bodies: Vec<&str> = received.iter().map(|message| &*message.body).collect();
        assert_eq!(bodies, ["2"], "what nobody had been given is gone");
    }
}

#[test]
fn what_is_not_persistent_shares_nothing_with_persistent_messages_that_came_with_it() {
    for has_store in [false, true] {
        let mut keeping = Keeping::default();
        let mut life = begin(0, &mut keeping);
        if !has_store {
            life.world = World::new(0, options(0));
            life.world.connect(0, "ann");
        }
        let (mut world, client) = (life.world, 0);
        let mut commands = Commands::new();
        commands.begin_turn(world.now.time);
        let mut send = |body: &str, flags| {
            commands.message(&destination("queue:jobs/a"));
            let token = world.token(client);
            commands.publish(body.as_bytes(), Meta { flags, expires_ms: None }, Some(token));
            token
        };
        let kept = send("kept", Flags::PERSISTENT);
        let other = send("other", Flags::NONE);
        let last = send("last", Flags::PERSISTENT);
        world.commands(client, &mut commands);
        world.quiesce();
        assert!(world.is_confirmed(client, other), "it waits for nothing");
        let refused =
            |token| world.clients[client].refused.contains(&(Some(token), CloseCode::NoStore));
        assert_eq!([kept, other, last].map(refused), [!has_store, false, !has_store]);
        if has_store {
            assert!(!world.is_confirmed(client, kept) && !world.is_confirmed(client, last));
            keeping.finish(&mut world);
            assert!(world.is_confirmed(client, kept) && world.is_confirmed(client, last));
            assert_eq!(keeping.queued(), 2, "what is not persistent is not in the store");
        }
        world.subscribe(client, 0, Wish::to("queue:jobs/a"));
        world.quiesce();
        let received = world.clients[client].received.iter();
        let bodies: Vec<&str> = received.map(|message| &*message.body).collect();
        assert_eq!(bodies, if has_store { &["kept", "other", "last"][..] } else { &["other"] });
    }
}

#[test]
fn publishers_to_queues_wait_while_the_store_is_behind() {
    for_seeds(0..6, |seed| {
        let mut keeping = Keeping::default();
        let Life { mut world, clients, .. } = begin(seed % 4 + 20 * (seed / 4), &mut keeping);
        let body = "x".repeat(64 << 10);
        let mut sent = 0;
        while !world.clients[clients[0]].paused {
            world.publish_all(clients[0], "queue:jobs/a", &[persistent(&body)]);
            world.subscribe(clients[1], sent, Wish::to("queue:jobs/a"));
            world.deliver_envelopes();
            sent += 1;
            assert!(sent < 100, "what waits for the store is bounded");
        }
        for shard in 0..world.brokers.len() {
            keeping.take(&mut world, shard);
        }
        world.deliver_envelopes();
        assert!(!world.clients[clients[0]].paused, "the store has taken it");
    });
}
