//! Selectors of several targets and regular expressions: each message once, topics to come included,
//! and what they may cost.

#![allow(clippy::unwrap_used)]

use crate::support::{Wish, World};
use tiderace_base::CloseCode;
use tiderace_base::limits::REGEX_BYTES_PER_SESSION_MAX;
use tiderace_broker::{BrokerOptions, TopicPolicy};
use tiderace_topics::Pattern;

fn options(shards: usize) -> BrokerOptions {
    let mut options = BrokerOptions { shards, ..BrokerOptions::default() };
    let mut kept = options.topic_default.clone();
    std::sync::Arc::make_mut(&mut kept).retain = true;
    options.topic_policies =
        vec![TopicPolicy { pattern: Pattern::parse("**").unwrap(), spec: kept }];
    options
}

fn several(targets: &[&str]) -> Wish {
    Wish {
        targets: targets.iter().map(|text| format!("topic:{text}")).collect(),
        ..Wish::default()
    }
}

fn got(world: &mut World, client: usize) -> Vec<(String, String)> {
    world.quiesce();
    let received = world.clients[client].received.drain(..);
    let mut list: Vec<_> = received.map(|message| (message.path, message.body)).collect();
    list.sort();
    list
}

fn pairs(list: &[(&str, &str)]) -> Vec<(String, String)> {
    list.iter().map(|(path, body)| ((*path).to_owned(), (*body).to_owned())).collect()
}

#[test]
fn a_topic_that_several_targets_match_comes_once() {
    for shards in 1..=3 {
        let mut world = World::new(1, options(shards));
        let (reader, writer) = (world.connect(0, "reader"), world.connect(shards - 1, "writer"));
        for path in ["a/b", "a/c", "x/y"] {
            world.publish(writer, &format!("topic:{path}"), "old");
        }
        world.deliver_envelopes();
        let targets = ["**", "a/*", "?a/[bc]", "a/b", "?[ax]/.*"];
        world.subscribe(reader, 0, several(&targets));
        let old = [("a/b", "old"), ("a/c", "old"), ("x/y", "old")];
        assert_eq!(got(&mut world, reader), pairs(&old), "{shards} shards");
        for path in ["a/b", "a/c", "x/y", "a/later", "z"] {
            world.publish(writer, &format!("topic:{path}"), "new");
        }
        let new =
            [("a/b", "new"), ("a/c", "new"), ("a/later", "new"), ("x/y", "new"), ("z", "new")];
        assert_eq!(got(&mut world, reader), pairs(&new), "{shards} shards");
        // Two subscriptions are two, though.
        world.subscribe(reader, 1, several(&["z", "?z"]));
        world.subscribe(reader, 2, several(&["?[yz]"]));
        assert_eq!(got(&mut world, reader), pairs(&[("z", "new"), ("z", "new")]));
        world.unsubscribe(reader, 0);
        world.publish(writer, "topic:a/b", "unheard");
        assert_eq!(got(&mut world, reader), []);
        world.end();
        world.sweep();
    }
}

#[test]
fn regular_expressions_find_topics_that_are_made_later() {
    let mut world = World::new(2, options(2));
    let (reader, writer) = (world.connect(0, "reader"), world.connect(1, "writer"));
    world.subscribe(reader, 0, several(&["?fx/[A-Z]{3}-USD/.*"]));
    world.deliver_envelopes();
    for path in
        ["fx/EUR-USD/bid", "fx/EURO-USD/bid", "fx/GBP-USD", "fx/GBP-USD/ask/x", "fx/GBP-USD/ask"]
    {
        world.publish(writer, &format!("topic:{path}"), "1");
    }
    assert_eq!(got(&mut world, reader), pairs(&[("fx/EUR-USD/bid", "1"), ("fx/GBP-USD/ask", "1")]));
}

#[test]
fn no_target_of_a_set_shows_what_is_private() {
    let mut world = World::new(3, options(2));
    let (ann, bob) = (world.connect(0, "ann"), world.connect(1, "bob"));
    let wish = several(&["**", "?user/.*/.*", "?use[rs]/ann/.*", "user/ann/*"]);
    world.subscribe(ann, 0, wish);
    world.subscribe(bob, 0, several(&["**", "?user/.*/.*", "?use[rs]/ann/.*"]));
    world.deliver_envelopes();
    world.publish(bob, "topic:user/ann/inbox", "hello");
    assert_eq!(got(&mut world, ann), pairs(&[("user/ann/inbox", "hello")]));
    assert_eq!(got(&mut world, bob), []);
    world.subscribe(bob, 1, several(&["fx", "?user/ann/[a-z]*"]));
    world.quiesce();
    assert_eq!(world.clients[bob].refused.len(), 1, "a member that names what is ann's");
}

#[test]
fn a_session_holds_only_so_many_regular_expressions() {
    let mut world = World::new(4, options(1));
    let reader = world.connect(0, "reader");
    let text = |number: u32| format!("?[ab]{{100,130}}{number}/x");
    let bytes = Pattern::parse(&text(0)).unwrap().regex_bytes();
    let most = (REGEX_BYTES_PER_SESSION_MAX / bytes) as u32;
    let mut key = 0;
    while world.clients[reader].refused.is_empty() {
        world.subscribe(reader, key, several(&[&text(1000 + key)]));
        key += 1;
        assert!(key < 2 * most, "there is no limit");
    }
    assert_eq!(world.clients[reader].refused[0].1, CloseCode::TooManySubscriptions);
    assert!(key > most / 2, "only {key} of {most}");
    // What has no expression is still welcome, and an ended one makes room.
    let plain = world.subscribe(reader, key, several(&["a/*"]));
    world.unsubscribe(reader, 0);
    let other = world.subscribe(reader, 0, several(&[&text(1000)]));
    assert!(world.is_confirmed(reader, plain) && world.is_confirmed(reader, other));
    world.end();
}
