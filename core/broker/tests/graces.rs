//! Slow readers and publishers that are not to notice them: without a grace, with one, and with a new
//! slow reader again and again.

#![allow(clippy::unwrap_used, clippy::field_reassign_with_default)]

use std::sync::Arc;

use crate::support::{Outgoing, Wish, World, for_seeds};
use tiderace_base::Span;
use tiderace_broker::{BrokerOptions, SlowConsumer, TopicSpec};

const TICK: Span = Span::from_millis(50);

fn world(seed: u64, grace: Option<Span>) -> World {
    let mut options = BrokerOptions::default();
    options.shards = 1 + (seed % 3) as usize;
    options.backlog_bytes_high = 4_000;
    options.backlog_bytes_low = 1_000;
    if let Some(grace) = grace {
        options.topic_default = Arc::new(TopicSpec { grace, ..TopicSpec::default() });
    }
    World::new(seed, options)
}

fn connect(world: &mut World) -> usize {
    let shard = world.random.below(world.brokers.len());
    world.connect(shard, "somebody")
}

fn publish(world: &mut World, client: usize, topic: &str) {
    world.publish_all(client, topic, &[Outgoing::new("x".repeat(500))]);
    world.deliver_envelopes();
}

/// Ticks of ten minutes in which the publisher did not get through, with a new reader that never reads
/// every second, and messages that a reader got that reads.
fn waits(seed: u64, grace: Option<Span>) -> (usize, usize, usize) {
    let mut world = world(seed, grace);
    let (publisher, reader) = (connect(&mut world), connect(&mut world));
    world.subscribe(reader, 0, Wish::to("topic:news"));
    world.subscribe(reader, 1, Wish::to("topic:other"));
    world.deliver_envelopes();
    let (mut waited, mut sent) = (0, 0);
    let mut slow = None;
    for tick in 0..1_200 {
        if tick % 20 == 0 {
            if let Some(slow) = slow.replace(connect(&mut world)) {
                world.close(slow);
            }
            world.subscribe(slow.unwrap(), 0, Wish::to("topic:news"));
            world.deliver_envelopes();
        }
        if world.clients[publisher].paused {
            waited += 1;
        } else {
            publish(&mut world, publisher, "topic:news");
            publish(&mut world, publisher, "topic:other");
            sent += 2;
        }
        world.drain(reader);
        world.advance(TICK);
        world.deliver_envelopes();
    }
    (waited, sent, world.clients[reader].received.len())
}

#[test]
fn by_default_readers_that_do_not_read_delay_nobody() {
    for_seeds(0..6, |seed| {
        let (waited, sent, received) = waits(seed, None);
        assert_eq!(waited, 0);
        assert_eq!(received, sent, "and a client that reads gets everything");
    });
}

#[test]
fn with_a_grace_publishers_wait_no_longer_than_that_in_a_minute() {
    for_seeds(0..6, |seed| {
        let (waited, sent, received) = waits(seed, Some(Span::from_secs(2)));
        assert!((1..=41).contains(&waited), "{waited} ticks of 50 ms in a minute");
        assert_eq!(received, sent);
    });
}

#[test]
fn one_publisher_does_not_wait_for_one_topic_after_the_other() {
    for_seeds(0..6, |seed| {
        let mut world = world(seed, Some(Span::from_secs(2)));
        let (publisher, slow) = (connect(&mut world), connect(&mut world));
        world.subscribe(slow, 0, Wish::to("topic:t/*"));
        world.deliver_envelopes();
        let mut waited = 0;
        for tick in 0..1_000 {
            if world.clients[publisher].paused {
                waited += 1;
            } else {
                publish(&mut world, publisher, &format!("topic:t/{}", tick / 20));
            }
            world.advance(TICK);
            world.deliver_envelopes();
        }
        assert!(waited <= 2 * 41, "{waited} ticks for fifty topics");
        assert_eq!(world.metrics().slow_consumers, 1);
    });
}

#[test]
fn the_policy_block_has_no_end() {
    for_seeds(0..6, |seed| {
        let mut options = BrokerOptions::default();
        options.backlog_bytes_high = 4_000;
        options.backlog_bytes_low = 1_000;
        let blocks = TopicSpec { slow_consumer: SlowConsumer::Block, ..TopicSpec::default() };
        options.topic_default = Arc::new(blocks);
        let mut world = World::new(seed, options);
        let (publisher, slow) = (connect(&mut world), connect(&mut world));
        world.subscribe(slow, 0, Wish::to("topic:news"));
        world.deliver_envelopes();
        while !world.clients[publisher].paused {
            publish(&mut world, publisher, "topic:news");
        }
        for _ in 0..2_000 {
            world.advance(TICK);
            world.deliver_envelopes();
        }
        assert!(world.clients[publisher].paused);
        world.drain(slow);
        world.deliver_envelopes();
        assert!(!world.clients[publisher].paused);
    });
}
