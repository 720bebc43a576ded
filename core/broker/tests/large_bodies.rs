//! Persistent messages whose bodies lie in files: the store is given the file, and gives it back.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use crate::support::asking::{self, answer, ask};
use crate::support::keeping::Keeping;
use crate::support::{Outgoing, Received, Wish, World};
use tiderace_base::{CloseCode, Now, Span};
use tiderace_broker::{BrokerOptions, TopicPolicy};
use tiderace_topics::{Path, Pattern};
use tiderace_wire::{
    Command, DurableSubscription, Flags, MoveMessages, Operation, Outcome, Settle, SubscriptionKey,
    TopicSpec, ValueType, durable_queue,
};

fn begin(shards: usize, keeping: &mut Keeping) -> (World, usize) {
    begin_with_queues(shards, 0, keeping)
}

/// With queues that have room for so many messages, zero for any number.
fn begin_with_queues(shards: usize, room: usize, keeping: &mut Keeping) -> (World, usize) {
    let mut options = BrokerOptions { epoch: 7, shards, ..BrokerOptions::default() };
    options.queue_default.redeliveries_max = 1;
    options.queue_default.policy.redelivery_delay = Span::ZERO;
    if room > 0 {
        options.queue_default.policy.messages_max = room;
    }
    let kept = TopicSpec { retain: true, persistent: true, ..TopicSpec::default() };
    let typed = TopicSpec { value: ValueType::Json, ..TopicSpec::default() };
    options.topic_policies = [("kept/**", kept), ("typed/**", typed)]
        .map(|(pattern, spec)| TopicPolicy {
            pattern: Pattern::parse(pattern).unwrap(),
            spec: spec.into(),
        })
        .into();
    let mut world = World::new(1, options);
    world.now = Now { wall_ms: 1_700_000_000_000, ..world.now };
    keeping.restore(&mut world);
    let client = world.connect(0, "somebody");
    (world, client)
}

fn persistent(body: &str) -> Outgoing {
    Outgoing { flags: Flags::PERSISTENT, ..Outgoing::new(body) }
}

fn create_subscription(name: &str) -> Operation {
    let topics = vec![Pattern::parse("fed/*").unwrap()];
    let queue = durable_queue(name).unwrap();
    Operation::CreateSubscription(Box::new(DurableSubscription { queue, topics, selector: None }))
}

fn received(world: &World, client: usize) -> Vec<Received> {
    world.clients[client].received.clone()
}

#[test]
fn they_stay_in_their_files_in_the_store_and_wherever_they_go() {
    for shards in [1, 3] {
        let mut keeping = Keeping::default();
        let (mut world, client) = begin(shards, &mut keeping);
        for body in ["kept", "dead"] {
            let sent = world.publish_in_file(client, "queue:jobs/a", &persistent(body));
            world.quiesce();
            assert!(!world.is_confirmed(client, sent), "the store does not have it yet");
            keeping.settle_down(&mut world);
            assert!(world.is_confirmed(client, sent));
        }
        assert_eq!((keeping.puts, keeping.bodies_put), (2, 2));
        keeping.crash(&mut world);
        let (mut world, client) = begin(shards, &mut keeping);
        world.subscribe(client, 1, Wish { explicit: true, ..Wish::to("queue:jobs/a") });
        keeping.settle_down(&mut world);
        let found = received(&world, client);
        assert_eq!(found.iter().map(|it| &*it.body).collect::<Vec<_>>(), ["kept", "dead"]);
        assert!(found.iter().all(|it| it.is_in_file), "it is read back as a file");
        world.settle(client, &found[0], Outcome::Accept);
        for _ in 0..2 {
            let dead = received(&world, client).pop().unwrap();
            world.settle(client, &dead, Outcome::Reject);
            keeping.settle_down(&mut world);
        }
        assert_eq!((keeping.puts, keeping.bodies_put, keeping.queued()), (3, 3, 1));
        keeping.crash(&mut world);
        let (mut world, client) = begin(shards, &mut keeping);
        world.subscribe(client, 1, Wish::to("queue:dlq/jobs/a"));
        keeping.settle_down(&mut world);
        let found = received(&world, client);
        assert_eq!((found.len(), &*found[0].body, found[0].is_in_file), (1, "dead", true));
    }
}

