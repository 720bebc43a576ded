//! How much is looked at for a message, a consumer or a pattern, and in how many turns.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::rc::Rc;

use crate::support::{
    consume, consumer, destination, options, publish, queues_within, receivers, run, selective,
    session,
};
use tiderace_base::{Memory, Now, ShardId, Time};
use tiderace_queues::{Consume, Ending, Queues};
use tiderace_topics::{Path, Pattern};
use tiderace_wire::{Destination, Kind, Meta, Prefetch, Run, RunBuilder, SubscriptionKey, Target};

fn at(turn: u64) -> Now {
    Now { time: Time::from_nanos(turn), wall_ms: 0 }
}

#[test]
fn a_search_stops_when_the_turns_budget_is_spent_and_goes_on_in_the_next() {
    let mut queues = queues_within(1 << 30);
    let mut effects = Vec::new();
    // The last message alone is what all of them look for, each in its own words.
    for first in 0..400 {
        publish(&mut queues, at(1), run(first * 100, 100), options, &mut effects);
    }
    let mut marked = RunBuilder::new(destination(), Time::ZERO);
    marked.properties().extend_from_slice(b"colour:green\n");
    marked.finish(b"body", Meta::default());
    let mut marked = marked.build();
    marked.number(ShardId(0), 40_000);
    publish(&mut queues, at(1), marked, options, &mut effects);
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
        publish(&mut queues, at(1), run(first * 100, 100), options, &mut effects);
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
        publish(&mut queues, at(1), run(first * 100, 100), options, &mut effects);
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
        publish(&mut queues, Now::default(), run(first, 1), options, &mut effects);
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
        run
    };
    for number in 0..100_000 {
        publish(&mut queues, at(1), named(number), options, &mut effects);
    }
    let consume = Consume {
        target: Target::Pattern(Kind::Queue, Pattern::parse("many/**").unwrap()),
        window: Prefetch { messages: 0, bytes: u32::MAX },
        ..consumer(0u8, 1)
    };
    queues.consume(at(1), &consume, options, &mut effects);
    assert!(queues.has_work());
    let first = effects.len();
    assert!(first < 50_000, "{first}");
    // One that comes meanwhile is not forgotten and not found twice.
    publish(&mut queues, at(1), named(100_000), options, &mut effects);
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
        publish(&mut queues, Now::default(), run, options, &mut effects);
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

#[test]
fn a_message_does_not_cost_more_for_selectors_whose_consumers_have_no_room() {
    let mut queues = queues_within(1 << 30);
    let mut effects = Vec::new();
    for number in 0..1_000u32 {
        let mine = selective(number, &format!("colour = 'red' OR colour = 'x{number}'"));
        let window = Prefetch { messages: 1, bytes: 0 };
        queues.consume(at(1), &Consume { window, ..mine }, options, &mut effects);
    }
    // Each gets one, and then none of them has room.
    for number in 0..1_000 {
        publish(&mut queues, at(2 + number), run(number * 3, 1), options, &mut effects);
    }
    assert_eq!(receivers(std::mem::take(&mut effects)).len(), 1_000);
    let before = queues.asked_total();
    for number in 1_000..2_000 {
        publish(&mut queues, at(2 + number), run(number * 3, 1), options, &mut effects);
        // What comes back is looked at again by those that have room then.
        let ranges = [((number - 1_000) * 3, (number - 1_000) * 3)];
        let holder = session((number - 1_000) as u32);
        let accept = tiderace_queues::Settlement::Return;
        queues.settle(at(2 + number), holder, SubscriptionKey(0), &ranges, accept, &mut effects);
    }
    let asked = queues.asked_total() - before;
    assert!(asked < 10_000, "2,000 messages asked {asked} times");
    assert_eq!(receivers(std::mem::take(&mut effects)), []);
    let ending = (1, Ending::Orderly);
    queues.leave(at(9_000), session(999u32), SubscriptionKey(0), ending, &mut effects);
    let one = selective(5_000u32, "colour = 'red'");
    queues.consume(at(9_001), &one, options, &mut effects);
    while queues.has_work() {
        queues.work(at(9_002), &mut effects);
    }
    let numbers: Vec<u64> = effects
        .iter()
        .filter_map(|effect| match effect {
            tiderace_queues::Effect::Deliver { segment, .. } => Some(segment.first()),
            _ => None,
        })
        .collect();
    assert_eq!(
        numbers,
        (0..10).map(|number| number * 3).collect::<Vec<_>>(),
        "what came back first"
    );
}

