//! What is dear to read waits for the next turn: counted is what is compiled in a turn, not time.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod common;

use std::sync::Arc;

use common::world::World;
use tiderace_base::limits::INTAKE_COMPILED_BYTES_MAX;
use tiderace_reactor::Options;
use tiderace_stomp::StompOptions;
use tiderace_topics::compiled_bytes;

/// A turn handles input again and reads, each up to a share and the selector with which it is used up.
const TURN_COMPILED_BYTES_MAX: u64 = 4 * INTAKE_COMPILED_BYTES_MAX;

fn world(seed: u64) -> World {
    World::with(seed, Options { shards: 1, ..Options::default() }, |services| {
        let stomp = tiderace_stomp::protocol(Arc::new(StompOptions::default()), Arc::from([]));
        services.protocols.push(stomp);
        services.verifier = Arc::new(common::AtOnce);
    })
}

#[test]
fn dear_selectors_of_many_clients_are_taken_in_over_several_turns() {
    for seed in 0..4 {
        let mut world = world(seed);
        let mut clients = Vec::new();
        for number in 0..10 {
            let client = world.network.connect(0);
            let mut text = "CONNECT\naccept-version:1.2\nhost:a\nheart-beat:0,0\n\n\0".to_owned();
            for id in 0..100 {
                let topic = format!("?a/{number}-{id}/(a|b|[c-x]{{6}}){{6}}");
                text +=
                    &format!("SUBSCRIBE\nid:{id}\nreceipt:r{id}\ndestination:/topic/{topic}\n\n\0");
            }
            world.network.send(client, text.as_bytes());
            clients.push(client);
        }
        let (begin, mut most) = (compiled_bytes(), 0);
        let is_done = |world: &World| {
            clients.iter().all(|client| world.text(*client).matches("RECEIPT").count() == 100)
        };
        let mut steps = 0;
        while !is_done(&world) {
            let before = compiled_bytes();
            world.step();
            most = most.max(compiled_bytes() - before);
            steps += 1;
            assert!(steps < 100_000, "{}", world.text(clients[0]));
        }
        let all = compiled_bytes() - begin;
        assert!(all > 4 * TURN_COMPILED_BYTES_MAX, "the test is to take long: {all}");
        assert!(most <= TURN_COMPILED_BYTES_MAX, "one turn compiled {most} of {all} bytes");
    }
}
