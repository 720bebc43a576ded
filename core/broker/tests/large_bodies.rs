//! Persistent messages whose bodies lie in files: the store is given the file, and gives it back.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use crate::support::keeping::Keeping;
use crate::support::{Outgoing, Received, Wish, World};
use tiderace_base::{CloseCode, Now, Span};
use tiderace_broker::{BrokerOptions, TopicPolicy};
use tiderace_topics::Pattern;
use tiderace_wire::{Flags, Outcome, TopicSpec, ValueType};

fn begin(shards: usize, keeping: &mut Keeping) -> (World, usize) {
    let mut options = BrokerOptions { epoch: 7, shards, ..BrokerOptions::default() };
    options.queue_default.redeliveries_max = 1;
    options.queue_default.policy.redelivery_delay = Span::ZERO;
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
