//! What operators do with a queue, against a list of numbers: looks show what is ready, slices take out what was asked
//! for and nothing else, what comes back is where it was, and who consumes from a paused queue gets nothing.

use std::collections::{BTreeMap, BTreeSet};

use crate::support::{
    consumer, destination, new_queues, options, publish, run, selective, session,
};
use proptest::prelude::*;
use tiderace_base::{Key, Now, Span, Time};
use tiderace_filter::Selector;
use tiderace_queues::{Effect, Ending, Queues, Segment, Settlement, Slice, Taken};
use tiderace_wire::SubscriptionKey;

const RED: &str = "colour = 'red'";
const KEY: SubscriptionKey = SubscriptionKey(0);

#[derive(Clone, Debug)]
enum Step {
    Publish(u8),
    Consume { number: u8, messages: u32, selective: bool },
    Settle { number: u8, place: u8, settlement: u8 },
    Leave { number: u8 },
    Pause(bool),
    Peek { from: u64, selective: bool },
    TakeOut { from: u64, to: u64, selective: bool, messages: u64, bytes: usize, steps: u64 },
    Drop { place: u8 },
    GiveBack { place: u8 },
}

fn step() -> impl Strategy<Value = Step> {
    let limits = (0u64..6, prop_oneof![Just(1usize), Just(60), Just(100_000)], 1u64..600);
    prop_oneof![
        4 => (1u8..12).prop_map(Step::Publish),
        2 => (0u8..4, 1u32..6, any::<bool>())
            .prop_map(|(number, messages, selective)| Step::Consume { number, messages, selective }),
        4 => (0u8..4, any::<u8>(), 0u8..3)
            .prop_map(|(number, place, settlement)| Step::Settle { number, place, settlement }),
        1 => (0u8..4).prop_map(|number| Step::Leave { number }),
        1 => any::<bool>().prop_map(Step::Pause),
        1 => (0u64..40, any::<bool>()).prop_map(|(from, selective)| Step::Peek { from, selective }),
        4 => (0u64..30, 0u64..60, any::<bool>(), limits).prop_map(
            |(from, to, selective, (messages, bytes, steps))| {
                Step::TakeOut { from, to, selective, messages, bytes, steps }
            }
        ),
        2 => any::<u8>().prop_map(|place| Step::Drop { place }),
        2 => any::<u8>().prop_map(|place| Step::GiveBack { place }),
    ]
}

#[derive(Default)]
struct Model {
    published: u64,
    ready: BTreeSet<u64>,
    in_flight: BTreeMap<u8, BTreeSet<u64>>,
    taken: Vec<Vec<Segment>>,
    gone: BTreeSet<u64>,
    paused: bool,
}

fn is_red(number: &u64) -> bool {
    number.is_multiple_of(3)
}

fn numbers(segments: &[Segment]) -> Vec<u64> {
    segments.iter().flat_map(|segment| segment.first()..=segment.last()).collect()
}

impl Model {
    fn apply(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Deliver { session, segment, .. } => {
                    assert!(!self.paused, "a paused queue delivers nothing");
                    for number in segment.first()..=segment.last() {
                        assert!(self.ready.remove(&number), "{number} was not ready");
                        self.in_flight.entry(session.slot as u8).or_default().insert(number);
                    }
                }
                Effect::DeadLetter { segment, .. } => {
                    for number in segment.first()..=segment.last() {
                        assert!(self.ready.remove(&number));
                        self.gone.insert(number);
                    }
                }
                Effect::Full { .. } => {}
                other => panic!("nothing is stored here: {other:?}"),
            }
        }
    }

    fn selected(&self, selective: bool, from: u64, to: u64) -> Vec<u64> {
        let all = self.ready.iter().filter(|number| (from..=to).contains(*number));
        all.filter(|number| !selective || is_red(number)).copied().collect()
    }

    fn check(&self, queues: &Queues, key: Key) {
        let state = queues.state(key).unwrap();
        let flying: usize = self.in_flight.values().map(BTreeSet::len).sum();
        let taken: usize = self.taken.iter().map(|segments| numbers(segments).len()).sum();
        assert_eq!((state.messages, state.in_flight), (self.ready.len(), flying + taken));
        assert_eq!((state.paused, queues.paused()), (self.paused, usize::from(self.paused)));
        assert_eq!(state.oldest.is_some(), !self.ready.is_empty());
        let shown: Vec<u64> = peek(queues, key, 0);
        assert_eq!(shown, self.ready.iter().copied().collect::<Vec<_>>());
        assert_eq!(queues.depth().0, self.ready.len());
        let all = self.ready.len() + flying + taken + self.gone.len();
        assert_eq!(all as u64, self.published);
    }
}

fn peek(queues: &Queues, key: Key, from: u64) -> Vec<u64> {
    let all = queues.ready_from(key, from, u64::MAX);
    all.map(|(segment, place)| segment.run.message(place).unwrap().sequence).collect()
}

