//! What the queues of one principal hold together, whatever becomes of their messages.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::rc::Rc;
use std::sync::Arc;

use crate::support::{at_ms, consumer, destination, options, publish, run, session};
use tiderace_base::{Memory, Span, Time};
use tiderace_queues::{
    Dropped, Effect, Ending, FullPolicy, OverQuota, Policy, QueueOptions, Queues, Quota, Quotas,
    Refusal, Segment, Settlement,
};
use tiderace_topics::Path;
use tiderace_wire::{Prefetch, Run, SubscriptionKey};

const KEY: SubscriptionKey = SubscriptionKey(0);

fn queues(bytes_max: u64) -> (Queues, Rc<Memory>) {
    let memory = Rc::new(Memory::new(1 << 23));
    let mut queues = Queues::new(memory.clone());
    let roomy = ("bob".into(), Quota::default());
    queues.set_quotas(Quotas { usual: Quota { bytes_max, queues_max: 2 }, of: vec![roomy] });
    (queues, memory)
}

fn owned(name: &str, full: FullPolicy) -> impl Fn(&Path) -> QueueOptions + Copy {
    let policy = Policy { full, ..Policy::default() };
    let window = Prefetch { messages: 100, bytes: 0 };
    move |path| QueueOptions { owner: Some(name.into()), policy, window, ..options(path) }
}

/// The same of a queue that may have more than its owner may.
fn roomy(full: FullPolicy) -> impl Fn(&Path) -> QueueOptions + Copy {
    move |path| QueueOptions { bytes_max: 1 << 23, ..owned("ann", full)(path) }
}

fn path(name: &str) -> Path {
    Path::parse(name).unwrap()
}

/// A message for that queue.
fn message(name: &str, number: u64) -> Run {
    let mut one = run(number, 1)
        .shared_with(tiderace_wire::Destination { path: path(name), ..destination() });
    one.number(tiderace_base::ShardId(0), number);
    one
}

/// A message of so many bytes for that queue.
fn sized(name: &str, number: u64, bytes: usize) -> Run {
    let to = tiderace_wire::Destination { path: path(name), ..destination() };
    let mut builder = tiderace_wire::RunBuilder::new(to, Time::ZERO);
    builder.finish(&vec![b'x'; bytes], tiderace_wire::Meta::default());
    let mut one = builder.build();
    one.number(tiderace_base::ShardId(0), number);
    one
}

/// What a message of a run of one counts for, at most.
fn each() -> u64 {
    Segment::whole(Arc::new(message("a", 1))).bytes() as u64
}

fn held(queues: &Queues, name: &str) -> u64 {
    queues.account_of(queues.key_of(&path(name)).unwrap()).unwrap().0
}

#[test]
fn an_account_is_the_sum_of_its_queues_and_empty_when_they_are() {
    let ((mut queues, memory), mut effects) = (queues(1 << 20), Vec::new());
    let ann = owned("ann", FullPolicy::Block);
    for number in 0..20 {
        let name = if number % 2 == 0 { "a" } else { "b" };
        publish(&mut queues, at_ms(0), message(name, number), ann, &mut effects);
    }
    let all = held(&queues, "a");
    assert_eq!((held(&queues, "b"), all), (all, queues.depth().1 as u64));
    // With a consumer, back again, dead, or taken out for an operation: it counts until it is gone.
    let mut reader = consumer(1u8, 100);
    for name in ["a", "b"] {
        reader.target = tiderace_wire::Target::Exact(tiderace_wire::Destination {
            path: path(name),
            ..destination()
        });
        queues.consume(at_ms(0), &reader, ann, &mut effects);
    }
    assert_eq!(held(&queues, "a"), all);
    queues.settle(at_ms(0), session(1u8), KEY, &[(0, 9)], Settlement::Accept, &mut effects);
    assert_eq!(held(&queues, "a"), queues.depth().1 as u64);
    queues.leave(at_ms(0), session(1u8), KEY, (100, Ending::Lost), &mut effects);
    assert_eq!(held(&queues, "a"), queues.depth().1 as u64);
    assert!(held(&queues, "a") >= 10 * (each() - 1));
    let end = at_ms(60_000);
    for name in ["a", "b"] {
        queues.discard(&path(name), &mut effects);
    }
    assert_eq!((queues.depth(), queues.owners(), memory.used()), ((0, 0), (0, 0), 0), "{end:?}");
}

#[test]
fn who_waits_or_is_refused_at_a_full_queue_is_refused_for_a_full_account() {
    for full in [FullPolicy::Block, FullPolicy::Reject] {
        let ((mut queues, _), mut effects) = (queues(10 * each()), Vec::new());
        let ann = owned("ann", full);
        let mut sent = 0;
        while queues.refusal(&path("a"), (1, 20), true, ann).is_none() {
            publish(&mut queues, at_ms(0), message("a", sent), ann, &mut effects);
            sent += 1;
        }
        assert!((9..=11).contains(&sent), "{sent}");
        let refused = |name, of: &str| queues.refusal(&path(name), (1, 20), true, owned(of, full));
        let over = Some(Refusal::Owner(OverQuota::Bytes(held(&queues, "a"), 10 * each())));
        assert_eq!(refused("a", "ann"), over);
        assert_eq!(refused("b", "ann"), over, "a new one as well");
        assert_eq!(refused("a", "bob"), over, "anybody who sends there");
        assert_eq!(refused("b", "bob"), None);
        // It is shown, and nobody is paused for it.
        assert_eq!(queues.at(0).unwrap().full, queues.is_owner_full(&path("a")));
        assert!(effects.is_empty() && !queues.is_full(&path("a")));
        queues.consume(at_ms(0), &consumer_of("a"), ann, &mut effects);
        queues.settle(at_ms(0), session(1u8), KEY, &[(0, 1)], Settlement::Accept, &mut effects);
        assert_eq!(queues.refusal(&path("a"), (1, 20), true, ann), None, "there is room again");
    }
}

