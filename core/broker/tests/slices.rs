//! What one session may have very many of: subscriptions of one topic, deliveries that wait, exchanges.
//! However they end or get messages, the work of one call or turn is bounded. Counted is work, not time.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use std::collections::BTreeMap;

use crate::support::asking::{create, tell};
use crate::support::{Outgoing, Wish, World, destination, for_seeds};
use tiderace_base::{CloseCode, Span, Time};
use tiderace_broker::{BrokerMetrics, BrokerOptions};
use tiderace_wire::{Command, Commands, ExchangeKey, Flags, Meta, Side, SubscriptionKey};

/// The budget of a turn and what one message to all of the subscribers here may cost.
const TURN_UNITS_MAX: u64 = (2 << 20) + (1 << 20);

fn world(shards: usize) -> World {
    World::new(1, BrokerOptions { shards, ..BrokerOptions::default() })
}

fn metrics(world: &World) -> BrokerMetrics {
    world.brokers[0].metrics()
}

/// Single messages to these topics in turn, all in one call.
fn publish_in_turn(world: &mut World, client: usize, topics: &[&str], count: usize) {
    let mut commands = Commands::new();
    commands.begin_turn(Time::ZERO);
    for number in 0..count {
        commands.message(&destination(topics[number % topics.len()]));
        commands.publish(b"x", Meta::default(), None);
    }
    world.commands(client, &mut commands);
}

fn unsubscribe(key: u32) -> Command {
    Command::Unsubscribe { key: SubscriptionKey(key), confirm: None }
}

#[test]
fn messages_for_very_many_subscriptions_go_out_over_several_turns() {
    for target in ["topic:a", "topic:*"] {
        let mut world = world(1);
        let mal = world.connect(0, "mal");
        world.subscribe_all(mal, (0..10_000).map(|_| Wish::to(target)).collect());
        world.deliver_envelopes();
        let before = metrics(&world).work;
        publish_in_turn(&mut world, mal, &["topic:a", "topic:b/b"], 300);
        let spent = metrics(&world).work - before;
        assert!(spent <= TURN_UNITS_MAX, "one call spent {spent} units");
        assert!(metrics(&world).work_waiting > 100, "most of them wait");
        let mut turns = 0;
        while world.has_envelopes() {
            world.drain(mal);
            let before = metrics(&world).work;
            world.work(0);
            let spent = metrics(&world).work - before;
            assert!(spent <= TURN_UNITS_MAX, "one turn spent {spent} units");
            turns += 1;
        }
        assert!(turns > 5, "{turns} turns");
        world.quiesce();
        let dropped = metrics(&world).dropped_oldest as usize;
        assert_eq!(world.clients[mal].received.len() + dropped, 150 * 10_000);
    }
}

#[test]
fn a_message_for_an_ordinary_number_of_subscribers_costs_nothing_extra() {
    let mut world = world(1);
    let ann = world.connect(0, "ann");
    for _ in 0..60 {
        let reader = world.connect(0, "reader");
        world.subscribe(reader, 0, Wish::to("topic:a"));
    }
    world.deliver_envelopes();
    let before = metrics(&world).work;
    publish_in_turn(&mut world, ann, &["topic:a", "topic:b"], 10_000);
    assert_eq!(metrics(&world).work, before);
}

