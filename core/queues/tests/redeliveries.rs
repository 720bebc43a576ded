//! What counts as a redelivery and as a failure when consumers reject messages, leave, or are lost.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use crate::support::{REDELIVERIES_MAX, consumer, new_queues, options, publish, run, session};
use tiderace_base::Now;
use tiderace_queues::{Consume, Effect, Ending, Settlement};
use tiderace_wire::{Prefetch, SubscriptionKey};

/// A consumer whose window is its session's.
fn wide(number: u8) -> Consume {
    Consume { window: Prefetch { messages: 0, bytes: u32::MAX }, ..consumer(number, 0) }
}

/// Which messages were given to somebody, and how often they count as redelivered.
fn delivered(effects: &[Effect]) -> Vec<(u64, u32)> {
    let mut all = Vec::new();
    for effect in effects {
        if let Effect::Deliver { segment, .. } = effect {
            let numbers = segment.first()..=segment.last();
            all.extend(numbers.map(|number| (number, segment.redeliveries)));
        }
    }
    all
}

/// Each of many consumers is given all there is, reads and accepts one message, and ends.
#[test]
fn unread_messages_never_count_however_many_consumers_leave_them() {
    for ending in [Ending::Orderly, Ending::Lost] {
        let (mut queues, mut effects, now) = (new_queues(), Vec::new(), Now::default());
        for first in (0..200).step_by(20) {
            publish(&mut queues, now, run(first, 20), options, &mut effects);
        }
        for round in 0..25 {
            effects.clear();
            let key = SubscriptionKey(round);
            let all = Consume { key, ..wide(1) };
            queues.consume(now, &all, options, &mut effects);
            let first = delivered(&effects)[0];
            let again = if round > 0 && ending == Ending::Lost { 1 } else { 0 };
            assert_eq!(first, (u64::from(round), again), "the first one may have been taken");
            assert!(delivered(&effects)[1..].iter().all(|(_, redeliveries)| *redeliveries == 0));
            assert_eq!(delivered(&effects).len() as u32, 200 - round);
            let (number, accept) = (u64::from(round), Settlement::Accept);
            queues.settle(now, session(1u8), key, &[(number, number)], accept, &mut effects);
            queues.leave(now, session(1u8), key, (u64::from(200 - round), ending), &mut effects);
        }
        assert!(effects.iter().all(|effect| matches!(effect, Effect::Deliver { .. })));
        assert_eq!(queues.depth().0, 175);
    }
}

#[test]
fn a_message_that_its_consumers_die_of_ends_as_a_dead_letter_and_those_behind_it_do_not() {
    let (mut queues, mut effects, now) = (new_queues(), Vec::new(), Now::default());
    publish(&mut queues, now, run(0, 3), options, &mut effects);
    for _ in 0..=REDELIVERIES_MAX {
        assert!(effects.iter().all(|effect| matches!(effect, Effect::Deliver { .. })));
        queues.consume(now, &wide(1), options, &mut effects);
        queues.leave(now, session(1u8), SubscriptionKey(0), (3, Ending::Lost), &mut effects);
    }
    let dead = effects.iter().filter_map(|effect| match effect {
        Effect::DeadLetter { segment, .. } => Some((segment.first(), segment.last())),
        _ => None,
    });
    assert_eq!(dead.collect::<Vec<_>>(), [(0, 0)]);
    effects.clear();
    queues.consume(now, &wide(2), options, &mut effects);
    assert_eq!(delivered(&effects), [(1, 0), (2, 0)]);
}

/// A consumer that leaves in good order has not failed, however often: what it may have taken is
/// marked as redelivered and goes on.
#[test]
fn leaving_in_good_order_is_no_failure() {
    let (mut queues, mut effects, now) = (new_queues(), Vec::new(), Now::default());
    publish(&mut queues, now, run(0, 3), options, &mut effects);
    for round in 0..25 {
        effects.clear();
        queues.consume(now, &wide(1), options, &mut effects);
        assert_eq!(delivered(&effects), [(0, round), (1, 0), (2, 0)]);
        queues.leave(now, session(1u8), SubscriptionKey(0), (3, Ending::Orderly), &mut effects);
    }
}

/// Acknowledged one by one and out of order: what was given before one that was settled was taken.
#[test]
fn what_came_before_a_settled_message_counts() {
    let (mut queues, mut effects, now) = (new_queues(), Vec::new(), Now::default());
    publish(&mut queues, now, run(0, 6), options, &mut effects);
    queues.consume(now, &wide(1), options, &mut effects);
    let (key, accept) = (SubscriptionKey(0), Settlement::Accept);
    queues.settle(now, session(1u8), key, &[(3, 3)], accept, &mut effects);
    effects.clear();
    queues.leave(now, session(1u8), key, (6, Ending::Orderly), &mut effects);
    queues.consume(now, &wide(2), options, &mut effects);
    assert_eq!(delivered(&effects), [(0, 1), (1, 1), (2, 1), (4, 0), (5, 0)]);
}
