//! The work budget: dear operations are done a few a turn, in order, and sessions take turns. Counted
//! is work and turns, not time.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use std::sync::Arc;

use crate::support::asking::{answer, ask, create, path, tell, update};
use crate::support::keeping::Keeping;
use crate::support::{Outgoing, Wish, World, destination, for_seeds};
use tiderace_base::{CloseCode, Span};
use tiderace_broker::{BrokerMetrics, BrokerOptions, TopicPolicy};
use tiderace_topics::Pattern;
use tiderace_wire::{
    Change, Command, Commands, Comparison, Condition, Flags, Operation, OperationResult, Token,
    TopicSpec, Update,
};

/// The budget of a turn and the price of the dearest operation.
const TURN_UNITS_MAX: u64 = (2 << 20) + (8 << 20);

fn world(shards: usize) -> World {
    World::new(1, BrokerOptions { shards, ..BrokerOptions::default() })
}

/// JSON of about so many bytes, with a place at its end.
fn large(bytes: usize) -> String {
    format!("{{\"text\":\"{}\",\"n\":1}}", "x".repeat(bytes))
}

fn at(pointer: &str, comparison: Comparison, value: &str) -> Condition {
    Condition::Place { pointer: pointer.into(), comparison, value: value.as_bytes().into() }
}

/// An update that looks into the value with so many conditions, which do not hold.
fn dear(name: &str, conditions: usize) -> Operation {
    let parts = (0..conditions).map(|it| at(&format!("/p{it}"), Comparison::Exists, "")).collect();
    update(name, "{}", Some(Condition::Any(parts)))
}

fn ask_all(world: &mut World, client: usize, operations: Vec<Operation>) -> Vec<Token> {
    let mut commands = Commands::new();
    let mut tokens = Vec::new();
    for operation in operations {
        let token = world.token(client);
        tokens.push(token);
        commands.push(Command::Operate { token, operation: Box::new(operation) });
    }
    world.commands(client, &mut commands);
    tokens
}

fn metrics(world: &World) -> BrokerMetrics {
    world.brokers[0].metrics()
}

/// Delivers the messages that wait for one shard.
fn deliver_envelopes_to(world: &mut World, shard: usize) {
    while (0..world.brokers.len()).any(|from| world.deliver_envelope_between(from, shard)) {}
}

#[test]
fn many_dear_operations_take_many_short_turns() {
    let mut world = world(1);
    let ann = world.connect(0, "ann");
    let body = large(1_000_000);
    tell(&mut world, ann, update("m/large", &body, None)).unwrap();
    let before = metrics(&world);
    let tokens = ask_all(&mut world, ann, (0..40).map(|_| dear("m/large", 60)).collect());
    let after = metrics(&world);
    assert_eq!(after.work, before.work, "nothing of it is done while it is read");
    assert_eq!(after.work_waiting, 40);
    let mut turns = 0;
    while world.has_envelopes() {
        let before = metrics(&world).work;
        world.work(0);
        let spent = metrics(&world).work - before;
        assert!(spent <= TURN_UNITS_MAX, "one turn spent {spent} units");
        turns += 1;
    }
    assert!(turns >= 20, "{turns} turns");
    for token in tokens {
        assert!(answer(&world, ann, token).is_some(), "every operation is answered");
    }
    // One value parsed and walked once for each operation, not for each condition.
    let spent = metrics(&world).work - before.work;
    assert!(spent < 40 * 3 * body.len() as u64, "{spent} units");
}

#[test]
fn a_cheap_operation_of_another_session_waits_for_one_turn_at_most() {
    for shards in 1..=2 {
        let mut world = world(shards);
        let bob = world.connect(0, "bob");
        tell(&mut world, bob, update("m/large", &large(1_000_000), None)).unwrap();
        let mut attackers = Vec::new();
        for number in 0..50 {
            attackers.push(world.connect(number % shards, "mal"));
        }
        for attacker in attackers {
            ask_all(&mut world, attacker, (0..4).map(|_| dear("m/large", 60)).collect());
        }
        while (0..shards).any(|from| world.deliver_envelope_between(from, 0)) {}
        world.work(0);
        let token = ask(&mut world, bob, update("m/small", "1", None));
        if answer(&world, bob, token).is_none() {
            world.work(0);
            for shard in 0..shards {
                world.deliver_envelope_between(0, shard);
                world.deliver_envelope_between(shard, 0);
            }
        }
        assert!(answer(&world, bob, token).is_some(), "over {shards} shards");
        assert!(metrics(&world).work_waiting > 100, "the others still wait");
        world.quiesce();
    }
}

