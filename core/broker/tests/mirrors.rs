//! Mirrored queues: a queue and the topic of its name get what is sent to either, over one to three shards and a store that
//! answers late or has no room.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use crate::support::asking::{path, tell, update};
use crate::support::keeping::Keeping;
use crate::support::{Outgoing, Wish, World, for_seeds, path_at, property};
use tiderace_base::CloseCode;
use tiderace_broker::{Action, BrokerOptions, QueuePolicy, Rule, Rules, Who};
use tiderace_queues::{FullPolicy, Policy, QueueOptions};
use tiderace_topics::Pattern;
use tiderace_wire::{
    DurableSubscription, Flags, Operation, OperationResult, Outcome, QueueQuery, durable_queue,
};

/// Queues with these patterns are mirrored.
fn options(shards: usize, patterns: &[&str], policy: Policy) -> BrokerOptions {
    let usual = BrokerOptions::default();
    let mirrored = Policy { mirrored: true, ..policy };
    let options = QueueOptions { policy: mirrored, ..usual.queue_default.clone() };
    let rule = |pattern: &&str| QueuePolicy {
        pattern: Pattern::parse(pattern).unwrap(),
        options: options.clone(),
    };
    BrokerOptions { shards, queue_policies: patterns.iter().map(rule).collect(), ..usual }
}

fn usual(shards: usize) -> BrokerOptions {
    options(shards, &["m/**"], Policy::default())
}

fn bodies(world: &World, client: usize, key: u32) -> Vec<String> {
    let received = world.clients[client].received.iter().filter(|message| message.key == key);
    received.map(|message| message.body.clone()).collect()
}

/// Messages that are ready in a queue, if there is one.
fn ready(world: &mut World, client: usize, name: &str) -> Option<u64> {
    let query = QueueQuery { path: path(name), after: 0, limit: 0 };
    match tell(world, client, Operation::Queue(query)) {
        Ok(OperationResult::Queue(details)) => {
            assert!(details.settings.mirrored);
            assert_eq!(details.entry.topics.as_deref(), Some(name));
            Some(details.entry.messages)
        }
        _ => None,
    }
}

#[test]
fn what_is_sent_to_either_comes_to_both_once_and_in_one_order() {
    for shards in 1..=3 {
        for home in 0..shards {
            let mut world = World::new(shards as u64, usual(shards));
            let name = path_at("m/", home, shards);
            let clients: Vec<usize> = (0..4).map(|it| world.connect(it % shards, "ann")).collect();
            for client in &clients[..2] {
                world.subscribe(*client, 1, Wish::to(&format!("topic:{name}")));
                let wish =
                    Wish { window: Some(3), explicit: true, ..Wish::to(&format!("queue:{name}")) };
                world.subscribe(*client, 2, wish);
            }
            world.quiesce();
            for number in 0..10 {
                let kind = ["topic", "queue"][number % 2];
                world.publish(
                    clients[2 + number / 2 % 2],
                    &format!("{kind}:{name}"),
                    &number.to_string(),
                );
                world.quiesce();
            }
            let all: Vec<String> = (0..10).map(|number| number.to_string()).collect();
            assert_eq!(bodies(&world, clients[0], 1), all);
            assert_eq!(bodies(&world, clients[1], 1), all);
            let mut shared = Vec::new();
            for _ in 0..10 {
                for client in &clients[..2] {
                    let received = std::mem::take(&mut world.clients[*client].received);
                    for message in received.into_iter().filter(|message| message.key == 2) {
                        assert_eq!(property(&message, "source-topic"), None);
                        world.settle(*client, &message, Outcome::Accept);
                        shared.push(message.body);
                    }
                }
                world.quiesce();
            }
            shared.sort();
            assert_eq!(shared, all, "each once, at one of the two");
            assert_eq!(ready(&mut world, clients[0], &name), Some(0));
            world.end();
        }
    }
}

#[test]
fn one_begins_when_it_is_there_and_one_that_is_named_is_there_from_the_start() {
    let mut world = World::new(1, options(2, &["m/named", "m/**"], Policy::default()));
    let client = world.connect(0, "ann");
    for name in ["m/named", "m/late", "other"] {
        world.publish(client, &format!("topic:{name}"), "before");
    }
    world.quiesce();
    assert_eq!(ready(&mut world, client, "m/named"), Some(1));
    assert_eq!(ready(&mut world, client, "m/late"), None);
    world.publish(client, "queue:m/late", "1");
    world.publish(client, "topic:m/late", "2");
    world.publish(client, "queue:other", "3");
    world.quiesce();
    assert_eq!(ready(&mut world, client, "m/late"), Some(2));
    world.sweep();
    assert_eq!(ready(&mut world, client, "m/named"), Some(1));
    // What is a queue and no mirror publishes nothing.
    world.subscribe(client, 1, Wish::to("topic:**"));
    world.publish(client, "queue:other", "4");
    world.quiesce();
    assert!(bodies(&world, client, 1).is_empty());
}

