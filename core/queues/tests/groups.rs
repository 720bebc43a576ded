//! Message groups: one consumer at a time has messages of a group, and gets them in their order.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::collections::{BTreeMap, BTreeSet};

use crate::support::{
    at_ms, consumer, delaying, destination, options, publish, queues_within, selective, session,
};
use proptest::prelude::*;
use tiderace_base::{ShardId, Time};
use tiderace_queues::{Consume, Effect, Ending, Queues, Settlement};
use tiderace_wire::{Flags, Meta, Run, RunBuilder, SubscriptionKey};

const KEY: SubscriptionKey = SubscriptionKey(0);

/// A run of messages of those groups; the empty one is none. Every third message is red.
fn grouped(first: u64, groups: &[String]) -> Run {
    let mut builder = RunBuilder::new(destination(), Time::ZERO);
    for (group, number) in groups.iter().zip(first..) {
        let colour = if number.is_multiple_of(3) { "red" } else { "blue" };
        let block = builder.properties();
        block.extend_from_slice(format!("colour:{colour}\n").as_bytes());
        let flags = match group.is_empty() {
            true => Flags::NONE,
            false => {
                block.extend_from_slice(format!("message_group:{group}\n").as_bytes());
                Flags::GROUPED
            }
        };
        builder.finish(b"body", Meta { flags, ..Meta::default() });
    }
    let mut run = builder.build();
    run.number(ShardId(0), first);
    run
}

fn queues() -> Queues {
    queues_within(1 << 30)
}

/// Who got which message, in that order.
fn deliveries(effects: &mut Vec<Effect>) -> Vec<(u32, u64)> {
    let mut all = Vec::new();
    for effect in effects.drain(..) {
        if let Effect::Deliver { session, segment, .. } = effect {
            all.extend((segment.first()..=segment.last()).map(|number| (session.slot, number)));
        }
    }
    all
}

#[derive(Clone, Debug)]
enum Step {
    /// Groups of messages; zero is none.
    Publish(Vec<u8>),
    Consume {
        consumer: u8,
        messages: u32,
        selective: bool,
        exclusive: bool,
    },
    Settle {
        consumer: u8,
        at: u8,
        settlement: u8,
    },
    Leave {
        consumer: u8,
        lost: bool,
    },
    Wait(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => proptest::collection::vec(0u8..5, 1..8).prop_map(Step::Publish),
        2 => (0u8..4, 1u32..5, proptest::bool::weighted(0.2), proptest::bool::weighted(0.1)).prop_map(
            |(consumer, messages, selective, exclusive)| Step::Consume { consumer, messages, selective, exclusive }
        ),
        6 => (0u8..4, any::<u8>(), 0u8..4).prop_map(|(consumer, at, settlement)| Step::Settle { consumer, at, settlement }),
        1 => (0u8..4, any::<bool>()).prop_map(|(consumer, lost)| Step::Leave { consumer, lost }),
        1 => (1u64..200).prop_map(Step::Wait),
    ]
}

#[derive(Default)]
struct Model {
    /// By number.
    groups: Vec<u8>,
    holders: BTreeMap<u64, u8>,
    done: BTreeSet<u64>,
    consumers: BTreeMap<u8, bool>,
}

impl Model {
    fn apply(&mut self, effects: &mut Vec<Effect>) {
        for effect in effects.iter() {
            if let Effect::DeadLetter { segment, .. } = effect {
                self.done.extend(segment.first()..=segment.last());
            }
        }
        for (consumer, number) in deliveries(effects) {
            let consumer = consumer as u8;
            assert!(!self.done.contains(&number) && !self.holders.contains_key(&number));
            let group = self.groups[number as usize];
            if group > 0 {
                for (other, holder) in &self.holders {
                    let is_same = self.groups[*other as usize] == group;
                    assert!(!is_same || *holder == consumer, "two have messages of {group}");
                }
                // A selector leaves out what it does not select.
                let selects = self.consumers[&consumer];
                for before in (0..number).filter(|_| !selects) {
                    let is_same = self.groups[before as usize] == group;
                    let is_settled =
                        self.done.contains(&before) || self.holders.contains_key(&before);
                    assert!(!is_same || is_settled, "{number} came before {before}");
                }
            }
            self.holders.insert(number, consumer);
        }
    }

