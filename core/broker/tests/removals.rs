//! Topics that are removed and come back, by clients and by their policies, over one to three shards.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]
#![allow(clippy::field_reassign_with_default)]

use std::sync::Arc;

use crate::support::asking::{answer, ask, connect, create, remove, tell, update};
use crate::support::{Wish, World, for_seeds, path_at};
use tiderace_base::{CloseCode, Span};
use tiderace_broker::{Action, BrokerOptions, Rule, Rules, TopicSpec, Who};
use tiderace_topics::Pattern;
use tiderace_wire::{HistorySpec, OperationResult};

fn world(seed: u64, spec: impl Fn(&mut TopicSpec)) -> World {
    let mut options = BrokerOptions::default();
    options.shards = 1 + (seed % 3) as usize;
    spec(Arc::make_mut(&mut options.topic_default));
    World::new(seed, options)
}

/// Long enough for several sweeps, and not for topics to be forgotten.
fn sweeps(world: &mut World) {
    for _ in 0..4 {
        world.advance(Span::from_secs(6));
        world.quiesce();
    }
}

fn bodies(world: &World, client: usize) -> Vec<&str> {
    world.clients[client].received.iter().map(|message| message.body.as_str()).collect()
}

#[test]
fn a_value_can_be_removed_when_memory_is_full() {
    let mut options = BrokerOptions::default();
    options.messages_bytes_max = 20_000;
    let mut world = World::new(1, options);
    let (ann, bob) = (connect(&mut world, "ann"), connect(&mut world, "bob"));
    tell(&mut world, ann, create("log", r#"{"history":1000,"retain":true}"#, None)).unwrap();
    world.subscribe(bob, 0, Wish::to("topic:log"));
    let large = "x".repeat(900);
    while tell(&mut world, ann, update("log", &large, None)).is_ok() {}
    while tell(&mut world, ann, update("log", "x", None)).is_ok() {}
    tell(&mut world, ann, remove("log")).unwrap();
    assert_eq!(world.clients[bob].received.last().unwrap().body, "");
    assert_eq!((world.metrics().retained, world.metrics().retained_bytes), (0, 0));
    world.subscribe(bob, 1, Wish::to("topic:log"));
    world.quiesce();
    assert!(world.clients[bob].received.iter().all(|message| message.key == 0));
}

#[test]
fn a_topic_that_comes_back_is_not_abandoned() {
    for_seeds(0..6, |seed| {
        let mut world = world(seed, |_| ());
        let (ann, bob) = (connect(&mut world, "ann"), connect(&mut world, "bob"));
        let spec = r#"{"removal":"session closes","retain":true}"#;
        world.subscribe(bob, 0, Wish::to("topic:a"));
        tell(&mut world, ann, create("a", spec, Some("ann's"))).unwrap();
        world.close(ann);
        world.quiesce();
        sweeps(&mut world);
        tell(&mut world, bob, create("a", spec, Some("bob's"))).unwrap();
        sweeps(&mut world);
        assert_eq!(bodies(&world, bob), ["ann's", "", "bob's"]);
    });
}

#[test]
fn a_topic_that_comes_back_is_new() {
    for_seeds(0..6, |seed| {
        let mut world = world(seed, |_| ());
        let (ann, bob) = (connect(&mut world, "ann"), connect(&mut world, "bob"));
        world.subscribe(bob, 0, Wish::to("topic:a"));
        let spec = r#"{"removal":"after 20s","retain":true}"#;
        tell(&mut world, ann, create("a", spec, Some("1"))).unwrap();
        world.advance(Span::from_secs(15));
        tell(&mut world, ann, remove("a")).unwrap();
        tell(&mut world, ann, create("a", spec, Some("2"))).unwrap();
        world.advance(Span::from_secs(8));
        world.advance(Span::from_secs(6));
        world.quiesce();
        assert_eq!(bodies(&world, bob), ["1", "", "2"]);
    });
}

#[test]
fn what_a_policy_has_removed_is_removed_once() {
    for_seeds(0..6, |seed| {
        let mut world = world(seed, |spec| {
            spec.retain = true;
            let after = tiderace_wire::Removal::parse("after 1s").unwrap();
            spec.removal = Some(Arc::new(after));
        });
        let (ann, bob) = (connect(&mut world, "ann"), connect(&mut world, "bob"));
        world.subscribe(bob, 0, Wish { notices: true, ..Wish::to("topic:*") });
        world.publish(ann, "topic:a", "1");
        world.quiesce();
        sweeps(&mut world);
        assert_eq!(bodies(&world, bob), ["1", ""]);
        assert_eq!(world.clients[bob].notices.len(), 2, "joined and left");
    });
}

#[test]
fn a_history_that_has_run_out_keeps_no_topic() {
    for_seeds(0..3, |seed| {
        let mut world = world(seed, |spec| {
            spec.retain = false;
            spec.history = HistorySpec { count: 0, age: Span::from_secs(1) };
        });
        let ann = connect(&mut world, "ann");
        for topic in 0..10 {
            world.publish(ann, &format!("topic:t/{topic}"), "x");
        }
        world.quiesce();
        world.end();
        world.sweep();
        assert_eq!(world.metrics().topics, 0);
    });
}

#[test]
fn what_is_allowed_is_removed_whatever_the_homes() {
    for shards in [1, 2] {
        let rule = |allow, actions: &[Action], pattern: &str| Rule {
            allow,
            actions: actions.iter().copied().collect(),
            who: vec![Who::All],
            paths: vec![Pattern::parse(pattern).unwrap()],
            kind: None,
        };
        let all = [Action::Create, Action::Publish, Action::Subscribe];
        let rules =
            Rules::new(vec![rule(true, &all, "**"), rule(false, &[Action::Create], "t/no*")]);
        let mut options = BrokerOptions::default();
        (options.shards, options.rules) = (shards, rules);
        let mut world = World::new(1, options);
        let ann = connect(&mut world, "ann");
        let (yes, no) = (path_at("t/yes", 0, shards), path_at("t/no", shards - 1, shards));
        for topic in [&yes, &no] {
            tell(&mut world, ann, update(topic, "x", None)).unwrap();
        }
        let removed = tell(&mut world, ann, remove("t/*"));
        assert!(matches!(removed, Ok(OperationResult::Removed { topics: 1 })), "{removed:?}");
        let nothing = tell(&mut world, ann, remove("t/*"));
        assert_eq!(nothing.unwrap_err(), CloseCode::NotAuthorised);
    }
}

#[test]
fn many_topics_are_removed_within_the_work_budget() {
    let mut world = World::new(1, BrokerOptions::default());
    let ann = connect(&mut world, "ann");
    for number in 0..10_000 {
        world.publish(ann, &format!("topic:many/{number}"), "x");
    }
    world.quiesce();
    let work = |world: &World| world.metrics().work;
    let token = ask(&mut world, ann, remove("many/**"));
    let mut turns = 0;
    while answer(&world, ann, token).is_none() {
        let before = work(&world);
        world.work(0);
        let spent = work(&world) - before;
        assert!(spent <= 3 << 20, "one turn spent {spent} units");
        turns += 1;
    }
    assert!(turns >= 4, "{turns} turns");
    let removed = answer(&world, ann, token).unwrap().unwrap();
    assert!(matches!(removed, OperationResult::Removed { topics: 10_000 }), "{removed:?}");
}