#[test]
fn expired_messages_are_looked_for_a_part_at_a_time() {
    let mut queues = queues_within(1 << 30);
    let mut effects = Vec::new();
    let expiring = |first: u64, expires_ms: u64| {
        let mut builder = RunBuilder::new(destination(), Time::ZERO);
        for _ in 0..100 {
            builder.finish(b"body", Meta { expires_ms: Some(expires_ms), ..Meta::default() });
        }
        let mut run = builder.build();
        run.number(ShardId(0), first);
        run
    };
    for first in 0..1_000 {
        // Every other run is over after a second, and the rest an hour later.
        let expires_ms = if first % 2 == 0 { 1_000 } else { 3_600_000 };
        publish(&mut queues, at(1), expiring(first * 100, expires_ms), options, &mut effects);
    }
    let tick = |queues: &mut Queues, turn: u64, wall_ms: u64| {
        let before = queues.looked_total();
        queues.tick(Now { time: Time::from_nanos(turn), wall_ms }, &mut Vec::new());
        let looked = queues.looked_total() - before;
        assert!(looked < 50_000, "one tick looked at {looked} messages");
        looked
    };
    assert!((2..10).map(|turn| tick(&mut queues, turn, 0)).sum::<u64>() > 100_000);
    assert_eq!(queues.depth().0, 100_000);
    (10..20).for_each(|turn| _ = tick(&mut queues, turn, 2_000));
    assert_eq!((queues.depth().0, queues.expired_total()), (50_000, 50_000));
    (20..30).for_each(|turn| _ = tick(&mut queues, turn, 4_000_000));
    assert_eq!(queues.depth(), (0, 0));
    // Nothing is left to look for.
    assert_eq!((30..40).map(|turn| tick(&mut queues, turn, 4_000_000)).sum::<u64>(), 0);
}

#[test]
fn a_consumer_of_many_patterns_is_asked_once_for_each_that_names_a_new_queue() {
    let mut queues = queues_within(1 << 30);
    let mut effects = Vec::new();
    // One subscription with patterns that all name the same private queues.
    for number in 0..200 {
        let pattern = Pattern::parse(&format!("user/ann/{}**", "*/".repeat(number % 20))).unwrap();
        let target = Target::Pattern(Kind::Queue, pattern);
        queues.consume(at(1), &Consume { target, ..consumer(1u32, 10) }, options, &mut effects);
    }
    let before = queues.asked_total();
    let path = Path::parse(&format!("user/ann{}", "/x".repeat(20))).unwrap();
    let mut run = Run::single(
        Destination { kind: Kind::Queue, path },
        Time::ZERO,
        b"",
        b"body",
        Meta::default(),
    );
    run.number(ShardId(0), 1);
    publish(&mut queues, at(2), run, options, &mut effects);
    assert_eq!(queues.attached_total(), 1);
    let asked = queues.asked_total() - before;
    assert_eq!(asked, 200 + 1, "each pattern, and the consumer for room");
    assert_eq!(receivers(effects), [1]);
}

#[test]
fn a_consumer_that_leaves_many_queues_or_has_room_for_them_is_done_with_in_slices() {
    const QUEUES: u64 = 200_000;
    let mut queues = queues_within(1 << 30);
    let mut effects = Vec::new();
    let named = |number: u64, sequence: u64| {
        let path = Path::parse(&format!("many/{number}")).unwrap();
        let destination = Destination { kind: Kind::Queue, path };
        let mut run = Run::single(destination, Time::ZERO, b"", b"x", Meta::default());
        run.number(ShardId(0), sequence);
        run
    };
    let by_pattern = |number: u32, messages: u32| Consume {
        target: Target::Pattern(Kind::Queue, Pattern::parse("many/**").unwrap()),
        ..consumer(number, messages)
    };
    // The first has room for one message, and each queue has something for it.
    queues.consume(at(1), &by_pattern(1, 1), options, &mut effects);
    for number in 0..QUEUES {
        publish(&mut queues, at(2 + number), named(number, number), options, &mut effects);
    }
    // The second takes all the rest.
    let mut turn = QUEUES + 10;
    queues.consume(at(turn), &by_pattern(2, u32::MAX), options, &mut effects);
    while queues.has_work() {
        turn += 1;
        queues.work(at(turn), &mut effects);
    }
    assert_eq!(queues.depth().0, 0, "all are under way");
    // So the first has room, and nothing to take: it is not asked for all queues in one turn.
    turn += 1;
    let accept = tiderace_queues::Settlement::Accept;
    queues.settle(at(turn), session(1u32), SubscriptionKey(0), &[(0, 0)], accept, &mut effects);
    assert!(queues.has_work(), "it was asked for {QUEUES} queues in one turn");
    let turns = |queues: &mut Queues, turn: &mut u64| {
        let before = *turn;
        while queues.has_work() {
            *turn += 1;
            queues.work(at(*turn), &mut Vec::new());
        }
        *turn - before
    };
    assert!((3..100).contains(&turns(&mut queues, &mut turn)));
    effects.clear();
    turn += 1;
    let ending = (u64::MAX, Ending::Orderly);
    queues.leave(at(turn), session(2u32), SubscriptionKey(0), ending, &mut effects);
    assert!(queues.has_work(), "it left {QUEUES} queues in one turn");
    assert!((3..100).contains(&turns(&mut queues, &mut turn)));
    // What it left is there for others: the first has room for one of them.
    assert_eq!(queues.depth().0 as u64, QUEUES - 2);
}
