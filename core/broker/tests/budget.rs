//! One memory budget: whatever is kept counts in it, and what would be too much is refused.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::sync::Arc;

use crate::support::asking::{self, connect, create, path, tell};
use crate::support::exchanges::{ended, pair};
use crate::support::{Outgoing, Wish, World};
use tiderace_base::{CloseCode, MemoryUse, Span};
use tiderace_broker::{Broker, BrokerOptions, SlowConsumer};
use tiderace_topics::Path;
use tiderace_wire::{Change, ExchangeKey, Flags, Operation, Update};

const MAX: usize = 1 << 20;

/// One shard with a small budget, on which a subscriber that does not read may hold everybody back.
fn world() -> World {
    let mut options = BrokerOptions { messages_bytes_max: MAX, ..BrokerOptions::default() };
    Arc::make_mut(&mut options.topic_default).slow_consumer = SlowConsumer::Block;
    options.subscriptions_max = 1_000_000;
    World::new(1, options)
}

fn used(world: &World) -> usize {
    world.brokers[0].memory().used()
}

fn retained(body: &str) -> Outgoing {
    Outgoing { flags: Flags::RETAIN, ..Outgoing::new(body) }
}

/// The code of the refusal of what was asked last, if it was refused.
fn refused(world: &World, client: usize) -> Option<CloseCode> {
    let client = &world.clients[client];
    client.refused.iter().find(|(token, _)| *token == Some(client.tokens)).map(|(_, code)| *code)
}

#[test]
fn what_one_use_takes_the_others_have_not() {
    let large = "x".repeat(MAX / 3);
    for filled in ["topic:backlog", "queue:q", "topic:value"] {
        let mut world = world();
        let (ann, bob) = (connect(&mut world, "ann"), connect(&mut world, "bob"));
        world.subscribe(bob, 0, Wish::to("topic:backlog"));
        world.deliver_envelopes();
        for place in 0..3 {
            let to =
                if filled == "topic:value" { format!("{filled}/{place}") } else { filled.into() };
            let message = if place < 2 || filled != "topic:value" { &large } else { "x" };
            let message =
                if filled == "topic:value" { retained(message) } else { Outgoing::new(message) };
            world.publish_all(ann, &to, &[message]);
        }
        assert!(used(&world) > MAX / 2, "{filled}");
        let value = retained(&large);
        world.publish_all(bob, "topic:other/value", std::slice::from_ref(&value));
        assert_eq!(refused(&world, bob), Some(CloseCode::MemoryFull), "{filled}");
        if filled != "topic:value" {
            if filled == "queue:q" {
                world.subscribe(ann, 1, Wish::to("queue:q"));
            }
            world.quiesce();
            world.publish_all(bob, "topic:other/value", &[value]);
            assert_eq!(refused(&world, bob), None, "{filled}");
        }
        world.end();
    }
}

#[test]
fn a_message_counts_once_however_many_wait_for_it() {
    let mut world = world();
    let ann = connect(&mut world, "ann");
    for _ in 0..50 {
        let reader = connect(&mut world, "reader");
        world.subscribe(reader, 0, Wish::to("topic:t"));
    }
    let before = used(&world);
    world.publish(ann, "topic:t", &"x".repeat(100_000));
    let bytes = used(&world) - before;
    assert!((100_000..110_000).contains(&bytes), "{bytes}");
    world.end();
}

