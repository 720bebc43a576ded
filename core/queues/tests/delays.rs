//! Messages that wait: because their publisher wants that, or before they are delivered again.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::sync::Arc;

use crate::support::{
    REDELIVERIES_MAX, at_ms, consumer, delaying, destination, new_queues, options, publish, run,
    session,
};
use tiderace_base::{ShardId, Time};
use tiderace_queues::{Effect, Ending, Queues, Settlement};
use tiderace_topics::Path;
use tiderace_wire::{Flags, Meta, Run, RunBuilder, SubscriptionKey};

const KEY: SubscriptionKey = SubscriptionKey(0);

/// The numbers that were delivered.
fn delivered(effects: &mut Vec<Effect>) -> Vec<u64> {
    let numbers = |effect| match effect {
        Effect::Deliver { segment, .. } => (segment.first()..=segment.last()).collect(),
        _ => Vec::new(),
    };
    effects.drain(..).flat_map(numbers).collect()
}

fn reject(queues: &mut Queues, wall_ms: u64, number: u64, effects: &mut Vec<Effect>) {
    let (who, range) = (session(1u8), [(number, number)]);
    queues.settle(at_ms(wall_ms), who, KEY, &range, Settlement::Reject, effects);
}

/// A queue with so many messages that one consumer has, which has room for ten.
fn with_consumer(messages: u8) -> (Queues, Vec<Effect>) {
    let (mut queues, mut effects) = (new_queues(), Vec::new());
    publish(&mut queues, at_ms(0), run(0, messages), delaying, &mut effects);
    queues.consume(at_ms(0), &consumer(1u8, 10), delaying, &mut effects);
    effects.clear();
    (queues, effects)
}

#[test]
fn a_message_that_fails_waits_longer_each_time_and_is_then_dead() {
    let (mut queues, mut effects) = with_consumer(1);
    let mut wall_ms = 0;
    for delay in [100, 200, 300] {
        reject(&mut queues, wall_ms, 0, &mut effects);
        assert_eq!((queues.depth().0, queues.delayed()), (0, 1));
        let state = queues.at(0).unwrap();
        assert_eq!((state.messages, state.in_flight, state.delayed), (0, 0, 1));
        assert!(state.bytes > 0, "it counts in the queue");
        wall_ms += delay;
        assert!(!queues.is_due(wall_ms - 1));
        queues.wake(at_ms(wall_ms - 1), &mut effects);
        assert_eq!(delivered(&mut effects), [], "{delay}");
        assert!(queues.is_due(wall_ms));
        queues.wake(at_ms(wall_ms), &mut effects);
        assert_eq!(delivered(&mut effects), [0], "{delay}");
    }
    reject(&mut queues, wall_ms, 0, &mut effects);
    let [Effect::DeadLetter { segment, .. }] = effects.as_slice() else { panic!("{effects:?}") };
    assert_eq!(segment.redeliveries, REDELIVERIES_MAX + 1);
    assert_eq!((queues.depth(), queues.delayed()), ((0, 0), 0));
}

#[test]
fn what_waits_holds_up_nothing_and_comes_back_to_its_place() {
    let (mut queues, mut effects) = with_consumer(5);
    reject(&mut queues, 0, 1, &mut effects);
    reject(&mut queues, 10, 3, &mut effects);
    publish(&mut queues, at_ms(20), run(5, 2), delaying, &mut effects);
    assert_eq!(delivered(&mut effects), [5, 6]);
    let lost = (0, Ending::Orderly);
    queues.leave(at_ms(30), session(1u8), KEY, lost, &mut effects);
    queues.wake(at_ms(110), &mut effects);
    queues.consume(at_ms(120), &consumer(1u8, 10), delaying, &mut effects);
    assert_eq!(delivered(&mut effects), [0, 1, 2, 3, 4, 5, 6]);
}

#[test]
fn a_message_whose_consumer_was_lost_waits_and_what_lay_unread_does_not() {
    let (mut queues, mut effects) = with_consumer(3);
    queues.leave(at_ms(0), session(1u8), KEY, (3, Ending::Lost), &mut effects);
    assert_eq!((queues.depth().0, queues.delayed()), (2, 1));
}

#[test]
fn a_selector_sees_what_comes_back_below_what_it_has_looked_at() {
    let (mut queues, mut effects) = (new_queues(), Vec::new());
    publish(&mut queues, at_ms(0), run(0, 7), delaying, &mut effects);
    let red = crate::support::selective(1u8, "colour = 'red'");
    queues.consume(at_ms(0), &red, delaying, &mut effects);
    assert_eq!(delivered(&mut effects), [0, 3, 6]);
    reject(&mut queues, 0, 3, &mut effects);
    assert_eq!(delivered(&mut effects), []);
    queues.wake(at_ms(100), &mut effects);
    assert_eq!(delivered(&mut effects), [3]);
}