#[test]
fn subscriptions_that_end_together_look_through_a_backlog_once() {
    let mut world = world(1);
    let mal = world.connect(0, "mal");
    let topics: Vec<String> = (0..1_000).map(|number| format!("topic:t/{number}")).collect();
    world.subscribe_all(mal, topics.iter().map(|topic| Wish::to(topic)).collect());
    world.deliver_envelopes();
    let all: Vec<&str> = topics.iter().map(String::as_str).collect();
    publish_in_turn(&mut world, mal, &all, 20_000);
    let before = metrics(&world).work;
    let mut commands = Commands::new();
    // Keys are used again at once, and what comes then is for the new subscription.
    for key in 0..500 {
        commands.push(unsubscribe(key));
        let subscribe = world.wished(mal, key, Wish::to("topic:again")).1;
        commands.push(Command::Subscribe(Box::new(subscribe)));
        commands.push(unsubscribe(key));
        let subscribe = world.wished(mal, key, Wish::to(&topics[999 - key as usize])).1;
        commands.push(Command::Subscribe(Box::new(subscribe)));
    }
    commands.begin_turn(Time::ZERO);
    for topic in [&topics[0], &topics[999]] {
        commands.message(&destination(topic));
        commands.publish(b"last", Meta::default(), None);
    }
    world.commands(mal, &mut commands);
    let spent = metrics(&world).work - before;
    assert!(spent < 4 * 20_000 * 4, "1,000 ends cost {spent} units");
    world.quiesce();
    let mut by_key: BTreeMap<u32, usize> = BTreeMap::new();
    for message in &world.clients[mal].received {
        *by_key.entry(message.key).or_default() += 1;
    }
    // Those that have not ended have all of theirs; of the others one has what came last.
    let mut expected: BTreeMap<u32, usize> = (500..1_000).map(|key| (key, 20)).collect();
    expected.extend([(0, 1), (999, 21)]);
    assert_eq!(by_key, expected);
    assert_eq!(metrics(&world).backlog_bytes, 0);
    world.end();
}

#[test]
fn the_end_of_a_session_looks_through_its_backlog_once() {
    for shards in 1..=2 {
        let mut world = world(shards);
        let (mal, ann) = (world.connect(0, "mal"), world.connect(0, "ann"));
        let queues: Vec<String> = (0..1_000).map(|number| format!("queue:q/{number}")).collect();
        let wish = |queue: &String| Wish { explicit: true, window: Some(20), ..Wish::to(queue) };
        world.subscribe_all(mal, queues.iter().map(wish).collect());
        world.deliver_envelopes();
        let all: Vec<&str> = queues.iter().map(String::as_str).collect();
        publish_in_turn(&mut world, ann, &all, 20_000);
        world.deliver_envelopes();
        let before = world.metrics().work + world.brokers[shards - 1].metrics().work;
        world.close(mal);
        world.deliver_envelopes();
        let spent = world.metrics().work + world.brokers[shards - 1].metrics().work - before;
        assert!(spent < 8 * 20_000 * 4, "1,000 ends cost {spent} units over {shards} shards");
        // All of it is there for others, as new.
        world.subscribe(ann, 0, Wish::to("queue:q/**"));
        world.quiesce();
        assert_eq!(world.clients[ann].received.len(), 20_000);
        assert!(world.clients[ann].received.iter().all(|message| message.redeliveries == 0));
        world.end();
    }
}

/// One shard on which `mal` has called a service that `ann` serves, so many times.
fn world_with_calls(calls: u32) -> (World, usize, usize) {
    let mut world = world(1);
    let (mal, ann) = (world.connect(0, "mal"), world.connect(0, "ann"));
    world.subscribe(ann, 0, Wish { window: Some(10_000), ..Wish::to("service:s") });
    world.deliver_envelopes();
    (0..calls).for_each(|number| world.call(mal, number, "s", "x", true));
    (world, mal, ann)
}

#[test]
fn exchanges_that_are_ended_together_look_through_a_backlog_once() {
    let (mut world, mal, ann) = world_with_calls(500);
    world.drain(ann);
    let open: Vec<ExchangeKey> =
        world.clients[ann].heard.iter().map(|heard| heard.exchange.key).collect();
    for exchange in &open {
        for _ in 0..20 {
            world.send_exchange(ann, *exchange, "said", false);
        }
    }
    world.deliver_envelopes();
    let before = metrics(&world).work;
    let mut commands = Commands::new();
    for number in 0..400 {
        let exchange = ExchangeKey { side: Side::Caller, number };
        commands.push(Command::Cancel { exchange, close: CloseCode::CallCancelled.into() });
    }
    world.commands(mal, &mut commands);
    let spent = metrics(&world).work - before;
    assert!(spent < 2 * 10_000 * 4, "400 ends cost {spent} units");
    world.quiesce();
    assert_eq!(world.clients[mal].heard.len(), 100 * 20, "the others go on");
    assert!(world.clients[mal].heard.iter().all(|heard| heard.exchange.key.number >= 400));
    assert_eq!(world.clients[ann].ended.len(), 400);
    world.end();
}

