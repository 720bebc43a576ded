//! Sessions that live on the server: due every turn or at a time, held back by slow subscribers.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use crate::common;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::common::world::World;
use tiderace_base::{Close, Now, Span, Time};
use tiderace_reactor::Options;
use tiderace_reactor::driver::sim::Client;
use tiderace_topics::Path;
use tiderace_wire::{
    Context, Delivery, Destination, Kind, Meta, Open, Output, Progress, Reply, Session,
};

/// Publishes its count to `news`, with a kilobyte behind it.
struct Counter {
    published: Arc<AtomicU64>,
    /// Zero for every turn.
    interval: Span,
    next: Time,
}

impl Session for Counter {
    fn receive(&mut self, _: Now, _: &[u8], _: &mut Context<'_>) -> Result<Progress, Close> {
        Ok(Progress::default())
    }

    fn reply(&mut self, _: Now, reply: Reply, _: &mut Context<'_>) -> Result<(), Close> {
        assert!(!matches!(reply, Reply::Refused { .. }), "{reply:?}");
        Ok(())
    }

    fn deliver(&mut self, _: Now, _: &Delivery<'_>, _: &mut Output<'_>) {}

    fn deadline(&self) -> Time {
        self.next
    }

    fn expire(&mut self, now: Now, context: &mut Context<'_>) -> Result<(), Close> {
        assert!(now.time >= self.next);
        let number = self.published.fetch_add(1, Ordering::Relaxed);
        context
            .commands
            .message(&Destination { kind: Kind::Topic, path: Path::parse("news").unwrap() });
        let body = format!("{number} {}", "x".repeat(1024));
        context.commands.publish(body.as_bytes(), Meta::default(), None);
        if !self.interval.is_zero() {
            self.next = now.time + self.interval;
        }
        Ok(())
    }

    fn goodbye(&mut self, _: &Close, _: &mut Output<'_>) {}

    fn is_established(&self) -> bool {
        true
    }
}

/// A node with one counter, on its last shard.
fn world(seed: u64, interval: Span) -> (World, Arc<AtomicU64>) {
    let shards = 1 + (seed % 3) as usize;
    let published = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&published);
    let open: Arc<Open> = Arc::new(move |opening| {
        let is_last = opening.shard.index() + 1 == opening.shards;
        let next = if is_last { opening.now.time } else { Time::NEVER };
        Box::new(Counter { published: Arc::clone(&count), interval, next })
    });
    let options = Options { shards, ..Options::default() };
    (World::with(seed, options, |services| services.internal_sessions.push(open)), published)
}

fn subscriber(world: &mut World) -> Client {
    let client = world.network.connect(0);
    world.network.send(client, b"LINE\nL bob\nS news\n");
    world.run_until("the subscription", |world| world.text(client).contains("S 1\n"));
    client
}

fn numbers(text: &str) -> Vec<u64> {
    let number = |line: &str| line.strip_prefix("M ")?.split_once(' ')?.0.parse().ok();
    text.lines().filter_map(number).collect()
}

#[test]
fn one_that_is_always_due_waits_for_slow_subscribers_and_goes_on() {
    for seed in 0..12 {
        let (mut world, published) = world(seed, Span::ZERO);
        let client = subscriber(&mut world);
        world.network.stall(client, true);
        let mut before = u64::MAX;
        let is_held = |world: &World| {
            common::metric(&world.control.metrics(), "tiderace_connections_paused", &[]) > 0
        };
        world.run_until("the internal_session to be held back", is_held);
        for _ in 0..2 {
            world.run_for(Span::from_secs(1));
            let now = published.load(Ordering::Relaxed);
            before = before.min(now);
        }
        assert_eq!(before, published.load(Ordering::Relaxed), "seed {seed}: it was not held back");
        world.network.stall(client, false);
        world.run_until("more", |_| published.load(Ordering::Relaxed) > before + 100);
        let numbers = numbers(&world.text(client));
        assert!(numbers.windows(2).all(|pair| pair[1] == pair[0] + 1), "seed {seed}");
        world.control.shutdown(Span::from_secs(5));
        world.run_until("the end", World::is_over);
    }
}

#[test]
fn one_with_a_schedule_is_called_on_time() {
    for seed in 0..12 {
        let (mut world, published) = world(seed, Span::from_millis(3));
        world.run_for(Span::from_secs(3));
        let count = published.load(Ordering::Relaxed);
        // Shards of the simulation oversleep a little; by the wheel's ticks it would be 375.
        assert!((500..=1_001).contains(&count), "seed {seed}: {count}");
    }
}