#[test]
fn a_queue_that_ends_takes_along_what_waits() {
    let (mut queues, mut effects) = with_consumer(4);
    reject(&mut queues, 0, 1, &mut effects);
    reject(&mut queues, 0, 2, &mut effects);
    queues.discard(&destination().path, &mut effects);
    assert_eq!((queues.depth(), queues.delayed(), queues.is_due(u64::MAX)), ((0, 0), 0, false));
    // Another queue of that name has nothing of it.
    publish(&mut queues, at_ms(0), run(9, 1), delaying, &mut effects);
    queues.wake(at_ms(1_000), &mut effects);
    assert_eq!(queues.depth().0, 1);
}

#[test]
fn a_message_that_the_store_has_refused_is_taken_out_although_it_waits() {
    let (mut queues, mut effects) = with_consumer(4);
    reject(&mut queues, 0, 1, &mut effects);
    let key = queues.key_of(&destination().path).unwrap();
    // The others are with the consumer.
    assert_eq!(queues.withdraw(key, (0, 3), &mut effects), 1);
    assert_eq!((queues.delayed(), queues.is_due(u64::MAX)), (0, false));
    queues.settle(at_ms(0), session(1u8), KEY, &[(0, 9)], Settlement::Accept, &mut effects);
    assert_eq!(queues.depth(), (0, 0));
}

#[test]
fn a_message_may_expire_while_it_waits() {
    let (mut queues, mut effects) = (new_queues(), Vec::new());
    let mut builder = RunBuilder::new(destination(), Time::ZERO);
    for expires_ms in [Some(50), Some(500), None] {
        builder.finish(b"x", Meta { expires_ms, ..Meta::default() });
    }
    let mut run: Run = builder.build();
    run.number(ShardId(0), 0);
    publish(&mut queues, at_ms(0), run, delaying, &mut effects);
    queues.consume(at_ms(0), &consumer(1u8, 10), delaying, &mut effects);
    effects.clear();
    queues.settle(at_ms(0), session(1u8), KEY, &[(0, 2)], Settlement::Reject, &mut effects);
    assert_eq!(queues.delayed(), 3);
    queues.wake(at_ms(50), &mut effects);
    assert_eq!((queues.delayed(), queues.expired_total()), (2, 1));
    queues.wake(at_ms(100), &mut effects);
    assert_eq!(delivered(&mut effects), [1, 2]);
}

/// More than one call makes ready is done in several, and nothing is forgotten.
#[test]
fn a_great_many_become_ready_in_parts() {
    let path = |number: u64| Path::parse(&format!("many/{number}")).unwrap();
    let mut queues = crate::support::queues_within(1 << 30);
    let mut effects = Vec::new();
    let wide = |path: Path| {
        let target =
            tiderace_wire::Target::Exact(tiderace_wire::Destination { path, ..destination() });
        tiderace_queues::Consume { target, ..consumer(1u8, 100_000) }
    };
    const MANY: u64 = 20_000;
    for number in 0..MANY {
        let destination = tiderace_wire::Destination { path: path(number % 7), ..destination() };
        let mut run = Run::single(destination, Time::ZERO, b"", b"x", Meta::default());
        run.number(ShardId(0), number);
        publish(&mut queues, at_ms(0), run, delaying, &mut effects);
    }
    for number in 0..7 {
        queues.consume(at_ms(0), &wide(path(number)), delaying, &mut effects);
    }
    assert_eq!(delivered(&mut effects).len() as u64, MANY);
    let all = [(0, MANY)];
    queues.settle(at_ms(0), session(1u8), KEY, &all, Settlement::Reject, &mut effects);
    assert_eq!(queues.delayed() as u64, MANY);
    queues.wake(at_ms(100), &mut effects);
    let first = delivered(&mut effects).len() as u64;
    assert!((1_000..MANY).contains(&first), "{first} in one call");
    while queues.is_due(100) {
        queues.wake(at_ms(100), &mut effects);
    }
    assert_eq!(first + delivered(&mut effects).len() as u64, MANY);
}

/// A run of messages that are to be delivered at those times, or at once.
fn scheduled(first: u64, times: &[u64]) -> Run {
    let mut builder = RunBuilder::new(destination(), Time::ZERO);
    for due in times {
        builder.properties().extend_from_slice(format!("deliver-at:{due}\n").as_bytes());
        builder.finish(b"x", Meta { flags: tiderace_wire::Flags::DELAYED, ..Meta::default() });
    }
    let mut run = builder.build();
    run.number(ShardId(0), first);
    run
}