fn consumer_of(name: &str) -> tiderace_queues::Consume {
    let target = tiderace_wire::Target::Exact(tiderace_wire::Destination {
        path: path(name),
        ..destination()
    });
    tiderace_queues::Consume { target, ..consumer(1u8, 100) }
}

#[test]
fn a_queue_that_drops_does_so_for_its_owner() {
    for full in [FullPolicy::DropHead, FullPolicy::DropTail] {
        let ((mut queues, _), mut effects) = (queues(10 * each()), Vec::new());
        // Another queue of the same owner takes up most of the room.
        for number in 0..7 {
            publish(
                &mut queues,
                at_ms(0),
                message("a", number),
                owned("ann", FullPolicy::Block),
                &mut effects,
            );
        }
        let ann = owned("ann", full);
        for number in 7..30 {
            assert_eq!(queues.refusal(&path("b"), (1, 20), true, ann), None);
            publish(&mut queues, at_ms(0), message("b", number), ann, &mut effects);
            assert!(held(&queues, "b") < 11 * each());
        }
        let left = queues.at(1).unwrap().messages as u64;
        let Dropped { head, tail } = queues.dropped();
        assert!(left < 23 && left + head + tail == 23, "{left} {head} {tail}");
        assert_eq!(head == 0, full == FullPolicy::DropTail);
        assert_eq!(queues.at(0).unwrap().messages, 7, "nothing of other queues is dropped");
    }
}

#[test]
fn large_messages_do_not_displace_small_ones_one_by_one() {
    for full in [FullPolicy::DropHead, FullPolicy::DropTail] {
        let ((mut queues, _), mut effects) = (queues(100_000), Vec::new());
        let ann = roomy(full);
        for number in 0..50 {
            publish(&mut queues, at_ms(0), message("a", number), ann, &mut effects);
        }
        for number in 50..60 {
            let large = sized("a", number, 60_000);
            publish(&mut queues, at_ms(0), large, ann, &mut effects);
            assert!(held(&queues, "a") <= 100_000, "{full:?}: {}", held(&queues, "a"));
        }
        let left = queues.at(0).unwrap().messages;
        assert_eq!(left, if full == FullPolicy::DropHead { 1 } else { 51 });
    }
}

#[test]
fn what_comes_is_dropped_where_too_many_small_ones_would_have_to_go() {
    let ((mut queues, _), mut effects) = (queues(1 << 20), Vec::new());
    let ann = roomy(FullPolicy::DropHead);
    for number in 0..10_000 {
        publish(&mut queues, at_ms(0), message("a", number), ann, &mut effects);
    }
    for number in 10_000..10_004 {
        publish(&mut queues, at_ms(0), sized("a", number, 1_000_000), ann, &mut effects);
        assert!(held(&queues, "a") <= 1 << 20, "{}", held(&queues, "a"));
    }
    assert!(queues.at(0).unwrap().messages > 0);
}

#[test]
fn queues_are_counted_and_those_that_end_count_no_more() {
    let ((mut queues, memory), mut effects) = (queues(0), Vec::new());
    let ann = owned("ann", FullPolicy::Block);
    for (name, number) in [("a", 0), ("b", 1)] {
        assert_eq!(queues.refuses_queue(&ann(&path(name)), 20), None);
        publish(&mut queues, at_ms(0), message(name, number), ann, &mut effects);
    }
    assert_eq!(queues.refuses_queue(&ann(&path("c")), 20), Some(OverQuota::Queues(2)));
    let bob = owned("bob", FullPolicy::Block);
    assert_eq!(queues.refuses_queue(&bob(&path("c")), 20), None, "he may have any number");
    assert_eq!(queues.refusal(&path("a"), (1, 20), true, ann), None, "no quota of bytes");
    assert_eq!(queues.account_of(queues.key_of(&path("a")).unwrap()), None);
    queues.consume(at_ms(0), &consumer_of("a"), ann, &mut effects);
    queues.settle(at_ms(0), session(1u8), KEY, &[(0, 0)], Settlement::Accept, &mut effects);
    queues.leave(at_ms(0), session(1u8), KEY, (1, Ending::Orderly), &mut effects);
    let now = tiderace_base::Now { time: Time::ZERO + Span::from_secs(60), wall_ms: 60_000 };
    queues.tick(now, &mut effects);
    assert!(!queues.has(&path("a")) && queues.owners() == (1, 0));
    assert_eq!(queues.refuses_queue(&ann(&path("c")), 20), None);
    queues.discard(&path("b"), &mut effects);
    assert_eq!((queues.owners(), memory.used()), ((0, 0), 0));
    assert!(!effects.iter().any(|effect| matches!(effect, Effect::Full { .. })));
}
