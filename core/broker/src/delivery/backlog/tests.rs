//! Backlogs: order, room, and which entry reaches to which number.

#![allow(clippy::unwrap_used)]
use super::*;
use std::rc::Rc;
use std::sync::Arc;
use tiderace_base::Time;
use tiderace_wire::{Destination, Kind, Meta, RunBuilder, SharedRun};

fn pending(first: u64, count: u32, source: Source) -> Pending {
    let path = Path::parse("a").unwrap();
    let mut builder = RunBuilder::new(Destination { kind: Kind::Topic, path }, Time::ZERO);
    for _ in 0..count {
        builder.finish(&[0; 100], Meta::default());
    }
    let mut run = builder.build();
    run.number(ShardId(0), first);
    let run = Rc::new(SharedRun::new(Arc::new(run)));
    let (key, reached) = (SubscriptionKey(0), first + u64::from(count) - 1);
    Pending { key, run, from: 0, to: count, redeliveries: 0, reached, source, is_past: false }
}

fn reached(backlog: &Backlog) -> Vec<u64> {
    backlog.iter().map(|p| p.reached).collect()
}

fn sequences(backlog: &Backlog) -> Vec<u64> {
    backlog.iter().map(|p| p.run.run().first() + u64::from(p.from)).collect()
}

#[test]
fn dropping_the_oldest_spares_queue_messages() {
    let mut backlog = Backlog::default();
    for (first, source) in
        [(1, Source::Topic), (2, Source::AutoQueue), (3, Source::Topic), (4, Source::Topic)]
    {
        backlog.push(pending(first, 1, source), None, Priority::Default);
    }
    let one = backlog.bytes() / 4;
    assert_eq!(backlog.drop_oldest(0, one * 2, &mut Vec::new()), 2);
    assert_eq!(sequences(&backlog), [2, 4]);
    assert_eq!(backlog.bytes(), one * 2);
}

#[test]
fn what_is_left_is_nothing_only_when_nothing_can_be_taken() {
    let mut backlog = Backlog::default();
    assert_eq!(backlog.left(), Left::Nothing);
    for number in 1..=BODY_AHEAD as u64 + 1 {
        assert_ne!(backlog.left(), Left::Many(SubscriptionKey(0)));
        backlog.push(pending(number, 1, Source::Topic), None, Priority::Default);
        assert_ne!(backlog.left(), Left::Nothing);
    }
    assert_eq!(backlog.left(), Left::Many(SubscriptionKey(0)));
    backlog.push(pending(9, 1, Source::Topic), None, Priority::Low);
    backlog.push(pending(10, 1, Source::Topic), None, Priority::High);
    while backlog.left() != Left::Nothing {
        assert!(backlog.pop().is_some());
    }
    assert!(backlog.pop().is_none() && backlog.is_empty());
}

#[test]
fn conflation_keeps_one_message_of_each_topic_in_its_place() {
    let mut backlog = Backlog::default();
    let topic = |slot| Key { slot, generation: 0 };
    assert_eq!(
        backlog.conflate(topic(1), pending(10, 3, Source::Topic), false, Priority::Default),
        2
    );
    assert_eq!(
        backlog.conflate(topic(2), pending(20, 1, Source::Topic), false, Priority::Default),
        0
    );
    assert_eq!(
        backlog.conflate(topic(1), pending(30, 1, Source::Topic), false, Priority::Default),
        1
    );
    assert_eq!(sequences(&backlog), [30, 20]);
    backlog.pop();
    assert_eq!(
        backlog.conflate(topic(1), pending(40, 1, Source::Topic), false, Priority::Default),
        0
    );
    assert_eq!(sequences(&backlog), [20, 40]);
    backlog.pop();
    backlog.pop();
    assert_eq!(backlog.bytes(), 0);
}

#[test]
fn a_message_in_an_older_place_does_not_reach_behind_what_waits() {
    let mut backlog = Backlog::default();
    let topic = |slot| Key { slot, generation: 0 };
    backlog.conflate(topic(1), pending(10, 3, Source::Topic), false, Priority::Default);
    backlog.conflate(topic(2), pending(20, 1, Source::Topic), false, Priority::Default);
    backlog.conflate(topic(1), pending(30, 2, Source::Topic), false, Priority::Default);
    assert_eq!(sequences(&backlog), [31, 20]);
    assert_eq!(reached(&backlog), [12, 31]);
    let delivered = backlog.pop().unwrap();
    assert_eq!((delivered.run.run().first() + u64::from(delivered.from)), 31);
    assert!(backlog.reach(ShardId(0), 40));
    assert!(!backlog.reach(ShardId(1), 40));
    assert_eq!(backlog.lower(ShardId(0), 25), 40);
    assert_eq!(reached(&backlog), [25]);
}

#[test]
fn a_newer_message_takes_no_place_before_an_older_one() {
    let mut backlog = Backlog::default();
    let topic = Key { slot: 1, generation: 0 };
    backlog.conflate(topic, pending(1, 1, Source::Topic), false, Priority::Default);
    backlog.push(pending(2, 2, Source::Topic), Some(topic), Priority::Default);
    assert_eq!(backlog.conflate(topic, pending(4, 1, Source::Topic), false, Priority::Default), 2);
    assert_eq!(sequences(&backlog), [1, 4]);
}

#[test]
fn conflation_spares_a_queue_message_that_moved_to_its_place() {
    let mut backlog = Backlog::default();
    let topic = Key { slot: 1, generation: 0 };
    backlog.push(pending(1, 1, Source::AutoQueue), None, Priority::Default);
    backlog.conflate(topic, pending(2, 1, Source::Topic), false, Priority::Default);
    let one = backlog.bytes() / 2;
    assert_eq!(backlog.drop_oldest(0, one, &mut Vec::new()), 1);
    backlog.conflate(topic, pending(3, 1, Source::Topic), false, Priority::Default);
    assert_eq!(sequences(&backlog), [1, 3]);
}
