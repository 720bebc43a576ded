//! Notices: a subscription hears of every topic that it gains and loses, in turns, and of a topic
//! before its messages.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use std::collections::BTreeMap;

use crate::support::asking::{ask, connect, create, remove};
use crate::support::{Notice, Outgoing, Wish, World, for_seeds};
use tiderace_base::{CloseCode, Span};
use tiderace_broker::{Action, BrokerOptions, PageLimits, Principal, Rule, Rules, Who};
use tiderace_topics::Pattern;
use tiderace_wire::{Flags, LeaveReason, ValueType};

/// Every other seed has pages of a topic or two, and few bytes told before what waits is taken.
fn options(seed: u64) -> BrokerOptions {
    let small = PageLimits { bytes: 100, values: 2, looked_at: 1 + (seed % 3) as usize };
    let page = if seed.is_multiple_of(2) { PageLimits::default() } else { small };
    BrokerOptions { shards: 1 + (seed % 3) as usize, page, ..BrokerOptions::default() }
}

fn wish(targets: &[&str]) -> Wish {
    let targets = targets.iter().map(|text| format!("topic:{text}")).collect();
    Wish { targets, notices: true, ..Wish::default() }
}

/// What was said since, as `+path` and `-path`.
fn said(world: &mut World, client: usize) -> Vec<String> {
    world.quiesce();
    let sign = |notice: &Notice| if notice.joined.is_some() { '+' } else { '-' };
    let notices = world.clients[client].notices.drain(..);
    let mut said: Vec<_> =
        notices.map(|notice| format!("{}{}", sign(&notice), notice.path)).collect();
    said.sort();
    said
}

