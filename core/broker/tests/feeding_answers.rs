//! Durable subscriptions and mirrors: who is answered when a store has no room for a while, and who waits for whom.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::sync::Arc;

use crate::support::asking::{answer, ask, create as create_topic, tell};
use crate::support::keeping::Keeping;
use crate::support::{Outgoing, Wish, World, path_at};
use tiderace_base::CloseCode;
use tiderace_broker::{BrokerOptions, QueuePolicy};
use tiderace_queues::{FullPolicy, Policy, QueueOptions};
use tiderace_topics::Pattern;
use tiderace_wire::{
    Command, Commands, Comparison, Condition, DurableSubscription, Flags, Operation,
    OperationResult, SlowConsumer, durable_queue,
};

fn create(name: &str, topic: &str) -> Operation {
    Operation::CreateSubscription(Box::new(DurableSubscription {
        queue: durable_queue(name).unwrap(),
        topics: vec![Pattern::parse(topic).unwrap()],
        selector: None,
    }))
}

/// The name of a subscription whose home is a shard of two.
fn name_at(home: usize) -> String {
    path_at("dsub/", home, 2).strip_prefix("dsub/").unwrap().to_owned()
}

fn with_store(keeping: &mut Keeping, shards: usize) -> World {
    let mut world = World::new(1, BrokerOptions { shards, epoch: 1, ..BrokerOptions::default() });
    keeping.restore(&mut world);
    world
}

#[test]
fn a_publisher_is_refused_if_its_own_home_has_not_stored_it_although_others_have() {
    for own_first in [true, false] {
        let mut keeping = Keeping::default();
        let mut world = with_store(&mut keeping, 2);
        let client = world.connect(0, "ann");
        for home in 0..2 {
            ask(&mut world, client, create(&name_at(home), "t/**"));
        }
        keeping.settle_down(&mut world);
        let topic = path_at("t/", 0, 2);
        let message = Outgoing { flags: Flags::PERSISTENT, ..Outgoing::new("1") };
        let token = world.publish_all(client, &format!("topic:{topic}"), &[message]);
        world.quiesce();
        for shard in if own_first { [0, 1] } else { [1, 0] } {
            keeping.full = shard == 0;
            keeping.take(&mut world, shard);
            while keeping.answer(&mut world, shard) {}
            world.quiesce();
        }
        keeping.full = false;
        keeping.settle_down(&mut world);
        assert!(!world.is_confirmed(client, token), "its own home first: {own_first}");
        let refused: Vec<_> = world.clients[client].refused.iter().map(|it| it.0).collect();
        assert_eq!(refused, [Some(token)]);
    }
}

#[test]
fn nothing_durable_begins_while_the_store_has_no_room_however_often_it_is_asked() {
    let mut keeping = Keeping::default();
    let mut world = with_store(&mut keeping, 1);
    let client = world.connect(0, "ann");
    keeping.settle_down(&mut world);
    keeping.full = true;
    for _ in 0..3 {
        let token = ask(&mut world, client, create("a", "t/**"));
        keeping.settle_down(&mut world);
        let said = answer(&world, client, token).unwrap();
        assert_eq!(said.unwrap_err(), CloseCode::StoreUnavailable);
    }
}

#[test]
fn a_consumer_that_comes_with_its_subscription_finds_it_although_it_waited() {
    let mut world = World::new(1, BrokerOptions { shards: 1, ..BrokerOptions::default() });
    let client = world.connect(0, "ann");
    let value = format!("{{\"text\":\"{}\"}}", "x".repeat(100_000));
    tell(&mut world, client, create_topic("v", r#"{"type":"json"}"#, Some(&value))).unwrap();
    let place = |number| Condition::Place {
        pointer: format!("/p{number}").into(),
        comparison: Comparison::Exists,
        value: b"".as_slice().into(),
    };
    // What looks into the value a thousand times has its turn later, and all behind it.
    let dear = Condition::Any((0..64).map(place).collect());
    let dear = crate::support::asking::update("v", "{}", Some(dear));
    let mut commands = Commands::new();
    for operation in [dear.clone(), dear, create("a", "t/**")] {
        let token = world.token(client);
        commands.push(Command::Operate { token, operation: Box::new(operation) });
    }
    let (token, subscribe) = world.wished(client, 1, Wish::to("queue:dsub/a"));
    commands.push(Command::Subscribe(Box::new(subscribe)));
    world.commands(client, &mut commands);
    assert!(world.metrics().work_deferred > 0, "nothing waited");
    world.quiesce();
    assert!(!world.clients[client].refused.iter().any(|it| it.0 == Some(token)));
    world.publish(client, "topic:t/1", "gathered");
    world.quiesce();
    assert_eq!(world.clients[client].received.last().unwrap().body, "gathered");
}

/// The queue `m/a` and the topic of that name get what is sent to either.
fn mirrored(shards: usize, policy: Policy) -> BrokerOptions {
    let usual = BrokerOptions::default();
    let options =
        QueueOptions { policy: Policy { mirrored: true, ..policy }, ..usual.queue_default.clone() };
    let policy = QueuePolicy { pattern: Pattern::parse("m/a").unwrap(), options };
    BrokerOptions { shards, queue_policies: vec![policy], ..usual }
}

#[test]
fn who_sends_to_a_mirrored_queue_waits_for_slow_subscribers_of_its_topic() {
    for shards in 1..=2 {
        let mut options = mirrored(shards, Policy::default());
        Arc::make_mut(&mut options.topic_default).slow_consumer = SlowConsumer::Block;
        (options.backlog_bytes_high, options.backlog_bytes_low) = (64 * 1024, 16 * 1024);
        let mut world = World::new(1, options);
        let sender = world.connect(0, "ann");
        let slow = world.connect(shards - 1, "bob");
        world.subscribe(slow, 1, Wish::to("topic:m/a"));
        world.quiesce();
        for _ in 0..100 {
            if !world.clients[sender].paused {
                world.publish(sender, "queue:m/a", &"x".repeat(16 * 1024));
            }
            // Nobody reads.
            world.deliver_envelopes();
        }
        assert!(world.clients[sender].paused, "over {shards} shards");
        assert!(world.metrics().backlog_bytes < 1 << 20);
        world.quiesce();
        assert!(!world.clients[sender].paused, "over {shards} shards, when they have read");
    }
}

#[test]
fn a_topic_whose_first_value_its_mirror_refuses_is_not_made() {
    let policy = Policy { full: FullPolicy::Reject, messages_max: 1, ..Policy::default() };
    let mut world = World::new(1, mirrored(1, policy));
    let client = world.connect(0, "ann");
    world.publish(client, "queue:m/a", "1");
    world.quiesce();
    tell(&mut world, client, crate::support::asking::remove("m/a")).unwrap();
    for _ in 0..2 {
        let made = tell(&mut world, client, create_topic("m/a", "{}", Some("2")));
        assert_eq!(made.unwrap_err(), CloseCode::QueueFull);
    }
    let made = tell(&mut world, client, create_topic("m/a", "{}", None)).unwrap();
    assert!(matches!(made, OperationResult::Created { existed: false }), "{made:?}");
}