#[test]
fn each_message_of_a_run_waits_for_its_own_time() {
    let (mut queues, mut effects) = (new_queues(), Vec::new());
    publish(&mut queues, at_ms(100), scheduled(0, &[300, 100, 200, 0]), delaying, &mut effects);
    publish(&mut queues, at_ms(100), run(4, 1), delaying, &mut effects);
    queues.consume(at_ms(100), &consumer(1u8, 10), delaying, &mut effects);
    assert_eq!(delivered(&mut effects), [1, 3, 4]);
    assert_eq!(queues.at(0).unwrap().delayed, 2);
    queues.wake(at_ms(250), &mut effects);
    assert_eq!(delivered(&mut effects), [2]);
    queues.wake(at_ms(300), &mut effects);
    assert_eq!(delivered(&mut effects), [0]);
}

#[test]
fn a_queue_may_be_full_of_what_waits() {
    let (mut queues, mut effects) = (new_queues(), Vec::new());
    for first in 0..200 {
        publish(&mut queues, at_ms(0), scheduled(first, &[500]), delaying, &mut effects);
    }
    assert!(queues.is_full(&destination().path));
    queues.consume(at_ms(0), &consumer(1u8, 1_000), delaying, &mut effects);
    queues.wake(at_ms(500), &mut effects);
    queues.settle(at_ms(500), session(1u8), KEY, &[(0, 200)], Settlement::Accept, &mut effects);
    assert!(!queues.is_full(&destination().path) && queues.depth() == (0, 0));
}

#[test]
fn a_delayed_message_does_not_keep_those_in_memory_that_it_came_with() {
    let (mut queues, mut effects) = (new_queues(), Vec::new());
    let mut builder = RunBuilder::new(destination(), Time::ZERO);
    builder.finish(&[0; 1_000], Meta::default());
    builder.properties().extend_from_slice(b"deliver-at:500\n");
    builder.finish(b"x", Meta { flags: Flags::DELAYED, ..Meta::default() });
    let mut run = builder.build();
    run.number(ShardId(0), 5);
    let key = queues.admit(at_ms(0), &mut run, options);
    let run = Arc::new(run);
    let together = Arc::downgrade(&run);
    queues.consume(at_ms(0), &consumer(1u8, 1), options, &mut effects);
    queues.publish(at_ms(0), key, run, &mut effects);
    effects.clear();
    let accept = Settlement::Accept;
    queues.settle(at_ms(0), session(1u8), KEY, &[(5, 5)], accept, &mut effects);
    assert!(together.upgrade().is_none(), "the bytes that are counted no more are free");
    assert!((1..100).contains(&queues.depth().1), "{:?}", queues.depth());
    queues.wake(at_ms(500), &mut effects);
    let [Effect::Deliver { segment, .. }] = effects.as_slice() else { panic!("{effects:?}") };
    assert_eq!((segment.first(), segment.len()), (6, 1));
    effects.clear();
    queues.settle(at_ms(500), session(1u8), KEY, &[(6, 6)], accept, &mut effects);
    assert_eq!(queues.depth(), (0, 0));
}

#[test]
fn a_message_that_waits_after_a_failure_keeps_no_others_in_memory() {
    let (mut queues, mut effects) = (new_queues(), Vec::new());
    let mut builder = RunBuilder::new(destination(), Time::ZERO);
    builder.finish(&[0; 1_000], Meta::default());
    builder.finish(b"x", Meta { flags: Flags::NONE, expires_ms: Some(5_000) });
    let mut run = builder.build();
    run.number(ShardId(0), 5);
    let key = queues.admit(at_ms(0), &mut run, delaying);
    let run = Arc::new(run);
    let together = Arc::downgrade(&run);
    queues.consume(at_ms(0), &consumer(1u8, 5), delaying, &mut effects);
    queues.publish(at_ms(0), key, run, &mut effects);
    effects.clear();
    queues.settle(at_ms(0), session(1u8), KEY, &[(6, 6)], Settlement::Reject, &mut effects);
    queues.settle(at_ms(0), session(1u8), KEY, &[(5, 5)], Settlement::Accept, &mut effects);
    assert!(together.upgrade().is_none());
    queues.wake(at_ms(100), &mut effects);
    let [Effect::Deliver { segment, .. }] = effects.as_slice() else { panic!("{effects:?}") };
    assert_eq!((segment.first(), segment.redeliveries), (6, 1));
    effects.clear();
    // It fails as often as before, and is dead in the end.
    for at in [100, 400, 800] {
        queues.settle(at_ms(at), session(1u8), KEY, &[(6, 6)], Settlement::Reject, &mut effects);
        queues.wake(at_ms(at + 300), &mut effects);
    }
    assert!(effects.iter().any(|effect| matches!(effect, Effect::DeadLetter { .. })));
    assert_eq!(queues.depth(), (0, 0));
}
