//! What becomes of messages that expire or for which there is no room, and who gets the next one.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use crate::support::{
    at_ms, consumer, destination, new_queues, options, publish, queues_within, receivers, run,
    selective, session,
};
use tiderace_base::{ShardId, Time};
use tiderace_queues::{
    Consume, DeathReason, DispatchPolicy, Dropped, Effect, Ending, FullPolicy, Policy,
    QueueOptions, Queues, Refusal, Settlement,
};
use tiderace_topics::Path;
use tiderace_wire::{Flags, Meta, Run, RunBuilder, SubscriptionKey};

const KEY: SubscriptionKey = SubscriptionKey(0);

fn with(policy: Policy) -> impl Fn(&Path) -> QueueOptions + Copy {
    move |path| QueueOptions { policy, ..options(path) }
}

/// Of so many messages at most.
fn bounded(full: FullPolicy, messages_max: usize) -> impl Fn(&Path) -> QueueOptions + Copy {
    with(Policy { full, messages_max, ..Policy::default() })
}

/// Why the queue refuses messages with bytes that come alone.
fn refusal(queues: &Queues, more: (usize, usize)) -> Option<Refusal> {
    queues.refusal(&destination().path, more, true, options)
}

/// The numbers of ready messages.
fn ready(queues: &Queues) -> Vec<u64> {
    let key = queues.key_of(&destination().path).unwrap();
    queues
        .ready_from(key, 0, u64::MAX)
        .map(|(segment, place)| segment.run.first() + place as u64)
        .collect()
}

fn expiring(first: u64, times: &[u64]) -> Run {
    let mut builder = RunBuilder::new(destination(), Time::ZERO);
    for expires_ms in times {
        builder.finish(b"x", Meta { expires_ms: Some(*expires_ms), ..Meta::default() });
    }
    let mut run = builder.build();
    run.number(ShardId(0), first);
    run
}

#[test]
fn messages_that_expire_are_dead_letters_if_their_queue_says_so() {
    for dead_letter_expired in [true, false] {
        let (mut queues, mut effects) = (new_queues(), Vec::new());
        let options = with(Policy { dead_letter_expired, ..Policy::default() });
        publish(&mut queues, at_ms(0), expiring(0, &[50, 70, 500]), options, &mut effects);
        // One is found by a consumer, one by looking, one while it waits.
        queues.consume(at_ms(60), &selective(1u8, "colour = 'red'"), options, &mut effects);
        queues.tick(at_ms(80), &mut effects);
        let mut dead = Vec::new();
        for effect in effects.drain(..) {
            let Effect::DeadLetter { segment, to, reason, .. } = effect else { continue };
            assert_eq!((to.unwrap().as_str(), reason), ("dlq/jobs", DeathReason::Expired));
            dead.push(segment.first());
        }
        assert_eq!(dead, if dead_letter_expired { vec![0, 1] } else { vec![] });
        assert_eq!((queues.expired_total(), queues.depth().0), (2, 1));
        assert_eq!(ready(&queues), [2]);
    }
}

#[test]
fn what_is_dead_already_does_not_die_of_old_age() {
    let (mut queues, mut effects) = (new_queues(), Vec::new());
    let policy = Policy { dead_letter_expired: true, ..Policy::default() };
    let fixed = |path: &Path| QueueOptions { policy, dead_letter: "jobs".into(), ..options(path) };
    publish(&mut queues, at_ms(0), expiring(0, &[50]), fixed, &mut effects);
    queues.tick(at_ms(80), &mut effects);
    assert!(effects.is_empty(), "{effects:?}");
    assert_eq!(queues.depth(), (0, 0));
}

#[test]
fn a_queue_that_rejects_takes_no_more_than_it_may() {
    let (mut queues, mut effects) = (new_queues(), Vec::new());
    let options = bounded(FullPolicy::Reject, 3);
    let path = destination().path;
    for first in 0..3 {
        assert_eq!(refusal(&queues, (1, 16)), None, "{first}");
        publish(&mut queues, at_ms(0), run(first, 1), options, &mut effects);
    }
    assert!(matches!(refusal(&queues, (1, 16)), Some(Refusal::Full(3, 1..))));
    assert!(queues.is_at_limit(&path) && queues.at(0).unwrap().full);
    // Nobody is asked to wait.
    assert!(effects.is_empty() && !queues.is_full(&path));
    // What a consumer has counts until it has settled it.
    queues.consume(at_ms(0), &consumer(1u8, 10), options, &mut effects);
    assert!(refusal(&queues, (1, 16)).is_some());
    queues.settle(at_ms(0), session(1u8), KEY, &[(0, 0)], Settlement::Accept, &mut effects);
    assert_eq!(refusal(&queues, (1, 16)), None);
    assert!(refusal(&queues, (2, 32)).is_some(), "they come together");
    queues.settle(at_ms(0), session(1u8), KEY, &[(1, 2)], Settlement::Accept, &mut effects);
    assert_eq!(refusal(&queues, (200, 3_200)), None, "an empty one takes any");
}

