//! What is removed while the store takes nothing: it is gone, and who removed it is told so, as soon as that is certain.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use crate::support::asking::{self, answer, ask, path, remove};
use crate::support::keeping::Keeping;
use crate::support::{Outgoing, Received, Wish, World};
use tiderace_base::{CloseCode, Span};
use tiderace_broker::BrokerOptions;
use tiderace_topics::Pattern;
use tiderace_wire::{
    Command, DurableSubscription, Flags, Operation, OperationResult, Outcome, Settle,
    SubscriptionKey, Token, durable_queue,
};

fn begin(keeping: &mut Keeping) -> (World, usize) {
    let mut world = World::new(1, BrokerOptions { epoch: 1, ..BrokerOptions::default() });
    keeping.restore(&mut world);
    let client = world.connect(0, "ann");
    (world, client)
}

fn create() -> Operation {
    let topics = vec![Pattern::parse("x").unwrap()];
    let queue = durable_queue("a").unwrap();
    Operation::CreateSubscription(Box::new(DurableSubscription { queue, topics, selector: None }))
}

fn delete() -> Operation {
    Operation::DeleteSubscription { queue: durable_queue("a").unwrap() }
}

fn purge() -> Operation {
    Operation::Purge { path: path("jobs"), selector: None, up_to: None }
}

fn send(world: &mut World, client: usize) {
    let message = Outgoing { flags: Flags::PERSISTENT, ..Outgoing::new("1") };
    world.publish_all(client, "queue:jobs", &[message]);
}

/// A world with a durable subscription and a message in a queue.
fn filled(keeping: &mut Keeping) -> (World, usize) {
    let (mut world, client) = begin(keeping);
    ask(&mut world, client, create());
    send(&mut world, client);
    keeping.settle_down(&mut world);
    assert_eq!((keeping.streams(), keeping.queued()), (2, 1));
    (world, client)
}

/// Whether subscription and message are there after a crash.
fn after_a_crash(mut world: World, keeping: &mut Keeping) -> (bool, bool) {
    keeping.crash(&mut world);
    keeping.full = false;
    let (mut world, client) = begin(keeping);
    world.subscribe(client, 1, Wish::to("queue:jobs"));
    keeping.settle_down(&mut world);
    let token = ask(&mut world, client, delete());
    keeping.settle_down(&mut world);
    let is_there = answer(&world, client, token).unwrap().is_ok();
    (is_there, !world.clients[client].received.is_empty())
}

fn done(result: &OperationResult) -> bool {
    matches!(result, OperationResult::Done | OperationResult::Purged { messages: 1, .. })
}

#[test]
fn what_takes_no_room_is_done_and_said_to_be() {
    let mut keeping = Keeping::default();
    let (mut world, client) = filled(&mut keeping);
    keeping.full = true;
    send(&mut world, client);
    keeping.settle_down(&mut world);
    assert_eq!(keeping.refused, 1);
    for operation in [delete(), purge()] {
        let token = ask(&mut world, client, operation);
        keeping.settle_down(&mut world);
        assert!(done(&answer(&world, client, token).unwrap().unwrap()));
    }
    assert_eq!(after_a_crash(world, &mut keeping), (false, false));
}

#[test]
fn what_is_refused_together_with_something_else_is_said_again_before_it_is_answered() {
    let mut keeping = Keeping::default();
    let (mut world, client) = filled(&mut keeping);
    keeping.full = true;
    let asked = [delete(), purge()].map(|operation| ask(&mut world, client, operation));
    // In one batch with what adds.
    send(&mut world, client);
    keeping.settle_down(&mut world);
    assert_eq!(keeping.refused, 1);
    for token in asked {
        assert!(answer(&world, client, token).is_none(), "it is not certain yet");
    }
    for _ in 0..3 {
        world.advance(Span::from_secs(1));
        keeping.settle_down(&mut world);
    }
    for token in asked {
        assert!(done(&answer(&world, client, token).unwrap().unwrap()));
    }
    assert_eq!(after_a_crash(world, &mut keeping), (false, false));
}

#[test]
fn a_store_that_has_failed_says_so() {
    let mut keeping = Keeping::default();
    let (mut world, client) = filled(&mut keeping);
    let token = ask(&mut world, client, delete());
    world.fail_store();
    world.quiesce();
    let answer = answer(&world, client, token).unwrap();
    assert_eq!(answer.err(), Some(CloseCode::StoreUnavailable));
}