/// A responder that does not read, and a caller with many open calls that is lost.
#[test]
fn calls_that_are_withdrawn_together_look_through_a_backlog_a_few_times() {
    for shards in [1, 2] {
        let mut world = world(shards);
        let (mal, bob, ann) =
            (world.connect(0, "mal"), world.connect(0, "bob"), world.connect(shards - 1, "ann"));
        world.subscribe(ann, 0, Wish { window: Some(10_000), ..Wish::to("service:s") });
        world.deliver_envelopes();
        for number in 0..3_000 {
            world.call(mal, number, "s", "x", true);
        }
        world.call(bob, 0, "s", "wanted", true);
        world.deliver_envelopes();
        let before = metrics(&world).work;
        world.close(mal);
        world.deliver_envelopes();
        let spent = metrics(&world).work - before;
        assert!(spent < 10 * 3_000 * 4, "3000 withdrawals cost {spent} units");
        world.quiesce();
        let heard: Vec<&str> =
            world.clients[ann].heard.iter().map(|heard| heard.body.as_str()).collect();
        assert_eq!(heard, ["wanted"], "what is not wanted any more is not begun");
        assert!(world.clients[ann].ended.is_empty(), "and need not end");
        world.close(ann);
        world.end();
    }
}

/// What has been begun ends although its caller was lost with others.
#[test]
fn a_call_that_was_taken_before_it_was_withdrawn_ends() {
    let mut world = world(1);
    let (mal, ann) = (world.connect(0, "mal"), world.connect(0, "ann"));
    world.subscribe(ann, 0, Wish { window: Some(10_000), ..Wish::to("service:s") });
    world.deliver_envelopes();
    world.call(mal, 0, "s", "first", true);
    world.drain(ann);
    (1..200).for_each(|number| world.call(mal, number, "s", "x", true));
    world.deliver_envelopes();
    world.close(mal);
    world.quiesce();
    assert_eq!(world.clients[ann].heard.len(), 1);
    assert_eq!(world.clients[ann].ended.len(), 1, "the one that was begun");
    world.end();
}

#[test]
fn a_service_that_ends_looks_through_what_waits_for_it_once() {
    let (mut world, mal, ann) = world_with_calls(3_000);
    world.deliver_envelopes();
    let before = metrics(&world).work;
    world.command(ann, unsubscribe(0));
    let spent = metrics(&world).work - before;
    assert!(spent < 10 * 3_000 * 4, "a service that ends cost {spent} units");
    world.quiesce();
    assert_eq!(world.clients[mal].ended.len(), 3_000, "each caller is told");
    world.end();
}

#[test]
fn subscriptions_that_end_together_look_through_waiting_snapshots_a_few_times() {
    let options = BrokerOptions { backlog_bytes_high: 64 << 10, ..BrokerOptions::default() };
    let options = BrokerOptions { backlog_bytes_low: 16 << 10, ..options };
    let mut world = World::new(1, options);
    let (mal, ann) = (world.connect(0, "mal"), world.connect(0, "ann"));
    for number in 0..500 {
        let kept = Outgoing { flags: Flags::RETAIN, ..Outgoing::new("x".repeat(200)) };
        world.publish_all(ann, &format!("topic:t/{number}"), &[kept]);
    }
    // It reads nothing, so that there is no room for the next pages.
    world.subscribe_all(mal, (0..2_000).map(|_| Wish::to("topic:t/*")).collect());
    world.deliver_envelopes();
    let before = metrics(&world).work;
    let mut commands = Commands::new();
    (0..1_900).for_each(|key| commands.push(unsubscribe(key)));
    world.commands(mal, &mut commands);
    let spent = metrics(&world).work - before;
    assert!(spent < 10 * 2_000 * 4, "1,900 ends cost {spent} units");
    world.quiesce();
    let mut by_key: BTreeMap<u32, usize> = BTreeMap::new();
    for message in &world.clients[mal].received {
        *by_key.entry(message.key).or_default() += 1;
    }
    assert_eq!(by_key, (1_900..2_000).map(|key| (key, 500)).collect());
    world.end();
}

