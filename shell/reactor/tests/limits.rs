//! Limits of clients on simulated networks: who is let in, how fast clients are read and written to, and that nothing
//! is lost by it.

use std::sync::Arc;

use crate::common::metric;
use crate::common::world::World;
use tiderace_base::{ClientLimits, Span};
use tiderace_broker::{BrokerOptions, LimitPer, LimitRule, Who};
use tiderace_reactor::Options;
use tiderace_reactor::driver::sim::Client;

const NONE: ClientLimits = ClientLimits {
    connections: 0,
    subscriptions: 0,
    messages_per_second: 0,
    received_bytes_per_second: 0,
    sent_bytes_per_second: 0,
    backlog_bytes: 0,
};

/// A node that limits ann, or each of several of that name.
fn world(seed: u64, limits: ClientLimits) -> World {
    let options = Options { shards: 1 + (seed % 4) as usize, ..Options::default() };
    World::with(seed, options, |services| {
        let rule = LimitRule { who: vec![Who::User("ann".into())], per: LimitPer::User, limits };
        services.broker =
            Arc::new(BrokerOptions { limits: vec![rule], ..(*services.broker).clone() });
    })
}

fn begin(world: &mut World, lines: &str) -> Client {
    let client = world.network.connect(0);
    world.network.send(client, format!("LINE\n{lines}").as_bytes());
    client
}

fn listener(world: &mut World, name: &str) -> Client {
    let client = begin(world, &format!("L {name}\nS news\n"));
    world.run_until("the subscription", |world| world.text(client) == "OK\nS 1\n");
    client
}

/// How many messages a client has got.
fn got(world: &World, client: Client) -> usize {
    world.text(client).lines().filter(|line| line.starts_with("M ")).count()
}

fn reached(world: &World, limit: &str) -> u64 {
    metric(&world.control.metrics(), "tiderace_client_limits_reached_total", &[limit])
}

#[test]
fn a_client_that_sends_too_fast_is_slowed_down_and_loses_nothing() {
    for seed in 0..40 {
        let by_bytes = seed % 2 == 0;
        let limits = match by_bytes {
            // A line's body has eight bytes.
            true => ClientLimits { received_bytes_per_second: 800, ..NONE },
            false => ClientLimits { messages_per_second: 100, ..NONE },
        };
        let mut world = world(seed, limits);
        let subscriber = listener(&mut world, "bob");
        let begun = world.network.now();
        let lines: String = (0..600).map(|number| format!("P news {number:08}\n")).collect();
        // Two connections share what one of that name may do; one closes its side at once.
        let one = begin(&mut world, &format!("L ann\n{lines}"));
        let two = begin(&mut world, &format!("L ann\n{lines}"));
        world.network.finish(two);
        while got(&world, subscriber) < 1200 {
            world.run_for(Span::from_millis(100));
            let seconds = world.network.now().since(begun).as_secs_f64();
            // A second's worth at once, and for each connection what one piece holds.
            let most = 100.0 * (seconds + 1.0) + 2.0 * 50.0;
            let got = got(&world, subscriber) as f64;
            assert!(got <= most, "seed {seed}: {got} after {seconds} s");
            assert!(seconds < 60.0, "seed {seed}: {got} after {seconds} s");
        }
        let mut numbers: Vec<String> = world
            .text(subscriber)
            .lines()
            .filter(|it| it.starts_with("M "))
            .map(str::to_owned)
            .collect();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!((numbers.len(), got(&world, subscriber)), (600, 1200), "seed {seed}");
        let limit = if by_bytes { "received_bytes_per_second" } else { "messages_per_second" };
        assert!(reached(&world, limit) > 10, "seed {seed}");
        assert_eq!(world.text(one), "OK\n", "seed {seed}");
        // Others are not slowed down, and neither is ann when it has paid.
        world.run_for(Span::from_secs(2));
        world.network.send(one, b"P news now\n");
        world.run_until("the last", |world| got(world, subscriber) == 1201);
    }
}

#[test]
fn connecting_again_wipes_no_debt_out() {
    for seed in 0..40 {
        let mut world = world(seed, ClientLimits { messages_per_second: 10, ..NONE });
        let subscriber = listener(&mut world, "bob");
        let begun = world.network.now();
        // Each connection sends less than a piece, and goes.
        for _ in 0..20 {
            let client = begin(&mut world, &format!("L ann\n{}", "P news 1\n".repeat(20)));
            world.run_until("the login", |world| world.text(client) == "OK\n");
            world.run_for(Span::from_millis(50));
            world.network.reset(client);
        }
        let seconds = world.network.now().since(begun).as_secs_f64();
        let got = got(&world, subscriber);
        assert!(
            got as f64 <= 10.0 * (seconds + 1.0) + 20.0,
            "seed {seed}: {got} after {seconds} s"
        );
        // The last of them goes on when all is paid for.
        let last = begin(&mut world, "L ann\nP news last\n");
        world.run_until("the last", |world| world.text(subscriber).ends_with("last\n"));
        assert_eq!(world.text(last), "OK\n", "seed {seed}");
    }
}

