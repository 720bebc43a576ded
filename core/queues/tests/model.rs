//! Against a model: whatever publishers and consumers do, every message is ready, in flight to one
//! consumer, accepted, or dead; never two of these and never none. How often it counts as redelivered,
//! and when it is dead, follows from what its consumers have settled and how they ended.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::collections::{BTreeMap, BTreeSet};

use crate::support::{
    REDELIVERIES_MAX, at_ms, consume, consumer, delaying, destination, new_queues, options,
    publish, receivers, run, session,
};
use proptest::prelude::*;
use tiderace_base::{Now, ShardId, Span, Time};
use tiderace_filter::Selector;
use tiderace_queues::{Consume, Effect, Ending, QueueOptions, Settlement};
use tiderace_topics::Path;
use tiderace_wire::{Meta, Prefetch, Run, RunBuilder, SubscriptionKey};

#[derive(Clone, Debug)]
enum Step {
    Publish(u8),
    Consume {
        consumer: u8,
        messages: u32,
        bytes: u32,
        selective: bool,
        credit: Option<u64>,
    },
    Credit {
        consumer: u8,
        messages: u64,
    },
    Settle {
        consumer: u8,
        at: u8,
        count: u8,
        settlement: u8,
    },
    /// So many milliseconds pass.
    Wait(u64),
    /// So many of the messages it was given last have not reached its session, or were not written.
    Leave {
        consumer: u8,
        lost: bool,
        crossing: u8,
        unwritten: u8,
    },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (1u8..20).prop_map(Step::Publish),
        2 => (0u8..5, 0u32..8, prop_oneof![Just(0u32), Just(40), Just(400)], any::<bool>(), proptest::option::of(0u64..6))
            .prop_map(|(consumer, messages, bytes, selective, credit)| Step::Consume { consumer, messages, bytes, selective, credit }),
        2 => (0u8..5, 0u64..5).prop_map(|(consumer, messages)| Step::Credit { consumer, messages }),
        5 => (0u8..5, any::<u8>(), 1u8..9, 0u8..3)
            .prop_map(|(consumer, at, count, settlement)| Step::Settle { consumer, at, count, settlement }),
        2 => (1u64..200).prop_map(Step::Wait),
        2 => (0u8..5, any::<bool>(), 0u8..6, 0u8..4)
            .prop_map(|(consumer, lost, crossing, unwritten)| Step::Leave { consumer, lost, crossing, unwritten }),
    ]
}

#[derive(Default)]
struct Model {
    published: u64,
    in_flight: BTreeMap<u8, BTreeSet<u64>>,
    selective: BTreeSet<u8>,
    explicit: BTreeSet<u8>,
    /// Consumers that settle: what they were given, in order, and how much of it up to the last that
    /// they settled.
    given: BTreeMap<u8, Vec<u64>>,
    settled_up_to: BTreeMap<u8, usize>,
    redeliveries: BTreeMap<u64, u32>,
    failures: BTreeMap<u64, u32>,
    /// What consumers with credit may still be given.
    credit: BTreeMap<u8, u64>,
    accepted: BTreeSet<u64>,
    dead: BTreeSet<u64>,
    full: bool,
    /// The time, and how long a message waits after each of its failures.
    wall_ms: u64,
    delays: [u64; 3],
    /// What waits, and until when.
    due: BTreeMap<u64, u64>,
}