fn check_taken(model: &Model, slice: &Slice<'_>, taken: &Taken) {
    let number = |version: u64| version.saturating_sub(1);
    let wanted = model.selected(slice.selector.is_some(), number(slice.from), number(slice.to));
    let found = numbers(&taken.segments);
    assert_eq!(found, wanted.get(..found.len()).unwrap(), "the first of those that match");
    assert_eq!(taken.messages, found.len() as u64);
    assert!(taken.messages <= slice.messages);
    let bytes: usize = taken.segments.iter().map(Segment::bytes).sum();
    let last = taken.segments.last().map_or(0, |segment| segment.bytes() / segment.len() as usize);
    assert!(bytes <= slice.bytes + last, "{bytes} bytes");
    let next = taken.next.map_or(u64::MAX, number);
    assert!(found.iter().all(|number| *number < next));
    assert!(wanted[found.len()..].iter().all(|number| *number >= next), "nothing is passed over");
    assert!(taken.next.is_none_or(|next| next > slice.from || slice.messages == 0), "it goes on");
    assert_eq!(taken.unseen, None);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]
    #[test]
    fn operations_do_what_they_would_with_a_list(steps in proptest::collection::vec(step(), 1..80)) {
        let (mut queues, mut model, now) = (new_queues(), Model::default(), Now::default());
        let red = Selector::parse(RED).unwrap();
        // From the start, so that the queue is there.
        queues.pause(now, &destination().path, true, options, &mut Vec::new());
        queues.pause(now, &destination().path, false, options, &mut Vec::new());
        let key = queues.key_of(&destination().path).unwrap();
        for step in steps {
            let mut effects = Vec::new();
            match step {
                Step::Publish(count) => {
                    publish(&mut queues, now, run(model.published, count), options, &mut effects);
                    model.ready.extend(model.published..model.published + u64::from(count));
                    model.published += u64::from(count);
                }
                Step::Consume { number, messages, selective: is_selective } => {
                    if model.in_flight.contains_key(&number) {
                        continue;
                    }
                    model.in_flight.insert(number, BTreeSet::new());
                    let consume = match is_selective {
                        true => selective(number, RED),
                        false => consumer(number, messages),
                    };
                    queues.consume(now, &consume, options, &mut effects);
                }
                Step::Settle { number, place, settlement } => {
                    let Some(held) = model.in_flight.get_mut(&number) else { continue };
                    let place = usize::from(place) % held.len().max(1);
                    let Some(it) = held.iter().nth(place).copied() else { continue };
                    held.remove(&it);
                    let settlement =
                        [Settlement::Accept, Settlement::Reject, Settlement::Return][usize::from(settlement)];
                    match settlement {
                        Settlement::Accept => model.gone.insert(it),
                        Settlement::Reject | Settlement::Return => model.ready.insert(it),
                    };
                    queues.settle(now, session(number), KEY, &[(it, it)], settlement, &mut effects);
                }
                Step::Leave { number } => {
                    let Some(held) = model.in_flight.remove(&number) else { continue };
                    model.ready.extend(held);
                    queues.leave(now, session(number), KEY, (u64::MAX, Ending::Orderly), &mut effects);
                }
                Step::Pause(on) => {
                    model.paused = on;
                    queues.pause(now, &destination().path, on, options, &mut effects);
                }
                Step::Peek { from, selective } => {
                    let found = queues.ready_from(key, from + 1, u64::MAX).map(|(segment, place)| segment.run.message(place).unwrap());
                    let found = found.filter(|message| !selective || red.matches(message));
                    let found: Vec<u64> = found.map(|message| message.sequence).collect();
                    prop_assert_eq!(found, model.selected(selective, from, u64::MAX));
                }
                Step::TakeOut { from, to, selective, messages, bytes, steps } => {
                    let selector = selective.then_some(&red);
                    // The first version is 1, and the first number 0.
                    let slice = Slice { from: from + 1, to: to + 1, seen_below: 0, selector, messages, bytes, steps };
                    let taken = queues.take_out(key, &slice);
                    check_taken(&model, &slice, &taken);
                    numbers(&taken.segments).iter().for_each(|number| assert!(model.ready.remove(number)));
                    model.taken.push(taken.segments);
                }
                Step::Drop { place } => {
                    if model.taken.is_empty() { continue }
                    let segments = model.taken.swap_remove(usize::from(place) % model.taken.len());
                    model.gone.extend(numbers(&segments));
                    queues.drop_taken(now, key, segments, &mut effects);
                }
                Step::GiveBack { place } => {
                    if model.taken.is_empty() { continue }
                    let segments = model.taken.swap_remove(usize::from(place) % model.taken.len());
                    model.ready.extend(numbers(&segments));
                    queues.return_taken(now, key, segments, &mut effects);
                }
            }
            model.apply(effects);
            // Searches that were too long for one turn.
            while queues.has_work() {
                let mut effects = Vec::new();
                queues.work(now, &mut effects);
                model.apply(effects);
            }
            model.check(&queues, key);
        }
        // In the end all is there or gone, and the memory is free when nothing is left.
        let mut effects = Vec::new();
        for segments in std::mem::take(&mut model.taken) {
            model.ready.extend(numbers(&segments));
            queues.return_taken(now, key, segments, &mut effects);
        }
        model.paused = false;
        queues.pause(now, &destination().path, false, options, &mut effects);
        model.apply(effects);
        for number in model.in_flight.keys().copied().collect::<Vec<_>>() {
            let mut effects = Vec::new();
            model.ready.extend(model.in_flight.remove(&number).unwrap());
            queues.leave(now, session(number), KEY, (u64::MAX, Ending::Orderly), &mut effects);
            model.apply(effects);
        }
        model.check(&queues, key);
        let all = Slice { from: 0, to: u64::MAX, seen_below: 0, selector: None, messages: u64::MAX, bytes: usize::MAX, steps: u64::MAX };
        let taken = queues.take_out(key, &all);
        prop_assert_eq!(numbers(&taken.segments), model.ready.iter().copied().collect::<Vec<_>>());
        queues.drop_taken(now, key, taken.segments, &mut Vec::new());
        prop_assert_eq!(queues.depth(), (0, 0));
    }
}