#[test]
fn a_persistent_topic_has_its_value_again_in_its_file() {
    let mut keeping = Keeping::default();
    let (mut world, client) = begin(2, &mut keeping);
    for body in ["old", "new"] {
        // A topic is persistent, whatever its publishers say.
        let sent = world.publish_in_file(client, "topic:kept/a", &Outgoing::new(body));
        keeping.settle_down(&mut world);
        assert!(world.is_confirmed(client, sent));
    }
    // What the store refuses is put again when there is room, with its body.
    keeping.full = true;
    world.publish_in_file(client, "topic:kept/a", &Outgoing::new("newest"));
    keeping.settle_down(&mut world);
    keeping.full = false;
    let before = keeping.bodies_put;
    for _ in 0..4 {
        world.advance(Span::from_secs(1));
        keeping.settle_down(&mut world);
    }
    assert!(keeping.bodies_put > before);
    keeping.crash(&mut world);
    let (mut world, client) = begin(2, &mut keeping);
    world.subscribe(client, 1, Wish::to("topic:kept/a"));
    world.quiesce();
    let found = received(&world, client);
    assert_eq!((found.len(), &*found[0].body, found[0].is_in_file), (1, "newest", true));
}

#[test]
fn what_the_store_refuses_is_refused_to_its_publisher() {
    let mut keeping = Keeping::default();
    let (mut world, client) = begin(1, &mut keeping);
    keeping.full = true;
    let sent = world.publish_in_file(client, "queue:jobs/a", &persistent("refused"));
    keeping.settle_down(&mut world);
    let refused = world.clients[client].refused.clone();
    assert_eq!(refused, [(Some(sent), CloseCode::StoreUnavailable)]);
    world.subscribe(client, 1, Wish::to("queue:jobs/a"));
    keeping.settle_down(&mut world);
    assert!(received(&world, client).is_empty());
}

#[test]
fn a_topic_that_looks_into_its_values_has_them_in_memory() {
    let mut keeping = Keeping::default();
    let (mut world, client) = begin(1, &mut keeping);
    world.subscribe(client, 1, Wish::to("topic:typed/a"));
    let sent = world.publish_in_file(client, "topic:typed/a", &persistent("[1]"));
    keeping.settle_down(&mut world);
    assert!(world.is_confirmed(client, sent));
    let found = received(&world, client);
    assert_eq!((&*found[0].body, found[0].is_in_file), ("[1]", false));
}

#[test]
fn a_body_that_cannot_be_kept_costs_its_own_message_and_no_other() {
    let mut keeping = Keeping::default();
    let (mut world, client) = begin(1, &mut keeping);
    keeping.keeps_no_bodies = true;
    let mut taken = vec![world.publish_all(client, "queue:jobs/a", &[persistent("before")])];
    let refused = world.publish_in_file(client, "queue:jobs/a", &persistent("refused"));
    // It says nothing that would be stored.
    let removal = Outgoing { flags: Flags::RETAIN_REMOVE, ..Outgoing::new("") };
    taken.push(world.publish_all(client, "topic:kept/nothing", &[removal]));
    taken.push(world.publish_all(client, "queue:jobs/a", &[persistent("behind")]));
    taken.push(world.publish(client, "topic:kept/b", "small"));
    keeping.settle_down(&mut world);
    assert_eq!(world.clients[client].refused, [(Some(refused), CloseCode::LargeMessagesFull)]);
    assert!(taken.iter().all(|token| world.is_confirmed(client, *token)));
    // There is no outage.
    let next = world.publish_all(client, "queue:jobs/a", &[persistent("next")]);
    keeping.settle_down(&mut world);
    assert!(world.is_confirmed(client, next));
    assert_eq!((keeping.refused, keeping.bodies_refused), (0, 1));
    world.subscribe(client, 1, Wish::to("queue:jobs/a"));
    keeping.settle_down(&mut world);
    let found = received(&world, client);
    assert_eq!(found.iter().map(|it| &*it.body).collect::<Vec<_>>(), ["before", "behind", "next"]);
}