#[test]
fn a_value_that_is_changed_again_and_again_counts_once() {
    let mut world = world();
    let ann = connect(&mut world, "ann");
    let value = format!(r#"{{"a":"{}"}}"#, "x".repeat(100_000));
    tell(&mut world, ann, create("t", r#"{"retain":true}"#, Some(&value))).unwrap();
    let before = used(&world);
    for changes in 0..30 {
        let update = Update {
            path: path("t"),
            change: Change::Merge(format!(r#"{{"b":{changes}}}"#).into_bytes().into()),
            properties: None,
            flags: Flags::NONE,
            condition: None,
            spec: None,
        };
        tell(&mut world, ann, Operation::Update(Box::new(update))).unwrap();
        let bytes = used(&world) - before;
        assert!(bytes < 10_000, "{bytes} bytes more after {changes} changes");
    }
    world.end();
}

#[test]
fn a_replaced_value_counts_once_if_something_counts_it() {
    let bytes = 70_000;
    for (spec, wish, kept) in [
        // The last value is kept for the next delta, and no other.
        (r#"{"retain":true}"#, Some(Wish { deltas: true, ..Wish::to("topic:t") }), 1),
        (r#"{"retain":true,"history":{"count":3}}"#, None, 3),
        (r#"{"retain":true}"#, Some(Wish { recoverable: true, ..Wish::to("topic:t") }), 6),
    ] {
        let mut world = world();
        let (ann, bob) = (connect(&mut world, "ann"), connect(&mut world, "bob"));
        tell(&mut world, ann, create("t", spec, Some(&"x".repeat(bytes)))).unwrap();
        if let Some(wish) = wish {
            world.subscribe(bob, 0, wish);
            world.quiesce();
        }
        let before = used(&world) - bytes;
        for changes in 0..5 {
            let value = asking::update("t", &changes.to_string().repeat(bytes), None);
            tell(&mut world, ann, value).unwrap();
        }
        let values = (used(&world) - before) as f64 / bytes as f64;
        // The value itself is counted beside what is kept of it in a history.
        assert!(
            values < f64::from(kept) + 1.1,
            "{spec}: {values} values, {:?}",
            world.brokers[0].memory()
        );
        world.end();
    }
}

#[test]
fn a_value_that_a_history_gives_up_counts_while_a_reader_has_it() {
    let bytes = 70_000;
    let mut world = world();
    let (ann, bob) = (connect(&mut world, "ann"), connect(&mut world, "bob"));
    let spec = r#"{"retain":true,"history":{"count":2}}"#;
    tell(&mut world, ann, create("t", spec, Some(&"x".repeat(bytes)))).unwrap();
    world.subscribe(bob, 0, Wish::to("topic:t"));
    world.deliver_envelopes();
    let values =
        |world: &World| world.brokers[0].memory().used_for(MemoryUse::Values) as f64 / bytes as f64;
    let before = values(&world);
    for changes in 0..3 {
        let value = asking::update("t", &changes.to_string().repeat(bytes), None);
        asking::ask(&mut world, ann, value);
        world.deliver_envelopes();
    }
    // One more in the history, and two that bob has not read and nothing else keeps.
    let more = values(&world) - before;
    assert!((2.9..3.1).contains(&more), "{more}");
    world.quiesce();
    world.advance(tiderace_base::Span::from_millis(50));
    let more = values(&world) - before;
    assert!((0.9..1.1).contains(&more), "{more}");
    world.end();
}

#[test]
fn names_have_a_price() {
    for kind in ["topic", "queue"] {
        let mut world = world();
        let ann = connect(&mut world, "ann");
        let name = "n".repeat(900);
        let accepted = (0..5_000).take_while(|number| {
            world.publish(ann, &format!("{kind}:{number}/{name}"), "");
            refused(&world, ann).is_none()
        });
        let accepted = accepted.count();
        assert!((200..1_300).contains(&accepted), "{kind}: {accepted}");
        assert_eq!(refused(&world, ann), Some(CloseCode::MemoryFull));
        assert!(used(&world) <= MAX + MAX / 8);
        world.publish(ann, &format!("{kind}:0/{name}"), "");
        assert_eq!(refused(&world, ann), None, "{kind}: one that is there already");
    }
}

#[test]
fn subscriptions_have_a_price() {
    for target in ["topic:a/*b*/", "topic:b/", "queue:c/"] {
        let mut world = world();
        let ann = connect(&mut world, "ann");
        let accepted = (0..5_000u32).take_while(|number| {
            world.subscribe(ann, *number, Wish::to(&format!("{target}{number}")));
            world.deliver_envelopes();
            refused(&world, ann).is_none()
        });
        let accepted = accepted.count();
        assert!((300..4_500).contains(&accepted), "{target}: {accepted}");
        assert_eq!(refused(&world, ann), Some(CloseCode::MemoryFull));
        assert!(used(&world) <= MAX + MAX / 4, "{}", used(&world));
        world.close(ann);
        let bob = connect(&mut world, "bob");
        world.subscribe(bob, 0, Wish::to("topic:b/0"));
        world.deliver_envelopes();
        assert_eq!(refused(&world, bob), None, "what has ended does not count");
        world.end();
    }
}

#[test]
fn wills_leave_room_for_others() {
    let mut world = world();
    let run = |bytes: usize| {
        let destination = crate::support::destination("topic:w");
        let body = vec![0; bytes];
        let meta = tiderace_wire::Meta::default();
        Box::new(tiderace_wire::Run::single(
            destination,
            tiderace_base::Time::ZERO,
            b"",
            &body,
            meta,
        ))
    };
    let mut refused = 0;
    let clients: Vec<usize> = (0..20).map(|_| connect(&mut world, "ann")).collect();
    for client in &clients {
        let told = tell(&mut world, *client, Operation::Will(Some(run(50_000))));
        refused += usize::from(told.err() == Some(CloseCode::MemoryFull));
    }
    assert_eq!(refused, 10);
    for client in &clients {
        tell(&mut world, *client, Operation::Will(None)).unwrap();
    }
    tell(&mut world, clients[19], Operation::Will(Some(run(50_000)))).unwrap();
    world.end();
}

#[test]
fn calls_that_nobody_takes_have_a_price() {
    let mut world = world();
    let server = connect(&mut world, "server");
    let wish = Wish { credit: Some(1), ..Wish::to("service:s") };
    world.subscribe(server, 0, wish);
    world.deliver_envelopes();
    let body = "x".repeat(100_000);
    for _ in 0..30 {
        let caller = connect(&mut world, "caller");
        world.call(caller, 1, "s", &body, true);
        world.deliver_envelopes();
    }
    let full = |client: &crate::support::Client| {
        client.ended.iter().any(|end| end.1 == CloseCode::MemoryFull)
    };
    let ends: Vec<_> = world.clients.iter().map(|client| &client.ended).collect();
    assert!(world.clients.iter().any(full), "{ends:?} {:?}", world.brokers[0].memory());
    assert!(used(&world) <= MAX + MAX / 8 + 110_000, "{}", used(&world));
    world.end();
}

#[test]
fn values_made_of_a_few_bytes_obey_the_budget_within_a_turn() {
    for slow_consumer in ["block", "drop-oldest", "conflate"] {
        let mut world = world();
        let (ann, bob) = (connect(&mut world, "ann"), connect(&mut world, "bob"));
        let value = format!(r#"{{"a":"{}"}}"#, "x".repeat(100_000));
        let spec = format!(r#"{{"slow_consumer":"{slow_consumer}","retain":true}}"#);
        tell(&mut world, ann, create("t", &spec, Some(&value))).unwrap();
        world.subscribe(bob, 0, Wish::to("topic:t"));
        world.deliver_envelopes();
        let mut commands = tiderace_wire::Commands::new();
        for number in 0..300u32 {
            let merge = format!(r#"{{"b":{number}}}"#);
            let update = Update {
                path: path("t"),
                change: Change::Merge(merge.into_bytes().into()),
                properties: None,
                flags: Flags::NONE,
                condition: None,
                spec: None,
            };
            let operation = Box::new(Operation::Update(Box::new(update)));
            commands.push(tiderace_wire::Command::Operate { token: 1_000 + number, operation });
        }
        world.commands(ann, &mut commands);
        // They are done a few a turn, and nobody reads meanwhile.
        for _ in 0..200 {
            world.work(0);
            assert!(used(&world) <= MAX + MAX / 8 + 110_000, "{slow_consumer}: {}", used(&world));
        }
        let refused = &world.clients[ann].refused;
        assert!(refused.iter().all(|(_, code)| *code == CloseCode::MemoryFull));
        let left = refused.len() as u64 + world.metrics().work_waiting;
        assert!(
            slow_consumer != "block" || left > 200,
            "{left} are refused or wait for the reader"
        );
        world.quiesce();
        assert_eq!(world.metrics().work_waiting, 0);
        assert_eq!(world.brokers[0].memory().used_for(MemoryUse::Backlogs), 0);
        world.end();
    }
}

#[test]
fn when_memory_is_exhausted_no_backlog_grows_and_readers_go_on() {
    for slow_consumer in [
        SlowConsumer::Block,
        SlowConsumer::Conflate,
        SlowConsumer::DropOldest,
        SlowConsumer::DropNewest,
        SlowConsumer::Disconnect,
    ] {
        let mut options = BrokerOptions { messages_bytes_max: MAX, ..BrokerOptions::default() };
        Arc::make_mut(&mut options.topic_default).slow_consumer = slow_consumer;
        let mut world = World::new(1, options);
        let ann = connect(&mut world, "ann");
        let slow: Vec<usize> = (0..60).map(|_| connect(&mut world, "slow")).collect();
        for (client, number) in slow.iter().zip(0..) {
            world.subscribe(*client, 0, Wish::to(&format!("topic:t/{number}")));
        }
        world.deliver_envelopes();
        for round in 0..3 {
            for number in 0..60 {
                world.publish(ann, &format!("topic:t/{number}"), &"x".repeat(100_000 + round));
            }
        }
        assert!(used(&world) <= MAX + MAX / 8 + 110_000, "{slow_consumer:?}: {}", used(&world));
        let reader = connect(&mut world, "reader");
        world.subscribe(reader, 0, Wish::to("topic:small"));
        for number in 0..10 {
            world.publish(ann, "topic:small", &number.to_string());
            world.drain(reader);
        }
        assert_eq!(world.clients[reader].received.len(), 10, "{slow_consumer:?}");
        world.end();
    }
}

/// Changes wait for a reader that does not read, however long that is; what waits counts.
#[test]
fn operations_that_wait_for_their_turn_have_a_price() {
    let mut options = BrokerOptions { messages_bytes_max: MAX, ..BrokerOptions::default() };
    Arc::make_mut(&mut options.topic_default).slow_consumer = SlowConsumer::Block;
    (options.backlog_bytes_high, options.backlog_bytes_low) = (20_000, 10_000);
    let mut world = World::new(1, options);
    let reader = connect(&mut world, "reader");
    world.subscribe(reader, 0, Wish::to("topic:m"));
    let large = format!("{{\"a\":\"{}\"}}", "x".repeat(70_000));
    let writers: Vec<usize> = (0..10).map(|_| connect(&mut world, "ann")).collect();
    tell(&mut world, writers[0], create("m", r#"{"retain":true}"#, Some(&large))).unwrap();
    world.quiesce();
    world.publish(writers[0], "topic:m", &large);
    world.deliver_envelopes();
    for (number, writer) in (0..4).flat_map(|number| writers.iter().map(move |it| (number, *it))) {
        let merge = Change::Merge(large.replace('x', &number.to_string()).into_bytes().into());
        let Operation::Update(update) = asking::update("m", "", None) else { unreachable!() };
        asking::ask(
            &mut world,
            writer,
            Operation::Update(Box::new(Update { change: merge, ..*update })),
        );
    }
    world.deliver_envelopes();
    let waiting = world.brokers[0].metrics().work_waiting_bytes as usize;
    assert!(waiting > MAX / 4, "{waiting} bytes wait");
    assert!(waiting <= (MAX + MAX / 8) / 2, "{waiting} bytes wait");
    let counted = world.brokers[0].memory().used_for(MemoryUse::Input);
    assert_eq!(counted, waiting);
    world.quiesce();
    let done: usize = writers.iter().map(|writer| world.clients[*writer].operated.len()).sum();
    assert!((4..40).contains(&done), "{done} of forty have been done");
    assert_eq!(world.brokers[0].memory().used_for(MemoryUse::Input), 0);
    world.end();
}

#[test]
fn locks_and_claims_have_a_price() {
    let name = "n".repeat(900);
    let lock = |name| Operation::Lock { name, timeout: Span::ZERO };
    let claim = |path| Operation::Claim { path };
    for ask in [&lock as &dyn Fn(Path) -> Operation, &claim] {
        let mut world = world();
        let ann = connect(&mut world, "ann");
        let all = (0..5_000).map(|number| ask(path(&format!("{number}/{name}"))));
        let mut answers = all.map(|operation| tell(&mut world, ann, operation));
        let accepted = answers.by_ref().take_while(Result::is_ok).count();
        assert!((200..1_300).contains(&accepted), "{accepted}");
        assert_eq!(answers.next().unwrap().unwrap_err(), CloseCode::MemoryFull);
        drop(answers);
        assert!(used(&world) <= MAX + MAX / 8);
        world.close(ann);
        world.quiesce();
        let bob = connect(&mut world, "bob");
        assert!(
            tell(&mut world, bob, lock(path("n"))).is_ok(),
            "what was given back does not count"
        );
        world.close(bob);
        world.end();
        world.sweep();
    }
}

/// Some bytes of a schema may be large when they are compiled.
#[test]
fn specifications_have_a_price_and_equal_ones_have_it_once() {
    let mut world = world();
    let ann = connect(&mut world, "ann");
    let spec = |number| {
        let schema = format!(r#"{{"pattern":"[a-z]{{1,100}}x{number}"}}"#);
        format!(r#"{{"type":"json","schema":{schema}}}"#)
    };
    for number in 0..500 {
        tell(&mut world, ann, create(&format!("same/{number}"), &spec(0), None)).unwrap();
    }
    let others = (1..500).map(|number| create(&format!("other/{number}"), &spec(number), None));
    let accepted = others.take_while(|other| tell(&mut world, ann, other.clone()).is_ok()).count();
    assert!((5..100).contains(&accepted), "{accepted} of some {} bytes each", spec(1).len());
    assert!(used(&world) <= MAX + MAX / 8);
    tell(&mut world, ann, asking::remove("other/**")).unwrap();
    tell(&mut world, ann, create("other/0", &spec(500), None)).unwrap();
    world.end();
}

#[test]
fn exchanges_that_nobody_goes_on_with_are_bounded() {
    for shards in 1..=3 {
        let (mut world, caller, responder) = pair(shards, |options| {
            options.services.calls_open_max = usize::MAX;
            options.messages_bytes_max = MAX;
        });
        // It takes whatever comes and answers nothing.
        world.subscribe(responder, 4, Wish { window: Some(u32::MAX), ..Wish::to("service:mute") });
        world.deliver_envelopes();
        let (mut number, mut refused) = (0, None);
        while refused.is_none() {
            number += 1;
            world.call(caller, number, "mute", "", number % 2 == 0);
            world.quiesce();
            assert!(number < 10_000, "they count nowhere");
            refused = ended(&mut world, caller).pop();
        }
        let code = refused.unwrap().1;
        assert!(matches!(code, CloseCode::MemoryFull | CloseCode::ServiceBusy), "{code:?}");
        let used = |broker: &Broker| broker.memory().used();
        assert!(world.brokers.iter().all(|broker| used(broker) <= MAX));
        assert!(world.metrics().exchanges > 100);
        // As soon as one is over there is room for another.
        for first in 1..=20 {
            world.cancel(caller, ExchangeKey::caller(first));
        }
        world.quiesce();
        world.call(caller, number + 1, "mute", "", true);
        world.quiesce();
        assert!(ended(&mut world, caller).is_empty());
        world.end();
        world.check_memory(&[MemoryUse::Calls]);
        world.sweep();
    }
}
