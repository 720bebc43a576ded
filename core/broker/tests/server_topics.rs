//! What the server says below `$sys/`: who is here, what is missing; and what wills leave behind.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use std::collections::BTreeMap;

use crate::support::asking::{ask, connect};
use crate::support::{Received, Wish, World, destination, for_seeds};
use tiderace_base::{CloseCode, SessionId, Span, Time};
use tiderace_broker::{Action, BrokerOptions, Principal, Rule, Rules, Who};
use tiderace_topics::{Path, Pattern};
use tiderace_wire::{Flags, Meta, Operation, Run};

fn options(seed: u64) -> BrokerOptions {
    BrokerOptions { shards: 1 + (seed % 3) as usize, ..BrokerOptions::default() }
}

fn shard(world: &mut World) -> usize {
    let shards = world.brokers.len();
    world.random.below(shards)
}

fn create(world: &mut World, client: usize, path: &str, spec: &str) {
    let (path, spec) = (Path::parse(path).unwrap(), spec.as_bytes().into());
    ask(world, client, Operation::Create { path, spec, value: None });
    world.quiesce();
}

/// What the client sees: the value of each topic that has one.
fn seen(world: &World, client: usize) -> BTreeMap<String, String> {
    let mut values = BTreeMap::new();
    for message in &world.clients[client].received {
        if message.body.is_empty() {
            values.remove(&message.path);
        } else {
            values.insert(message.path.clone(), message.body.clone());
        }
    }
    values
}

fn id(world: &World, client: usize) -> SessionId {
    world.clients[client].session
}

