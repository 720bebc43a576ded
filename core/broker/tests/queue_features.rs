//! What can be chosen for queues and said to them, with the store and over restarts: delays, groups, bounds.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use crate::support::keeping::Keeping;
use crate::support::{Outgoing, Wish, World};
use tiderace_base::{CloseCode, Now, Span};
use tiderace_broker::BrokerOptions;
use tiderace_queues::FullPolicy;
use tiderace_wire::{Flags, Outcome};

const QUEUE: &str = "queue:jobs/a";
/// When worlds begin, in milliseconds since 1970.
const BEGIN_MS: u64 = 1_700_000_000_000;

fn world(seed: u64, change: impl FnOnce(&mut BrokerOptions)) -> World {
    let mut options =
        BrokerOptions { epoch: seed, shards: 1 + (seed % 3) as usize, ..BrokerOptions::default() };
    change(&mut options);
    let mut world = World::new(seed, options);
    world.now = Now { wall_ms: BEGIN_MS, ..world.now };
    world
}

fn delayed(body: &str, due: u64, flags: Flags) -> Outgoing {
    let properties = format!("deliver-at:{due}\n");
    Outgoing { flags: flags | Flags::DELAYED, properties, ..Outgoing::new(body) }
}

fn bodies(world: &World, client: usize) -> Vec<&str> {
    world.clients[client].received.iter().map(|message| &*message.body).collect()
}

#[test]
fn a_delayed_message_comes_when_it_is_due_and_not_before() {
    let mut world = world(1, |_| {});
    let client = world.connect(0, "ann");
    world.subscribe(client, 0, Wish::to(QUEUE));
    let late = delayed("late", BEGIN_MS + 500, Flags::NONE);
    let soon = delayed("soon", BEGIN_MS + 100, Flags::NONE);
    world.publish_all(client, QUEUE, &[late, soon, Outgoing::new("now")]);
    world.quiesce();
    assert_eq!(bodies(&world, client), ["now"]);
    assert_eq!(world.metrics().queue_delayed, 2);
    world.advance(Span::from_millis(99));
    world.quiesce();
    assert_eq!(bodies(&world, client), ["now"]);
    world.advance(Span::from_millis(1));
    world.quiesce();
    assert_eq!(bodies(&world, client), ["now", "soon"]);
    world.advance(Span::from_millis(400));
    world.quiesce();
    assert_eq!(bodies(&world, client), ["now", "soon", "late"]);
    let metrics = world.metrics();
    assert_eq!((metrics.queue_delayed, metrics.queue_messages, metrics.queue_bytes), (0, 0, 0));
}

#[test]
fn a_delay_that_is_too_long_is_refused_alone() {
    let mut world = world(2, |options| {
        options.queue_default.policy.delay_max = Span::from_secs(1);
    });
    let client = world.connect(0, "ann");
    let mut refused = Vec::new();
    for (due, is_taken) in
        [(BEGIN_MS + 1_000, true), (BEGIN_MS + 1_001, false), (u64::MAX, false), (0, true)]
    {
        let messages = [Outgoing::new("x"), delayed("y", due, Flags::NONE)];
        let token = world.publish_all(client, QUEUE, &messages);
        world.quiesce();
        assert_eq!(world.is_confirmed(client, token), is_taken, "{due}");
        if !is_taken {
            refused.push((Some(token), CloseCode::BadSchedule));
        }
    }
    assert_eq!(world.clients[client].refused, refused);
    // What came together with it is there.
    let metrics = world.metrics();
    assert_eq!((metrics.queue_messages, metrics.queue_delayed), (5, 1));
}

#[test]
fn a_persistent_message_keeps_its_time_over_a_crash() {
    let mut keeping = Keeping::default();
    for life in 0..3 {
        let mut world = world(life, |_| {});
        keeping.restore(&mut world);
        let client = world.connect(0, "ann");
        world.subscribe(client, 0, Wish { explicit: true, ..Wish::to(QUEUE) });
        if life == 0 {
            let due = BEGIN_MS + 60_000;
            let messages = [
                delayed("kept", due, Flags::PERSISTENT),
                Outgoing {
                    expires_ms: Some(BEGIN_MS + 5),
                    ..delayed("over", due, Flags::PERSISTENT)
                },
                delayed("volatile", due, Flags::NONE),
            ];
            world.publish_all(client, QUEUE, &messages);
        }
        world.quiesce();
        keeping.finish(&mut world);
        world.advance(Span::from_secs(50));
        world.quiesce();
        assert_eq!(bodies(&world, client), Vec::<&str>::new(), "life {life}");
        if life == 2 {
            world.advance(Span::from_secs(10));
            world.quiesce();
            assert_eq!(bodies(&world, client), ["kept"]);
            let message = world.clients[client].received[0].clone();
            world.settle(client, &message, Outcome::Accept);
            world.quiesce();
            keeping.finish(&mut world);
            assert_eq!(keeping.queued(), 0, "all is settled in the store");
        }
        keeping.crash(&mut world);
    }
}

