//! Credit: no subscription gets more than it has asked for, what waits meanwhile is the newest of each
//! topic, and it takes bounded memory.

#![allow(clippy::unwrap_used, clippy::field_reassign_with_default)]

use std::sync::Arc;

use crate::support::{Outgoing, Wish, World, for_seeds};
use tiderace_base::{CloseCode, Span};
use tiderace_broker::{BrokerOptions, SlowConsumer, TopicSpec};
use tiderace_wire::{Outcome, Prefetch};

fn options(shards: usize) -> BrokerOptions {
    let mut options = BrokerOptions::default();
    options.shards = shards;
    Arc::make_mut(&mut options.topic_default).retain = true;
    options
}

fn bounded(target: &str, credit: u64) -> Wish {
    Wish { credit: Some(credit), ..Wish::to(target) }
}

fn bodies(world: &World, client: usize) -> Vec<&str> {
    world.clients[client].received.iter().map(|message| message.body.as_str()).collect()
}

#[test]
fn without_credit_the_newest_waits_and_credit_lets_it_go() {
    let mut world = World::new(1, options(1));
    let (writer, reader) = (world.connect(0, "w"), world.connect(0, "r"));
    world.publish(writer, "topic:a", "kept");
    world.subscribe(reader, 0, bounded("topic:a", 2));
    world.quiesce();
    for body in ["1", "2", "3"] {
        world.publish(writer, "topic:a", body);
    }
    world.quiesce();
    assert_eq!(bodies(&world, reader), ["kept", "1"]);
    assert_eq!(world.metrics().conflated, 1, "2 gave way to 3");
    world.credit(reader, 0, 1);
    world.quiesce();
    assert_eq!(bodies(&world, reader), ["kept", "1", "3"]);
    // Credit that finds nothing is kept for what comes.
    world.credit(reader, 0, 1);
    world.publish(writer, "topic:a", "4");
    world.publish(writer, "topic:a", "5");
    world.quiesce();
    assert_eq!(bodies(&world, reader), ["kept", "1", "3", "4"]);
    world.unsubscribe(reader, 0);
    world.end();
}

#[test]
fn a_run_is_cut_where_the_credit_ends() {
    let mut world = World::new(1, options(1));
    let (writer, reader) = (world.connect(0, "w"), world.connect(0, "r"));
    world.subscribe(reader, 0, bounded("topic:a", 3));
    let messages: Vec<Outgoing> = (0..10).map(|body| Outgoing::new(body.to_string())).collect();
    world.publish_all(writer, "topic:a", &messages);
    world.quiesce();
    assert_eq!(bodies(&world, reader), ["0", "1", "2"]);
    world.credit(reader, 0, 5);
    world.quiesce();
    assert_eq!(bodies(&world, reader), ["0", "1", "2", "9"]);
    assert_eq!(world.metrics().conflated, 6);
    world.end();
}

#[test]
fn topics_wait_in_the_order_in_which_they_began_to() {
    let mut world = World::new(1, options(1));
    let (writer, reader) = (world.connect(0, "w"), world.connect(0, "r"));
    world.subscribe(reader, 0, bounded("topic:**", 0));
    for (path, body) in [("b", "b1"), ("a", "a1"), ("b", "b2"), ("c", "c1")] {
        world.publish(writer, &format!("topic:{path}"), body);
    }
    world.quiesce();
    for expected in [&["b2"][..], &["b2", "a1"], &["b2", "a1", "c1"]] {
        world.credit(reader, 0, 1);
        world.quiesce();
        assert_eq!(bodies(&world, reader), expected);
    }
    assert_eq!(world.metrics().windows, 0);
    world.end();
}

#[test]
fn a_removal_is_not_hidden_and_counts() {
    let mut world = World::new(1, options(1));
    let (writer, reader) = (world.connect(0, "w"), world.connect(0, "r"));
    world.subscribe(reader, 0, bounded("topic:a", 0));
    world.publish(writer, "topic:a", "old");
    let mut removal = Outgoing::new("");
    removal.flags = tiderace_wire::Flags::RETAIN_REMOVE;
    world.publish_all(writer, "topic:a", &[removal, Outgoing::new("new")]);
    world.quiesce();
    world.credit(reader, 0, 1);
    world.quiesce();
    assert_eq!(bodies(&world, reader), [""]);
    world.credit(reader, 0, 1);
    world.quiesce();
    assert_eq!(bodies(&world, reader), ["", "new"]);
    world.end();
}

#[test]
fn an_interval_and_credit_both_hold() {
    let mut world = World::new(1, options(1));
    let (writer, reader) = (world.connect(0, "w"), world.connect(0, "r"));
    let interval = Span::from_millis(200);
    world.subscribe(reader, 0, Wish { interval, ..bounded("topic:a", 1) });
    world.publish(writer, "topic:a", "1");
    world.publish(writer, "topic:a", "2");
    world.advance(Span::from_millis(300));
    world.quiesce();
    assert_eq!(bodies(&world, reader), ["1"], "the interval is over, but there is no credit");
    world.credit(reader, 0, 5);
    world.quiesce();
    assert_eq!(bodies(&world, reader), ["1", "2"]);
    world.publish(writer, "topic:a", "3");
    world.quiesce();
    assert_eq!(bodies(&world, reader), ["1", "2"], "there is credit, but the interval is not over");
    world.advance(Span::from_millis(300));
    world.quiesce();
    assert_eq!(bodies(&world, reader), ["1", "2", "3"]);
    world.end();
}