#[test]
fn a_queue_that_rejects_counts_bytes_and_memory_too() {
    let mut effects = Vec::new();
    let options = bounded(FullPolicy::Reject, 0);
    let mut queues = new_queues();
    publish(&mut queues, at_ms(0), run(0, 100), options, &mut effects);
    assert!(queues.depth().1 > 2_000 && refusal(&queues, (1, 16)).is_some());
    let mut queues = queues_within(1_000);
    publish(&mut queues, at_ms(0), run(0, 50), options, &mut effects);
    assert!(refusal(&queues, (1, 16)).is_some());
}

#[test]
fn the_oldest_are_dropped_for_those_that_come() {
    let (mut queues, mut effects) = (new_queues(), Vec::new());
    let options = bounded(FullPolicy::DropHead, 3);
    publish(&mut queues, at_ms(0), run(0, 2), options, &mut effects);
    publish(&mut queues, at_ms(0), run(2, 3), options, &mut effects);
    assert_eq!(ready(&queues), [2, 3, 4]);
    assert_eq!(queues.dropped(), Dropped { head: 2, tail: 0 });
    // More than it may have at once.
    publish(&mut queues, at_ms(0), run(5, 9), options, &mut effects);
    assert_eq!(ready(&queues), [11, 12, 13]);
    assert!(effects.is_empty());
    assert_eq!(queues.depth().0, 3);
    // What consumers have stays with them, and what comes is dropped then.
    queues.consume(at_ms(0), &consumer(1u8, 3), options, &mut effects);
    assert_eq!(receivers(std::mem::take(&mut effects)), [1]);
    publish(&mut queues, at_ms(0), run(14, 1), options, &mut effects);
    assert_eq!((ready(&queues), queues.at(0).unwrap().in_flight), (vec![], 3));
    assert_eq!(queues.dropped(), Dropped { head: 12, tail: 0 });
}

#[test]
fn those_that_come_are_dropped() {
    let (mut queues, mut effects) = (new_queues(), Vec::new());
    let options = bounded(FullPolicy::DropTail, 3);
    publish(&mut queues, at_ms(0), run(0, 2), options, &mut effects);
    publish(&mut queues, at_ms(0), run(2, 3), options, &mut effects);
    assert_eq!(ready(&queues), [0, 1, 2]);
    publish(&mut queues, at_ms(0), run(5, 2), options, &mut effects);
    assert_eq!(ready(&queues), [0, 1, 2]);
    assert_eq!(queues.dropped(), Dropped { head: 0, tail: 4 });
    // One that comes back was there before.
    queues.consume(at_ms(0), &consumer(1u8, 1), options, &mut effects);
    queues.settle(at_ms(0), session(1u8), KEY, &[(0, 0)], Settlement::Reject, &mut effects);
    assert_eq!(queues.dropped(), Dropped { head: 0, tail: 4 });
    assert!(effects.iter().all(|effect| matches!(effect, Effect::Deliver { .. })));
}

#[test]
fn what_is_delayed_is_dropped_if_nothing_else_is_there() {
    for (full, dropped) in [
        (FullPolicy::DropHead, Dropped { head: 0, tail: 2 }),
        (FullPolicy::DropTail, Dropped { head: 0, tail: 2 }),
    ] {
        let (mut queues, mut effects) = (new_queues(), Vec::new());
        let options = bounded(full, 2);
        for first in 0..4 {
            let mut builder = RunBuilder::new(destination(), Time::ZERO);
            builder.properties().extend_from_slice(b"deliver-at:500\n");
            builder.finish(b"x", Meta { flags: Flags::DELAYED, ..Meta::default() });
            let mut run = builder.build();
            run.number(ShardId(0), first);
            publish(&mut queues, at_ms(0), run, options, &mut effects);
        }
        assert_eq!((queues.delayed(), queues.dropped()), (2, dropped));
        queues.wake(at_ms(500), &mut effects);
        assert_eq!(ready(&queues), [0, 1]);
    }
}