#[test]
fn a_delayed_message_that_expires_is_settled_in_the_store() {
    let mut keeping = Keeping::default();
    let mut world = world(0, |_| {});
    keeping.restore(&mut world);
    let client = world.connect(0, "ann");
    let due = BEGIN_MS + 60_000;
    let expires_ms = Some(BEGIN_MS + 100);
    let message = Outgoing { expires_ms, ..delayed("over", due, Flags::PERSISTENT) };
    world.publish_all(client, QUEUE, &[message]);
    world.quiesce();
    keeping.finish(&mut world);
    assert_eq!(keeping.queued(), 1);
    world.advance(Span::from_millis(100));
    keeping.finish(&mut world);
    assert_eq!((keeping.queued(), world.metrics().dropped_expired), (0, 1));
}

#[test]
fn a_message_that_fails_waits_as_long_as_its_queue_says() {
    let mut world = world(1, |options| {
        options.queue_default.policy.redelivery_delay = Span::from_secs(1);
    });
    let client = world.connect(0, "ann");
    world.subscribe(client, 0, Wish { explicit: true, ..Wish::to(QUEUE) });
    world.publish(client, QUEUE, "x");
    world.quiesce();
    for (seconds, received) in [(1, 2), (2, 3), (4, 4)] {
        let message = world.clients[client].received.last().unwrap().clone();
        world.settle(client, &message, Outcome::Reject);
        world.quiesce();
        world.advance(Span::from_millis(seconds * 1_000 - 1));
        world.quiesce();
        assert_eq!(world.clients[client].received.len(), received - 1);
        world.advance(Span::from_millis(1));
        world.quiesce();
        assert_eq!(world.clients[client].received.len(), received);
        let last = world.clients[client].received.last().unwrap();
        assert_eq!(last.redeliveries as usize, received - 1);
    }
}

#[test]
fn a_full_queue_refuses_publishers_with_a_receipt_or_without_and_transactions_as_a_whole() {
    let mut world = world(0, |options| {
        options.queue_default.policy.full = FullPolicy::Reject;
        options.queue_default.policy.messages_max = 2;
    });
    let client = world.connect(0, "ann");
    for body in ["1", "2"] {
        let token = world.publish(client, QUEUE, body);
        world.quiesce();
        assert!(world.is_confirmed(client, token));
    }
    let token = world.publish(client, QUEUE, "3");
    world.quiesce();
    assert_eq!(world.clients[client].refused, [(Some(token), CloseCode::QueueFull)]);
    let mut commands = tiderace_wire::Commands::new();
    commands.message(&crate::support::destination(QUEUE));
    commands.publish(b"4", tiderace_wire::Meta::default(), None);
    world.commands(client, &mut commands);
    world.quiesce();
    assert_eq!(world.clients[client].refused[1], (None, CloseCode::QueueFull));
    // A transaction that has room for one of two messages, with another between them.
    let mut commands = tiderace_wire::Commands::new();
    commands.push(tiderace_wire::Command::Together(true));
    for path in [QUEUE, "queue:other", QUEUE] {
        commands.message(&crate::support::destination(path));
        commands.publish(b"5", tiderace_wire::Meta::default(), None);
    }
    commands.push(tiderace_wire::Command::Together(false));
    world.commands(client, &mut commands);
    world.quiesce();
    let metrics = world.metrics();
    assert_eq!((metrics.queue_messages, metrics.queue_refused), (2, 5));
    assert!(!world.clients[client].paused, "nobody is asked to wait");
    world.subscribe(client, 0, Wish { explicit: true, ..Wish::to(QUEUE) });
    world.quiesce();
    let message = world.clients[client].received[0].clone();
    world.settle(client, &message, Outcome::Accept);
    let token = world.publish(client, QUEUE, "5");
    world.quiesce();
    assert!(world.is_confirmed(client, token));
}