#[test]
fn operations_and_publications_of_a_session_keep_their_order() {
    for_seeds(0..20, |seed| {
        let shards = 1 + (seed % 3) as usize;
        let mut world = World::new(seed, BrokerOptions { shards, ..BrokerOptions::default() });
        let ann = world.connect(0, "ann");
        tell(&mut world, ann, update("m/large", &large(500_000), None)).unwrap();
        let patch = |place: &str| {
            let patch = format!(r#"[{{"op":"add","path":"/{place}","value":1}}]"#);
            let change = Change::Patch(patch.as_bytes().into());
            let (path, flags) = (path("m/large"), Flags::NONE);
            let made =
                Update { path, change, properties: None, flags, condition: None, spec: None };
            Operation::Update(Box::new(made))
        };
        let mut tokens: Vec<Token> = Vec::new();
        for round in 0..5 {
            tokens.push(ask(&mut world, ann, patch(&format!("r{round}"))));
        }
        let empty = Outgoing { flags: Flags::RETAIN, ..Outgoing::new("{}") };
        let published = world.publish_all(ann, "topic:m/large", &[empty]);
        let last = ask(&mut world, ann, patch("last"));
        // What the session has asked for is done although it ends.
        if seed % 2 == 0 {
            world.close(ann);
        }
        world.quiesce();
        let reader = world.connect(0, "bob");
        let exists = |place: &str| at(place, Comparison::Exists, "");
        let missing = |place: &str| at(place, Comparison::Missing, "");
        let all = Condition::All(vec![exists("/last"), missing("/r0"), missing("/text")]);
        let right = tell(&mut world, reader, update("m/large", "{}", Some(all)));
        assert!(right.is_ok(), "{right:?}");
        if seed % 2 == 1 {
            assert!(world.is_confirmed(ann, published));
            let versions: Vec<u64> = tokens
                .iter()
                .chain([&last])
                .map(|token| match answer(&world, ann, *token) {
                    Some(Ok(OperationResult::Updated { version })) => version,
                    other => panic!("{other:?}"),
                })
                .collect();
            assert!(versions.windows(2).all(|two| two[0] < two[1]), "{versions:?}");
        }
        assert_eq!(world.metrics().work_waiting, 0);
        assert_eq!(world.metrics().work_waiting_bytes, 0);
    });
}

#[test]
fn a_session_with_many_deferred_operations_is_not_read_until_half_are_done() {
    for shards in 1..=2 {
        let mut world = world(shards);
        let ann = world.connect(shards - 1, "ann");
        tell(&mut world, ann, update("m/large", &large(1_000_000), None)).unwrap();
        ask_all(&mut world, ann, (0..7).map(|_| dear("m/large", 2)).collect());
        deliver_envelopes_to(&mut world, 0);
        assert!(!world.clients[ann].paused);
        ask(&mut world, ann, dear("m/large", 2));
        deliver_envelopes_to(&mut world, 0);
        deliver_envelopes_to(&mut world, shards - 1);
        assert!(world.clients[ann].paused, "over {shards} shards");
        world.quiesce();
        assert!(!world.clients[ann].paused);
        world.advance(Span::from_millis(50));
        world.end();
    }
}

fn changed(name: &str, change: Change) -> Operation {
    let (path, flags) = (path(name), Flags::NONE);
    let update = Update { path, change, properties: None, flags, condition: None, spec: None };
    Operation::Update(Box::new(update))
}

/// A merge that changes little.
fn merged(name: &str, number: usize) -> Operation {
    changed(name, Change::Merge(format!("{{\"n\":{number}}}").into_bytes().into()))
}

#[test]
fn what_is_made_of_a_value_has_no_more_bytes_than_a_message() {
    let options = BrokerOptions { message_bytes_max: 2_000, ..BrokerOptions::default() };
    let mut world = World::new(1, options);
    let ann = world.connect(0, "ann");
    let body = large(1_200);
    let text = "x".repeat(1_000);
    // By the first codec: the whole value twice.
    let mut delta = Vec::new();
    tiderace_delta_of(&body, &format!("{body}{body}"), &mut delta);
    let first = match tell(&mut world, ann, update("m/v", &body, None)) {
        Ok(OperationResult::Updated { version }) => version,
        other => panic!("{other:?}"),
    };
    for change in [
        Change::Delta { codec: 1, base: first, delta: delta.into() },
        Change::Patch(
            format!(r#"[{{"op":"add","path":"/a","value":"{text}"}}]"#).into_bytes().into(),
        ),
        Change::Merge(format!(r#"{{"a":"{text}"}}"#).into_bytes().into()),
    ] {
        let result = tell(&mut world, ann, changed("m/v", change));
        assert_eq!(result.unwrap_err(), CloseCode::BadPatch);
    }
    let small = tell(&mut world, ann, merged("m/v", 2));
    assert!(
        matches!(small, Ok(OperationResult::Updated { version }) if version == first + 1),
        "{small:?}"
    );
}

fn tiderace_delta_of(old: &str, new: &str, out: &mut Vec<u8>) {
    let codec = tiderace_delta::Codec::named("tiderace").unwrap();
    assert!((codec.encode)(old.as_bytes(), new.as_bytes(), out, usize::MAX));
}

#[test]
fn values_that_are_too_large_are_not_looked_into() {
    let mut world = world(1);
    let ann = world.connect(0, "ann");
    let body = large(1_100_000);
    let patch = Change::Patch(br#"[{"op":"replace","path":"/n","value":2}]"#[..].into());
    tell(&mut world, ann, update("m/v", &body, None)).unwrap();
    for operation in [
        update("m/v", "1", Some(at("/n", Comparison::Equal, "1"))),
        changed("m/v", patch),
        merged("m/v", 2),
    ] {
        let before = metrics(&world).work;
        assert_eq!(tell(&mut world, ann, operation).unwrap_err(), CloseCode::TooMuchWork);
        let spent = metrics(&world).work - before;
        assert!(spent < 1_000, "{spent} units for a refusal");
    }
    assert!(tell(&mut world, ann, update("m/v", "1", Some(Condition::Present))).is_ok());
}

#[test]
fn changes_wait_for_a_reader_that_does_not_read() {
    for shards in 1..=2 {
        let mut world = world(shards);
        let ann = world.connect(0, "ann");
        let reader = world.connect(shards - 1, "reader");
        world.subscribe(reader, 0, Wish::to("topic:m/large"));
        let spec = r#"{"slow_consumer":"block","retain":true}"#;
        tell(&mut world, ann, create("m/large", spec, Some(&large(1_000_000)))).unwrap();
        world.quiesce();
        ask_all(&mut world, ann, (0..100).map(|it| merged("m/large", it)).collect());
        world.deliver_envelopes();
        let held = world.metrics().backlog_bytes;
        assert!(held <= 12_000_000, "{held} bytes are kept for it over {shards} shards");
        assert!(world.metrics().work_waiting > 80, "the others are not done yet");
        world.quiesce();
        assert_eq!(world.metrics().work_waiting, 0, "it reads, and they are");
    }
}

#[test]
fn changes_wait_while_the_store_is_behind() {
    let mut world = world(1);
    let mut keeping = Keeping::default();
    keeping.restore(&mut world);
    let ann = world.connect(0, "ann");
    let body = large(1_000_000);
    ask(&mut world, ann, create("m/kept", r#"{"persistent":true}"#, Some(&body)));
    world.deliver_envelopes();
    keeping.take(&mut world, 0);
    ask_all(&mut world, ann, (0..100).map(|it| merged("m/kept", it)).collect());
    world.deliver_envelopes();
    let waiting = world.metrics().work_waiting;
    assert!((90..100).contains(&waiting), "{waiting} wait for the store to take what was written");
}

#[test]
fn a_change_is_followed_by_some_of_many_views_a_turn() {
    let mut world = world(1);
    let ann = world.connect(0, "ann");
    for number in 0..100 {
        let text = format!("map in to out/{number}/<expand(value)>");
        tell(
            &mut world,
            ann,
            Operation::View { name: path(&format!("v{number}")), text: Some(text.into()) },
        )
        .unwrap();
    }
    let value = format!("[{}1]", "1,".repeat(999));
    let empty = Outgoing { flags: Flags::RETAIN, ..Outgoing::new(&value) };
    world.publish_all(ann, "topic:in", &[empty]);
    let outputs = world.metrics().view_outputs;
    assert!((1..=10_000).contains(&outputs), "{outputs} outputs in one turn");
    let mut turns = 1;
    while world.brokers[0].views_have_work() {
        let before = world.metrics().view_outputs;
        world.work(0);
        let made = world.metrics().view_outputs - before;
        assert!(made <= 10_000, "{made} outputs in one turn");
        turns += 1;
    }
    assert_eq!(world.metrics().view_outputs, 100_000);
    assert!(turns >= 10, "{turns} turns");
}

#[test]
fn what_a_schema_costs_is_charged_and_publications_wait_for_their_turn() {
    let mut world = world(1);
    let ann = world.connect(0, "ann");
    let parts: Vec<String> = (0..150).map(|it| format!(r#"{{"required":["r{it}"]}}"#)).collect();
    let schema = format!(r#"{{"items":{{"anyOf":[{},true]}}}}"#, parts.join(","));
    let spec = format!(r#"{{"type":"json","schema":{schema}}}"#);
    tell(&mut world, ann, create("m/checked", &spec, None)).unwrap();
    let body = format!("[{}{{}}]", "{},".repeat(60));
    let before = metrics(&world);
    let last = (0..200).map(|_| world.publish(ann, "topic:m/checked", &body)).last().unwrap();
    let after = metrics(&world);
    assert!(after.work - before.work > 1_000_000, "it is charged");
    assert!(after.work_waiting > 100, "most of it waits");
    world.quiesce();
    assert!(world.is_confirmed(ann, last));
    assert!(metrics(&world).work_turn_most <= TURN_UNITS_MAX);
}

/// A specification whose schema takes thousands of steps for each element of a value.
fn with_parts(also: &str) -> String {
    let parts: Vec<String> = (0..150).map(|it| format!(r#"{{"required":["r{it}"]}}"#)).collect();
    let schema = format!(r#"{{"items":{{"anyOf":[{},{also}]}}}}"#, parts.join(","));
    format!(r#"{{"type":"json","schema":{schema}}}"#)
}

#[test]
fn values_of_one_run_are_not_refused_for_what_they_take_together() {
    let mut world = world(1);
    let (ann, bob) = (world.connect(0, "ann"), world.connect(0, "bob"));
    tell(&mut world, ann, create("m/checked", &with_parts("true"), None)).unwrap();
    world.subscribe(bob, 0, Wish::to("topic:m/checked"));
    world.quiesce();
    let bodies: Vec<String> = (0..60).map(|it| format!("[{}{it}]", "{},".repeat(60))).collect();
    let outgoing: Vec<Outgoing> = bodies.iter().map(Outgoing::new).collect();
    let token = world.publish_all(ann, "topic:m/checked", &outgoing);
    // What comes behind it stays behind it.
    let last = world.publish(ann, "topic:m/checked", "[]");
    let mut turns = 1;
    while world.brokers[0].has_deferred() {
        let before = metrics(&world).work;
        world.work(0);
        let spent = metrics(&world).work - before;
        assert!(spent <= TURN_UNITS_MAX / 4, "one turn spent {spent} units");
        turns += 1;
    }
    assert!(turns >= 6, "{turns} turns");
    world.quiesce();
    assert!(world.is_confirmed(ann, token) && world.is_confirmed(ann, last));
    let received: Vec<&str> = world.clients[bob].received.iter().map(|it| &*it.body).collect();
    let sent: Vec<&str> = bodies.iter().map(|it| &**it).chain(["[]"]).collect();
    assert_eq!(received, sent);
    let after = metrics(&world);
    assert_eq!((after.work_waiting, after.work_waiting_bytes), (0, 0));
}

#[test]
fn a_run_that_takes_turns_to_check_is_refused_whole() {
    // By itself the topic takes other values than as it was created.
    let strict = TopicSpec::parse(with_parts("false").as_bytes(), &TopicSpec::default()).unwrap();
    let pattern = Pattern::parse("m/**").unwrap();
    let topic_policies = vec![TopicPolicy { pattern, spec: Arc::new(strict) }];
    let mut world = World::new(1, BrokerOptions { topic_policies, ..BrokerOptions::default() });
    let (ann, bob) = (world.connect(0, "ann"), world.connect(0, "bob"));
    tell(&mut world, ann, create("m/checked", &with_parts("true"), None)).unwrap();
    world.subscribe(bob, 0, Wish::to("topic:m/checked"));
    world.quiesce();
    let fits = format!("[{}0]", "{},".repeat(60));
    let mut outgoing = vec![Outgoing::new(&fits); 60];
    outgoing.push(Outgoing::new("no value"));
    let token = world.publish_all(ann, "topic:m/checked", &outgoing);
    assert!(world.brokers[0].has_deferred());
    world.quiesce();
    assert_eq!(world.clients[ann].refused, [(Some(token), CloseCode::BadValue)]);
    let first = metrics(&world).work;
    let token = world.publish_all(ann, "topic:m/checked", &outgoing[..60]);
    let selector = vec![Pattern::parse("m/checked").unwrap()];
    let removal = ask(&mut world, bob, Operation::Remove { selector });
    while answer(&world, bob, removal).is_none() {
        world.advance(Span::from_millis(1));
    }
    world.quiesce();
    let later = metrics(&world).work - first;
    assert!(later < first / 2, "it was not removed before all was checked: {later} of {first}");
    // What has been checked is checked again, as what the topic takes now.
    assert_eq!(world.clients[ann].refused[1..], [(Some(token), CloseCode::BadValue)]);
    assert!(world.clients[bob].received.iter().all(|it| it.body.is_empty()));
}

#[test]
fn what_is_compiled_for_a_specification_is_charged() {
    let mut world = world(1);
    let ann = world.connect(0, "ann");
    let create = |number: usize| {
        let text = format!(r#"{{"schema":{{"pattern":"(a|b|[c-x]{{1,40}}){{1,20}}{number}"}}}}"#);
        Operation::Create {
            path: path(&format!("m/{number}")),
            spec: text.into_bytes().into(),
            value: None,
        }
    };
    let before = metrics(&world);
    let tokens = ask_all(&mut world, ann, (0..20).map(create).collect());
    let mut turns = 1;
    while world.has_envelopes() {
        let before = metrics(&world).work;
        world.work(0);
        let spent = metrics(&world).work - before;
        assert!(spent <= TURN_UNITS_MAX, "one turn spent {spent} units");
        turns += 1;
    }
    // It is refused, which takes as long as the bytes that it was allowed: two in each turn.
    assert!(turns >= 10, "{turns} turns");
    assert!(metrics(&world).work - before.work >= 20 * 96 * 1024 * 20);
    for token in tokens {
        assert_eq!(answer(&world, ann, token).unwrap().unwrap_err(), CloseCode::BadSpecification);
    }
}

#[test]
fn a_new_queue_costs_what_its_consumers_do() {
    let mut world = world(1);
    let mal = world.connect(0, "mal");
    let wishes = (0..3_000).map(|_| Wish { explicit: true, ..Wish::to("queue:q/**") }).collect();
    world.subscribe_all(mal, wishes);
    world.quiesce();
    let sender = world.connect(0, "mal");
    let mut commands = Commands::new();
    commands.begin_turn(tiderace_base::Time::ZERO);
    for number in 0..200 {
        commands.message(&destination(&format!("queue:q/{number}")));
        commands.publish(b"x", tiderace_wire::Meta::default(), None);
    }
    world.commands(sender, &mut commands);
    assert!(metrics(&world).work_waiting > 150, "most of them wait");
    while world.has_envelopes() {
        let before = metrics(&world).work;
        world.work(0);
        let spent = metrics(&world).work - before;
        assert!(spent <= TURN_UNITS_MAX, "one turn spent {spent} units");
    }
    assert_eq!(metrics(&world).work_waiting, 0);
    assert_eq!(world.brokers[0].metrics().queues, 200);
}