#[test]
fn topics_are_joined_when_they_are_there_and_left_when_they_go() {
    for_seeds(0..9, |seed| {
        let mut world = World::new(seed, options(seed));
        let (ann, bob) = (connect(&mut world, "ann"), connect(&mut world, "bob"));
        ask(&mut world, ann, create("a/b", r#"{"type":"json"}"#, None));
        world.publish(ann, "topic:a/c", "1");
        world.subscribe(bob, 7, Wish::to("topic:unknown"));
        world.quiesce();
        world.subscribe(bob, 0, wish(&["a/*"]));
        world.subscribe(bob, 1, wish(&["a/b"]));
        world.subscribe(bob, 2, wish(&["?[ax]", "a/c", "**"]));
        world.subscribe(bob, 3, wish(&["later"]));
        world.subscribe(bob, 4, Wish::to("topic:**"));
        world.quiesce();
        let first = world.clients[bob].notices.iter().find(|notice| notice.path == "a/b");
        assert_eq!(first.unwrap().joined.as_ref().unwrap().value, ValueType::Json);
        let mut all = ["+a/b", "+a/b", "+a/b", "+a/c", "+a/c"];
        all.sort_unstable();
        assert_eq!(said(&mut world, bob), all);
        world.publish(ann, "topic:later", "1");
        ask(&mut world, ann, create("a/d", "{}", None));
        assert_eq!(said(&mut world, bob), ["+a/d", "+a/d", "+later", "+later"]);
        world.publish(ann, "topic:later", "2");
        ask(&mut world, ann, create("a/d", "{}", None));
        world.subscribe(bob, 5, Wish::to("topic:a/d"));
        assert_eq!(said(&mut world, bob), [""; 0], "nothing is new");
        world.unsubscribe(bob, 0);
        ask(&mut world, ann, remove("a/**"));
        assert_eq!(said(&mut world, bob), ["-a/b", "-a/b", "-a/c", "-a/d"]);
        ask(&mut world, ann, create("a/b", r#"{"type":"string"}"#, None));
        assert_eq!(said(&mut world, bob), ["+a/b", "+a/b"]);
        // Nobody has published there for long, and it keeps nothing.
        world.unsubscribe(bob, 3);
        world.quiesce();
        for _ in 0..3 {
            world.advance(Span::from_secs(100));
            world.quiesce();
        }
        assert!(said(&mut world, bob).contains(&"-later".to_owned()));
        world.end();
    });
}

#[test]
fn another_login_joins_and_leaves() {
    for_seeds(0..6, |seed| {
        let rule = |path: &str, who: &str| Rule {
            allow: true,
            actions: [Action::Publish, Action::Subscribe].into_iter().collect(),
            who: vec![Who::User(who.into())],
            paths: vec![Pattern::parse(path).unwrap()],
            kind: None,
        };
        let rules = Rules::new(vec![
            rule("**", "ann"),
            rule("fx/*", "bob"),
            rule("fx/*", "eve"),
            rule("gold/*", "bob"),
            rule("silver/*", "eve"),
        ]);
        let mut world = World::new(seed, BrokerOptions { rules, ..options(seed) });
        let (ann, bob) = (connect(&mut world, "ann"), connect(&mut world, "bob"));
        for path in ["fx/1", "gold/1", "silver/1", "user/bob/1", "user/eve/1"] {
            world.publish(ann, &format!("topic:{path}"), "1");
        }
        world.quiesce();
        world.subscribe(bob, 0, wish(&["**"]));
        assert_eq!(said(&mut world, bob), ["+fx/1", "+gold/1"]);
        let eve = Principal::named("eve");
        world.verified(bob, Ok(eve));
        world.quiesce();
        let left = world.clients[bob].notices.iter().find_map(|notice| notice.left);
        assert_eq!(left, Some(LeaveReason::NotAuthorised));
        assert_eq!(said(&mut world, bob), ["+silver/1", "-gold/1"]);
        world.publish(ann, "topic:gold/2", "1");
        world.publish(ann, "topic:silver/2", "1");
        assert_eq!(said(&mut world, bob), ["+silver/2"]);
    });
}

/// Joining and leaving take turns, and nothing comes from a topic that was not joined.
fn check(world: &World, client: usize, seen: &mut BTreeMap<(u32, String), usize>) {
    let known = &world.clients[client];
    let mut there: BTreeMap<(u32, &str), bool> = BTreeMap::new();
    for notice in &known.notices {
        let before = there.insert((notice.key, &notice.path), notice.joined.is_some());
        assert_ne!(before.unwrap_or(false), notice.joined.is_some(), "{notice:?}");
    }
    for message in &known.received {
        assert!(there.contains_key(&(message.key, &*message.path)), "{message:?}");
    }
    seen.clear();
    let joined = there.into_iter().filter(|(_, there)| *there);
    seen.extend(joined.map(|((key, path), _)| ((key, path.to_owned()), 1)));
}

#[test]
fn joining_and_leaving_take_turns_whatever_comes_between() {
    for_seeds(0..150, |seed| {
        let mut world = World::new(seed, options(seed));
        let ann = connect(&mut world, "ann");
        let readers: Vec<usize> = (0..3).map(|_| connect(&mut world, "bob")).collect();
        world.quiesce();
        let paths = ["a", "a/b", "a/c", "d"];
        let wishes: [&[&str]; 6] =
            [&["**"], &["a/*"], &["a/b"], &["d"], &["?a/[bc]"], &["a/b", "**", "a/*"]];
        // A key is used once by each reader, so that what is said can be told apart.
        let mut open: Vec<(usize, u32, usize)> = Vec::new();
        for key in 0..60 {
            match world.random.below(10) {
                0 | 1 => {
                    let (reader, which) = (*world.random.pick(&readers), world.random.below(6));
                    world.subscribe(reader, key, wish(wishes[which]));
                    open.push((reader, key, which));
                }
                2 if !open.is_empty() => {
                    let at = world.random.below(open.len());
                    let (reader, key, _) = open.swap_remove(at);
                    world.unsubscribe(reader, key);
                }
                3 => {
                    let spec = *world.random.pick(&["{}", r#"{"type":"string"}"#]);
                    let path = *world.random.pick(&paths);
                    ask(&mut world, ann, create(path, spec, None));
                }
                4 => {
                    let path = *world.random.pick(&paths);
                    ask(&mut world, ann, remove(path));
                }
                5 => {
                    let path = *world.random.pick(&paths);
                    world.publish(ann, &format!("topic:{path}"), "x");
                }
                6 => world.deliver_envelopes(),
                7 => {
                    let reader = *world.random.pick(&readers);
                    world.pull(reader);
                }
                _ => {
                    world.deliver_envelope();
                }
            }
            let mut seen = BTreeMap::new();
            for reader in &readers {
                check(&world, *reader, &mut seen);
            }
        }
        world.quiesce();
        // In the end everybody is in exactly what is there.
        let last = world.connect(0, "last");
        world.subscribe(last, 1000, wish(&["**"]));
        world.quiesce();
        let there: Vec<String> =
            world.clients[last].notices.iter().map(|notice| notice.path.clone()).collect();
        for reader in &readers {
            let mut seen = BTreeMap::new();
            check(&world, *reader, &mut seen);
            for (_, key, which) in open.iter().filter(|(of, ..)| of == reader) {
                let mut joined: Vec<&str> = seen
                    .keys()
                    .filter(|(of, _)| of == key)
                    .map(|(_, path)| path.as_str())
                    .collect();
                joined.sort_unstable();
                let mut expected: Vec<&str> = there
                    .iter()
                    .map(String::as_str)
                    .filter(|path| {
                        wishes[*which]
                            .iter()
                            .any(|text| crate::support::names(&format!("topic:{text}"), path))
                    })
                    .collect();
                expected.sort_unstable();
                assert_eq!(joined, expected, "reader {reader}, key {key}");
            }
        }
        world.end();
    });
}

/// The budget of a turn and the price of a page.
const TURN_UNITS_MAX: u64 = (2 << 20) + 64 * 4096;

/// So many topics with a value each.
fn many(shards: usize, topics: usize) -> (World, usize, usize) {
    let mut world = World::new(1, BrokerOptions { shards, ..BrokerOptions::default() });
    let (ann, bob) = (world.connect(0, "ann"), world.connect(shards - 1, "bob"));
    for number in 0..topics {
        let kept = Outgoing { flags: Flags::RETAIN, ..Outgoing::new("1") };
        world.publish_all(ann, &format!("topic:load/{number}"), &[kept]);
    }
    world.deliver_envelopes();
    (world, ann, bob)
}

/// One turn of each shard; the most that one of them has spent.
fn turn(world: &mut World) -> u64 {
    let spent = |world: &World, shard: usize| world.brokers[shard].metrics().work;
    let shards = world.brokers.len();
    let before: Vec<u64> = (0..shards).map(|shard| spent(world, shard)).collect();
    for shard in 0..shards {
        world.work(shard);
        for from in 0..shards {
            while world.deliver_envelope_between(from, shard) {}
        }
    }
    (0..shards).map(|shard| spent(world, shard) - before[shard]).max().unwrap()
}

#[test]
fn topics_are_told_a_page_at_a_time_as_they_are_taken() {
    for shards in 1..=2 {
        let (mut world, ann, bob) = many(shards, 20_000);
        world.subscribe(bob, 0, wish(&["**"]));
        while world.has_envelopes() {
            assert!(turn(&mut world) <= TURN_UNITS_MAX);
        }
        // It takes nothing, so that it is told no more than a page.
        let told = world.clients[bob].notices.len();
        assert!((500..2_000).contains(&told), "{told} topics over {shards} shards");
        let newer = Outgoing { flags: Flags::RETAIN, ..Outgoing::new("2") };
        world.publish_all(ann, "topic:load/7", &[newer]);
        world.publish(ann, "topic:new", "1");
        world.quiesce();
        let told = &world.clients[bob].notices;
        assert_eq!(told.len(), 20_001);
        assert!(told.iter().all(|notice| notice.joined.is_some()));
        // What came meanwhile comes as a value, once.
        let received = &world.clients[bob].received;
        assert_eq!(received.iter().filter(|message| message.path == "load/7").count(), 1);
        assert!(received.iter().any(|message| message.path == "load/7" && message.body == "2"));
        assert_eq!(received.len(), 20_000);
        world.end();
    }
}

#[test]
fn many_subscriptions_that_want_notices_cost_bounded_turns_and_end_in_slices() {
    let (mut world, ann, bob) = many(1, 20_000);
    let before = world.brokers[0].metrics().work;
    world.subscribe_all(bob, (0..200).map(|_| wish(&["**"])).collect());
    let spent = world.brokers[0].metrics().work - before;
    assert!(spent <= TURN_UNITS_MAX, "{spent} units in one call");
    let mut turns = 0;
    for _ in 0..100 {
        assert!(turn(&mut world) <= TURN_UNITS_MAX);
        world.pull(bob);
        turns += 1;
    }
    // Another one is told while these are.
    let eve = world.connect(0, "eve");
    world.subscribe(eve, 0, wish(&["load/777"]));
    turn(&mut world);
    assert_eq!(world.clients[eve].notices.len(), 1, "after {turns} turns");
    world.subscribe(eve, 1, Wish::to("topic:**"));
    world.close(bob);
    let mut slices = 0;
    while world.has_envelopes() {
        assert!(turn(&mut world) <= TURN_UNITS_MAX);
        slices += 1;
    }
    assert!(slices < 1_000);
    world.publish(ann, "topic:later", "1");
    world.quiesce();
    assert_eq!(world.clients[eve].notices.len(), 1, "the other topics are nothing to it");
    world.end();
}

#[test]
fn a_session_that_was_told_of_very_many_topics_does_not_become_somebody_else() {
    let (mut world, _, bob) = many(1, 20_000);
    for key in 0..3 {
        world.subscribe(bob, key, wish(&["**"]));
    }
    world.quiesce();
    assert_eq!(world.clients[bob].notices.len(), 60_000);
    let eve = Principal::named("eve");
    world.verified(bob, Ok(eve));
    assert_eq!(world.clients[bob].closed, Some(CloseCode::TooMuchWork));
}
