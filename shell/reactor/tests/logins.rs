//! Logins on simulated networks: what is sent ahead of their answers is neither lost nor left lying.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::sync::Arc;

use crate::common::world::World;
use tiderace_broker::BrokerOptions;
use tiderace_reactor::Options;

fn options(seed: u64) -> Options {
    Options { shards: 1 + (seed % 4) as usize, ..Options::default() }
}

#[test]
fn logins_wait_and_lose_nothing() {
    for seed in 0..150 {
        let mut world = World::new(seed, options(seed));
        let (subscriber, publisher) = (world.network.connect(0), world.network.connect(0));
        world.network.send(subscriber, b"LINE\nL bob\nS news\n");
        world.run_until("the subscription", |world| world.text(subscriber) == "OK\nS 1\n");
        // Everything is sent before the login is decided, and then the client closes its side.
        let mut lines = String::from("LINE\nL alice\n");
        let count = 1 + world.network.random(3000);
        for number in 0..count {
            lines.push_str(&format!("P news {number}\n"));
        }
        world.network.send(publisher, lines.as_bytes());
        world.network.finish(publisher);
        let expected: String = "OK\nS 1\n"
            .chars()
            .chain((0..count).flat_map(|n| format!("M {n}\n").into_bytes()).map(char::from))
            .collect();
        world.run_until("the news", |world| {
            world.network.received(subscriber).len() >= expected.len()
        });
        assert_eq!(world.text(subscriber), expected, "seed {seed}");
        world.run_until("the publisher's end", |world| world.network.is_ended(publisher));
    }
}

#[test]
fn what_comes_with_a_login_that_is_decided_at_once_is_handled() {
    for seed in 0..20 {
        let unverified = BrokerOptions { verify_logins: false, ..BrokerOptions::default() };
        let mut world = World::with(seed, options(seed), |services| {
            services.broker = Arc::new(unverified);
        });
        let client = world.network.connect(0);
        world.network.send(client, b"LINE\nL bob\nS news\nP news 1\n");
        world.run_until("the news", |world| world.text(client) == "OK\nS 1\nM 1\n");
    }
}
