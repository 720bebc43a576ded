//! What is kept for clients that come back, how long, and what they are told and given.

#![allow(clippy::unwrap_used, clippy::field_reassign_with_default)]

use crate::support::{Outgoing, Wish, World, path_at};
use std::sync::Arc;
use tiderace_base::{ShardId, Span};
use tiderace_broker::{Action, BrokerOptions, Rule, Rules, SlowConsumer, Who};
use tiderace_topics::Pattern;
use tiderace_wire::{Flags, Position};

fn options(shards: usize) -> BrokerOptions {
    let mut options = BrokerOptions::default();
    (options.shards, options.epoch) = (shards, 7);
    options
}

fn recoverable(target: &str) -> Wish {
    Wish { recoverable: true, ..Wish::to(target) }
}

/// Subscribes for the first time and leaves again; the position to come back with.
fn visit(world: &mut World, target: &str) -> Position {
    let client = world.connect(0, "guest");
    let token = world.subscribe(client, 0, recoverable(target));
    world.quiesce();
    assert!(world.is_confirmed(client, token));
    world.close(client);
    world.deliver_envelopes();
    world.clients[client].position.clone()
}

/// Comes back; whether all was there, and the bodies of what was missed.
fn come_back(world: &mut World, target: &str, position: &Position) -> (bool, Vec<String>) {
    let client = world.connect(0, "guest");
    let wish = Wish { since: Some(position.clone()), ..recoverable(target) };
    let token = world.subscribe(client, 0, wish);
    world.quiesce();
    let complete = world.clients[client].recovered[&token].0;
    assert!(world.is_confirmed(client, token));
    let received = world.clients[client].received.iter();
    let bodies = received.map(|message| message.body.clone()).collect();
    world.close(client);
    world.deliver_envelopes();
    (complete, bodies)
}

fn retained(body: &str) -> Outgoing {
    Outgoing { flags: Flags::RETAIN, ..Outgoing::new(body) }
}

#[test]
fn a_topic_nobody_may_come_back_to_is_not_recorded() {
    let mut world = World::new(1, options(2));
    let (reader, writer) = (world.connect(0, "reader"), world.connect(1, "writer"));
    world.subscribe(reader, 0, Wish::to("topic:a"));
    world.subscribe(reader, 1, Wish::to("topic:**"));
    world.quiesce();
    world.publish(writer, "topic:a", "x");
    world.quiesce();
    assert_eq!(world.metrics().history_messages, 0);
    world.subscribe(reader, 2, recoverable("topic:a"));
    world.quiesce();
    world.publish(writer, "topic:a", "x");
    world.quiesce();
    assert_eq!(world.metrics().history_messages, 1);
    world.unsubscribe(reader, 2);
    world.publish(writer, "topic:a", "still for a while");
    world.quiesce();
    assert_eq!(world.metrics().history_messages, 2);
    for _ in 0..2 {
        world.advance(Span::from_secs(121));
    }
    world.publish(writer, "topic:a", "no longer");
    world.quiesce();
    assert_eq!(world.metrics().history_messages, 0);
    world.end();
    world.sweep();
}

#[test]
fn a_busy_topic_pushes_out_its_own_messages_only() {
    let mut options = options(1);
    options.history_bytes_per_topic = 2_000;
    let mut world = World::new(1, options);
    let writer = world.connect(0, "writer");
    let position = visit(&mut world, "topic:*");
    world.publish(writer, "topic:quiet", "quiet");
    for number in 0..100 {
        world.publish(writer, "topic:busy", &number.to_string());
    }
    let metrics = world.metrics();
    assert!(metrics.history_bytes < 3_000 && metrics.history_messages > 2);
    assert_eq!(come_back(&mut world, "topic:quiet", &position), (true, vec!["quiet".to_owned()]));
    let (complete, bodies) = come_back(&mut world, "topic:busy", &position);
    assert!(!complete);
    assert_eq!(bodies.len() as u64, metrics.history_messages - 1, "what there is");
    assert_eq!(bodies.last().map(String::as_str), Some("99"));
    world.publish_all(writer, "topic:busy", &[retained("value")]);
    assert_eq!(come_back(&mut world, "topic:busy", &position), (false, vec!["value".to_owned()]));
    let (complete, bodies) = come_back(&mut world, "topic:*", &position);
    assert_eq!((complete, bodies), (false, vec!["quiet".to_owned(), "value".to_owned()]));
}

#[test]
fn the_oldest_of_all_go_when_all_together_are_too_much() {
    let mut options = options(1);
    options.history_bytes_max = 3_000;
    let mut world = World::new(1, options);
    let writer = world.connect(0, "writer");
    let before = visit(&mut world, "topic:*");
    world.publish(writer, "topic:old", "old");
    let between = visit(&mut world, "topic:*");
    for number in 0..100 {
        world.publish(writer, &format!("topic:{number}"), "x");
        assert!(world.metrics().history_bytes <= 3_000);
    }
    assert!(!come_back(&mut world, "topic:old", &before).0);
    let known = between.of(ShardId(0));
    assert!(known > 0, "who heard of nothing knows how far it has come");
    assert_eq!(come_back(&mut world, "topic:old", &between), (true, vec![]));
    assert_eq!(come_back(&mut world, "topic:99", &between), (true, vec!["x".to_owned()]));
    assert!(!come_back(&mut world, "topic:*", &between).0);
}