impl Model {
    fn apply(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Deliver { session, segment, .. } => {
                    let consumer = session.slot as u8;
                    for sequence in segment.first()..=segment.last() {
                        assert!(
                            !self.accepted.contains(&sequence),
                            "{sequence} was accepted already"
                        );
                        assert!(!self.dead.contains(&sequence));
                        let due = self.due.remove(&sequence).unwrap_or(0);
                        assert!(due <= self.wall_ms, "{sequence} waits until {due}");
                        assert!(self.in_flight.values().all(|held| !held.contains(&sequence)));
                        if self.selective.contains(&consumer) {
                            assert!(sequence.is_multiple_of(3), "the selector wants red ones");
                        }
                        if let Some(credit) = self.credit.get_mut(&consumer) {
                            assert!(*credit > 0, "more than its credit");
                            *credit -= 1;
                        }
                        let before = self.redeliveries.get(&sequence).copied().unwrap_or(0);
                        assert_eq!(segment.redeliveries, before, "of {sequence}");
                        self.given.entry(consumer).or_default().push(sequence);
                        self.in_flight.entry(consumer).or_default().insert(sequence);
                    }
                }
                Effect::DeadLetter { segment, to, .. } => {
                    assert_eq!(to.unwrap().as_str(), "dlq/jobs");
                    for sequence in segment.first()..=segment.last() {
                        assert!(
                            self.failures.get(&sequence) > Some(&REDELIVERIES_MAX),
                            "{sequence}"
                        );
                        self.dead.insert(sequence);
                    }
                }
                Effect::Settled { .. }
                | Effect::Ended { .. }
                | Effect::Purged { .. }
                | Effect::Load { .. }
                | Effect::Looked { .. }
                | Effect::Browsed { .. } => {
                    unreachable!("nothing is stored here, and nobody browses")
                }
                Effect::Full { on, .. } => {
                    assert_ne!(self.full, on);
                    self.full = on;
                }
            }
        }
    }

    fn taken(&mut self, sequence: u64, failed: bool) {
        *self.redeliveries.entry(sequence).or_default() += 1;
        let failures = self.failures.entry(sequence).or_default();
        *failures += u32::from(failed);
        if failed && let Some(delay) = self.delays.get(*failures as usize - 1) {
            self.due.insert(sequence, self.wall_ms + delay);
        }
    }

    fn settled(&mut self, consumer: u8, sequence: u64) {
        let place = self.given[&consumer].iter().rposition(|given| *given == sequence).unwrap();
        let known = self.settled_up_to.entry(consumer).or_default();
        *known = (*known).max(place + 1);
    }

    /// A consumer ends to which so many messages were handed.
    fn left(&mut self, consumer: u8, handed: usize, explicit: bool, lost: bool) {
        let held = self.in_flight.remove(&consumer).unwrap();
        let given = self.given.remove(&consumer).unwrap_or_default();
        let settled_up_to = self.settled_up_to.remove(&consumer).unwrap_or(0);
        self.credit.remove(&consumer);
        self.selective.remove(&consumer);
        if !explicit {
            return;
        }
        // One that came back to it has a place of its own each time; the last one counts.
        let place = |sequence| given.iter().rposition(|given| *given == sequence).unwrap();
        let behind = held.iter().map(|sequence| (place(*sequence), *sequence));
        let next = behind.filter(|(place, _)| *place >= settled_up_to).min();
        let next = next.filter(|(place, _)| *place < handed && (lost || settled_up_to == 0));
        for sequence in &held {
            if place(*sequence) < settled_up_to || next.is_some_and(|next| next.1 == *sequence) {
                self.taken(*sequence, lost);
            }
        }
    }

    /// How many wait for their time, of which the queues have been told.
    fn delayed(&self) -> usize {
        self.due.values().filter(|due| **due > self.wall_ms).count()
    }

    fn waiting(&self) -> usize {
        let flying: usize = self.in_flight.values().map(BTreeSet::len).sum();
        self.published as usize - flying - self.accepted.len() - self.dead.len()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]
    #[test]
    fn every_message_is_in_exactly_one_place(steps in proptest::collection::vec(step(), 1..80), delays in any::<bool>()) {
        let mut queues = new_queues();
        let options = if delays { delaying } else { options };
        let mut model = Model { delays: if delays { [100, 200, 300] } else { [0; 3] }, ..Model::default() };
        let key = SubscriptionKey(0);
        for step in steps {
            let now = at_ms(model.wall_ms);
            let mut effects = Vec::new();
            match step {
                Step::Publish(count) => {
                    publish(&mut queues, now, run(model.published, count), options, &mut effects);
                    model.published += u64::from(count);
                }
                Step::Wait(span) => {
                    model.wall_ms += span;
                    queues.wake(at_ms(model.wall_ms), &mut effects);
                }
                Step::Credit { consumer, messages } => {
                    if let Some(credit) = model.credit.get_mut(&consumer) {
                        *credit += messages;
                    }
                    queues.credit(now, session(consumer), key, messages, &mut effects);
                }
                Step::Consume { consumer, messages, bytes, selective, credit } => {
                    if model.in_flight.contains_key(&consumer) {
                        continue;
                    }
                    model.in_flight.insert(consumer, BTreeSet::new());
                    match messages % 2 {
                        0 => model.explicit.insert(consumer),
                        _ => model.explicit.remove(&consumer),
                    };
                    if selective {
                        model.selective.insert(consumer);
                    }
                    let consume = Consume {
                        selector: selective.then(|| Selector::parse("colour = 'red'").unwrap()),
                        window: Prefetch { messages, bytes },
                        explicit: messages % 2 == 0,
                        credit,
                        ..crate::support::consumer(consumer, 0)
                    };
                    model.credit.extend(credit.map(|credit| (consumer, credit)));
                    queues.consume(now, &consume, options, &mut effects);
                }
                Step::Settle { consumer, at, count, settlement } => {
                    let Some(held) = model.in_flight.get_mut(&consumer) else { continue };
                    let Some(first) = held.iter().nth(usize::from(at) % held.len().max(1)).copied() else { continue };
                    let last = first + u64::from(count) - 1;
                    let settlement = [Settlement::Accept, Settlement::Reject, Settlement::Return][usize::from(settlement)];
                    let settled: Vec<u64> = held.range(first..=last).copied().collect();
                    for sequence in settled {
                        model.in_flight.get_mut(&consumer).unwrap().remove(&sequence);
                        if settlement != Settlement::Return {
                            model.settled(consumer, sequence);
                        }
                        match settlement {
                            Settlement::Accept => { model.accepted.insert(sequence); }
                            Settlement::Reject => model.taken(sequence, true),
                            Settlement::Return => {}
                        }
                    }
                    queues.settle(now, session(consumer), key, &[(first, last)], settlement, &mut effects);
                }
                Step::Leave { consumer, lost, crossing, unwritten } => {
                    let Some(held) = model.in_flight.get_mut(&consumer) else { continue };
                    let given = model.given.get(&consumer).map_or(0, Vec::len);
                    let settled = model.settled_up_to.get(&consumer).copied().unwrap_or(0);
                    let handed = given.saturating_sub(usize::from(crossing)).max(settled);
                    let unwritten = handed.saturating_sub(usize::from(unwritten)).max(settled);
                    for sequence in model.given.get(&consumer).map_or(&[][..], |given| &given[unwritten..handed]) {
                        if held.remove(sequence) {
                            let range = [(*sequence, *sequence)];
                            queues.settle(now, session(consumer), key, &range, Settlement::Return, &mut effects);
                        }
                    }
                    let ending = if lost { Ending::Lost } else { Ending::Orderly };
                    model.left(consumer, handed, model.explicit.contains(&consumer), lost);
                    queues.leave(now, session(consumer), key, (handed as u64, ending), &mut effects);
                }
            }
            model.apply(effects);
            prop_assert_eq!(queues.delayed(), model.delayed());
            prop_assert_eq!(queues.depth().0 + queues.delayed(), model.waiting());
        }
        // A consumer without limits then gets all the rest, in order.
        model.wall_ms += 1_000_000;
        let now = at_ms(model.wall_ms);
        let mut effects = Vec::new();
        queues.wake(now, &mut effects);
        model.apply(effects);
        for consumer in model.in_flight.keys().copied().collect::<Vec<_>>() {
            let mut effects = Vec::new();
            let explicit = model.explicit.contains(&consumer);
            model.left(consumer, 0, explicit, false);
            queues.leave(now, session(consumer), key, (0, Ending::Orderly), &mut effects);
            model.apply(effects);
        }
        let mut effects = Vec::new();
        let consume =
            Consume { window: Prefetch { messages: 0, bytes: u32::MAX }, ..consumer(9u8, 0) };
        queues.consume(now, &consume, options, &mut effects);
        let order: Vec<u64> = effects.iter().filter_map(|effect| match effect {
            Effect::Deliver { segment, .. } => Some(segment.first()),
            _ => None,
        }).collect();
        prop_assert!(order.is_sorted());
        model.apply(effects);
        prop_assert_eq!(model.waiting(), 0);
        prop_assert_eq!(queues.depth().0, 0);
    }
}

