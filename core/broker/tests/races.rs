//! Ends and new beginnings while messages between shards are under way, and the corners of queues across shards.

#![allow(clippy::unwrap_used, clippy::field_reassign_with_default)]

use crate::support::{Outgoing, Wish, World, for_seeds, path_at, property};
use std::sync::Arc;
use tiderace_base::Span;
use tiderace_broker::{BrokerOptions, SlowConsumer};
use tiderace_wire::{Flags, Outcome};

/// Orders in which messages of shards arrive that each scenario is tried with.
const SEEDS: u64 = 1_000;

fn options(shards: usize) -> BrokerOptions {
    BrokerOptions { shards, ..BrokerOptions::default() }
}

/// The same, where publishers wait for slow subscribers for a while.
fn options_with_grace(shards: usize) -> BrokerOptions {
    let mut options = options(shards);
    Arc::make_mut(&mut options.topic_default).grace = Span::from_secs(2);
    options
}

fn bodies(world: &World, client: usize) -> Vec<&str> {
    world.clients[client].received.iter().map(|message| &*message.body).collect()
}

#[test]
fn an_answer_to_an_ended_subscription_is_not_its_successors() {
    for_seeds(0..SEEDS, |seed| {
        let mut world = World::new(seed, options(2));
        let topic = format!("topic:{}", path_at("t", 1, 2));
        let (reader, writer) = (world.connect(0, "reader"), world.connect(1, "writer"));
        let first = world.subscribe(reader, 0, Wish::to(&topic));
        assert!(world.deliver_envelope_between(0, 1));
        world.unsubscribe(reader, 0);
        assert!(world.is_confirmed(reader, first), "its client need not wait any longer");
        let second = world.subscribe(reader, 0, Wish::to(&topic));
        world.publish(writer, &topic, "between");
        while world.deliver_envelope_between(1, 0) {}
        assert!(!world.is_confirmed(reader, second), "its home has not heard of it");
        world.deliver_envelopes();
        assert!(world.is_confirmed(reader, second));
        world.publish(writer, &topic, "after");
        world.quiesce();
        assert_eq!(bodies(&world, reader), ["after"]);
        world.end();
        world.sweep();
    });
}

#[test]
fn a_delivery_for_an_ended_consumer_is_not_its_successors() {
    for_seeds(0..SEEDS, |seed| {
        let mut world = World::new(seed, options(2));
        let queue = format!("queue:{}", path_at("q", 1, 2));
        let (reader, writer) = (world.connect(0, "reader"), world.connect(1, "writer"));
        world.publish(writer, &queue, "blue");
        world.subscribe(reader, 0, Wish { explicit: true, ..Wish::to(&queue) });
        assert!(world.deliver_envelope_between(0, 1));
        world.unsubscribe(reader, 0);
        let selector = Some("colour = 'red'");
        world.subscribe(reader, 0, Wish { selector, ..Wish::to(&queue) });
        world.quiesce();
        assert!(bodies(&world, reader).is_empty());
        world.subscribe(writer, 0, Wish::to(&queue));
        world.quiesce();
        assert_eq!(bodies(&world, writer), ["blue"]);
        world.end();
        world.sweep();
    });
}

#[test]
fn a_message_for_an_ended_session_does_not_reach_the_next_in_its_place() {
    for_seeds(0..SEEDS, |seed| {
        let mut world = World::new(seed, options(2));
        let (path, other) = (path_at("t", 1, 2), path_at("q", 1, 2));
        let (topic, queue) = (format!("topic:{path}"), format!("queue:{other}"));
        let (old, writer) = (world.connect(0, "old"), world.connect(1, "writer"));
        world.subscribe(old, 0, Wish::to(&topic));
        world.subscribe(old, 1, Wish { explicit: true, ..Wish::to(&queue) });
        world.deliver_envelopes();
        world.publish(old, &topic, "own");
        world.publish(writer, &topic, "for the old one");
        world.publish(writer, &queue, "job");
        while world.deliver_envelope_between(0, 1) {}
        world.close(old);
        let new = world.connect(0, "new");
        let (before, after) = (world.clients[old].session, world.clients[new].session);
        assert_eq!((before.shard, before.slot), (after.shard, after.slot));
        world.subscribe(new, 0, Wish::to(&topic));
        world.subscribe(new, 1, Wish::to(&queue));
        while world.deliver_envelope_between(1, 0) {}
        assert!(world.clients[new].confirmed.is_empty());
        world.quiesce();
        assert_eq!(bodies(&world, new), ["job"], "returned, and nothing else");
        world.end();
        world.sweep();
    });
}