#[test]
fn a_paused_queue_that_is_private_goes_when_it_is_idle() {
    let (mut queues, mut effects) = (new_queues(), Vec::new());
    let later = Now { time: Time::ZERO + Span::from_secs(3_600), ..Now::default() };
    for name in ["user/ann/a", "group/ops/a"] {
        let path = tiderace_topics::Path::parse(name).unwrap();
        queues.pause(Now::default(), &path, true, options, &mut effects);
        queues.tick(later, &mut effects);
        assert_eq!((queues.len(), queues.paused()), (0, 0), "{name}");
    }
}

#[test]
fn a_paused_queue_stays_and_one_that_is_resumed_goes_when_it_is_idle() {
    let mut queues = new_queues();
    let (path, mut effects) = (destination().path, Vec::new());
    queues.pause(Now::default(), &path, true, options, &mut effects);
    let later = Now { time: Time::ZERO + Span::from_secs(100), wall_ms: 0 };
    queues.tick(later, &mut effects);
    assert_eq!((queues.len(), queues.paused()), (1, 1));
    // Twice is once.
    queues.pause(later, &path, true, options, &mut effects);
    queues.pause(later, &path, false, options, &mut effects);
    queues.pause(later, &path, false, options, &mut effects);
    assert_eq!(queues.paused(), 0);
    let later = Now { time: later.time + Span::from_secs(100), wall_ms: 0 };
    queues.tick(later, &mut effects);
    assert!(queues.is_empty() && effects.is_empty());
    // What is not there is not made to be resumed.
    queues.pause(later, &path, false, options, &mut effects);
    assert!(queues.is_empty());
    queues.pause(later, &path, true, options, &mut effects);
    queues.discard(&path, &mut effects);
    assert_eq!(queues.paused(), 0);
}

#[test]
fn what_was_taken_out_goes_with_its_queue() {
    let mut queues = new_queues();
    let (path, mut effects) = (destination().path, Vec::new());
    publish(&mut queues, Now::default(), run(0, 4), options, &mut effects);
    let key = queues.key_of(&path).unwrap();
    let slice = Slice {
        from: 0,
        to: 3,
        seen_below: 0,
        selector: None,
        messages: 9,
        bytes: usize::MAX,
        steps: u64::MAX,
    };
    let taken = queues.take_out(key, &slice);
    assert_eq!(numbers(&taken.segments), [0, 1, 2]);
    assert!(queues.depth().1 > 0, "it still counts");
    queues.discard(&path, &mut effects);
    assert_eq!(queues.depth(), (0, 0));
    publish(&mut queues, Now::default(), run(10, 1), options, &mut effects);
    let before = queues.depth();
    // Another queue of that name has nothing to do with it.
    queues.return_taken(Now::default(), key, taken.segments.clone(), &mut effects);
    queues.drop_taken(Now::default(), key, taken.segments, &mut effects);
    assert_eq!(queues.depth(), before);
}

#[test]
fn consumers_are_shown_by_the_queues_that_they_consume_from() {
    let mut queues = new_queues();
    let mut effects = Vec::new();
    publish(&mut queues, Now::default(), run(0, 4), options, &mut effects);
    for number in 0..3u8 {
        queues.consume(Now::default(), &selective(number, RED), options, &mut effects);
    }
    queues.leave(Now::default(), session(1u8), KEY, (0, Ending::Orderly), &mut effects);
    let key = queues.key_of(&destination().path).unwrap();
    let shown = (0..queues.consumer_slots()).filter_map(|slot| queues.consumer_at(key, slot));
    let shown: Vec<(u32, u32, &str)> =
        shown.map(|it| (it.session.slot, it.messages, it.selector.unwrap().text())).collect();
    assert_eq!(shown, [(0, 2, RED), (2, 0, RED)]);
    assert_eq!(queues.choices(key).unwrap().dead_letter.unwrap().as_str(), "dlq/jobs");
    assert!(queues.consumer_at(Key { slot: 9, generation: 0 }, 0).is_none());
}