#[test]
fn a_large_snapshot_comes_as_it_is_asked_for_and_takes_little_memory() {
    for shards in [1, 3] {
        let mut options = options(shards);
        options.page.values = 50;
        let mut world = World::new(1, options);
        let (writer, reader) = (world.connect(0, "w"), world.connect(0, "r"));
        for topic in 0..3_000 {
            world.publish(writer, &format!("topic:load/{topic}"), "value");
        }
        world.quiesce();
        world.subscribe(reader, 0, bounded("topic:**", 10));
        world.quiesce();
        assert_eq!(world.clients[reader].received.len(), 10);
        let mut asked = 10;
        while asked < 3_100 {
            assert!(
                world.metrics().windows <= 50 * shards as u64,
                "no more than a page each waits"
            );
            world.credit(reader, 0, 7);
            asked += 7;
            world.quiesce();
            assert_eq!(world.clients[reader].received.len(), asked.min(3_000));
        }
        assert_eq!(world.metrics().snapshots, 0);
        world.end();
    }
}

#[test]
fn more_than_may_wait_ends_the_session_or_is_dropped_as_the_topic_says() {
    for (policy, dropped) in [
        (SlowConsumer::Conflate, None),
        (SlowConsumer::DropOldest, Some("19")),
        (SlowConsumer::DropNewest, Some("0")),
    ] {
        let mut options = options(1);
        options.deferred_bytes_max = 1_000;
        let spec: &mut TopicSpec = Arc::make_mut(&mut options.topic_default);
        spec.slow_consumer = policy;
        let mut world = World::new(1, options);
        let (writer, reader) = (world.connect(0, "w"), world.connect(0, "r"));
        world.subscribe(reader, 0, bounded("topic:**", 0));
        for topic in 0..20 {
            world.publish(writer, &format!("topic:{topic}"), &topic.to_string());
        }
        world.quiesce();
        match dropped {
            None => assert_eq!(world.clients[reader].closed, Some(CloseCode::SlowConsumer)),
            Some(kept) => {
                let metrics = world.metrics();
                let count = metrics.dropped_oldest + metrics.dropped_newest;
                assert!((1..18).contains(&count), "{count}");
                world.credit(reader, 0, 100);
                world.quiesce();
                assert!(bodies(&world, reader).contains(&kept));
                assert_eq!(bodies(&world, reader).len() as u64, 20 - count);
                world.end();
            }
        }
    }
}

#[test]
fn what_is_dropped_from_the_backlog_is_not_paid_for() {
    let mut options = options(1);
    (options.backlog_bytes_high, options.backlog_bytes_low) = (1_000, 900);
    let spec: &mut TopicSpec = Arc::make_mut(&mut options.topic_default);
    (spec.slow_consumer, spec.grace) = (SlowConsumer::DropOldest, Span::ZERO);
    let mut world = World::new(1, options);
    let (writer, reader) = (world.connect(0, "w"), world.connect(0, "r"));
    world.subscribe(reader, 0, bounded("topic:a", 100));
    world.deliver_envelopes();
    for number in 0..100 {
        world.publish(writer, "topic:a", &number.to_string());
        world.advance(Span::from_millis(60));
    }
    world.quiesce();
    let first = world.clients[reader].received.len();
    assert!(first < 50 && world.metrics().dropped_oldest > 0, "{first}");
    for number in 100..200 {
        world.publish(writer, "topic:a", &number.to_string());
        world.quiesce();
    }
    let got = world.clients[reader].received.len();
    assert_eq!(got, 100, "as many as were asked for");
    world.end();
}

#[test]
fn a_queue_keeps_what_there_is_no_credit_for() {
    for shards in [1, 2] {
        let mut world = World::new(1, options(shards));
        let (writer, reader) = (world.connect(0, "w"), world.connect(shards - 1, "r"));
        world.subscribe(reader, 0, Wish { explicit: true, ..bounded("queue:jobs", 2) });
        for number in 0..6 {
            world.publish(writer, "queue:jobs", &number.to_string());
        }
        world.quiesce();
        assert_eq!(bodies(&world, reader), ["0", "1"]);
        let done = world.clients[reader].received[0].clone();
        world.settle(reader, &done, Outcome::Accept);
        world.quiesce();
        assert_eq!(bodies(&world, reader).len(), 2, "settling is no credit");
        // The rest is there for another.
        let other = world.connect(0, "o");
        world.subscribe(other, 0, bounded("queue:jobs", 1));
        world.quiesce();
        assert_eq!(bodies(&world, other), ["2"]);
        world.credit(reader, 0, 2);
        world.quiesce();
        assert_eq!(bodies(&world, reader), ["0", "1", "3", "4"]);
        world.end();
    }
}