#[test]
fn two_idle_consumers_share_two_messages() {
    let mut queues = new_queues();
    let mut effects = Vec::new();
    for number in 0..2u8 {
        queues.consume(Now::default(), &consumer(number, 10), options, &mut effects);
    }
    publish(&mut queues, Now::default(), run(0, 2), options, &mut effects);
    let mut model = Model { published: 2, ..Model::default() };
    model.apply(effects);
    assert_eq!(model.in_flight.values().map(BTreeSet::len).collect::<Vec<_>>(), [1, 1]);
}

#[test]
fn expired_messages_are_dropped_and_idle_queues_removed() {
    let mut queues = new_queues();
    let mut effects = Vec::new();
    let meta = Meta { expires_ms: Some(100), ..Meta::default() };
    let run = Run::single(destination(), Time::ZERO, b"", b"x", meta);
    publish(&mut queues, Now::default(), run, options, &mut effects);
    assert_eq!(queues.depth().0, 1);
    queues.tick(Now { time: Time::ZERO, wall_ms: 100 }, &mut effects);
    assert_eq!((queues.depth(), queues.expired_total(), queues.len()), ((0, 0), 1, 1));
    queues.tick(Now { time: Time::ZERO + Span::from_secs(31), wall_ms: 200 }, &mut effects);
    assert!(queues.is_empty());
    assert!(effects.is_empty());
}