#[test]
fn a_quiet_topic_can_be_come_back_to_after_any_time() {
    let mut world = World::new(1, options(3));
    let (writer, stays) = (world.connect(0, "writer"), world.connect(1, "stays"));
    world.publish(writer, "topic:t", "before");
    world.deliver_envelopes();
    world.subscribe(stays, 0, recoverable("topic:t"));
    world.subscribe(stays, 1, recoverable("topic:*"));
    world.quiesce();
    let position = world.clients[stays].position.clone();
    for _ in 0..10 {
        // Others come and go meanwhile.
        world.publish(writer, "topic:other/1/reply", "x");
        world.advance(Span::from_secs(100));
        world.quiesce();
    }
    assert_eq!(come_back(&mut world, "topic:t", &position), (true, vec![]));
    assert_eq!(come_back(&mut world, "topic:*", &position), (true, vec![]));
    world.publish(writer, "topic:t", "missed");
    world.publish(writer, "topic:new", "new");
    world.deliver_envelopes();
    assert_eq!(come_back(&mut world, "topic:t", &position), (true, vec!["missed".to_owned()]));
    let (complete, mut bodies) = come_back(&mut world, "topic:*", &position);
    bodies.sort_unstable();
    assert_eq!((complete, bodies), (true, vec!["missed".to_owned(), "new".to_owned()]));
    world.advance(Span::from_secs(130));
    assert_eq!(come_back(&mut world, "topic:t", &position), (false, vec![]));
}

#[test]
fn a_topic_that_was_forgotten_does_not_pass_for_one_without_messages() {
    let mut world = World::new(1, options(1));
    let writer = world.connect(0, "writer");
    let position = visit(&mut world, "topic:t");
    world.publish(writer, "topic:t", "missed");
    for _ in 0..4 {
        world.advance(Span::from_secs(130));
    }
    assert_eq!(world.metrics().topics, 0);
    assert_eq!(come_back(&mut world, "topic:t", &position), (false, vec![]));
    assert_eq!(come_back(&mut world, "topic:*", &position), (false, vec![]));
}

#[test]
fn positions_of_another_life_and_made_up_ones_are_not_believed() {
    let mut world = World::new(1, options(2));
    let writer = world.connect(0, "writer");
    visit(&mut world, "topic:t");
    let home = if path_at("t", 0, 2) == "t0" { 0 } else { 1 };
    world.publish_all(writer, "topic:t", &[retained("value")]);
    world.deliver_envelopes();
    for epoch in [0, 7] {
        let mut position = Position::new(epoch);
        for shard in [home, 1 - home] {
            position.advance(ShardId(shard), if epoch == 7 { u64::MAX } else { 1 });
        }
        let expected = (false, vec!["value".to_owned()]);
        assert_eq!(come_back(&mut world, "topic:t", &position), expected);
        assert_eq!(come_back(&mut world, "topic:*", &position), expected);
    }
}

#[test]
fn what_is_too_much_for_a_backlog_is_reduced_to_the_newest() {
    let mut options = options(2);
    (options.backlog_bytes_high, options.backlog_bytes_low) = (2_000, 500);
    let mut world = World::new(1, options);
    let writer = world.connect(0, "writer");
    let position = visit(&mut world, "topic:*");
    for number in 0..40 {
        world.publish(writer, &format!("topic:{}", number % 2), &format!("{number:0100}"));
        world.deliver_envelopes();
    }
    let (complete, mut bodies) = come_back(&mut world, "topic:*", &position);
    bodies.sort_unstable();
    assert_eq!((complete, bodies), (false, vec![format!("{:0100}", 38), format!("{:0100}", 39)]));
    let metrics = world.metrics();
    assert_eq!((metrics.recoveries_complete, metrics.recoveries_incomplete), (0, 1));
}

#[test]
fn nothing_comes_that_is_expired_unwanted_or_forbidden() {
    let mut options = options(1);
    let rule = |allow, paths: &[&str]| Rule {
        allow,
        actions: [Action::Subscribe, Action::Publish].into_iter().collect(),
        who: vec![Who::All],
        paths: paths.iter().map(|path| Pattern::parse(path).unwrap()).collect(),
        kind: None,
    };
    let mut secret = rule(false, &["secret"]);
    secret.who = vec![Who::User("guest".into())];
    options.rules = Rules::new(vec![rule(true, &["**"]), secret]);
    let mut world = World::new(1, options);
    let writer = world.connect(0, "writer");
    let position = visit(&mut world, "topic:*");
    let expires = |at| Outgoing { expires_ms: Some(at), ..Outgoing::new(format!("{at}")) };
    world.publish_all(writer, "topic:t", &[expires(10), expires(1_000), Outgoing::new("for ever")]);
    world.publish(writer, "topic:secret", "secret");
    world.advance(Span::from_millis(20));
    let expected = vec!["1000".to_owned(), "for ever".to_owned()];
    assert_eq!(come_back(&mut world, "topic:*", &position), (true, expected));
}