/// Accepts a message without asking for a confirmation.
fn accept_unasked(world: &mut World, client: usize, message: &Received) {
    let (key, home) = (SubscriptionKey(message.key), message.home);
    let ranges = vec![(message.sequence, message.sequence)];
    let settle = Settle { key, home, ranges, outcome: Outcome::Accept, confirm: None };
    world.command(client, Command::Settle(settle));
}

/// Settles nothing at a home, and waits for that.
fn settle_nothing(world: &mut World, client: usize) -> Token {
    let (token, home) = (world.token(client), world.clients[client].received[0].home);
    let (key, ranges) = (SubscriptionKey(9), Vec::new());
    let (outcome, confirm) = (Outcome::Accept, Some(token));
    world.command(client, Command::Settle(Settle { key, home, ranges, outcome, confirm }));
    token
}

#[test]
fn to_settle_nothing_is_confirmed_when_all_that_was_settled_before_is_stored() {
    for (is_full, adds) in [(false, false), (true, false), (true, true)] {
        let mut keeping = Keeping::default();
        let (mut world, client) = filled(&mut keeping);
        world.subscribe(client, 1, Wish { explicit: true, ..Wish::to("queue:jobs") });
        keeping.settle_down(&mut world);
        let message = world.clients[client].received[0].clone();
        keeping.full = is_full;
        accept_unasked(&mut world, client, &message);
        if adds {
            send(&mut world, client);
            keeping.settle_down(&mut world);
            assert_eq!(keeping.refused, 1);
        }
        let token = settle_nothing(&mut world, client);
        world.quiesce();
        assert!(!world.is_confirmed(client, token));
        keeping.settle_down(&mut world);
        assert_eq!(world.is_confirmed(client, token), !adds);
        for _ in 0..3 {
            world.advance(Span::from_secs(1));
            keeping.settle_down(&mut world);
        }
        assert!(world.is_confirmed(client, token));
        let token = settle_nothing(&mut world, client);
        world.quiesce();
        assert!(world.is_confirmed(client, token), "there is nothing to wait for");
        assert_eq!(after_a_crash(world, &mut keeping), (true, false));
    }
}

#[test]
fn who_has_settled_nothing_that_is_stored_waits_for_nothing() {
    let mut keeping = Keeping::default();
    let (mut world, other) = filled(&mut keeping);
    let client = world.connect(0, "ben");
    world.publish(client, "queue:quick", "not persistent");
    world.subscribe(client, 1, Wish { explicit: true, ..Wish::to("queue:quick") });
    keeping.settle_down(&mut world);
    let message = world.clients[client].received[0].clone();
    send(&mut world, other);
    accept_unasked(&mut world, client, &message);
    let token = settle_nothing(&mut world, client);
    world.quiesce();
    assert!(world.is_confirmed(client, token), "the record is of somebody else");
    world.fail_store();
    let token = settle_nothing(&mut world, client);
    world.quiesce();
    assert!(world.is_confirmed(client, token));
}

#[test]
fn a_removal_in_slices_is_not_answered_before_each_of_them_is_stored() {
    let mut keeping = Keeping::default();
    let (mut world, client) = filled(&mut keeping);
    let persistent = r#"{"retain":true,"persistent":true}"#;
    ask(&mut world, client, asking::create("r/0000", persistent, Some("1")));
    for number in 1..4_000 {
        ask(&mut world, client, asking::create(&format!("r/{number:04}"), "{}", None));
    }
    keeping.settle_down(&mut world);
    keeping.full = true;
    send(&mut world, client);
    let token = ask(&mut world, client, remove("r/**"));
    assert!(world.has_envelopes(), "there is more to remove");
    keeping.take(&mut world, 0);
    keeping.answer(&mut world, 0);
    assert_eq!(keeping.refused, 1);
    keeping.settle_down(&mut world);
    assert!(answer(&world, client, token).is_none(), "the first topic would come back");
    for _ in 0..3 {
        world.advance(Span::from_secs(1));
        keeping.settle_down(&mut world);
    }
    let done = answer(&world, client, token).unwrap().unwrap();
    assert!(matches!(done, OperationResult::Removed { topics: 4_000 }), "{done:?}");
}
