//! Transactions and what waits for its turn: nothing of a session overtakes anything else of it.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use crate::support::asking::{answer, ask, path, tell, update};
use crate::support::keeping::Keeping;
use crate::support::{Received, Wish, World, destination, for_seeds, path_at};
use tiderace_base::Span;
use tiderace_broker::BrokerOptions;
use tiderace_wire::{
    Change, Command, Commands, Comparison, Condition, Flags, Meta, Operation, OperationResult,
    Outcome, Settle, SubscriptionKey, Token, Update,
};

/// An update that is too dear to be done at once: it looks into a large value.
fn dear(name: &str, place: &str) -> Operation {
    let patch = format!(r#"[{{"op":"add","path":"/{place}","value":1}}]"#);
    let change = Change::Patch(patch.as_bytes().into());
    let (path, flags) = (path(name), Flags::NONE);
    Operation::Update(Box::new(Update {
        path,
        change,
        properties: None,
        flags,
        condition: None,
        spec: None,
    }))
}

fn large() -> String {
    format!("{{\"text\":\"{}\"}}", "x".repeat(900_000))
}

fn at(pointer: &str, comparison: Comparison) -> Condition {
    Condition::Place { pointer: pointer.into(), comparison, value: b""[..].into() }
}

/// Publishes messages and accepts one, together; the tokens of both.
fn commit(
    world: &mut World,
    client: usize,
    publications: &[(&str, &str, Flags)],
    message: &Received,
) -> (Vec<Token>, Token) {
    let mut commands = Commands::new();
    commands.begin_turn(world.now.time);
    commands.push(Command::Together(true));
    let mut tokens = Vec::new();
    for (to, body, flags) in publications {
        let token = world.token(client);
        commands.message(&destination(to));
        commands.publish(body.as_bytes(), Meta { flags: *flags, expires_ms: None }, Some(token));
        tokens.push(token);
    }
    let confirm = world.token(client);
    commands.push(Command::Settle(Settle {
        key: SubscriptionKey(message.key),
        home: message.home,
        ranges: vec![(message.sequence, message.sequence)],
        outcome: Outcome::Accept,
        confirm: Some(confirm),
    }));
    commands.push(Command::Together(false));
    world.commands(client, &mut commands);
    (tokens, confirm)
}

/// A world in which a client has been given a message of `queue` and has not settled it.
fn given(seed: u64, keeping: &mut Keeping) -> (World, usize, String, Received) {
    let shards = 1 + (seed % 3) as usize;
    let mut world =
        World::new(seed, BrokerOptions { shards, epoch: seed, ..BrokerOptions::default() });
    if seed.is_multiple_of(2) {
        keeping.restore(&mut world);
    }
    let client = world.connect((seed % 2) as usize % shards, "ann");
    let queue = path_at("jobs", 0, shards);
    world.publish(client, &format!("queue:{queue}"), "job");
    let wish = Wish { explicit: true, ..Wish::to(&format!("queue:{queue}")) };
    world.subscribe(client, 0, wish);
    world.quiesce();
    let message = world.clients[client].received[0].clone();
    (world, client, queue, message)
}

/// Delivers what waits for the first shard, of which nothing is deferred there yet.
fn deliver_to_first(world: &mut World) {
    while (0..world.brokers.len()).any(|from| world.deliver_envelope_between(from, 0)) {}
}

#[test]
fn a_commit_comes_behind_what_its_session_has_asked_for() {
    for_seeds(0..24, |seed| {
        let mut keeping = Keeping::default();
        let (mut world, ann, queue, message) = given(seed, &mut keeping);
        let shards = world.brokers.len();
        let topic = path_at("m/large", 0, shards);
        tell(&mut world, ann, update(&topic, &large(), None)).unwrap();
        let first = ask(&mut world, ann, dear(&topic, "first"));
        let name = format!("topic:{topic}");
        let other = format!("queue:{}", path_at("other", 0, shards));
        let kept = if seed.is_multiple_of(2) { Flags::PERSISTENT } else { Flags::NONE };
        let publications = [(&*name, "{}", Flags::RETAIN), (&*other, "made of it", kept)];
        let (published, settled) = commit(&mut world, ann, &publications, &message);
        let last = ask(&mut world, ann, dear(&topic, "last"));
        // The consumer ends, and another one begins under its name.
        let ends = seed.is_multiple_of(3);
        if ends {
            world.unsubscribe(ann, 0);
            let wish = Wish { explicit: true, ..Wish::to(&format!("queue:{queue}")) };
            world.subscribe(ann, 0, wish);
        }
        let is_lost = seed % 5 == 1;
        if is_lost {
            world.close(ann);
        }
        deliver_to_first(&mut world);
        assert!(world.brokers[0].metrics().work_waiting >= 3, "all of it waits");
        assert!(world.brokers[0].metrics().queue_bytes > 0, "nothing of it is done");
        world.quiesce();
        keeping_finish(&mut world, &mut keeping);
        let bob = world.connect(0, "bob");
        let wanted = vec![
            at("/last", Comparison::Exists),
            at("/first", Comparison::Missing),
            at("/text", Comparison::Missing),
        ];
        let right = tell(&mut world, bob, update(&topic, "{}", Some(Condition::All(wanted))));
        assert!(right.is_ok(), "{right:?}");
        if !is_lost {
            for token in published.iter().chain([&settled]) {
                assert!(world.is_confirmed(ann, *token), "{:?}", world.clients[ann].refused);
            }
            let version = |token| match answer(&world, ann, token) {
                Some(Ok(OperationResult::Updated { version })) => version,
                other => panic!("{other:?}"),
            };
            assert!(version(first) + 2 == version(last));
            // What comes is given to the consumer that is there now.
            world.publish(bob, &format!("queue:{queue}"), "next");
            world.quiesce();
        }
        // Accepted once, made once.
        world.subscribe(bob, 1, Wish::to(&other));
        world.subscribe(bob, 2, Wish::to(&format!("queue:{queue}")));
        world.quiesce();
        let bodies = |client: usize| {
            let received = world.clients[client].received.iter();
            received.map(|message| &*message.body).collect::<Vec<_>>()
        };
        assert_eq!(bodies(bob), ["made of it"]);
        assert_eq!(bodies(ann), if is_lost { vec!["job"] } else { vec!["job", "next"] });
        assert_eq!(world.metrics().work_waiting, 0);
        world.end();
    });
}

fn keeping_finish(world: &mut World, keeping: &mut Keeping) {
    for _ in 0..3 {
        keeping.finish(world);
        world.quiesce();
    }
}

#[test]
fn a_transaction_waits_as_a_whole_when_the_budget_is_used_up() {
    for_seeds(0..12, |seed| {
        let mut keeping = Keeping::default();
        let (mut world, ann, _, message) = given(seed, &mut keeping);
        let shards = world.brokers.len();
        let topic = path_at("m/large", 0, shards);
        tell(&mut world, ann, update(&topic, &large(), None)).unwrap();
        // Somebody else has used it up.
        let mal = world.connect(0, "mal");
        for number in 0..4 {
            ask(&mut world, mal, dear(&topic, &format!("m{number}")));
        }
        world.work(0);
        assert!(world.brokers[0].metrics().work_waiting > 0, "the budget is used up");
        let new = format!("queue:{}", path_at("new", 0, shards));
        let kept = if seed.is_multiple_of(2) { Flags::PERSISTENT } else { Flags::NONE };
        let (published, settled) = commit(&mut world, ann, &[(&*new, "x", kept)], &message);
        deliver_to_first(&mut world);
        let metrics = world.brokers[0].metrics();
        let is_whole = metrics.queues == 1 && metrics.queue_bytes > 0;
        assert!(is_whole && !world.is_confirmed(ann, settled), "neither part of it is done");
        world.now.time = world.now.time + Span::from_millis(1);
        world.quiesce();
        keeping_finish(&mut world, &mut keeping);
        assert!(world.is_confirmed(ann, settled) && world.is_confirmed(ann, published[0]));
    });
}