    fn left(&self) -> usize {
        self.groups.len() - self.done.len() - self.holders.len()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]
    #[test]
    fn a_group_is_with_one_consumer_and_in_order(
        steps in proptest::collection::vec(step(), 1..120),
        delays in any::<bool>(),
    ) {
        let options = if delays { delaying } else { options };
        let (mut queues, mut model, mut effects) = (queues(), Model::default(), Vec::new());
        let mut wall_ms = 0;
        for step in steps {
            let now = at_ms(wall_ms);
            match step {
                Step::Publish(groups) => {
                    let first = model.groups.len() as u64;
                    let name = |group: &u8| if *group == 0 { String::new() } else { format!("g{group}") };
                    let names: Vec<String> = groups.iter().map(name).collect();
                    model.groups.extend(groups);
                    publish(&mut queues, now, grouped(first, &names), options, &mut effects);
                }
                Step::Consume { consumer: number, messages, selective: selects, exclusive } => {
                    if model.consumers.contains_key(&number) {
                        continue;
                    }
                    model.consumers.insert(number, selects);
                    let red = Consume { window: consumer(number, messages).window, ..selective(number, "colour = 'red'") };
                    let consume = if selects { red } else { consumer(number, messages) };
                    queues.consume(now, &Consume { exclusive, ..consume }, options, &mut effects);
                }
                Step::Settle { consumer, at, settlement } => {
                    let held: Vec<u64> = model.holders.iter().filter(|(_, who)| **who == consumer).map(|(number, _)| *number).collect();
                    if held.is_empty() {
                        continue;
                    }
                    let number = held[usize::from(at) % held.len()];
                    model.holders.remove(&number);
                    let settlement = match settlement {
                        0 => Settlement::Reject,
                        _ => {
                            model.done.insert(number);
                            Settlement::Accept
                        }
                    };
                    queues.settle(now, session(consumer), KEY, &[(number, number)], settlement, &mut effects);
                }
                Step::Leave { consumer, lost } => {
                    if model.consumers.remove(&consumer).is_none() {
                        continue;
                    }
                    model.holders.retain(|_, who| *who != consumer);
                    let ending = if lost { Ending::Lost } else { Ending::Orderly };
                    queues.leave(now, session(consumer), KEY, (u64::MAX, ending), &mut effects);
                }
                Step::Wait(span) => {
                    wall_ms += span;
                    queues.wake(at_ms(wall_ms), &mut effects);
                }
            }
            model.apply(&mut effects);
            prop_assert_eq!(queues.depth().0 + queues.delayed(), model.left());
            while queues.has_work() {
                queues.work(at_ms(wall_ms), &mut effects);
                model.apply(&mut effects);
            }
        }
        // One with room for everything joins, the others settle what they have: nothing is left behind.
        wall_ms += 1_000_000;
        let now = at_ms(wall_ms);
        queues.wake(now, &mut effects);
        model.apply(&mut effects);
        model.consumers.insert(9, false);
        queues.consume(now, &Consume { exclusive: true, ..consumer(9u8, u32::MAX) }, options, &mut effects);
        model.apply(&mut effects);
        for number in 0..4 {
            if model.consumers.remove(&number).is_some() {
                model.holders.retain(|_, who| *who != number);
                queues.leave(now, session(number), KEY, (0, Ending::Orderly), &mut effects);
                model.apply(&mut effects);
            }
        }
        while queues.has_work() {
            queues.work(now, &mut effects);
            model.apply(&mut effects);
        }
        prop_assert_eq!(model.left(), 0);
        let all = [(0, u64::MAX)];
        queues.settle(now, session(9u8), KEY, &all, Settlement::Accept, &mut effects);
        prop_assert_eq!(queues.depth(), (0, 0));
        if let Some(state) = queues.at(0) {
            prop_assert_eq!(state.groups, 0, "nothing is remembered of groups that nobody has");
        }
    }
}

fn names(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("group-{number}")).collect()
}

#[test]
fn groups_spread_over_consumers_and_stay_with_them() {
    let (mut queues, mut effects) = (queues(), Vec::new());
    for number in 0..4u8 {
        queues.consume(at_ms(0), &consumer(number, 1_000), options, &mut effects);
    }
    let names = names(200);
    let mut owners: BTreeMap<u64, u32> = BTreeMap::new();
    for round in 0..3 {
        publish(&mut queues, at_ms(0), grouped(round * 200, &names), options, &mut effects);
        for (who, number) in deliveries(&mut effects) {
            let owner = *owners.entry(number % 200).or_insert(who);
            assert_eq!(owner, who, "round {round}");
        }
        let accept = Settlement::Accept;
        for number in 0..4u8 {
            let all = [(0, u64::MAX)];
            queues.settle(at_ms(0), session(number), KEY, &all, accept, &mut effects);
        }
        assert_eq!((queues.depth(), queues.at(0).unwrap().groups), ((0, 0), 0));
    }
    let of = |consumer| owners.values().filter(|owner| **owner == consumer).count();
    assert!((0..4).all(|consumer| (10..120).contains(&of(consumer))), "{owners:?}");
}

#[test]
fn a_consumer_that_comes_gets_some_groups_when_they_are_drained() {
    let (mut queues, mut effects) = (queues(), Vec::new());
    let names = names(50);
    queues.consume(at_ms(0), &consumer(1u8, 1_000), options, &mut effects);
    publish(&mut queues, at_ms(0), grouped(0, &names), options, &mut effects);
    assert_eq!(deliveries(&mut effects).len(), 50);
    queues.consume(at_ms(0), &consumer(2u8, 1_000), options, &mut effects);
    publish(&mut queues, at_ms(0), grouped(50, &names), options, &mut effects);
    // Those that stay go on; those that move wait for what the first one has of them.
    let stay: BTreeSet<u64> = deliveries(&mut effects)
        .into_iter()
        .map(|(who, number)| {
            assert_eq!(who, 1);
            number - 50
        })
        .collect();
    assert!((5..46).contains(&stay.len()), "{stay:?}");
    for number in 0..50 {
        let range = [(number, number)];
        queues.settle(at_ms(0), session(1u8), KEY, &range, Settlement::Accept, &mut effects);
        let expected = if stay.contains(&number) { vec![] } else { vec![(2, number + 50)] };
        assert_eq!(deliveries(&mut effects), expected, "{number}");
    }
}