#[test]
fn the_right_that_is_asked_is_the_one_on_what_is_named() {
    let rule = |action: Action, name: &str, kind| Rule {
        allow: true,
        actions: [action].into_iter().collect(),
        who: vec![Who::User(name.into())],
        paths: vec![Pattern::parse("m/**").unwrap()],
        kind: Some(kind),
    };
    use tiderace_wire::Kind::{Queue, Topic};
    let rules = Rules::new(vec![
        rule(Action::Send, "sender", Queue),
        rule(Action::Publish, "publisher", Topic),
        rule(Action::Subscribe, "reader", Topic),
        rule(Action::Receive, "reader", Queue),
    ]);
    let mut world = World::new(1, BrokerOptions { rules, ..usual(2) });
    let [sender, publisher, reader] =
        ["sender", "publisher", "reader"].map(|name| world.connect(0, name));
    world.subscribe(reader, 1, Wish::to("topic:m/a"));
    world.subscribe(reader, 2, Wish::to("queue:m/a"));
    world.quiesce();
    for (client, wrong, right) in
        [(sender, "topic:m/a", "queue:m/a"), (publisher, "queue:m/a", "topic:m/a")]
    {
        world.publish(client, wrong, "denied");
        let token = world.publish(client, right, right);
        world.quiesce();
        assert!(world.is_confirmed(client, token));
        assert_eq!(world.clients[client].refused.len(), 1);
    }
    for key in [1, 2] {
        assert_eq!(bodies(&world, reader, key), ["queue:m/a", "topic:m/a"]);
    }
}

#[test]
fn a_mirror_that_refuses_is_told_to_whom_publishes_and_nothing_comes_to_either() {
    let policy = Policy { full: FullPolicy::Reject, messages_max: 2, ..Policy::default() };
    let mut world = World::new(1, options(2, &["m/a"], policy));
    let client = world.connect(0, "ann");
    world.subscribe(client, 1, Wish::to("topic:m/a"));
    for number in 0..6 {
        let kind = ["topic", "queue"][number % 2];
        world.publish(client, &format!("{kind}:m/a"), &number.to_string());
    }
    world.quiesce();
    assert_eq!(bodies(&world, client, 1), ["0", "1"]);
    let refused: Vec<CloseCode> = world.clients[client].refused.iter().map(|it| it.1).collect();
    assert_eq!(refused, [CloseCode::QueueFull; 4]);
    let refused = tell(&mut world, client, update("m/a", "7", None)).unwrap_err();
    assert_eq!(refused, CloseCode::QueueFull);
    assert_eq!(ready(&mut world, client, "m/a"), Some(2));
    assert_eq!(world.metrics().queue_refused, 5);
}

#[test]
fn publishers_of_the_topic_wait_while_the_queue_is_full_that_blocks() {
    for shards in 1..=3 {
        let policy = Policy { messages_max: 4, ..Policy::default() };
        let mut world = World::new(7, options(shards, &["m/a"], policy));
        let clients: Vec<usize> = (0..3).map(|it| world.connect(it % shards, "ann")).collect();
        let (publisher, sender, consumer) = (clients[0], clients[1], clients[2]);
        for number in 0..8 {
            world.publish(publisher, "topic:m/a", &number.to_string());
            world.quiesce();
        }
        world.publish(sender, "queue:m/a", "8");
        world.quiesce();
        world.publish(publisher, "topic:m/a", "9");
        world.publish(sender, "queue:m/a", "10");
        world.quiesce();
        assert!(world.clients[publisher].paused, "over {shards} shards");
        assert!(world.clients[sender].paused);
        world.subscribe(consumer, 1, Wish::to("queue:m/a"));
        world.quiesce();
        assert!(!world.clients[publisher].paused && !world.clients[sender].paused);
        assert_eq!(bodies(&world, consumer, 1).len(), 11, "nothing is dropped");
    }
}

#[test]
fn a_delayed_message_is_published_at_once_and_comes_to_the_queue_in_its_time() {
    let mut world = World::new(1, usual(1));
    let client = world.connect(0, "ann");
    world.subscribe(client, 1, Wish::to("topic:m/a"));
    world.subscribe(client, 2, Wish::to("queue:m/a"));
    world.quiesce();
    let mut message = Outgoing { flags: Flags::DELAYED, ..Outgoing::new("late") };
    message.properties = format!("deliver-at:{}\n", world.now.wall_ms + 5_000);
    world.publish_all(client, "queue:m/a", &[message]);
    world.quiesce();
    assert_eq!((bodies(&world, client, 1).len(), bodies(&world, client, 2).len()), (1, 0));
    world.advance(tiderace_base::Span::from_secs(6));
    world.quiesce();
    assert_eq!(bodies(&world, client, 2), ["late"]);
}

