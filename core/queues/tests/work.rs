//! How much is looked at for a message, a consumer or a pattern, and in how many turns.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::rc::Rc;
use std::sync::Arc;

use crate::support::{
    consume, consumer, destination, options, queues_within, receivers, run, selective, session,
};
use tiderace_base::{Memory, Now, ShardId, Time};
use tiderace_queues::{Consume, Ending, Queues};
use tiderace_topics::{Path, Pattern};
use tiderace_wire::{Destination, Kind, Meta, Run, RunBuilder, SubscriptionKey, Target, Window};

fn at(turn: u64) -> Now {
    Now { time: Time::from_nanos(turn), wall_ms: 0 }
}

#[test]
fn a_search_stops_when_the_turns_budget_is_spent_and_goes_on_in_the_next() {
    let mut queues = queues_within(1 << 30);
    let mut effects = Vec::new();
    // The last message alone is what all of them look for, each in its own words.
    for first in 0..400 {
        queues.publish(at(1), run(first * 100, 100), options, &mut effects);
    }
    let mut marked = RunBuilder::new(destination(), Time::ZERO);
    marked.properties().extend_from_slice(b"colour:green\n");
    marked.finish(b"body", Meta::default());
    let mut marked = marked.build();
    marked.number(ShardId(0), 40_000);
    queues.publish(at(1), Arc::new(marked), options, &mut effects);
    for number in 0..50u8 {
        let selector = format!("colour LIKE '%g%e_n%' OR colour = 'x{number}'");
        queues.consume(at(1), &selective(number, &selector), options, &mut effects);
    }
    assert_eq!(receivers(std::mem::take(&mut effects)), [], "two million looks are not one turn");
    let mut turns = 1;
    while queues.has_work() {
        turns += 1;
        queues.work(at(turns), &mut effects);
    }
    assert_eq!(receivers(effects).len(), 1);
    assert!((50..1_000).contains(&turns), "{turns} turns");
    assert_eq!(queues.depth().0, 40_000);
}

#[test]
fn an_honest_consumer_gets_its_message_while_others_search() {
    let mut queues = queues_within(1 << 30);
    let mut effects = Vec::new();
    for first in 0..400 {
        queues.publish(at(1), run(first * 100, 100), options, &mut effects);
    }
    for number in 0..50u8 {
        let selector = format!("colour LIKE '%g%e_n%' OR colour = 'x{number}'");
        queues.consume(at(1), &selective(number, &selector), options, &mut effects);
    }
    assert!(queues.has_work());
    consume(&mut queues, 60, &mut effects);
    assert_eq!(receivers(effects), [60]);
}

#[test]
fn consumers_with_the_same_selector_look_at_a_message_once() {
    let mut queues = queues_within(1 << 30);
    let mut effects = Vec::new();
    for first in 0..40 {
        queues.publish(at(1), run(first * 100, 100), options, &mut effects);
    }
    for number in 0..200u8 {
        let same = "colour LIKE '%g%e_n%' OR colour IS NULL";
        queues.consume(at(1), &selective(number, same), options, &mut effects);
    }
    // Four thousand looks for all of them together.
    assert!(!queues.has_work());
    assert_eq!(receivers(effects), []);
}

#[test]
fn consumers_without_room_are_not_asked_again() {
    let mut queues = queues_within(1 << 30);
    let mut effects = Vec::new();
    for number in 0..1_000u32 {
        queues.consume(Now::default(), &consumer(number, 1), options, &mut effects);
    }
    for first in 0..1_100 {
        queues.publish(Now::default(), run(first, 1), options, &mut effects);
    }
    // Each has one; the rest waits until one of them has room, and goes to that one.
    assert_eq!(effects.len(), 1_000 + 1, "and the queue is full");
    assert_eq!(
        queues.asked_total(),
        1_000 + 1_000,
        "each is asked once with room and once without"
    );
    for number in 0..1_000u32 {
        effects.clear();
        queues.leave(
            Now::default(),
            session(number),
            SubscriptionKey(0),
            (1, Ending::Orderly),
            &mut effects,
        );
    }
    assert!(queues.asked_total() < 5_000, "{}", queues.asked_total());
}

#[test]
fn a_pattern_finds_many_queues_in_slices() {
    let mut queues = queues_within(1 << 30);
    let mut effects = Vec::new();
    let named = |number: u64| {
        let path = Path::parse(&format!("many/{number}")).unwrap();
        let destination = Destination { kind: Kind::Queue, path };
        let mut run = Run::single(destination, Time::ZERO, b"", b"x", Meta::default());
        run.number(ShardId(0), number);
        Arc::new(run)
    };
    for number in 0..100_000 {
        queues.publish(at(1), named(number), options, &mut effects);
    }
    let consume = Consume {
        target: Target::Pattern(Kind::Queue, Pattern::parse("many/**").unwrap()),
        window: Window { messages: 0, bytes: u32::MAX },
        ..consumer(0u8, 1)
    };
    queues.consume(at(1), &consume, options, &mut effects);
    assert!(queues.has_work());
    let first = effects.len();
    assert!(first < 50_000, "{first}");
    // One that comes meanwhile is not forgotten and not found twice.
    queues.publish(at(1), named(100_000), options, &mut effects);
    for turn in 2.. {
        if !queues.has_work() {
            break;
        }
        queues.work(at(turn), &mut effects);
    }
    assert_eq!(effects.len(), 100_001);
    assert_eq!(queues.depth().0, 0);
}

#[test]
fn places_of_consumers_by_patterns_count_in_the_memory_until_they_leave() {
    let memory = Rc::new(Memory::new(1 << 30));
    let mut queues = Queues::new(Rc::clone(&memory));
    let mut effects = Vec::new();
    for number in 0..200u32 {
        let target = Target::Pattern(Kind::Queue, Pattern::parse("q/**").unwrap());
        let consume = Consume { target, selector: None, ..selective(number, "TRUE") };
        queues.consume(Now::default(), &consume, options, &mut effects);
    }
    let before = memory.used();
    for number in 0..100 {
        let path = Path::parse(&format!("q/{number}")).unwrap();
        let mut builder = RunBuilder::new(Destination { kind: Kind::Queue, path }, Time::ZERO);
        builder.finish(b"body", Meta::default());
        let mut run = builder.build();
        run.number(ShardId(0), number + 1);
        queues.publish(Now::default(), Arc::new(run), options, &mut effects);
    }
    assert_eq!(queues.attached_total(), 200 * 100);
    let with_places = memory.used();
    assert!(with_places - before > 200 * 100 * 48, "{} bytes", with_places - before);
    for number in 0..200u32 {
        let ending = (0, Ending::Orderly);
        queues.leave(Now::default(), session(number), SubscriptionKey(0), ending, &mut effects);
    }
    assert!(with_places - memory.used() > 200 * 100 * 48, "they are given back");
}