#[test]
fn what_a_limited_client_sent_before_a_full_topic_held_it_back_is_not_forgotten() {
    for seed in 0..12 {
        let mut world = world(seed, ClientLimits { connections: 5, ..NONE });
        let reader = listener(&mut world, "bob");
        world.network.stall(reader, true);
        let lines = |count: usize| format!("P news {}\n", "x".repeat(10_000)).repeat(count);
        let paused =
            |world: &World| metric(&world.control.metrics(), "tiderace_connections_paused", &[]);
        let eve = begin(&mut world, "L eve\n");
        let mut sent = 0;
        while paused(&world) == 0 {
            world.network.send(eve, lines(50).as_bytes());
            sent += 50;
            assert!(sent < 3_000, "seed {seed}: the publisher is not held back");
            world.run_for(Span::from_millis(50));
        }
        // More than a piece, all of it at once, and nothing after it.
        begin(&mut world, &format!("L ann\n{}", "P news short\n".repeat(100)));
        world.run_until("ann is held back", |world| paused(world) == 2);
        world.network.stall(reader, false);
        let all = sent * 10_003 + 100 * "M short\n".len();
        world.run_until("all", |world| world.network.received(reader).len() >= all);
        assert_eq!(got(&world, reader), sent + 100, "seed {seed}");
    }
}

#[test]
fn a_client_is_written_to_no_faster_than_it_may_be_and_gets_all() {
    for seed in 0..40 {
        let mut world = world(seed, ClientLimits { sent_bytes_per_second: 8_000, ..NONE });
        let (paced, free) = (listener(&mut world, "ann"), listener(&mut world, "bob"));
        let begun = world.network.now();
        let body = "x".repeat(98);
        let lines: String = (0..500).map(|_| format!("P news {body}\n")).collect();
        begin(&mut world, &format!("L eve\n{lines}"));
        world.run_until("the others", |world| got(world, free) == 500);
        let at_once = world.network.now().since(begun);
        while got(&world, paced) < 500 {
            world.run_for(Span::from_millis(100));
            let seconds = world.network.now().since(begun).as_secs_f64();
            let bytes = world.network.received(paced).len() as f64;
            // A second's worth at once, and one block.
            assert!(
                bytes <= 8_000.0 * (seconds + 1.0) + 2_048.0,
                "seed {seed}: {bytes} after {seconds} s"
            );
            assert!(seconds < 30.0, "seed {seed}: {bytes} after {seconds} s");
        }
        let took = world.network.now().since(begun);
        assert!(took > Span::from_secs(4) && took > at_once, "seed {seed}: {took:?}, {at_once:?}");
        assert!(reached(&world, "sent_bytes_per_second") > 3, "seed {seed}");
        // One that ends meanwhile hears why.
        world.network.send(paced, b"S news\nQ\n");
        world.run_until("the end", |world| world.network.is_ended(paced));
    }
}

#[test]
fn connections_beyond_a_limit_are_refused_and_those_that_end_make_room() {
    for seed in 0..40 {
        let mut world = world(seed, ClientLimits { connections: 2, ..NONE });
        let (first, second) = (listener(&mut world, "ann"), listener(&mut world, "ann"));
        for _ in 0..3 {
            let third = begin(&mut world, "L ann\n");
            world.run_until("the refusal", |world| world.network.is_ended(third));
            assert_eq!(world.text(third), "BYE too-many-connections\n", "seed {seed}");
        }
        assert_eq!(reached(&world, "connections_max"), 3, "seed {seed}");
        listener(&mut world, "bob");
        // Logging in again takes no second place, and being somebody else gives one back.
        world.network.send(first, b"L ann\n");
        world.run_until("the login", |world| world.text(first) == "OK\nS 1\nOK\n");
        world.network.send(first, b"L bob\n");
        world.run_until("the login", |world| world.text(first) == "OK\nS 1\nOK\nOK\n");
        listener(&mut world, "ann");
        world.network.send(first, b"L ann\n");
        world.run_until("the refusal", |world| world.network.is_ended(first));
        world.network.finish(second);
        world.run_until("the end", |world| world.network.is_ended(second));
        listener(&mut world, "ann");
    }
}

#[test]
fn subscriptions_of_all_sessions_count_together() {
    for seed in 0..40 {
        let mut world = world(seed, ClientLimits { subscriptions: 3, ..NONE });
        let (first, second) = (listener(&mut world, "ann"), listener(&mut world, "ann"));
        world.network.send(first, b"S a\n");
        world.run_until("the third", |world| world.text(first) == "OK\nS 1\nS 2\n");
        world.network.send(second, b"S b\n");
        world.run_until("the refusal", |world| world.network.is_ended(second));
        assert_eq!(world.text(second), "OK\nS 1\nBYE too-many-subscriptions\n", "seed {seed}");
        assert_eq!(reached(&world, "subscriptions_max"), 1, "seed {seed}");
        // What its end has given back can be had again, and what is not ann's does not count.
        listener(&mut world, "ann");
        let bob = listener(&mut world, "bob");
        world.network.send(bob, b"L ann\n");
        world.run_until("the login", |world| world.text(bob) == "OK\nS 1\nOK\n");
        world.network.send(bob, b"S c\n");
        world.run_until("the refusal", |world| world.network.is_ended(bob));
    }
}