/// Queues on several homes, consumed by one subscription, with random credit and settling.
#[test]
fn a_consumer_of_many_queues_never_gets_more_than_its_credit() {
    for_seeds(0..400, |seed| {
        let mut options = options(1 + (seed % 4) as usize);
        options.queue_default.window = Prefetch { messages: 4, bytes: 0 };
        let mut world = World::new(seed, options);
        let shards = world.brokers.len();
        let writer = world.connect(0, "w");
        let reader = world.connect(shards - 1, "r");
        let explicit = seed % 2 == 0;
        world.subscribe(reader, 0, Wish { explicit, ..bounded("queue:jobs/*", 1) });
        let (mut granted, mut settled) = (1, 0);
        let mut published = 0;
        for _ in 0..120 {
            match world.random.below(6) {
                0 | 1 => {
                    let queue = world.random.below(5);
                    world.publish(writer, &format!("queue:jobs/{queue}"), &published.to_string());
                    published += 1;
                }
                2 => {
                    let more = world.random.below(3) as u64;
                    granted += more;
                    world.credit(reader, 0, more);
                }
                3 if explicit => {
                    if let Some(message) = world.clients[reader].received.get(settled).cloned() {
                        world.settle(reader, &message, Outcome::Accept);
                        settled += 1;
                    }
                }
                4 => {
                    world.pull(reader);
                }
                _ => {
                    world.deliver_envelope();
                }
            }
            assert!(world.clients[reader].received.len() as u64 <= granted);
        }
        world.credit(reader, 0, u64::MAX);
        world.quiesce();
        while explicit && settled < world.clients[reader].received.len() {
            let message = world.clients[reader].received[settled].clone();
            world.settle(reader, &message, Outcome::Accept);
            settled += 1;
            world.quiesce();
        }
        assert_eq!(world.clients[reader].received.len(), published);
        assert_eq!(world.metrics().queue_messages, 0);
        world.end();
    });
}

#[test]
fn what_waits_for_credit_goes_back_when_its_consumer_ends() {
    for_seeds(0..50, |seed| {
        let mut world = World::new(seed, options(4));
        let (writer, reader) = (world.connect(0, "w"), world.connect(1, "r"));
        world.subscribe(reader, 0, bounded("queue:jobs/*", 3));
        for number in 0..20 {
            world.publish(writer, &format!("queue:jobs/{}", number % 8), "x");
        }
        world.quiesce();
        assert_eq!(world.clients[reader].received.len(), 3);
        world.unsubscribe(reader, 0);
        let other = world.connect(2, "o");
        world.subscribe(other, 0, Wish::to("queue:jobs/*"));
        world.quiesce();
        assert_eq!(world.clients[other].received.len(), 17);
        assert_eq!(world.metrics().backlog_bytes, 0);
        world.end();
    });
}

#[test]
fn a_responder_is_given_as_many_calls_as_it_has_credit_for() {
    for shards in [1, 3] {
        let mut world = World::new(1, options(shards));
        let (caller, responder) = (world.connect(0, "c"), world.connect(shards - 1, "s"));
        world.subscribe(responder, 0, bounded("service:sum", 2));
        world.quiesce();
        for number in 0..5 {
            world.call(caller, number, "sum", "1+1", true);
        }
        world.quiesce();
        assert_eq!(world.clients[responder].heard.len(), 2);
        let exchange = world.clients[responder].heard[0].exchange.key;
        world.send_exchange(responder, exchange, "2", true);
        world.quiesce();
        assert_eq!(world.clients[responder].heard.len(), 2, "an answer is no credit");
        world.credit(responder, 0, 2);
        world.quiesce();
        assert_eq!(world.clients[responder].heard.len(), 4);
        for client in [caller, responder] {
            world.close(client);
        }
        world.end();
    }
}

#[test]
fn values_that_grow_while_they_wait_take_no_more_than_may_be() {
    let mut options = options(1);
    options.deferred_bytes_max = 40_000;
    Arc::make_mut(&mut options.topic_default).slow_consumer = SlowConsumer::DropOldest;
    let mut world = World::new(1, options);
    let (writer, reader) = (world.connect(0, "w"), world.connect(0, "r"));
    world.subscribe(reader, 0, bounded("topic:**", 0));
    for (size, begin) in [(100, 0), (3_000, 99)] {
        for place in 0..100u32 {
            // What has waited longest is still small when the newest has grown.
            let topic = place.abs_diff(begin);
            world.publish(writer, &format!("topic:t/{topic}"), &"x".repeat(size));
            let session = world.clients[reader].session;
            assert!(world.brokers[0].backlog_bytes(session) <= 40_000);
        }
    }
    world.credit(reader, 0, 1_000);
    world.quiesce();
    assert!(world.clients[reader].received.len() > 10);
    world.end();
}