#[test]
fn graces_of_very_many_sessions_and_topics_are_looked_at_in_parts() {
    let options = BrokerOptions { backlog_bytes_high: 100, ..BrokerOptions::default() };
    let mut world = World::new(1, BrokerOptions { backlog_bytes_low: 10, ..options });
    let ann = world.connect(0, "ann");
    for number in 0..300 {
        let spec =
            if number % 2 == 0 { r#"{"slow_consumer":"block"}"# } else { r#"{"grace":"1s"}"# };
        tell(&mut world, ann, create(&format!("t/{number}"), spec, None)).unwrap();
    }
    for _ in 0..200 {
        let slow = world.connect(0, "slow");
        world.subscribe(slow, 0, Wish { unretained: true, ..Wish::to("topic:t/*") });
    }
    world.deliver_envelopes();
    for round in 0..2 {
        for number in 0..300 {
            // A publisher of its own for each: they wait.
            let publisher = world.connect(0, "publisher");
            world.publish(publisher, &format!("topic:t/{number}"), &"x".repeat(60 + round));
        }
    }
    world.deliver_envelopes();
    let mut ticks = 0;
    while metrics(&world).slow_consumers < 200 {
        let before = metrics(&world).work;
        world.advance(Span::from_millis(1_000));
        let spent = metrics(&world).work - before;
        assert!(spent <= 8 * 20_000, "a tick spent {spent} units");
        ticks += 1;
        assert!(ticks < 20, "{} graces are over", metrics(&world).slow_consumers);
    }
    assert!(ticks >= 3, "{ticks} ticks");
}

/// What everybody has got: by client and subscription, paths and bodies in order.
fn got(world: &World) -> BTreeMap<(usize, u32), Vec<(String, String)>> {
    let mut got: BTreeMap<(usize, u32), Vec<(String, String)>> = BTreeMap::new();
    for (client, known) in world.clients.iter().enumerate() {
        for message in &known.received {
            let row = (message.path.clone(), message.body.clone());
            got.entry((client, message.key)).or_default().push(row);
        }
    }
    got
}

#[test]
fn commands_of_one_call_do_what_they_would_one_by_one() {
    for_seeds(0..200, |seed| {
        let shards = 1 + (seed % 2) as usize;
        let targets = ["topic:a", "topic:b", "topic:*", "queue:q", "queue:*"];
        let names = ["topic:a", "topic:b", "queue:q"];
        let run = |together: bool| {
            let mut world = World::new(seed, BrokerOptions { shards, ..BrokerOptions::default() });
            let mal = world.connect(0, "mal");
            for key in 0..6 {
                let window = Some(1 + world.random.below(40) as u32);
                let explicit = world.random.one_in(2);
                let target = *world.random.pick(&targets);
                world.subscribe(mal, key, Wish { window, explicit, ..Wish::to(target) });
            }
            world.deliver_envelopes();
            for number in 0..150 {
                let name = *world.random.pick(&names);
                world.publish_all(mal, name, &[Outgoing::new(format!("before {number}"))]);
            }
            world.deliver_envelopes();
            let mut there = [true; 6];
            let mut all = Commands::new();
            for number in 0..40 {
                let key = world.random.below(6) as u32;
                let mut one = Commands::new();
                let commands = if together { &mut all } else { &mut one };
                match world.random.below(3) {
                    0 if there[key as usize] => {
                        there[key as usize] = false;
                        commands.push(unsubscribe(key));
                    }
                    0 | 1 if !there[key as usize] => {
                        there[key as usize] = true;
                        let target = *world.random.pick(&targets);
                        let wish = Wish { window: Some(5), ..Wish::to(target) };
                        let subscribe = world.wished(mal, key, wish).1;
                        commands.push(Command::Subscribe(Box::new(subscribe)));
                    }
                    _ => {
                        let name = *world.random.pick(&names);
                        commands.begin_turn(Time::ZERO);
                        commands.message(&destination(name));
                        let body = format!("then {number}");
                        commands.publish(body.as_bytes(), Meta::default(), None);
                    }
                }
                if !together {
                    world.commands(mal, &mut one);
                }
            }
            world.commands(mal, &mut all);
            world
        };
        let (mut together, mut apart) = (run(true), run(false));
        for world in [&mut together, &mut apart] {
            world.quiesce();
        }
        assert_eq!(got(&together), got(&apart));
        together.end();
        apart.end();
    });
}