#[test]
fn what_a_full_queue_drops_does_not_come_back_after_a_crash() {
    let rows = [(FullPolicy::DropHead, ["3", "4"]), (FullPolicy::DropTail, ["0", "1"])];
    // With little memory all but one are in the store alone.
    for ((full, kept), bytes_max) in rows.into_iter().flat_map(|row| [(row, 1 << 20), (row, 20)]) {
        let mut keeping = Keeping::default();
        let bound = |options: &mut BrokerOptions| {
            options.queue_default.bytes_max = bytes_max;
            options.queue_default.policy.full = full;
            options.queue_default.policy.messages_max = 2;
        };
        let mut first = world(1, bound);
        keeping.restore(&mut first);
        let client = first.connect(0, "ann");
        for body in 0..5 {
            let message = Outgoing { flags: Flags::PERSISTENT, ..Outgoing::new(body.to_string()) };
            let token = first.publish_all(client, QUEUE, &[message]);
            first.quiesce();
            keeping.finish(&mut first);
            first.quiesce();
            assert!(first.is_confirmed(client, token));
        }
        let metrics = first.metrics();
        let dropped = (metrics.dropped_head, metrics.dropped_tail);
        assert_eq!(dropped, if full == FullPolicy::DropHead { (3, 0) } else { (0, 3) });
        assert_eq!(keeping.queued(), 2, "what was dropped is settled in the store");
        keeping.crash(&mut first);
        let mut second = world(2, bound);
        keeping.restore(&mut second);
        let client = second.connect(0, "ann");
        second.subscribe(client, 0, Wish::to(QUEUE));
        second.quiesce();
        keeping.finish(&mut second);
        second.quiesce();
        assert_eq!(bodies(&second, client), kept);
    }
}

#[test]
fn a_message_that_expires_is_a_dead_letter_over_a_crash_as_well() {
    let mut keeping = Keeping::default();
    let change = |options: &mut BrokerOptions| {
        options.queue_default.policy.dead_letter_expired = true;
    };
    let mut first = world(1, change);
    keeping.restore(&mut first);
    let client = first.connect(0, "ann");
    let expires_ms = Some(BEGIN_MS + 100);
    let message = Outgoing { expires_ms, flags: Flags::PERSISTENT, ..Outgoing::new("x") };
    let delayed = Outgoing { expires_ms, ..delayed("y", BEGIN_MS + 60_000, Flags::PERSISTENT) };
    first.publish_all(client, QUEUE, &[message, delayed]);
    first.quiesce();
    keeping.finish(&mut first);
    first.advance(Span::from_secs(1));
    first.quiesce();
    keeping.finish(&mut first);
    first.quiesce();
    keeping.finish(&mut first);
    assert_eq!((first.metrics().dead_lettered, keeping.queued()), (2, 2));
    keeping.crash(&mut first);
    let mut second = world(2, change);
    keeping.restore(&mut second);
    let client = second.connect(0, "ann");
    second.subscribe(client, 0, Wish::to("queue:dlq/jobs/a"));
    second.quiesce();
    keeping.finish(&mut second);
    second.quiesce();
    let mut dead = bodies(&second, client);
    dead.sort_unstable();
    assert_eq!(dead, ["x", "y"]);
    for message in &second.clients[client].received {
        let property = |name| crate::support::property(message, name);
        assert_eq!(property("dead-letter-reason").as_deref(), Some("expired"));
        assert_eq!(property("dead-letter-queue").as_deref(), Some("jobs/a"));
    }
}

#[test]
fn a_group_stays_with_its_consumer_whatever_shards_they_are_on() {
    crate::support::for_seeds(0..40, |seed| {
        let mut world = world(seed, |_| {});
        let shards = world.brokers.len();
        let consumers: Vec<usize> = (0..3)
            .map(|number| {
                let client = world.connect(number % shards, "ann");
                world.subscribe(
                    client,
                    0,
                    Wish { explicit: true, window: Some(3), ..Wish::to(QUEUE) },
                );
                client
            })
            .collect();
        let publisher = world.connect(0, "bob");
        world.deliver_envelopes();
        for body in 0..60 {
            let properties = format!("message_group:g{}\n", body % 7);
            let flags = Flags::GROUPED;
            let message = Outgoing { flags, properties, ..Outgoing::new(body.to_string()) };
            world.publish_all(publisher, QUEUE, &[message]);
        }
        let mut seen = vec![0; consumers.len()];
        let (mut order, mut owners) =
            (std::collections::BTreeMap::new(), std::collections::BTreeMap::new());
        loop {
            world.quiesce();
            let mut settled = false;
            for (client, seen) in consumers.iter().zip(&mut seen) {
                let new = world.clients[*client].received[*seen..].to_vec();
                *seen += new.len();
                for message in new {
                    settled = true;
                    let body: u32 = message.body.parse().unwrap();
                    let before = order.insert(body % 7, body);
                    assert!(before < Some(body), "{body} behind {before:?}");
                    let owner = *owners.entry(body % 7).or_insert(*client);
                    assert_eq!(owner, *client, "{body}");
                    world.settle(*client, &message, Outcome::Accept);
                }
            }
            if !settled {
                break;
            }
        }
        assert_eq!(seen.iter().sum::<usize>(), 60);
        world.end();
    });
}

