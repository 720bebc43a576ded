//! Logins on simulated networks: what is sent ahead of their answers is neither lost nor left lying.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::sync::Arc;

use crate::common::world::World;
use crate::common::{Desk, metric};
use tiderace_base::Span;
use tiderace_broker::BrokerOptions;
use tiderace_reactor::Options;
use tiderace_reactor::driver::sim::Client;

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

/// What the client has been told when its connection has ended.
fn last_words(world: &mut World, client: Client) -> String {
    world.run_until("the end", |world| world.network.is_ended(client));
    world.text(client)
}

#[test]
fn a_session_ends_with_its_login_whether_it_is_idle_or_busy() {
    for seed in 0..40 {
        let mut world = World::new(seed, options(seed));
        world.desk.accept_for(Some(Span::from_secs(30)));
        let (idle, busy) = (world.network.connect(0), world.network.connect(0));
        world.network.send(idle, b"LINE\nL ann\nS news\n");
        world.network.send(busy, b"LINE\nL bob\nS news\n");
        let both = |world: &World| [idle, busy].map(|client| world.text(client));
        world.run_until("the subscriptions", |world| both(world) == ["OK\nS 1\n"; 2]);
        world.desk.accept_for(None);
        let lasting = world.network.connect(0);
        world.network.send(lasting, b"LINE\nL eve\n");
        for _ in 0..8 {
            world.run_for(Span::from_secs(3));
            world.network.send(busy, b"P news 1\n");
        }
        world.run_for(Span::from_secs(3));
        assert!(both(&world).iter().all(|text| !text.contains("BYE")), "seed {seed}: too early");
        for client in [idle, busy] {
            let text = last_words(&mut world, client);
            assert!(text.ends_with("BYE login-expired\n"), "seed {seed}: {text}");
        }
        world.run_for(Span::from_secs(500));
        assert_eq!(world.text(lasting), "OK\n", "seed {seed}: a login without end");
        let closed = metric(
            &world.control.metrics(),
            "tiderace_connections_closed_total",
            &["login-expired"],
        );
        assert_eq!(closed, 2, "seed {seed}");
    }
}

#[test]
fn a_login_that_is_renewed_lasts_as_long_as_the_new_one() {
    for seed in 0..40 {
        let mut world = World::new(seed, options(seed));
        world.desk.accept_for(Some(Span::from_secs(60)));
        let client = world.network.connect(0);
        world.network.send(client, b"LINE\nL ann\n");
        world.run_until("the login", |world| world.text(client) == "OK\n");
        let mut expected = "OK\n".to_owned();
        for _ in 0..10 {
            world.run_for(Span::from_secs(50));
            world.network.send(client, b"L ann\n");
            expected.push_str("OK\n");
            world.run_until("the next login", |world| world.text(client) == expected);
        }
        // A login that ends sooner counts as well as one that ends later.
        world.desk.accept_for(Some(Span::from_secs(5)));
        world.network.send(client, b"L ann\n");
        let began = world.network.now();
        let text = last_words(&mut world, client);
        assert_eq!(text, expected + "OK\nBYE login-expired\n", "seed {seed}");
        assert!(world.network.now().since(began) < Span::from_secs(20), "seed {seed}");

        // One that never ends takes the end away.
        let client = world.network.connect(0);
        world.network.send(client, b"LINE\nL ann\n");
        world.run_until("the login", |world| world.text(client) == "OK\n");
        world.desk.accept_for(None);
        world.network.send(client, b"L ann\n");
        world.run_until("the next login", |world| world.text(client) == "OK\nOK\n");
        world.run_for(Span::from_secs(500));
        assert_eq!(world.text(client), "OK\nOK\n", "seed {seed}");
    }
}

#[test]
fn many_logins_that_are_decided_together_are_told_some_in_each_turn() {
    for seed in 0..10 {
        let mut world = World::new(seed, Options { shards: 1, ..Options::default() });
        let talker = world.network.connect(0);
        world.network.send(talker, b"LINE\nL ann\nS news\n");
        world.run_until("the subscription", |world| world.text(talker) == "OK\nS 1\n");
        let waiting: Vec<Client> = (0..500).map(|_| world.network.connect(0)).collect();
        for client in &waiting {
            world.network.send(*client, b"LINE\nL mallory\n");
        }
        let told = |world: &World| waiting.iter().filter(|it| world.network.is_ended(**it)).count();
        // Some are told of the first that were decided; then all others are decided at once.
        let mut most = 0;
        while told(&world) < waiting.len() {
            let before = told(&world);
            world.step();
            most = most.max(told(&world) - before);
        }
        // Connections that have been told before may end in the same turn.
        assert!(most < 100, "seed {seed}: {most} in one turn");
        world.network.send(talker, b"P news 1\n");
        world.run_until("the news", |world| world.text(talker).ends_with("M 1\n"));
    }
}

/// What has taken long is the decision, and then that many are told.
#[test]
fn a_login_that_is_decided_in_time_does_not_run_out_while_others_are_told() {
    let mut in_time = 0;
    for seed in 0..20 {
        let desk = Arc::new(Desk::default());
        let verifier = Arc::clone(&desk);
        let options = Options { shards: 2, ..Options::default() };
        let deadline = options.deadlines.login;
        let mut world = World::with(seed, options, |services| services.verifier = verifier);
        // Somebody who keeps talking, for time goes on from one event to the next.
        let talker = world.network.connect(0);
        world.network.send(talker, b"LINE\nL eve\n");
        world.run_until("the first login", |world| {
            desk.decide();
            world.text(talker) == "OK\n"
        });
        let waiting: Vec<Client> = (0..500).map(|_| world.network.connect(0)).collect();
        for client in &waiting {
            world.network.send(*client, b"LINE\nL ann\n");
        }
        world.run_until("the first credentials", |_| desk.waiting() > 0);
        let began = world.network.now();
        world.run_until("the credentials", |_| desk.waiting() == waiting.len());
        let ended = |world: &World| waiting.iter().any(|it| world.network.is_ended(*it));
        // As late as is possible in one run or another.
        let spare = Span::from_micros(100 * (1 + seed));
        while world.network.now().since(began) + spare < deadline {
            world.network.send(talker, b"P news 1\n");
            world.step();
        }
        if ended(&world) {
            continue;
        }
        in_time += 1;
        assert_eq!(desk.decide(), waiting.len(), "seed {seed}");
        // Time passes between the turns of one shard.
        world.starved = Some((seed % 2) as usize);
        let told = |world: &World| waiting.iter().filter(|it| !world.text(**it).is_empty()).count();
        world.run_until("the answers", |world| {
            world.network.send(talker, b"P news 1\n");
            told(world) == waiting.len()
        });
        let others = waiting.iter().find(|it| world.text(**it) != "OK\n");
        assert_eq!(others.map(|it| world.text(*it)), None, "seed {seed}");
    }
    assert!(in_time > 5, "{in_time}");
}