#[test]
fn dropping_of_stored_messages_is_told() {
    for full in [FullPolicy::DropHead, FullPolicy::DropTail] {
        let (mut queues, mut effects) = (new_queues(), Vec::new());
        let options = bounded(full, 1);
        for first in 0..2 {
            let mut run = run(first, 1);
            let key = queues.admit(at_ms(0), &mut run, options);
            queues.set_stream(key, 7);
            run.set_stored();
            queues.publish(at_ms(0), key, std::sync::Arc::new(run), &mut effects);
        }
        let [Effect::Settled { stream: 7, segment, .. }] = effects.as_slice() else {
            panic!("{effects:?}")
        };
        assert_eq!(segment.first(), if full == FullPolicy::DropHead { 0 } else { 1 });
    }
}

#[test]
fn publishers_wait_for_a_queue_with_as_many_messages_as_it_may_have() {
    let (mut queues, mut effects) = (new_queues(), Vec::new());
    let options = bounded(FullPolicy::Block, 8);
    publish(&mut queues, at_ms(0), run(0, 8), options, &mut effects);
    assert!(effects.is_empty());
    publish(&mut queues, at_ms(0), run(8, 1), options, &mut effects);
    assert!(matches!(effects.as_slice(), [Effect::Full { on: true, .. }]), "{effects:?}");
    effects.clear();
    queues.consume(at_ms(0), &consumer(1u8, 10), options, &mut effects);
    effects.clear();
    // They go on when a quarter has gone.
    for number in 0..3 {
        assert!(effects.is_empty(), "{number}: {effects:?}");
        let range = [(number, number)];
        queues.settle(at_ms(0), session(1u8), KEY, &range, Settlement::Accept, &mut effects);
    }
    assert!(matches!(effects.as_slice(), [Effect::Full { on: false, .. }]), "{effects:?}");
}

#[test]
fn the_first_consumer_gets_all_that_it_has_room_for() {
    let (mut queues, mut effects) = (new_queues(), Vec::new());
    let first = with(Policy { dispatch: DispatchPolicy::First, ..Policy::default() });
    for number in 1..=3u8 {
        queues.consume(at_ms(0), &consumer(number, 2), first, &mut effects);
    }
    for number in 0..5 {
        publish(&mut queues, at_ms(0), run(number, 1), first, &mut effects);
    }
    assert_eq!(receivers(std::mem::take(&mut effects)), [1, 1, 2, 2, 3]);
    // Who has room again comes before those behind it, also for many messages at once.
    let accept = Settlement::Accept;
    queues.settle(at_ms(0), session(2u8), KEY, &[(2, 3)], accept, &mut effects);
    queues.settle(at_ms(0), session(1u8), KEY, &[(0, 0)], accept, &mut effects);
    publish(&mut queues, at_ms(0), run(5, 4), first, &mut effects);
    assert_eq!(receivers(std::mem::take(&mut effects)), [1, 2, 3]);
    // The first leaves: what it had goes to the next when that has room.
    queues.leave(at_ms(0), session(1u8), KEY, (9, Ending::Orderly), &mut effects);
    queues.settle(at_ms(0), session(2u8), KEY, &[(0, 9)], accept, &mut effects);
    assert_eq!(receivers(std::mem::take(&mut effects)).first(), Some(&2));
}

#[test]
fn an_exclusive_queue_is_handed_over_in_the_order_of_coming() {
    let (mut queues, mut effects) = (new_queues(), Vec::new());
    let exclusive = |number: u8| Consume { exclusive: true, ..consumer(number, 10) };
    queues.consume(at_ms(0), &consumer(1u8, 10), options, &mut effects);
    queues.consume(at_ms(0), &exclusive(2), options, &mut effects);
    queues.consume(at_ms(0), &exclusive(3), options, &mut effects);
    let key = queues.key_of(&destination().path).unwrap();
    let shown = |queues: &Queues| -> Vec<(u32, bool, bool)> {
        let consumer = |slot| queues.consumer_at(key, slot);
        let row =
            |it: tiderace_queues::ConsumerState<'_>| (it.session.slot, it.exclusive, it.active);
        (0..queues.consumer_slots()).filter_map(consumer).map(row).collect()
    };
    assert_eq!(shown(&queues), [(1, false, false), (2, true, true), (3, true, false)]);
    for (number, leaving) in [(0, 2u8), (1, 3u8), (2, 9u8)] {
        publish(&mut queues, at_ms(0), run(number, 1), options, &mut effects);
        let first = if number == 0 {
            2
        } else if number == 1 {
            3
        } else {
            1
        };
        assert_eq!(receivers(std::mem::take(&mut effects)), [first]);
        queues.settle(at_ms(0), session(first), KEY, &[(0, 9)], Settlement::Accept, &mut effects);
        queues.leave(at_ms(0), session(leaving), KEY, (9, Ending::Orderly), &mut effects);
    }
    assert_eq!(shown(&queues), [(1, false, true)]);
}
