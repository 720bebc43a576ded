//! Clients that come back to another life of the server with a position of an earlier one. If they are
//! told that nothing is missing, they have got everything that survived, each message once, and no
//! version jumps without a reason; otherwise they have the newest values.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::support::asking::{ask, path};

use crate::support::keeping::Keeping;
use crate::support::{Received, Wish, World, for_seeds};
use tiderace_base::{Now, ShardId};
use tiderace_broker::{BrokerOptions, TopicPolicy, TopicSpec};
use tiderace_topics::Pattern;
use tiderace_wire::{HistoryQuery, Numbering, Operation, OperationResult, Position, Replay};

const WHOLE: &str = "whole";
const SHORT: &str = "short";
const VALUE: &str = "value";
const PASSING: &str = "passing";
const TOPICS: [&str; 4] = [WHOLE, SHORT, VALUE, PASSING];

fn begin(seed: u64, life: u64, shards: usize, keeping: &mut Keeping) -> World {
    let policy = |pattern, spec: &str| {
        let spec = TopicSpec::parse(spec.as_bytes(), &TopicSpec::default()).unwrap();
        TopicPolicy { pattern: Pattern::parse(pattern).unwrap(), spec: Arc::new(spec) }
    };
    let options = BrokerOptions {
        shards,
        epoch: 1_000 * seed + life,
        topic_policies: vec![
            policy(WHOLE, r#"{"persistent":true,"history":10000}"#),
            policy(SHORT, r#"{"persistent":true,"retain":true,"history":3}"#),
            policy(VALUE, r#"{"persistent":true,"retain":true}"#),
        ],
        ..BrokerOptions::default()
    };
    let mut world = World::new(1_000 * seed + life, options);
    world.now = Now { wall_ms: 1_700_000_000_000, ..world.now };
    keeping.restore(&mut world);
    world
}

/// What the server keeps of a topic: versions and bodies.
fn kept(world: &mut World, eye: usize, name: &str) -> Vec<(u64, String)> {
    let query = HistoryQuery {
        path: path(name),
        from: Replay::Version(0),
        to: None,
        limit: 0,
        amended: true,
    };
    let token = ask(world, eye, Operation::History(Box::new(query)));
    world.deliver_envelopes();
    let Some(OperationResult::Events(events)) = world.clients[eye].operated.get(&token) else {
        return Vec::new();
    };
    let body = |run: &tiderace_wire::Run, place| {
        String::from_utf8(run.message(place).unwrap().body.to_vec()).unwrap()
    };
    events.events.iter().map(|event| (event.version, body(&event.run, event.place))).collect()
}

/// The value of a topic, as somebody sees it who listens anew.
fn value(world: &mut World, name: &str) -> Option<String> {
    let eye = world.connect(0, "eye");
    world.subscribe(eye, 0, Wish::to(&format!("topic:{name}")));
    world.quiesce();
    world.close(eye);
    world.clients[eye].received.last().map(|message| message.body.clone())
}

/// A client that keeps its position, and everything that it ever got.
#[derive(Default)]
struct Keeper {
    position: Option<Position>,
    received: BTreeMap<&'static str, Vec<Received>>,
    /// By topic: up to which version something may be missing, since it was told so.
    missing: BTreeMap<&'static str, u64>,
    /// By topic: the version after which nothing is missing.
    last: BTreeMap<&'static str, u64>,
}

/// Connects, by one subscription to each topic or one pattern for all; which of the topics are complete.
fn come_back(world: &mut World, keeper: &mut Keeper, by_pattern: bool) -> (usize, Vec<bool>) {
    let shard = world.random.below(world.brokers.len());
    let client = world.connect(shard, "ann");
    let wish = |target: &str| Wish {
        recoverable: true,
        since: keeper.position.clone(),
        ..Wish::to(target)
    };
    let wishes = match by_pattern {
        true => vec![wish("topic:*")],
        false => TOPICS.map(|name| wish(&format!("topic:{name}"))).into(),
    };
    let tokens = world.subscribe_all(client, wishes);
    world.quiesce();
    let told = &world.clients[client].recovered;
    let complete = |token| told.get(token).is_some_and(|(complete, _)| *complete);
    let complete: Vec<bool> = tokens.iter().map(complete).collect();
    (client, if by_pattern { vec![complete[0]; TOPICS.len()] } else { complete })
}

/// What the client got, by topic.
fn take(world: &World, client: usize, name: &str) -> Vec<Received> {
    let received = world.clients[client].received.iter();
    received.filter(|message| message.path == name).cloned().collect()
}

fn leave(world: &mut World, keeper: &mut Keeper, client: usize) {
    for name in TOPICS {
        let got = take(world, client, name);
        if let Some(last) = got.last() {
            keeper.last.insert(name, last.version);
        }
        keeper.received.entry(name).or_default().extend(got);
    }
    keeper.position = Some(world.clients[client].position.clone());
    world.close(client);
}

fn publish(
    world: &mut World,
    keeping: &mut Keeping,
    number: &mut u64,
    names: &[&str],
    stored: bool,
) {
    let publisher = world.connect(0, "bob");
    for _ in 0..world.random.below(12) {
        *number += 1;
        let name = names[world.random.below(names.len())];
        world.publish(publisher, &format!("topic:{name}"), &number.to_string());
        if world.random.one_in(3) {
            world.quiesce();
        }
    }
    world.quiesce();
    if stored {
        keeping.finish(world);
    } else {
        for shard in 0..world.brokers.len() {
            keeping.take(world, shard);
        }
    }
    world.quiesce();
    world.close(publisher);
}

/// Without a jump that is not told, whatever came in this connection.
fn check_versions(name: &str, before: Option<u64>, got: &[Received]) {
    let mut last = before;
    for message in got {
        if let Some(last) = last {
            let follows = message.follows.unwrap_or(message.version - 1);
            assert_eq!(follows, last, "{name}: {message:?}");
        }
        last = Some(message.version);
    }
}

#[test]
fn who_comes_back_to_another_life_gets_what_it_has_not_had() {
    let (complete, incomplete) = (Cell::new([0; TOPICS.len()]), Cell::new(0));
    for_seeds(0..2_000, |seed| {
        let mut keeping = Keeping::default();
        let mut keeper = Keeper::default();
        let (mut number, by_pattern) = (0, seed % 5 == 0);
        // Where a crash loses what was sent last, or what is not kept has numbers too, nothing is certain.
        let clean = seed % 3 == 0;
        let names: &[&str] = if clean { &TOPICS[..3] } else { &TOPICS };
        for life in 0..4 {
            let other = seed % 7 == 0 && life == 2;
            let shards = if other { 4 } else { 1 + (seed % 3) as usize };
            let mut world = begin(seed, life, shards, &mut keeping);
            if world.random.one_in(2) {
                publish(&mut world, &mut keeping, &mut number, names, true);
            }
            let eye = world.connect(0, "eye");
            let (client, told) = come_back(&mut world, &mut keeper, by_pattern);
            for (name, told) in TOPICS.into_iter().zip(told.clone()) {
                let got = take(&world, client, name);
                let had = keeper.received.entry(name).or_default().clone();
                let kept = kept(&mut world, eye, name);
                if !told {
                    incomplete.set(incomplete.get() + 1);
                    let last = kept.last().map_or(0, |(version, _)| *version);
                    keeper.missing.insert(name, last);
                    keeper.last.insert(name, last);
                    check_versions(name, None, &got);
                    continue;
                }
                let mut counts = complete.get();
                counts[TOPICS.iter().position(|known| *known == name).unwrap()] += 1;
                complete.set(counts);
                assert!(life > 0 && !other, "{name} cannot be complete");
                check_versions(name, keeper.last.get(name).copied(), &got);
                for message in &got {
                    let again = had.iter().any(|known| known.body == message.body);
                    assert!(!again, "{name} came again: {message:?}");
                }
                for (version, body) in kept {
                    let known = had.iter().chain(&got).find(|known| known.version == version);
                    if let Some(known) = known {
                        assert_eq!(known.body, body, "{name}");
                    } else {
                        assert!(version <= keeper.missing[name], "{name}: {version} is missing");
                    }
                }
            }
            for (name, told) in [(SHORT, told[1]), (VALUE, told[2])] {
                let newest = take(&world, client, name).last().map(|message| message.body.clone());
                let had = keeper.received[name].last().map(|message| message.body.clone());
                let newest = newest.or(had);
                let value = value(&mut world, name);
                // That a value is gone can only be told by saying that something is missing.
                assert!(
                    newest == value || value.is_none() && !told,
                    "{name}: {newest:?} for {value:?}"
                );
            }
            publish(&mut world, &mut keeping, &mut number, names, clean);
            leave(&mut world, &mut keeper, client);
            if world.random.one_in(2) {
                publish(&mut world, &mut keeping, &mut number, names, clean);
            }
            keeping.crash(&mut world);
        }
    });
    let (complete, incomplete) = (complete.get(), incomplete.get());
    assert!(complete[..3].iter().all(|count| *count > 200), "{complete:?} of {incomplete} others");
    assert_eq!(complete[3], 0, "nothing is known of what is not kept");
}

#[test]
fn a_clean_restart_loses_nothing_and_repeats_nothing() {
    let mut keeping = Keeping::default();
    let mut world = begin(1, 0, 1, &mut keeping);
    let mut keeper = Keeper::default();
    let (client, _) = come_back(&mut world, &mut keeper, false);
    let publisher = world.connect(0, "bob");
    for body in ["1", "2", "3"] {
        world.publish(publisher, "topic:whole", body);
        world.quiesce();
    }
    keeping.finish(&mut world);
    leave(&mut world, &mut keeper, client);
    keeping.crash(&mut world);
    let mut world = begin(1, 1, 1, &mut keeping);
    let publisher = world.connect(0, "bob");
    for body in ["4", "5"] {
        world.publish(publisher, "topic:whole", body);
        world.quiesce();
    }
    let (client, told) = come_back(&mut world, &mut keeper, false);
    assert!(told[0], "everything is there");
    let got = take(&world, client, WHOLE);
    let bodies: Vec<&str> = got.iter().map(|message| message.body.as_str()).collect();
    assert_eq!(bodies, ["4", "5"]);
    assert_eq!(got[0].follows, Some(keeper.received[WHOLE][2].version));
    assert_eq!(got[1].version, got[0].version + 1);
    // A replay over both lives has no jump that is not told.
    let eye = world.connect(0, "eye");
    world.subscribe(eye, 0, Wish { replay: Some(Replay::Last(4)), ..Wish::to("topic:whole") });
    world.quiesce();
    let replayed = take(&world, eye, WHOLE);
    assert_eq!(replayed.len(), 4);
    check_versions(WHOLE, None, &replayed);
}

#[test]
fn a_position_that_was_begun_at_another_node_counts_where_it_names_this_one() {
    let mut keeping = Keeping::default();
    let mut world = begin(1, 0, 1, &mut keeping);
    let mut keeper = Keeper::default();
    let (client, _) = come_back(&mut world, &mut keeper, false);
    let publisher = world.connect(0, "bob");
    for body in ["1", "2"] {
        world.publish(publisher, "topic:whole", body);
        world.quiesce();
    }
    leave(&mut world, &mut keeper, client);
    world.publish(publisher, "topic:whole", "3");
    world.quiesce();
    keeping.finish(&mut world);
    let here = keeper.position.clone().unwrap();
    // Of another node, on which this one knows nothing.
    let elsewhere = Numbering::new(55, ShardId(0));
    let mut begun_elsewhere = Position::new(77);
    begun_elsewhere.advance_to(elsewhere, 1_000_000);
    let mut both = begun_elsewhere.clone();
    for (numbering, number) in here.seen() {
        both.advance_to(*numbering, *number);
    }
    let check = |world: &mut World, when: &str| {
        for (position, complete) in [(&here, true), (&both, true), (&begun_elsewhere, false)] {
            let mut keeper = Keeper { position: Some(position.clone()), ..Keeper::default() };
            let (client, told) = come_back(world, &mut keeper, false);
            let got = take(world, client, WHOLE);
            let got: Vec<&str> = got.iter().map(|message| message.body.as_str()).collect();
            assert_eq!(told[0], complete, "{position:?} {when}");
            assert!(!complete || got == ["3"], "{position:?} {when}: {got:?}");
        }
    };
    check(&mut world, "in the same life");
    keeping.crash(&mut world);
    check(&mut begin(1, 1, 1, &mut keeping), "in the life after it");
}