fn who(id: SessionId, name: &str) -> String {
    format!(r#"{{"session":"{id}","name":"{name}","anonymous":false}}"#)
}

fn taken(world: &mut World, client: usize) -> Vec<Received> {
    world.quiesce();
    world.clients[client].received.drain(..).collect()
}

#[test]
fn nobody_shows_unless_asked_for() {
    let mut world = World::new(1, options(1));
    let (ann, bob) = (world.connect(0, "ann"), world.connect(1, "bob"));
    world.subscribe(ann, 0, Wish::to("topic:$sys/sessions/**"));
    world.subscribe(ann, 1, Wish::to("topic:$sys/presence/**"));
    world.subscribe(ann, 2, Wish::to("topic:**"));
    world.unsubscribe(ann, 2);
    world.subscribe(bob, 0, Wish::to("topic:fx"));
    world.publish(bob, "topic:fx", "1");
    assert_eq!(taken(&mut world, ann), []);
    world.end();
    world.sweep();
}

#[test]
fn sessions_show_while_they_last() {
    for_seeds(0..6, |seed| {
        let mut world = World::new(seed, BrokerOptions { sessions_shown: true, ..options(seed) });
        let ann = connect(&mut world, "ann");
        world.now.wall_ms = 77;
        world.quiesce();
        let bob = connect(&mut world, "bob");
        let silent = shard(&mut world);
        world.open(silent);
        world.subscribe(ann, 0, Wish::to("topic:$sys/sessions/*"));
        world.subscribe(ann, 1, Wish::to("topic:**"));
        world.quiesce();
        let path = |world: &World, client| format!("$sys/sessions/{}", id(world, client));
        let value = |world: &World, client, name: &str, since| {
            let id = id(world, client);
            format!(
                r#"{{"session":"{id}","name":"{name}","anonymous":false,"groups":[],"since":{since}}}"#
            )
        };
        let both = BTreeMap::from([
            (path(&world, ann), value(&world, ann, "ann", 0)),
            (path(&world, bob), value(&world, bob, "bob", 77)),
        ]);
        assert_eq!(seen(&world, ann), both);
        assert!(world.clients[ann].received.iter().all(|message| message.key == 0));
        let name = Principal::named("eve");
        world.verified(bob, Ok(name));
        world.quiesce();
        assert_eq!(seen(&world, ann)[&path(&world, bob)], value(&world, bob, "eve", 77));
        world.close(bob);
        world.quiesce();
        assert_eq!(seen(&world, ann).len(), 1);
        world.end();
        world.sweep();
        assert_eq!(world.metrics().topics, 0);
    });
}

#[test]
fn subscribers_show_where_the_topic_says_so() {
    for_seeds(0..40, |seed| {
        let mut world = World::new(seed, options(seed));
        let ann = connect(&mut world, "ann");
        world.subscribe(ann, 0, Wish::to("topic:$sys/presence/**"));
        world.deliver_envelopes();
        let names = ["bob", "cid", "dan"];
        let clients: Vec<usize> = names.iter().map(|name| connect(&mut world, name)).collect();
        let topics = ["fx", "gold"];
        // By client and key: the topic, or a pattern, which does not count.
        let mut subscribed: BTreeMap<(usize, u32), &str> = BTreeMap::new();
        let mut present = [false, false];
        for _ in 0..40 {
            let at = world.random.below(3);
            let (client, key) = (clients[at], world.random.below(3) as u32);
            match world.random.below(8) {
                0 => {
                    let which = world.random.below(2);
                    present[which] = !present[which];
                    let selector = vec![Pattern::parse(topics[which]).unwrap()];
                    ask(&mut world, ann, Operation::Remove { selector });
                    let spec = format!(r#"{{"presence":{}}}"#, present[which]);
                    world.quiesce();
                    create(&mut world, ann, topics[which], &spec);
                }
                1 => while world.deliver_envelope() {},
                2 => {
                    world.deliver_envelope();
                }
                _ if subscribed.remove(&(at, key)).is_some() => {
                    world.unsubscribe(client, key);
                }
                _ => {
                    let to = *world.random.pick(&["fx", "gold", "*"]);
                    world.subscribe(client, key, Wish::to(&format!("topic:{to}")));
                    subscribed.insert((at, key), to);
                }
            }
        }
        world.quiesce();
        let mut expected = BTreeMap::new();
        for ((at, _), topic) in &subscribed {
            let which = topics.iter().position(|known| known == topic);
            if which.is_some_and(|which| present[which]) {
                let session = id(&world, clients[*at]);
                expected
                    .insert(format!("$sys/presence/{topic}/{session}"), who(session, names[*at]));
            }
        }
        assert_eq!(seen(&world, ann), expected, "seed {seed}");
        world.close(clients[0]);
        world.close(clients[1]);
        world.quiesce();
        expected.retain(|_, value| value.contains("dan"));
        assert_eq!(seen(&world, ann), expected, "seed {seed}");
    });
}

#[test]
fn presence_shows_no_more_than_its_topic() {
    for_seeds(0..6, |seed| {
        let rule = |path: &str, who: Who| Rule {
            allow: true,
            actions: [Action::Subscribe, Action::Create].into_iter().collect(),
            who: vec![who],
            paths: vec![Pattern::parse(path).unwrap()],
            kind: None,
        };
        let rules = Rules::new(vec![
            rule("$sys/**", Who::All),
            rule("fx/**", Who::All),
            rule("**", Who::User("ann".into())),
        ]);
        let mut world = World::new(seed, BrokerOptions { rules, ..options(seed) });
        let (ann, bob) = (connect(&mut world, "ann"), connect(&mut world, "bob"));
        for client in [ann, bob] {
            world.subscribe(client, 0, Wish::to("topic:$sys/**"));
        }
        for (path, key) in ["fx/EUR", "gold", "user/ann/inbox"].into_iter().zip(1..) {
            create(&mut world, ann, path, r#"{"presence":true}"#);
            world.subscribe(ann, key, Wish::to(&format!("topic:{path}")));
        }
        world.quiesce();
        assert_eq!(seen(&world, ann).len(), 3, "{:?}", seen(&world, ann));
        let path = format!("$sys/presence/fx/EUR/{}", id(&world, ann));
        assert_eq!(seen(&world, bob).into_keys().collect::<Vec<_>>(), [path]);
        let spied = world.subscribe(bob, 1, Wish::to("topic:$sys/presence/user/ann/**"));
        let spied_exactly = format!("topic:$sys/presence/gold/{}", id(&world, ann));
        let exactly = world.subscribe(bob, 2, Wish::to(&spied_exactly));
        world.quiesce();
        let refused: Vec<_> = world.clients[bob].refused.iter().map(|(token, _)| *token).collect();
        assert_eq!(refused, [Some(spied), Some(exactly)]);
    });
}

#[test]
fn what_is_missing_is_said_to_those_who_listen() {
    for_seeds(0..30, |seed| {
        let mut world = World::new(seed, options(seed));
        let (ann, bob) = (connect(&mut world, "ann"), connect(&mut world, "bob"));
        world.subscribe(bob, 0, Wish::to("topic:early"));
        world.quiesce();
        let exactly = seed % 2 == 0;
        let listen = if exactly { "topic:$sys/missing/fx/EUR" } else { "topic:$sys/missing/**" };
        world.subscribe(ann, 0, Wish::to(listen));
        world.quiesce();
        let said = |path: &str, world: &World| {
            let id = id(world, bob);
            let body = format!(r#"{{"path":"{path}","session":"{id}","by":"bob"}}"#);
            (format!("$sys/missing/{path}"), body)
        };
        world.subscribe(bob, 1, Wish::to("topic:fx/EUR"));
        world.subscribe(bob, 2, Wish::to("topic:fx/EUR"));
        let heard: Vec<_> =
            taken(&mut world, ann).into_iter().map(|it| (it.path, it.body)).collect();
        assert_eq!(heard, [said("fx/EUR", &world)], "once a second");
        world.advance(Span::from_secs(2));
        world.subscribe(bob, 3, Wish::to("topic:fx/EUR"));
        world.subscribe(bob, 4, Wish::to("topic:temp/x/y"));
        assert_eq!(taken(&mut world, ann).len(), 1);
        create(&mut world, ann, "fx/EUR", "{}");
        world.advance(Span::from_secs(2));
        world.subscribe(bob, 5, Wish::to("topic:fx/EUR"));
        assert_eq!(taken(&mut world, ann), [], "it is there now");
        world.subscribe(bob, 6, Wish::to("topic:gold/*"));
        world.subscribe(bob, 7, Wish::to("topic:fx/*"));
        let heard = taken(&mut world, ann);
        if exactly {
            assert_eq!(heard, []);
        } else {
            let id = id(&world, bob);
            let body = format!(r#"{{"selector":"gold/*","session":"{id}","by":"bob"}}"#);
            assert_eq!(heard.len(), 1, "{heard:?}");
            assert_eq!((&*heard[0].path, &heard[0].body), ("$sys/missing", &body));
        }
        world.end();
    });
}

#[test]
fn a_listener_creates_on_demand() {
    let mut world = World::new(7, options(2));
    let (ann, bob) = (world.connect(0, "ann"), world.connect(2, "bob"));
    world.subscribe(ann, 0, Wish::to("topic:$sys/missing/**"));
    world.quiesce();
    world.subscribe(bob, 0, Wish::to("topic:fx/EUR"));
    let wanted = taken(&mut world, ann).remove(0);
    let path = wanted.path.strip_prefix("$sys/missing/").unwrap().to_owned();
    world.publish(ann, &format!("topic:{path}"), "1.08");
    assert_eq!(taken(&mut world, bob)[0].body, "1.08");
}

fn will(path: &str, body: &str) -> Operation {
    let meta = Meta { flags: Flags::NONE, expires_ms: None };
    let run = Run::single(destination(path), Time::ZERO, &[], body.as_bytes(), meta);
    Operation::Will(Some(Box::new(run)))
}

#[test]
fn wills_are_published_with_the_rights_of_their_sessions() {
    for_seeds(0..12, |seed| {
        let rule = |allow, path: &str, who: Who| Rule {
            allow,
            actions: [Action::Publish, Action::Subscribe].into_iter().collect(),
            who: vec![who],
            paths: vec![Pattern::parse(path).unwrap()],
            kind: None,
        };
        let rules = Rules::new(vec![
            rule(true, "**", Who::All),
            rule(false, "gold", Who::User("bob".into())),
            rule(false, "fx", Who::User("eve".into())),
        ]);
        let mut world = World::new(seed, BrokerOptions { rules, ..options(seed) });
        let ann = connect(&mut world, "ann");
        world.subscribe(ann, 0, Wish::to("topic:**"));
        let clients: Vec<usize> = (0..4).map(|_| connect(&mut world, "bob")).collect();
        world.quiesce();
        // One is lost, one says goodbye well, one is somebody else by then, one has a claim.
        for client in &clients[..3] {
            ask(&mut world, *client, will("topic:fx", "lost"));
        }
        ask(&mut world, clients[3], will("topic:own", "claimed"));
        let path = Path::parse("own").unwrap();
        ask(&mut world, clients[3], Operation::Claim { path });
        world.quiesce();
        ask(&mut world, clients[1], Operation::Will(None));
        ask(&mut world, clients[0], will("topic:gold", "refused"));
        let eve = Principal::named("eve");
        world.verified(clients[2], Ok(eve));
        world.quiesce();
        assert_eq!(world.clients[clients[0]].refused.last().unwrap().1, CloseCode::NotAuthorised);
        // Somebody waits to claim what the last one has, and comes too late for its will.
        world.close(clients[3]);
        let path = Path::parse("own").unwrap();
        ask(&mut world, ann, Operation::Claim { path });
        for client in &clients[..3] {
            world.close(*client);
        }
        let mut heard: Vec<_> =
            taken(&mut world, ann).into_iter().map(|it| (it.path, it.body)).collect();
        heard.sort();
        let pair = |path: &str, body: &str| (path.to_owned(), body.to_owned());
        let mut expected = vec![pair("fx", "lost"), pair("own", "claimed")];
        if heard.len() == 1 {
            // The other claim was first: then the will of one who is not its publisher is refused.
            expected.pop();
        }
        assert_eq!(heard, expected);
    });
}
