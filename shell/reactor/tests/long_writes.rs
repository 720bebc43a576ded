//! Who is given much in the midst of which others are given little does not hold them up.

use std::sync::Arc;

use tiderace_base::Span;
use tiderace_reactor::Options;
use tiderace_reactor::driver::sim::Client;
use tiderace_stomp::StompOptions;

use crate::common::world::World;

const MIB: usize = 1024 * 1024;
const LARGE_BYTES: usize = 6 * MIB;
const SUBSCRIBERS: usize = 20;
const CONNECT: &str = "CONNECT\naccept-version:1.2\nhost:a\nheart-beat:0,0\n\n\0";

fn world(seed: u64) -> World {
    World::with(seed, Options { shards: 1, ..Options::default() }, |services| {
        let options = Arc::new(StompOptions::default());
        services
            .protocols
            .push(tiderace_stomp::protocol(options, Arc::from(["/stomp".to_owned()])));
    })
}

/// A client whose kernel takes everything at once.
fn subscriber(world: &mut World, topic: &str) -> Client {
    let client = world.network.connect(0);
    world.network.set_buffer(client, 2 * LARGE_BYTES);
    let text = format!("{CONNECT}SUBSCRIBE\nid:1\nreceipt:r\ndestination:/topic/{topic}\n\n\0");
    world.network.send(client, text.as_bytes());
    world.run_until("the subscription", |world| world.text(client).contains("receipt-id:r"));
    client
}

/// How many bytes that takes.
fn publish(world: &World, client: Client, topic: &str, body: &[u8]) -> usize {
    let head = format!("SEND\ndestination:/topic/{topic}\ncontent-length:{}\n\n", body.len());
    let frame = [head.as_bytes(), body, b"\0"].concat();
    world.network.send(client, &frame);
    frame.len()
}

#[test]
fn a_small_message_does_not_wait_for_large_ones() {
    for seed in 0..3 {
        let mut world = world(seed);
        let large: Vec<_> = (0..SUBSCRIBERS).map(|_| subscriber(&mut world, "large")).collect();
        let other = subscriber(&mut world, "small");
        let publisher = world.network.connect(0);
        let sender = world.network.connect(0);
        world.network.send(sender, CONNECT.as_bytes());
        world.network.send(publisher, CONNECT.as_bytes());
        publish(&world, publisher, "large", &vec![b'l'; LARGE_BYTES]);
        let written =
            |world: &World| large.iter().map(|it| world.network.written(*it)).sum::<usize>();
        world.run_until("the beginning", |world| written(world) > MIB);
        for number in 0..10 {
            let (taken, heard) = (world.network.taken(sender), world.network.written(other));
            let bytes = publish(&world, sender, "small", number.to_string().as_bytes());
            let mut before = 0;
            while world.network.written(other) == heard {
                // When it is there to be read is chance, but not how much is written from then on.
                if world.network.taken(sender) < taken + bytes {
                    before = written(&world);
                }
                world.step();
            }
            let meanwhile = written(&world) - before;
            assert!(
                meanwhile <= 3 * MIB,
                "seed {seed}: {meanwhile} bytes went before message {number}"
            );
        }
        let all = |world: &World| large.iter().all(|it| world.network.written(*it) > LARGE_BYTES);
        world.run_until("all of the large messages", all);
    }
}

/// Two take a part and no more; the third goes on all the same, and so does the shard's sleep.
#[test]
fn who_does_not_read_holds_up_nobody_else_who_is_given_much() {
    for seed in 0..8 {
        let mut world = world(seed);
        let clients: Vec<_> = (0..3).map(|_| subscriber(&mut world, "large")).collect();
        for client in &clients {
            world.network.set_buffer(*client, 600 * 1024);
        }
        let [first, second, last] = clients[..] else { unreachable!() };
        world.network.stall(first, true);
        world.network.stall(second, true);
        let publisher = world.network.connect(0);
        world.network.send(publisher, CONNECT.as_bytes());
        publish(&world, publisher, "large", &vec![b'l'; LARGE_BYTES]);
        let has_all = |client| move |world: &World| world.network.written(client) > LARGE_BYTES;
        world.run_until("the last one's message", has_all(last));
        // Nothing is left that could be done, so time passes in few turns.
        let (before, mut steps) = (world.network.now(), 0);
        world.run_until("time to pass", |world| {
            steps += 1;
            world.network.now().since(before) > Span::from_secs(20)
        });
        assert!(steps < 20_000, "seed {seed}: {steps} turns of a shard that has nothing to do");
        world.network.stall(second, false);
        world.run_until("the second one's message", has_all(second));
    }
}