#[test]
fn without_a_store_a_persistent_message_is_refused_unless_the_configuration_says_otherwise() {
    for in_memory in [false, true] {
        let options = BrokerOptions { persistent_in_memory: in_memory, ..BrokerOptions::default() };
        let mut world = World::new(0, options);
        let persistent = |body: &str| Outgoing { flags: Flags::PERSISTENT, ..Outgoing::new(body) };
        let client = world.connect(0, "ann");
        let kept = world.publish_all(client, "queue:jobs/a", &[persistent("1")]);
        let topic = world.publish_all(client, "topic:a", &[persistent("1")]);
        let temporary = format!("queue:{}/reply", world.temporary(client));
        world.subscribe(client, 0, Wish::to(&temporary));
        let reply = world.publish_all(client, &temporary, &[persistent("2")]);
        world.quiesce();
        assert!(world.is_confirmed(client, topic) && world.is_confirmed(client, reply));
        assert_eq!(world.is_confirmed(client, kept), in_memory);
        let refused = world.clients[client].refused.contains(&(Some(kept), CloseCode::NoStore));
        assert_eq!(refused, !in_memory);
    }
}

#[test]
fn groups_keep_their_order_in_a_queue_that_is_deeper_than_memory() {
    crate::support::for_seeds(0..30, |seed| {
        let mut keeping = Keeping::default();
        let mut world = world(seed, |options| options.queue_default.bytes_max = 200);
        keeping.restore(&mut world);
        let publisher = world.connect(0, "bob");
        for body in 0..60 {
            let properties = format!("message_group:g{}\n", body % 7);
            let flags = Flags::GROUPED | Flags::PERSISTENT;
            let message = Outgoing { flags, properties, ..Outgoing::new(body.to_string()) };
            world.publish_all(publisher, QUEUE, &[message]);
            world.deliver_envelopes();
            if seed % 2 == 0 {
                keeping.finish(&mut world);
            }
        }
        keeping.finish(&mut world);
        let shards = world.brokers.len();
        let consumers: Vec<usize> = (0..3)
            .map(|number| {
                let client = world.connect(number % shards, "ann");
                let wish = Wish { explicit: true, window: Some(2), ..Wish::to(QUEUE) };
                world.subscribe(client, 0, wish);
                client
            })
            .collect();
        let mut seen = vec![0; consumers.len()];
        let mut order = std::collections::BTreeMap::new();
        for _ in 0..400 {
            world.quiesce();
            keeping.finish(&mut world);
            for (client, seen) in consumers.iter().zip(&mut seen) {
                let new = world.clients[*client].received[*seen..].to_vec();
                *seen += new.len();
                for message in new {
                    let body: u32 = message.body.parse().unwrap();
                    let before = order.insert(body % 7, body);
                    assert!(before < Some(body), "{body} behind {before:?}");
                    world.settle(*client, &message, Outcome::Accept);
                }
            }
        }
        assert_eq!(seen.iter().sum::<usize>(), 60, "{seen:?}");
        keeping.finish(&mut world);
        assert_eq!(keeping.queued(), 0);
    });
}

fn stored(body: &str) -> Outgoing {
    Outgoing { flags: Flags::PERSISTENT, ..Outgoing::new(body) }
}

#[test]
fn queues_that_have_filled_their_share_of_the_store_take_nothing_and_all_else_goes_on() {
    let mut keeping = Keeping::default();
    let mut world = world(0, |_| {});
    keeping.restore(&mut world);
    let client = world.connect(0, "ann");
    let before = world.publish_all(client, "queue:jobs/a", &[stored("1")]);
    keeping.finish(&mut world);
    world.quiesce();
    assert!(world.is_confirmed(client, before));
    world.brokers[0].store_queues_full(true);
    let kept = world.publish_all(client, "queue:jobs/a", &[stored("2")]);
    let other = world.publish(client, "queue:jobs/a", "3");
    let topic = world.publish_all(client, "topic:prices/a", &[stored("4")]);
    world.subscribe(client, 1, Wish { explicit: true, ..Wish::to("queue:jobs/a") });
    keeping.finish(&mut world);
    world.quiesce();
    let refused = world.clients[client].refused.clone();
    assert_eq!(refused, [(Some(kept), CloseCode::StoreUnavailable)]);
    assert!(world.is_confirmed(client, other) && world.is_confirmed(client, topic));
    let received = world.clients[client].received.clone();
    assert_eq!(received.iter().map(|message| &*message.body).collect::<Vec<_>>(), ["1", "3"]);
    let settled = world.settle(client, &received[0], Outcome::Accept);
    keeping.finish(&mut world);
    world.quiesce();
    assert!(world.is_confirmed(client, settled), "what makes room is taken");
    assert_eq!(keeping.queued(), 0);
    world.brokers[0].store_queues_full(false);
    let kept = world.publish_all(client, "queue:jobs/a", &[stored("5")]);
    keeping.finish(&mut world);
    world.quiesce();
    assert!(world.is_confirmed(client, kept));
}