#[test]
fn two_targets_of_one_subscription_may_share_a_home() {
    for_seeds(0..SEEDS, |seed| {
        for shard in 0..2 {
            let mut world = World::new(seed, options(2));
            let paths = [path_at("a", 1, 2), path_at("b", 1, 2)];
            let (reader, writer) = (world.connect(shard, "reader"), world.connect(0, "writer"));
            for (kind, key) in [("topic", 0), ("queue", 1)] {
                let targets = paths.iter().map(|path| format!("{kind}:{path}")).collect();
                let wish = Wish { targets, explicit: true, ..Wish::default() };
                let token = world.subscribe(reader, key, wish);
                world.deliver_envelopes();
                assert!(world.is_confirmed(reader, token));
                for path in &paths {
                    world.publish(writer, &format!("{kind}:{path}"), path);
                }
                world.quiesce();
                let got = world.clients[reader].received.split_off(0);
                assert_eq!(
                    got.iter().map(|message| &message.body).collect::<Vec<_>>(),
                    [&paths[0], &paths[1]]
                );
                world.unsubscribe(reader, key);
                world.publish(writer, &format!("{kind}:{}", paths[1]), "late");
                world.quiesce();
                assert!(bodies(&world, reader).is_empty());
            }
            let last = world.connect(0, "last");
            world.subscribe(last, 0, Wish::to("queue:**"));
            world.quiesce();
            assert_eq!(world.clients[last].received.len(), 3);
            world.end();
            world.sweep();
        }
    });
}

#[test]
fn an_exclusive_consumer_is_followed_by_the_next() {
    for_seeds(0..SEEDS, |seed| {
        let mut world = World::new(seed, options(2));
        let queue = format!("queue:{}", path_at("q", 1, 2));
        let writer = world.connect(0, "writer");
        let readers = [0, 1, 0].map(|shard| {
            let reader = world.connect(shard, "reader");
            world.subscribe(
                reader,
                0,
                Wish { exclusive: true, explicit: true, ..Wish::to(&queue) },
            );
            world.deliver_envelopes();
            reader
        });
        for body in ["one", "two"] {
            world.publish(writer, &queue, body);
        }
        world.quiesce();
        for (place, reader) in readers.into_iter().enumerate() {
            assert_eq!(bodies(&world, reader), ["one", "two"]);
            let received = world.clients[reader].received.clone();
            let redeliveries: Vec<u32> = received.iter().map(|it| it.redeliveries).collect();
            assert_eq!(redeliveries, [place as u32, 0], "the one behind was taken by nobody");
            assert!(readers[place + 1..].iter().all(|next| bodies(&world, *next).is_empty()));
            world.close(reader);
            world.quiesce();
        }
        assert_eq!(world.metrics().queue_messages, 2);
        world.end();
    });
}

#[test]
fn a_full_queue_pauses_publishers_of_all_shards_even_as_some_end() {
    for_seeds(0..SEEDS, |seed| {
        let mut options = options(3);
        options.queue_default.bytes_max = 500;
        let mut world = World::new(seed, options);
        let queue = format!("queue:{}", path_at("q", 2, 3));
        let writers = [0, 1, 2, 0].map(|shard| world.connect(shard, "writer"));
        for _ in 0..3 {
            for writer in writers {
                world.publish(writer, &queue, &"x".repeat(200));
                world.deliver_envelopes();
            }
        }
        assert!(writers.iter().all(|writer| world.clients[*writer].paused));
        world.close(writers[0]);
        let reader = world.connect(1, "reader");
        world.subscribe(reader, 0, Wish { explicit: true, ..Wish::to(&queue) });
        world.quiesce();
        assert!(world.clients[writers[1]].paused, "what is in flight counts too");
        let late = world.connect(0, "late");
        world.publish(late, &queue, "late");
        world.deliver_envelopes();
        assert!(world.clients[late].paused);
        world.close(writers[2]);
        for message in world.clients[reader].received.clone() {
            world.settle(reader, &message, Outcome::Accept);
        }
        world.quiesce();
        assert!(world.clients.iter().all(|client| !client.paused));
        world.publish(writers[1], &queue, "again");
        world.deliver_envelopes();
        assert!(!world.clients[writers[1]].paused);
        world.end();
    });
}