#[test]
fn durable_subscriptions_are_fed_by_what_is_sent_to_the_queue_and_are_no_mirrors() {
    let mut world = World::new(1, options(3, &["**"], Policy::default()));
    let client = world.connect(0, "ann");
    let about = DurableSubscription {
        queue: durable_queue("a").unwrap(),
        topics: vec![Pattern::parse("**").unwrap()],
        selector: None,
    };
    tell(&mut world, client, Operation::CreateSubscription(Box::new(about))).unwrap();
    world.subscribe(client, 1, Wish::to("topic:**"));
    world.publish(client, "queue:jobs", "1");
    world.publish(client, "topic:jobs", "2");
    world.publish(client, "queue:dsub/a", "straight");
    world.publish(client, "topic:dsub/a", "published");
    world.quiesce();
    assert_eq!(bodies(&world, client, 1), ["1", "2", "published"]);
    world.subscribe(client, 2, Wish::to("queue:dsub/a"));
    world.quiesce();
    let mut gathered = bodies(&world, client, 2);
    gathered.sort();
    assert_eq!(gathered, ["1", "2", "published", "straight"]);
}

#[test]
fn a_publisher_is_confirmed_when_the_queue_is_stored_and_its_message_survives() {
    for (shards, kind) in [(1, "topic"), (1, "queue"), (3, "topic"), (3, "queue")] {
        let mut keeping = Keeping::default();
        let mut world = World::new(1, BrokerOptions { epoch: 1, ..usual(shards) });
        keeping.restore(&mut world);
        let client = world.connect(0, "ann");
        world.subscribe(client, 1, Wish::to("topic:m/a"));
        world.publish(client, "queue:m/a", "makes it");
        keeping.settle_down(&mut world);
        let message = Outgoing { flags: Flags::PERSISTENT, ..Outgoing::new("kept") };
        let token =
            world.publish_all(client, &format!("{kind}:m/a"), std::slice::from_ref(&message));
        world.quiesce();
        assert!(!world.is_confirmed(client, token), "before the store has it");
        assert_eq!(bodies(&world, client, 1).last().unwrap(), "kept", "subscribers do not wait");
        keeping.settle_down(&mut world);
        assert!(world.is_confirmed(client, token));
        assert_eq!(keeping.queued(), 1);
        keeping.full = true;
        let token = world.publish_all(client, &format!("{kind}:m/a"), &[message]);
        keeping.settle_down(&mut world);
        assert!(world.clients[client].refused.iter().any(|(of, _)| *of == Some(token)), "{kind}");
        keeping.full = false;
        keeping.crash(&mut world);

        let mut world = World::new(2, BrokerOptions { epoch: 2, ..usual(2) });
        keeping.restore(&mut world);
        let client = world.connect(0, "ann");
        // It is there, so it is a mirror.
        world.publish(client, "topic:m/a", "more");
        world.subscribe(client, 1, Wish::to("queue:m/a"));
        keeping.settle_down(&mut world);
        assert_eq!(bodies(&world, client, 1), ["kept", "more"]);
    }
}

#[test]
fn whatever_is_sent_to_either_both_have_the_same_in_the_same_order() {
    for_seeds(0..200, |seed| {
        let shards = 1 + (seed % 3) as usize;
        let mut world = World::new(seed, options(shards, &["m/*"], Policy::default()));
        let clients: Vec<usize> = (0..3).map(|it| world.connect(it % shards, "ann")).collect();
        let names = [path_at("m/", 0, shards), path_at("m/", shards - 1, shards)];
        for name in &names {
            world.subscribe(
                clients[0],
                1 + (*name != names[0]) as u32,
                Wish::to(&format!("topic:{name}")),
            );
            world.subscribe(
                clients[0],
                3 + (*name != names[0]) as u32,
                Wish::to(&format!("queue:{name}")),
            );
        }
        world.quiesce();
        let mut sent = [0, 0];
        for number in 0..60 {
            let client = *world.random.pick(&clients);
            let at = world.random.below(2);
            let kind = *world.random.pick(&["topic", "queue"]);
            world.publish(client, &format!("{kind}:{}", names[at]), &number.to_string());
            sent[if names[0] == names[1] { 0 } else { at }] += 1;
            if world.random.below(4) == 0 {
                world.deliver_envelope();
            }
        }
        world.quiesce();
        for (at, sent) in sent.into_iter().enumerate().filter(|(_, sent)| *sent > 0) {
            let topic = bodies(&world, clients[0], 1 + at as u32);
            assert_eq!(topic.len(), sent);
            assert_eq!(topic, bodies(&world, clients[0], 3 + at as u32));
        }
    });
}