#[test]
fn a_value_whose_body_cannot_be_kept_is_tried_again_and_holds_nobody_up() {
    let mut keeping = Keeping::default();
    let (mut world, client) = begin(1, &mut keeping);
    let reader = world.connect(0, "reader");
    world.subscribe(reader, 1, Wish::to("topic:kept/*"));
    for topic in ["topic:kept/a", "topic:kept/b"] {
        world.publish_in_file(client, topic, &Outgoing::new("old"));
    }
    keeping.settle_down(&mut world);
    keeping.keeps_no_bodies = true;
    let refused: Vec<_> = ["topic:kept/a", "topic:kept/b", "topic:kept/c"]
        .map(|topic| world.publish_in_file(client, topic, &Outgoing::new("new")))
        .map(|token| (Some(token), CloseCode::LargeMessagesFull))
        .into();
    keeping.settle_down(&mut world);
    assert_eq!(world.clients[client].refused, refused);
    assert_eq!(received(&world, reader).len(), 5, "it is shown all the same");
    // The value that follows it needs no file.
    let smaller = world.publish(client, "topic:kept/b", "newest");
    keeping.settle_down(&mut world);
    assert!(world.is_confirmed(client, smaller));
    let attempts = |world: &mut World, keeping: &mut Keeping, seconds| {
        let before = keeping.bodies_refused;
        for _ in 0..seconds {
            world.advance(Span::from_secs(1));
            keeping.settle_down(world);
        }
        keeping.bodies_refused - before
    };
    let many = attempts(&mut world, &mut keeping, 60);
    assert!((2..10).contains(&many), "now and then: {many}");
    keeping.keeps_no_bodies = false;
    attempts(&mut world, &mut keeping, 25);
    keeping.crash(&mut world);
    let (mut world, client) = begin(1, &mut keeping);
    world.subscribe(client, 1, Wish::to("topic:kept/*"));
    keeping.settle_down(&mut world);
    let mut found: Vec<_> =
        received(&world, client).into_iter().map(|it| (it.path, it.body)).collect();
    found.sort();
    let expected = [("kept/a", "new"), ("kept/b", "newest"), ("kept/c", "new")];
    assert_eq!(found, expected.map(|(path, body)| (path.to_owned(), body.to_owned())));
}

#[test]
fn what_cannot_be_kept_where_it_goes_stays_where_it_lay() {
    for redrives in [false, true] {
        let mut keeping = Keeping::default();
        let (mut world, client) = begin(1, &mut keeping);
        world.publish_in_file(client, "queue:jobs/a", &persistent("moved"));
        keeping.settle_down(&mut world);
        keeping.keeps_no_bodies = true;
        if redrives {
            let [from, to] = ["jobs/a", "jobs/b"].map(|it| Path::parse(it).unwrap());
            let (to, selector, limit, up_to) = (Some(to), None, None, None);
            let asked = MoveMessages { from, to, redrive: false, selector, limit, up_to };
            ask(&mut world, client, Operation::Move(Box::new(asked)));
            keeping.settle_down(&mut world);
        } else {
            world.subscribe(client, 1, Wish { explicit: true, ..Wish::to("queue:jobs/a") });
            for _ in 0..2 {
                keeping.settle_down(&mut world);
                let dead = received(&world, client).pop().unwrap();
                world.settle(client, &dead, Outcome::Reject);
            }
            keeping.settle_down(&mut world);
        }
        assert_eq!((keeping.bodies_refused, keeping.refused, keeping.queued()), (1, 0, 1));
        keeping.crash(&mut world);
        let (mut world, client) = begin(1, &mut keeping);
        world.subscribe(client, 1, Wish::to("queue:jobs/a"));
        keeping.settle_down(&mut world);
        let found = received(&world, client);
        assert_eq!((found.len(), &*found[0].body), (1, "moved"));
    }
}