#[test]
fn the_budget_of_all_queues_fills_each_and_is_given_back() {
    // One shard hears in one order.
    for_seeds(0..1, |seed| {
        let mut options = options(1);
        options.messages_bytes_max = 40_000;
        let mut world = World::new(seed, options);
        let (writer, reader) = (world.connect(0, "writer"), world.connect(0, "reader"));
        for _ in 0..20 {
            world.publish(writer, "queue:a", &"x".repeat(300));
            world.subscribe(reader, 0, Wish::to("queue:a"));
            world.quiesce();
            world.unsubscribe(reader, 0);
            assert!(!world.clients[writer].paused, "what was consumed does not count");
        }
        let other = world.connect(0, "other");
        world.publish(writer, "queue:a", &"x".repeat(40_100));
        world.publish(other, "queue:b", "x");
        world.publish(other, "queue:b", "x");
        assert!(world.clients[other].paused, "no queue may grow now");
        world.subscribe(reader, 0, Wish::to("queue:a"));
        world.quiesce();
        for _ in 0..4 {
            world.advance(Span::from_millis(300));
        }
        assert!(!world.clients[other].paused);
        for _ in 0..20 {
            let owner = world.connect(0, "owner");
            let queue = format!("queue:{}/r", world.temporary(owner));
            let wish = Wish { window: Some(1), explicit: true, ..Wish::to(&queue) };
            world.subscribe(owner, 0, wish);
            world.publish(other, &queue, &"x".repeat(300));
            world.close(owner);
        }
        world.publish(other, "queue:b", "x");
        assert!(!world.clients[other].paused, "what ended with its queue does not count");
        world.end();
    });
}

#[test]
fn messages_above_the_budget_make_every_backlog_count_as_long_sooner() {
    // One shard hears in one order.
    for_seeds(0..1, |seed| {
        let mut options = options_with_grace(1);
        options.backlog_bytes_high = 100_000;
        options.backlog_bytes_low = 1_000;
        options.messages_bytes_max = 20_000;
        let mut world = World::new(seed, options);
        let (writer, reader) = (world.connect(0, "writer"), world.connect(0, "reader"));
        world.subscribe(reader, 0, Wish::to("topic:t"));
        let mut sent = 0;
        while !world.clients[writer].paused {
            world.publish(writer, "topic:t", &"x".repeat(500));
            sent += 1;
            assert!(sent < 100, "held back long before the ordinary mark");
        }
        assert!(sent > 20);
        world.quiesce();
        assert!(!world.clients[writer].paused);
        assert_eq!(world.clients[reader].received.len(), sent);
        world.end();
    });
}

#[test]
fn a_selective_consumer_finds_a_message_behind_thousands_of_others() {
    // One shard hears in one order.
    for_seeds(0..1, |seed| {
        let mut world = World::new(seed, options(1));
        let (writer, reader) = (world.connect(0, "writer"), world.connect(0, "reader"));
        for _ in 0..10 {
            let many: Vec<Outgoing> = (0..1_000).map(|_| Outgoing::new("other")).collect();
            world.publish_all(writer, "queue:q", &many);
        }
        let mut wanted = Outgoing::new("wanted");
        wanted.properties = "colour:red\n".to_owned();
        world.publish_all(writer, "queue:q", &[wanted]);
        let selector = Some("colour = 'red'");
        world.subscribe(reader, 0, Wish { selector, ..Wish::to("queue:q") });
        for _ in 0..3 {
            world.advance(Span::from_millis(250));
            world.quiesce();
        }
        assert_eq!(bodies(&world, reader), ["wanted"]);
    });
}