#[test]
fn a_fixed_dead_letter_queue_keeps_what_is_rejected_there() {
    let mut queues = new_queues();
    let mut effects = Vec::new();
    let fixed = |path: &Path| QueueOptions { dead_letter: "jobs".into(), ..options(path) };
    publish(&mut queues, Now::default(), run(0, 1), fixed, &mut effects);
    let consume = consumer(1u8, 1);
    queues.consume(Now::default(), &consume, fixed, &mut effects);
    for _ in 0..10 {
        let (who, key) = (session(1u8), SubscriptionKey(0));
        queues.settle(Now::default(), who, key, &[(0, 0)], Settlement::Reject, &mut effects);
    }
    assert!(effects.iter().all(|effect| matches!(effect, Effect::Deliver { .. })));
    assert_eq!(effects.len(), 11);
}

#[test]
fn stretches_that_make_no_sense_settle_nothing() {
    let mut queues = new_queues();
    let mut effects = Vec::new();
    publish(&mut queues, Now::default(), run(5, 3), options, &mut effects);
    let consume = consumer(1u8, 3);
    queues.consume(Now::default(), &consume, options, &mut effects);
    let bytes = queues.depth().1;
    let (who, key) = (session(1u8), SubscriptionKey(0));
    for range in [(7, 5), (6, 0), (u64::MAX, 0), (8, u64::MAX), (0, 4), (u64::MAX, u64::MAX)] {
        queues.settle(Now::default(), who, key, &[range], Settlement::Accept, &mut effects);
        assert_eq!(queues.depth().1, bytes, "{range:?}");
    }
    let all = [(0, u64::MAX), (0, u64::MAX)];
    queues.settle(Now::default(), who, key, &all, Settlement::Accept, &mut effects);
    assert_eq!(queues.depth(), (0, 0));
}

