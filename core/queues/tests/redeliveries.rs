//! What counts as a redelivery and as a failure when consumers reject messages, leave, or are lost.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::rc::Rc;
use std::sync::Arc;

use tiderace_base::{Memory, Now, SessionId, ShardId, Span, Time};
use tiderace_queues::{Consume, Effect, Ending, QueueOptions, Queues, Settlement};
use tiderace_topics::Path;
use tiderace_wire::{Destination, Kind, Meta, Run, RunBuilder, SubscriptionKey, Target, Window};

const REDELIVERIES_MAX: u32 = 3;

fn options(_: &Path) -> QueueOptions {
    QueueOptions {
        bytes_max: 2_000,
        window: Window { messages: 5, bytes: 0 },
        redeliveries_max: REDELIVERIES_MAX,
        dead_letter: "dlq/{queue}".into(),
        idle: Span::from_secs(30),
    }
}

fn destination() -> Destination {
    Destination { kind: Kind::Queue, path: Path::parse("jobs").unwrap() }
}

fn session(number: u8) -> SessionId {
    SessionId { shard: ShardId(0), slot: u32::from(number), generation: 0 }
}

fn run(first: u64, count: u8) -> Arc<Run> {
    let mut builder = RunBuilder::new(destination(), Time::ZERO);
    for offset in 0..count {
        let colour = if (first + u64::from(offset)).is_multiple_of(3) { "red" } else { "blue" };
        builder.properties().extend_from_slice(format!("colour:{colour}\n").as_bytes());
        builder.finish(b"body", Meta::default());
    }
    let mut run = builder.build();
    run.number(ShardId(0), first);
    Arc::new(run)
}

fn new_queues() -> Queues {
    Queues::new(Rc::new(Memory::new(1 << 20)))
}

fn wide(consumer: u8) -> Consume {
    Consume {
        session: session(consumer),
        key: SubscriptionKey(0),
        target: Target::Exact(destination()),
        selector: None,
        window: Window { messages: 0, bytes: u32::MAX },
        exclusive: false,
        explicit: true,
        credit: None,
    }
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
            queues.publish(now, run(first, 20), options, &mut effects);
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
            queues.settle(now, session(1), key, &[(number, number)], accept, &mut effects);
            queues.leave(now, session(1), key, (u64::from(200 - round), ending), &mut effects);
        }
        assert!(effects.iter().all(|effect| matches!(effect, Effect::Deliver { .. })));
        assert_eq!(queues.depth().0, 175);
    }
}

#[test]
fn a_message_that_its_consumers_die_of_ends_as_a_dead_letter_and_those_behind_it_do_not() {
    let (mut queues, mut effects, now) = (new_queues(), Vec::new(), Now::default());
    queues.publish(now, run(0, 3), options, &mut effects);
    for _ in 0..=REDELIVERIES_MAX {
        assert!(effects.iter().all(|effect| matches!(effect, Effect::Deliver { .. })));
        queues.consume(now, &wide(1), options, &mut effects);
        queues.leave(now, session(1), SubscriptionKey(0), (3, Ending::Lost), &mut effects);
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
    queues.publish(now, run(0, 3), options, &mut effects);
    for round in 0..25 {
        effects.clear();
        queues.consume(now, &wide(1), options, &mut effects);
        assert_eq!(delivered(&effects), [(0, round), (1, 0), (2, 0)]);
        queues.leave(now, session(1), SubscriptionKey(0), (3, Ending::Orderly), &mut effects);
    }
}

/// Acknowledged one by one and out of order: what was given before one that was settled was taken.
#[test]
fn what_came_before_a_settled_message_counts() {
    let (mut queues, mut effects, now) = (new_queues(), Vec::new(), Now::default());
    queues.publish(now, run(0, 6), options, &mut effects);
    queues.consume(now, &wide(1), options, &mut effects);
    let (key, accept) = (SubscriptionKey(0), Settlement::Accept);
    queues.settle(now, session(1), key, &[(3, 3)], accept, &mut effects);
    effects.clear();
    queues.leave(now, session(1), key, (6, Ending::Orderly), &mut effects);
    queues.consume(now, &wide(2), options, &mut effects);
    assert_eq!(delivered(&effects), [(0, 1), (1, 1), (2, 1), (4, 0), (5, 0)]);
}