#[test]
fn what_was_never_read_comes_back_as_new() {
    for_seeds(0..SEEDS, |seed| {
        for shards in [1, 2] {
            let mut options = options(shards);
            options.queue_default.redeliveries_max = 1;
            let mut world = World::new(seed, options);
            let queue = format!("queue:{}", path_at("q", shards - 1, shards));
            let (writer, reader) = (world.connect(0, "writer"), world.connect(0, "reader"));
            world.publish(writer, &queue, "job");
            for key in 0..5 {
                world.subscribe(reader, key, Wish { explicit: true, ..Wish::to(&queue) });
                world.deliver_envelopes();
                world.unsubscribe(reader, key);
                world.deliver_envelopes();
            }
            world.subscribe(reader, 9, Wish::to(&queue));
            world.quiesce();
            assert_eq!(bodies(&world, reader), ["job"]);
            assert_eq!(world.clients[reader].received[0].redeliveries, 0);
        }
    });
}

#[test]
fn a_dead_letter_with_an_expiry_date_can_still_be_read() {
    for_seeds(0..SEEDS, |seed| {
        let mut options = options(2);
        options.queue_default.redeliveries_max = 1;
        let mut world = World::new(seed, options);
        let (writer, reader) = (world.connect(0, "writer"), world.connect(1, "reader"));
        let mut message = Outgoing::new("poison");
        message.properties = "k:v\n".to_owned();
        message.expires_ms = Some(1_000_000);
        world.publish_all(writer, "queue:q:1", &[message]);
        world.subscribe(reader, 0, Wish { explicit: true, ..Wish::to("queue:q:1") });
        for expected in 0..2 {
            world.quiesce();
            let message = world.clients[reader].received.last().unwrap().clone();
            assert_eq!(message.redeliveries, expected);
            world.settle(reader, &message, Outcome::Reject);
        }
        world.subscribe(reader, 1, Wish::to("queue:dlq/**"));
        world.quiesce();
        let dead = world.clients[reader].received.last().unwrap();
        assert_eq!((&*dead.path, &*dead.body), ("dlq/q:1", "poison"));
        assert_eq!(property(dead, "dead-letter-queue").as_deref(), Some("q:1"));
        assert_eq!(property(dead, "dead-letter-reason").as_deref(), Some("redeliveries"));
        assert_eq!(property(dead, "k").as_deref(), Some("v"));
        world.end();
        world.sweep();
    });
}

#[test]
fn a_retained_value_is_forgotten_when_its_time_is_over() {
    for_seeds(0..SEEDS, |seed| {
        let mut world = World::new(seed, options(2));
        let (writer, reader) = (world.connect(0, "writer"), world.connect(1, "reader"));
        let mut message = Outgoing::new("soon old");
        (message.flags, message.expires_ms) = (Flags::RETAIN, Some(10));
        world.publish_all(writer, "topic:t", &[message]);
        world.deliver_envelopes();
        assert_eq!(world.metrics().retained, 1);
        world.advance(Span::from_millis(10));
        world.subscribe(reader, 0, Wish::to("topic:t"));
        world.subscribe(reader, 1, Wish::to("topic:*"));
        world.quiesce();
        assert!(bodies(&world, reader).is_empty());
        world.end();
        world.sweep();
        assert_eq!((world.metrics().retained, world.metrics().topics), (0, 0));
    });
}

#[test]
fn nobody_waits_for_a_subscription_that_has_ended() {
    for_seeds(0..SEEDS, |seed| {
        let mut options = options(2);
        (options.backlog_bytes_high, options.backlog_bytes_low) = (2_000, 500);
        Arc::make_mut(&mut options.topic_default).slow_consumer = SlowConsumer::Block;
        let mut world = World::new(seed, options);
        let paths = [path_at("a", 0, 2), path_at("b", 1, 2)];
        let reader = world.connect(1, "reader");
        let writers = [0, 1].map(|place| {
            let writer = world.connect(place, "writer");
            let topic = format!("topic:{}", paths[place]);
            world.subscribe(reader, place as u32, Wish::to(&topic));
            world.deliver_envelopes();
            (writer, topic)
        });
        for _ in 0..10 {
            for (writer, topic) in &writers {
                if !world.clients[*writer].paused {
                    world.publish(*writer, topic, &"x".repeat(400));
                    world.deliver_envelopes();
                }
            }
        }
        assert!(writers.iter().all(|(writer, _)| world.clients[*writer].paused));
        world.unsubscribe(reader, 0);
        world.deliver_envelopes();
        for _ in 0..5 {
            for (writer, topic) in &writers {
                world.publish(*writer, topic, &"x".repeat(400));
                world.deliver_envelopes();
            }
        }
        let paused = writers.each_ref().map(|(writer, _)| world.clients[*writer].paused);
        assert_eq!(paused, [false, true]);
        world.quiesce();
        assert!(!world.clients[writers[1].0].paused);
        world.end();
        world.sweep();
    });
}