#[test]
fn a_publisher_hears_that_no_subscription_could_keep_a_body() {
    for shards in [1, 3] {
        let mut keeping = Keeping::default();
        let (mut world, client) = begin(shards, &mut keeping);
        for name in ["a", "b", "c"] {
            ask(&mut world, client, create_subscription(name));
        }
        keeping.settle_down(&mut world);
        keeping.keeps_no_bodies = true;
        let refused = world.publish_in_file(client, "topic:fed/a", &persistent("large"));
        let small = world.publish_all(client, "topic:fed/a", &[persistent("small")]);
        keeping.settle_down(&mut world);
        assert_eq!(world.clients[client].refused, [(Some(refused), CloseCode::LargeMessagesFull)]);
        assert!(world.is_confirmed(client, small));
        assert_eq!((keeping.bodies_refused, keeping.refused, keeping.queued()), (3, 0, 3));
    }
}

#[test]
fn a_publisher_hears_it_also_if_a_full_subscription_has_dropped_something_for_it() {
    for shards in [1, 3] {
        let mut keeping = Keeping::default();
        let (mut world, client) = begin_with_queues(shards, 1, &mut keeping);
        for name in ["a", "b", "c"] {
            ask(&mut world, client, create_subscription(name));
        }
        keeping.settle_down(&mut world);
        world.publish_all(client, "topic:fed/a", &[persistent("dropped")]);
        keeping.settle_down(&mut world);
        keeping.keeps_no_bodies = true;
        let refused = world.publish_in_file(client, "topic:fed/a", &persistent("large"));
        keeping.settle_down(&mut world);
        assert_eq!(world.clients[client].refused, [(Some(refused), CloseCode::LargeMessagesFull)]);
        assert_eq!((keeping.bodies_refused, keeping.queued()), (3, 0));
    }
}

#[test]
fn nobody_is_refused_for_the_body_of_another() {
    let mut keeping = Keeping::default();
    let (mut world, client) = begin(1, &mut keeping);
    let topic = || asking::create("kept/there", r#"{"retain":true,"persistent":true}"#, None);
    let again = [create_subscription("a"), topic()];
    for operation in again.clone() {
        ask(&mut world, client, operation);
    }
    world.publish_all(client, "queue:jobs/a", &[persistent("small")]);
    world.subscribe(client, 1, Wish { explicit: true, ..Wish::to("queue:jobs/a") });
    keeping.settle_down(&mut world);
    let message = received(&world, client)[0].clone();
    keeping.keeps_no_bodies = true;
    let settle = |ranges, confirm| Settle {
        key: SubscriptionKey(message.key),
        home: message.home,
        ranges,
        outcome: Outcome::Accept,
        confirm,
    };
    let ranges = vec![(message.sequence, message.sequence)];
    world.command(client, Command::Settle(settle(ranges, None)));
    let refused = world.publish_in_file(client, "queue:jobs/b", &persistent("large"));
    let said = again.map(|operation| ask(&mut world, client, operation));
    let settled = world.token(client);
    world.command(client, Command::Settle(settle(Vec::new(), Some(settled))));
    keeping.settle_down(&mut world);
    assert_eq!(world.clients[client].refused, [(Some(refused), CloseCode::LargeMessagesFull)]);
    assert!(said.iter().all(|token| answer(&world, client, *token).unwrap().is_ok()));
    assert!(world.is_confirmed(client, settled));
}

#[test]
fn the_value_before_one_that_cannot_be_kept_is_there_after_a_crash() {
    let mut keeping = Keeping::default();
    let (mut world, client) = begin(1, &mut keeping);
    let sent = world.publish_in_file(client, "topic:kept/a", &Outgoing::new("old"));
    keeping.settle_down(&mut world);
    assert!(world.is_confirmed(client, sent));
    keeping.keeps_no_bodies = true;
    world.publish_in_file(client, "topic:kept/a", &Outgoing::new("new"));
    for _ in 0..30 {
        keeping.settle_down(&mut world);
        world.advance(Span::from_secs(1));
    }
    assert!(keeping.bodies_refused > 1, "it was tried again");
    keeping.crash(&mut world);
    let (mut world, client) = begin(1, &mut keeping);
    world.subscribe(client, 1, Wish::to("topic:kept/a"));
    keeping.settle_down(&mut world);
    let found = received(&world, client);
    assert_eq!(found.iter().map(|it| &*it.body).collect::<Vec<_>>(), ["old"]);
}
