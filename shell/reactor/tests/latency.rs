//! What `tiderace_publish_to_deliver_seconds` measures: messages that are published while somebody subscribes, not
//! the age of values and histories that a subscriber asks for later.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use crate::common;
use std::sync::Arc;

use crate::common::world::World;
use tiderace_base::SampleValue;
use tiderace_base::Span;
use tiderace_reactor::Options;
use tiderace_reactor::driver::sim::Client;
use tiderace_stomp::StompOptions;

fn world(seed: u64) -> World {
    let options = Options { shards: 1 + (seed % 3) as usize, ..Options::default() };
    World::with(seed, options, |services| {
        let stomp = tiderace_stomp::protocol(Arc::new(StompOptions::default()), Arc::from([]));
        services.protocols.push(stomp);
        services.verifier = Arc::new(common::AtOnce);
    })
}

/// Deliveries measured, and their sum in nanoseconds.
fn measured(world: &World) -> (u64, u64) {
    let samples = world.control.metrics();
    let latency = "tiderace_publish_to_deliver_seconds";
    let found = samples.iter().find(|sample| sample.row.name == latency).unwrap();
    let SampleValue::Histogram { buckets, nanos } = &found.value else { panic!("a histogram") };
    (buckets.iter().sum(), *nanos)
}

fn connect(world: &mut World) -> Client {
    let client = world.network.connect(0);
    world.network.send(client, b"CONNECT\naccept-version:1.2\nhost:a\nheart-beat:0,0\n\n\0");
    world.run_until("a session", |world| world.text(client).contains("CONNECTED"));
    client
}

#[test]
fn values_and_histories_are_not_measured_by_their_age() {
    for seed in 0..9 {
        let mut world = world(seed);
        let publisher = connect(&mut world);
        let send = |world: &World, body: &str| {
            let frame = format!("SEND\ndestination:/topic/a\nretain:set\n\n{body}\0");
            world.network.send(publisher, frame.as_bytes());
        };
        send(&world, "old");
        world.run_for(Span::from_secs(6));
        let mut clients = Vec::new();
        for (id, head) in [(1, ""), (2, "replay:last=5\n"), (3, "replay:last=1\n")] {
            let client = connect(&mut world);
            let pattern = if id == 1 { "**" } else { "a" };
            let frame = format!("SUBSCRIBE\nid:{id}\ndestination:/topic/{pattern}\n{head}\n\0");
            world.network.send(client, frame.as_bytes());
            world.run_until("the value", |world| world.text(client).contains("old"));
            clients.push(client);
        }
        assert_eq!(measured(&world), (0, 0), "seed {seed}");
        send(&world, "new");
        world.run_until("the message", |world| {
            clients.iter().all(|client| world.text(*client).contains("new"))
        });
        let (count, nanos) = measured(&world);
        assert_eq!(count, 3, "seed {seed}");
        assert!(nanos < Span::from_secs(1).as_nanos() as u64, "seed {seed}: {nanos}");
    }
}