#[test]
fn a_subscription_to_nothing_is_confirmed_once() {
    for_seeds(0..SEEDS, |seed| {
        let mut world = World::new(seed, options(2));
        let client = world.connect(0, "client");
        let token = world.subscribe(client, 0, Wish::default());
        assert!(world.is_confirmed(client, token));
        world.unsubscribe(client, 0);
        world.end();
    });
}

#[test]
fn a_publisher_that_comes_late_is_held_back_too() {
    for_seeds(0..SEEDS, |seed| {
        let mut options = options_with_grace(3);
        (options.backlog_bytes_high, options.backlog_bytes_low) = (2_000, 500);
        let mut world = World::new(seed, options);
        let topic = format!("topic:{}", path_at("t", 1, 3));
        let (reader, early, late) =
            (world.connect(0, "reader"), world.connect(1, "early"), world.connect(2, "late"));
        world.subscribe(reader, 0, Wish::to(&topic));
        world.deliver_envelopes();
        while !world.clients[early].paused {
            world.publish(early, &topic, &"x".repeat(400));
            world.deliver_envelopes();
        }
        assert!(!world.clients[late].paused);
        world.publish(late, &topic, "x");
        assert!(world.clients[late].paused);
        world.quiesce();
        assert!(!world.clients[early].paused && !world.clients[late].paused);
        world.end();
        world.sweep();
    });
}

#[test]
fn retained_values_keep_to_the_memory_they_may_have() {
    for_seeds(0..SEEDS, |seed| {
        let mut world = World::new(seed, BrokerOptions { messages_bytes_max: 2_000, ..options(2) });
        let (local, remote) = (world.connect(0, "local"), world.connect(1, "remote"));
        let topic = |number| format!("topic:{}", path_at("t", 0, 2)) + &format!("{number}");
        let mut value = Outgoing::new(Box::leak("x".repeat(300).into_boxed_str()));
        value.flags = Flags::RETAIN;
        let homes: Vec<String> = (0..40).map(topic).collect();
        for (name, number) in homes.iter().zip(0..) {
            let client = if number % 2 == 0 { local } else { remote };
            world.publish_all(client, name, &[value.clone()]);
            world.deliver_envelopes();
        }
        for client in [local, remote] {
            let refused = &world.clients[client].refused;
            assert!(!refused.is_empty() && refused.len() < 20, "{}", refused.len());
            assert!(refused.iter().all(|(token, code)| {
                token.is_some() && *code == tiderace_base::CloseCode::MemoryFull
            }));
        }
    });
}

#[test]
fn an_end_is_confirmed_when_its_messages_are_back_in_their_queue() {
    for_seeds(0..SEEDS, |seed| {
        let mut world = World::new(seed, options(2));
        let queue = format!("queue:{}", path_at("q", 1, 2));
        let (first, second) = (world.connect(0, "first"), world.connect(1, "second"));
        world.subscribe(first, 0, Wish { explicit: true, ..Wish::to(&queue) });
        world.publish(second, &queue, "1");
        world.quiesce();
        let ended = world.unsubscribe(first, 0);
        assert!(!world.is_confirmed(first, ended), "the message is still on its way back");
        world.deliver_envelopes();
        assert!(world.is_confirmed(first, ended));
        world.publish(second, &queue, "2");
        world.subscribe(second, 0, Wish::to(&queue));
        world.quiesce();
        assert_eq!(bodies(&world, second), ["1", "2"]);
        world.end();
        world.sweep();
    });
}