#[test]
fn a_message_that_waits_after_a_failure_holds_its_group_up_and_no_other() {
    let (mut queues, mut effects) = (queues(), Vec::new());
    queues.consume(at_ms(0), &consumer(1u8, 1), delaying, &mut effects);
    let groups = ["a", "a", "b"].map(str::to_owned);
    publish(&mut queues, at_ms(0), grouped(0, &groups), delaying, &mut effects);
    assert_eq!(deliveries(&mut effects), [(1, 0)]);
    queues.settle(at_ms(0), session(1u8), KEY, &[(0, 0)], Settlement::Reject, &mut effects);
    assert_eq!(deliveries(&mut effects), [(1, 2)], "the other group goes on");
    queues.settle(at_ms(0), session(1u8), KEY, &[(2, 2)], Settlement::Accept, &mut effects);
    assert_eq!(deliveries(&mut effects), []);
    queues.wake(at_ms(100), &mut effects);
    assert_eq!(deliveries(&mut effects), [(1, 0)]);
    queues.settle(at_ms(100), session(1u8), KEY, &[(0, 0)], Settlement::Accept, &mut effects);
    assert_eq!(deliveries(&mut effects), [(1, 1)]);
}

#[test]
fn a_consumer_without_room_holds_up_its_own_groups_alone() {
    let (mut queues, mut effects) = (queues(), Vec::new());
    queues.consume(at_ms(0), &consumer(1u8, 1), options, &mut effects);
    queues.consume(at_ms(0), &consumer(2u8, 1_000), options, &mut effects);
    publish(&mut queues, at_ms(0), grouped(0, &names(100)), options, &mut effects);
    let all = deliveries(&mut effects);
    let own = 100 - all.iter().filter(|(who, _)| *who == 2).count();
    assert!((5..95).contains(&own) && all.iter().filter(|(who, _)| *who == 1).count() == 1);
    // It gets them one by one, in order, when it settles.
    let mut last = all.iter().find(|(who, _)| *who == 1).unwrap().1;
    for _ in 1..own {
        let range = [(last, last)];
        queues.settle(at_ms(0), session(1u8), KEY, &range, Settlement::Accept, &mut effects);
        let [(1, next)] = deliveries(&mut effects)[..] else { panic!() };
        assert!(next > last);
        last = next;
    }
}

#[test]
fn messages_without_a_group_go_to_a_consumer_with_room() {
    let (mut queues, mut effects) = (queues(), Vec::new());
    queues.consume(at_ms(0), &consumer(1u8, 1), options, &mut effects);
    queues.consume(at_ms(0), &consumer(2u8, 1_000), options, &mut effects);
    publish(&mut queues, at_ms(0), grouped(0, &["a".to_owned()]), options, &mut effects);
    for number in 1..100 {
        publish(&mut queues, at_ms(0), grouped(number, &[String::new()]), options, &mut effects);
    }
    assert_eq!(queues.depth().0, 0, "one of them has room for all");
}

/// Thousands of groups of one message each.
#[test]
fn groups_that_are_never_seen_again_take_no_memory_and_little_time() {
    let (mut queues, mut effects) = (queues(), Vec::new());
    for number in 0..20u8 {
        queues.consume(at_ms(0), &consumer(number, 10), options, &mut effects);
    }
    for first in 0..50_000u64 {
        let groups = [format!("{first}-{}", "x".repeat(200))];
        publish(&mut queues, at_ms(first), grouped(first, &groups), options, &mut effects);
        for (who, number) in deliveries(&mut effects) {
            let range = [(number, number)];
            let accept = Settlement::Accept;
            queues.settle(at_ms(first), session(who), KEY, &range, accept, &mut effects);
        }
        assert_eq!(queues.at(0).unwrap().groups, 0);
    }
    assert_eq!(queues.depth(), (0, 0));
    assert!(queues.asked_total() < 200_000, "{}", queues.asked_total());
}

#[test]
fn a_deep_queue_of_groups_is_looked_through_in_slices() {
    let (mut queues, mut effects) = (queues(), Vec::new());
    for first in 0..1_000u64 {
        publish(&mut queues, at_ms(1), grouped(first * 100, &names(100)), options, &mut effects);
    }
    // One has room for one message, the other for none that is its own until it has looked far.
    for number in 0..30u8 {
        queues.consume(at_ms(1), &consumer(number, 1), options, &mut effects);
    }
    let mut turns = 1;
    while queues.has_work() {
        turns += 1;
        queues.work(at_ms(turns), &mut effects);
    }
    assert!((1..200).contains(&turns), "{turns} turns");
    let who: BTreeSet<u32> = deliveries(&mut effects).into_iter().map(|(who, _)| who).collect();
    assert!(who.len() > 20, "{who:?}");
}