#[test]
fn a_rejected_message_goes_to_another_consumer() {
    let mut queues = new_queues();
    let mut effects = Vec::new();
    consume(&mut queues, 1, &mut effects);
    publish(&mut queues, Now::default(), run(0, 1), options, &mut effects);
    consume(&mut queues, 2, &mut effects);
    let reject = Settlement::Reject;
    queues.settle(
        Now::default(),
        session(1u8),
        SubscriptionKey(0),
        &[(0, 0)],
        reject,
        &mut effects,
    );
    queues.settle(
        Now::default(),
        session(2u8),
        SubscriptionKey(0),
        &[(0, 0)],
        reject,
        &mut effects,
    );
    assert_eq!(receivers(effects), [1, 2, 1]);
}

#[test]
fn all_that_is_rejected_at_once_goes_to_another_consumer() {
    let mut queues = new_queues();
    let mut effects = Vec::new();
    let wide = |number: u8| consumer(number, 10);
    queues.consume(Now::default(), &wide(1u8), options, &mut effects);
    publish(&mut queues, Now::default(), run(0, 3), options, &mut effects);
    queues.consume(Now::default(), &wide(2u8), options, &mut effects);
    effects.clear();
    let reject = Settlement::Reject;
    queues.settle(
        Now::default(),
        session(1u8),
        SubscriptionKey(0),
        &[(0, 1)],
        reject,
        &mut effects,
    );
    assert_eq!(receivers(effects), [2]);
    let mut effects = Vec::new();
    let lost = (3, Ending::Lost);
    queues.leave(Now::default(), session(1u8), SubscriptionKey(0), lost, &mut effects);
    queues.settle(
        Now::default(),
        session(2u8),
        SubscriptionKey(0),
        &[(0, 2)],
        reject,
        &mut effects,
    );
    // Alone, it gets everything again.
    assert!(receivers(effects).iter().all(|receiver| *receiver == 2));
    assert_eq!(queues.depth().0, 0);
}

#[test]
fn an_expired_message_is_never_delivered() {
    let mut queues = new_queues();
    let mut effects = Vec::new();
    let mut builder = RunBuilder::new(destination(), Time::ZERO);
    for expires_ms in [Some(50), None, Some(150), Some(60)] {
        builder.finish(b"x", Meta { expires_ms, ..Meta::default() });
    }
    let mut run = builder.build();
    run.number(ShardId(0), 0);
    let now = Now { time: Time::ZERO, wall_ms: 100 };
    publish(&mut queues, now, run, options, &mut effects);
    let consume = consumer(0u8, 9);
    queues.consume(now, &consume, options, &mut effects);
    let delivered: Vec<u64> = effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::Deliver { segment, .. } => Some(segment.first()),
            _ => None,
        })
        .collect();
    assert_eq!(delivered, [1, 2]);
    assert_eq!(queues.depth().0, 0);
    assert_eq!(queues.expired_total(), 2);
}

#[test]
fn a_queue_with_messages_that_could_not_be_read_is_not_removed_for_being_idle() {
    let mut queues = new_queues();
    let mut effects = Vec::new();
    let [damaged, whole] = ["damaged", "whole"].map(|name| Path::parse(name).unwrap());
    let key = queues.restore(Now::default(), damaged.clone(), (1, 1), options);
    queues.note_unread(key);
    queues.restore(Now::default(), whole.clone(), (2, 1), options);
    let later = Now { time: Time::ZERO + Span::from_secs(31), wall_ms: 31_000 };
    queues.tick(later, &mut effects);
    assert!(queues.has(&damaged) && !queues.has(&whole));
    assert!(matches!(effects.as_slice(), [Effect::Ended { stream: 2 }]), "{effects:?}");
}