#[test]
fn an_end_before_the_answer_is_told() {
    let mut world = World::new(1, options(2));
    let client = world.connect(0, "client");
    let target = format!("topic:{}", path_at("t", 1, 2));
    let wish = Wish { since: Some(Position::new(7)), ..recoverable(&target) };
    let began = world.subscribe(client, 0, wish);
    let ended = world.unsubscribe(client, 0);
    assert!(!world.clients[client].recovered[&began].0);
    assert!(world.is_confirmed(client, began) && world.is_confirmed(client, ended));
    world.quiesce();
    let nothing = Wish { since: Some(Position::new(7)), recoverable: true, ..Wish::default() };
    let token = world.subscribe(client, 0, nothing);
    assert!(world.clients[client].recovered[&token].0 && world.is_confirmed(client, token));
    world.end();
}

#[test]
fn the_message_before_is_known_where_somebody_wants_changes() {
    let mut world = World::new(1, options(2));
    let (writer, reader) = (world.connect(0, "writer"), world.connect(1, "reader"));
    let previous = |world: &World, reader: usize| {
        world.clients[reader].received.last().and_then(|message| message.previous.clone())
    };
    for (target, key) in [("topic:t", 0), ("topic:*", 1)] {
        for deltas in [false, true] {
            world.subscribe(reader, key, Wish { deltas, ..Wish::to(target) });
            world.deliver_envelopes();
            let long = "x".repeat(10_000);
            for (body, before) in
                [("1", None), ("2", Some("1")), (&long, Some("2")), ("3", Some(&long))]
            {
                world.publish(writer, "topic:t", body);
                world.quiesce();
                let expected = before.filter(|_| deltas).map(str::to_owned);
                assert_eq!(previous(&world, reader), expected);
            }
            let many: Vec<Outgoing> =
                (0..100).map(|number| Outgoing::new(number.to_string())).collect();
            world.publish_all(writer, "topic:t", &many);
            world.publish(writer, "topic:t", "after many");
            world.quiesce();
            assert_eq!(previous(&world, reader), deltas.then(|| "99".to_owned()));
            world.unsubscribe(reader, key);
            world.quiesce();
        }
    }
}

#[test]
fn the_first_message_after_the_current_value_is_a_change_of_it() {
    // By a pattern where the topic is at home on the reader's shard.
    for (home, by_pattern) in [(0, false), (1, false), (1, true)] {
        let mut world = World::new(1, options(2));
        let (writer, reader) = (world.connect(0, "writer"), world.connect(1, "reader"));
        let target = format!("topic:{}", path_at("t", home, 2));
        let wanted = if by_pattern { "topic:**" } else { &target };
        let previous = |world: &World| {
            world.clients[reader].received.last().and_then(|message| message.previous.clone())
        };
        world.publish_all(writer, &target, &[retained("a"), retained("b")]);
        world.quiesce();
        world.subscribe(reader, 0, Wish { deltas: true, ..Wish::to(wanted) });
        world.quiesce();
        assert_eq!(world.clients[reader].received.last().unwrap().body, "b");
        world.publish_all(writer, &target, &[retained("c")]);
        world.quiesce();
        assert_eq!(previous(&world).as_deref(), Some("b"), "home {home}");
        // What came in between for nobody is not the value any more.
        world.unsubscribe(reader, 0);
        world.quiesce();
        world.publish(writer, &target, "passing");
        world.quiesce();
        world.subscribe(reader, 0, Wish { deltas: true, ..Wish::to(wanted) });
        world.publish(writer, &target, "next");
        world.quiesce();
        assert_eq!(previous(&world), None, "home {home}");
    }
}

#[test]
fn a_message_conflated_into_an_older_place_hides_none_that_waits_behind_it() {
    let mut options = options(1);
    (options.backlog_bytes_high, options.backlog_bytes_low) = (500, 400);
    Arc::make_mut(&mut options.topic_default).slow_consumer = SlowConsumer::Conflate;
    Arc::make_mut(&mut options.topic_default).grace = Span::ZERO;
    let mut world = World::new(1, options);
    let (reader, writer) = (world.connect(0, "reader"), world.connect(0, "writer"));
    world.subscribe(reader, 0, recoverable("topic:*"));
    for _ in 0..10 {
        world.publish(writer, "topic:old", "old");
    }
    world.advance(Span::from_millis(50));
    for (topic, body) in [("a", "a1"), ("b", "b"), ("a", "a2")] {
        world.publish(writer, &format!("topic:{topic}"), body);
    }
    while world.clients[reader].received.last().is_none_or(|last| last.body != "a2") {
        assert!(world.pull(reader) > 0);
    }
    assert!(world.clients[reader].received.iter().all(|message| message.body != "b"));
    let position = world.clients[reader].position.clone();
    world.close(reader);
    let (_, bodies) = come_back(&mut world, "topic:*", &position);
    assert!(bodies.contains(&"b".to_owned()), "{bodies:?}");
}
