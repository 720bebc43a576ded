//! Persistent topics under crashes at any moment, over one to three shards and a store that answers
//! late or has no room: what was confirmed is there in the next life.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::support::asking::{ask, create, path, remove, update};
use crate::support::keeping::Keeping;
use crate::support::{Outgoing, World, for_seeds};
use tiderace_base::{CloseCode, Now, Span};
use tiderace_broker::{BrokerOptions, TopicPolicy};
use tiderace_topics::Pattern;
use tiderace_wire::{
    Fetch, Flags, HistoryQuery, Operation, OperationResult, Replay, Token, TopicSpec,
};

const SPECS: [&str; 4] = [
    r#"{"persistent":true,"deltas":false}"#,
    r#"{"persistent":true,"retain":true}"#,
    r#"{"persistent":true,"retain":true,"history":3}"#,
    r#"{"persistent":true,"type":"timeseries","history":5}"#,
];

fn options(shards: usize) -> BrokerOptions {
    let passing = TopicPolicy { pattern: Pattern::parse("x").unwrap(), spec: Arc::default() };
    BrokerOptions {
        shards,
        topic_policies: vec![passing],
        topic_default: Arc::new(TopicSpec { persistent: true, ..TopicSpec::default() }),
        ..BrokerOptions::default()
    }
}

fn world(seed: u64) -> World {
    World::new(seed, BrokerOptions { epoch: seed, ..options(1 + (seed % 3) as usize) })
}

/// Asks something that does not wait for the store.
fn tell(world: &mut World, client: usize, operation: Operation) -> Option<OperationResult> {
    let token = ask(world, client, operation);
    world.deliver_envelopes();
    world.clients[client].operated.get(&token).cloned()
}

/// What somebody who looks sees of a topic.
#[derive(Clone, Debug, PartialEq, Eq)]
struct State {
    spec: Option<String>,
    value: Option<(u64, String)>,
    events: Vec<(u64, String)>,
}

fn text(body: &[u8]) -> String {
    String::from_utf8(body.to_vec()).unwrap()
}

fn look(world: &mut World, eye: usize, name: &str) -> State {
    let selector = vec![Pattern::parse(name).unwrap()];
    let fetch = Fetch { selector, after: None, limit: 0, depth: 0, values: true, specs: true };
    let Some(OperationResult::Page(page)) = tell(world, eye, Operation::Fetch(Box::new(fetch)))
    else {
        panic!("a page is always there")
    };
    let topic = page.topics.first();
    let query = HistoryQuery {
        path: path(name),
        from: Replay::Version(0),
        to: None,
        limit: 0,
        amended: true,
    };
    let events = match tell(world, eye, Operation::History(Box::new(query))) {
        Some(OperationResult::Events(events)) => events.events,
        _ => Vec::new(),
    };
    let body = |run: &tiderace_wire::Run, place| text(run.message(place).unwrap().body);
    let state = State {
        spec: topic.map(|topic| text(&topic.spec.as_ref().unwrap().to_json())),
        value: topic
            .and_then(|topic| topic.value.as_ref())
            .map(|run| (run.version(), body(run, 0))),
        events: events.iter().map(|event| (event.version, body(&event.run, event.place))).collect(),
    };
    // A topic that is only what the configuration says is there as long as it holds something.
    let plain = text(&options(1).topic_default.to_json());
    match state.spec.as_ref() == Some(&plain) && state.value.is_none() {
        true => State { spec: None, ..state },
        false => state,
    }
}

/// What the test knows of one topic: how it has been since what is confirmed.
#[derive(Debug)]
struct Known {
    /// After which step it was like that.
    states: Vec<(usize, State)>,
    /// The last step that was confirmed.
    confirmed: usize,
    /// All steps that were.
    sure: BTreeSet<usize>,
}

impl Known {
    /// Whether the topic may be like that if it was so: of what was refused some may be missing.
    fn allows(&self, then: &State, state: &State) -> bool {
        let mut left = state.events.iter().peekable();
        let missing = then.events.iter().filter(|event| left.next_if_eq(event).is_none());
        let sure = missing.filter(|(_, body)| self.sure.iter().any(|step| *body == said(*step)));
        let is_missing = sure.count() > 0;
        then.spec == state.spec && then.value == state.value && !is_missing && left.next().is_none()
    }
}

fn said(step: usize) -> String {
    format!("{{\"n\":{step}}}")
}

/// Who waits for which step's confirmation.
type Awaited = Vec<(usize, Token, usize, Vec<usize>)>;

struct Life {
    world: World,
    publisher: usize,
    eye: usize,
    awaited: Awaited,
}

const PATHS: [&str; 5] = ["p/a", "p/b", "q/c", "q/d", "r"];

fn begin(seed: u64, keeping: &mut Keeping) -> Life {
    let mut world = world(seed);
    world.now = Now { wall_ms: 1_700_000_000_000, ..world.now };
    keeping.restore(&mut world);
    let shards = world.brokers.len();
    let publisher = world.connect(seed as usize / 3 % shards, "ann");
    let eye = world.connect(seed as usize / 7 % shards, "eye");
    Life { world, publisher, eye, awaited: Vec::new() }
}

/// Something that changes topics; which of them, and whether it removes them.
fn step(life: &mut Life, number: usize) -> (Token, Vec<usize>, bool) {
    let (world, client) = (&mut life.world, life.publisher);
    let at = world.random.below(PATHS.len());
    let (name, body) = (PATHS[at], said(number));
    match world.random.below(12) {
        0..=2 => {
            let spec = SPECS[world.random.below(SPECS.len())];
            let value = world.random.one_in(2).then_some(body.as_str());
            (ask(world, client, create(name, spec, value)), vec![at], false)
        }
        3 => (ask(world, client, remove(name)), vec![at], true),
        4 if world.random.one_in(3) => {
            (ask(world, client, remove("**")), vec![0, 1, 2, 3, 4], true)
        }
        4..=6 => (ask(world, client, update(name, &body, None)), vec![at], false),
        _ => {
            let count = 1 + world.random.below(3);
            let mut messages = vec![Outgoing::new(body); count];
            for message in &mut messages {
                message.flags = match world.random.below(6) {
                    0 => Flags::RETAIN_REMOVE,
                    1..=3 => Flags::RETAIN,
                    _ => Flags::NONE,
                };
            }
            (world.publish_all(client, &format!("topic:{name}"), &messages), vec![at], false)
        }
    }
}

fn note_confirmations(life: &mut Life, known: &mut [Known]) {
    let client = &life.world.clients[life.publisher];
    life.awaited.retain(|(_, token, number, topics)| {
        if client.confirmed.contains(token) || client.operated.contains_key(token) {
            for topic in topics {
                known[*topic].sure.insert(*number);
                known[*topic].confirmed = known[*topic].confirmed.max(*number);
            }
            return false;
        }
        !client.refused.iter().any(|(refused, _)| *refused == Some(*token))
    });
}

fn live(
    life: &mut Life,
    keeping: &mut Keeping,
    known: &mut [Known],
    steps: std::ops::Range<usize>,
) {
    for number in steps {
        let (token, topics, removes) = step(life, number);
        life.world.deliver_envelopes();
        // Who removes nothing is promised nothing.
        let there = |topic: &usize| known[*topic].states.last().unwrap().1.spec.is_some();
        let promised = topics.iter().copied().filter(there).collect();
        let promised = if removes { promised } else { topics.clone() };
        for topic in &topics {
            let state = look(&mut life.world, life.eye, PATHS[*topic]);
            known[*topic].states.push((number, state));
        }
        life.awaited.push((life.publisher, token, number, promised));
        for shard in 0..life.world.brokers.len() {
            if life.world.random.one_in(2) {
                keeping.take(&mut life.world, shard);
            }
            if life.world.random.one_in(3) {
                keeping.answer(&mut life.world, shard);
            }
        }
        if life.world.random.one_in(30) {
            keeping.full = !keeping.full;
        }
        if life.world.random.one_in(5) {
            life.world.advance(Span::from_secs(2));
        }
        life.world.deliver_envelopes();
        note_confirmations(life, known);
    }
}

/// After a crash each topic is as it was at some time since the last confirmation.
fn check(life: &mut Life, known: &mut [Known], last_version: &mut u64) {
    for (name, known) in PATHS.iter().zip(known.iter_mut()) {
        let state = look(&mut life.world, life.eye, name);
        let since = known.states.iter().rposition(|(number, _)| *number <= known.confirmed);
        let possible = &known.states[since.unwrap_or(0)..];
        assert!(
            possible.iter().any(|(_, then)| known.allows(then, &state)),
            "{name} is {state:#?} but was {possible:#?}"
        );
        for (_, then) in &known.states {
            let versions = then.value.iter().chain(&then.events).map(|(version, _)| *version);
            *last_version = versions.fold(*last_version, u64::max);
        }
        known.confirmed = 0;
        known.states = vec![(0, state)];
    }
}

fn fresh_known() -> Vec<Known> {
    let nothing = State { spec: None, value: None, events: Vec::new() };
    let known =
        || Known { states: vec![(0, nothing.clone())], confirmed: 0, sure: BTreeSet::new() };
    PATHS.iter().map(|_| known()).collect()
}

#[test]
fn what_was_confirmed_survives_a_crash_at_any_moment() {
    for_seeds(0..1500, |seed| {
        let mut keeping = Keeping::default();
        let mut known = fresh_known();
        let mut last_version = 0;
        let mut number = 1;
        for life_number in 0..3 {
            let mut life = begin(seed + life_number * 5, &mut keeping);
            check(&mut life, &mut known, &mut last_version);
            let steps = 5 + life.world.random.below(25);
            live(&mut life, &mut keeping, &mut known, number..number + steps);
            number += steps;
            keeping.crash(&mut life.world);
            keeping.full = false;
        }
        let mut life = begin(seed, &mut keeping);
        check(&mut life, &mut known, &mut last_version);
        // Versions go on above all that anybody has seen.
        for name in PATHS {
            if look(&mut life.world, life.eye, name).spec.is_none() {
                continue;
            }
            let token = ask(&mut life.world, life.publisher, update(name, "{}", None));
            life.world.deliver_envelopes();
            keeping.finish(&mut life.world);
            life.world.deliver_envelopes();
            match life.world.clients[life.publisher].operated.get(&token) {
                Some(OperationResult::Updated { version }) => assert!(*version > last_version),
                other => panic!("{other:?}"),
            }
        }
    });
}

#[test]
fn when_there_is_room_again_nothing_is_missing_and_nothing_is_left_over() {
    for_seeds(0..500, |seed| {
        let mut keeping = Keeping::default();
        let mut known = fresh_known();
        let mut life = begin(seed, &mut keeping);
        live(&mut life, &mut keeping, &mut known, 1..40);
        keeping.full = false;
        for _ in 0..4 {
            life.world.advance(Span::from_secs(2));
            keeping.finish(&mut life.world);
            life.world.deliver_envelopes();
        }
        note_confirmations(&mut life, &mut known);
        assert!(life.awaited.is_empty(), "everybody is answered");
        let before: BTreeMap<&str, State> =
            PATHS.map(|name| (name, look(&mut life.world, life.eye, name))).into();
        let there = before.values().filter(|state| state.spec.is_some()).count();
        for _ in 0..2 {
            life.world.advance(Span::from_secs(200));
        }
        keeping.finish(&mut life.world);
        assert_eq!(keeping.streams(), there);
        keeping.crash(&mut life.world);
        let mut life = begin(seed + 1, &mut keeping);
        for (name, state) in before {
            assert_eq!(look(&mut life.world, life.eye, name), state, "{name}");
        }
        let restored = life.world.brokers.iter().map(|broker| broker.metrics().topics_restored);
        assert_eq!(restored.sum::<u64>() as usize, there);
    });
}

#[test]
fn a_publisher_hears_after_the_store_and_subscribers_before() {
    let mut keeping = Keeping::default();
    let Life { mut world, publisher, eye, .. } = begin(1, &mut keeping);
    world.subscribe(eye, 1, crate::support::Wish::to("topic:p/a"));
    let created = ask(&mut world, publisher, create("p/a", SPECS[1], None));
    let published = world.publish(publisher, "topic:p/a", "1");
    let elsewhere = world.publish(publisher, "topic:x", "1");
    world.quiesce();
    assert_eq!(world.clients[eye].received.len(), 1);
    assert!(world.is_confirmed(publisher, elsewhere), "only persistent topics wait");
    assert!(!world.is_confirmed(publisher, published));
    assert!(!world.clients[publisher].operated.contains_key(&created));
    let again = ask(&mut world, publisher, create("p/a", SPECS[1], None));
    world.quiesce();
    assert!(!world.clients[publisher].operated.contains_key(&again), "it may be gone tomorrow");
    keeping.finish(&mut world);
    world.quiesce();
    assert!(world.is_confirmed(publisher, published));
    for token in [created, again] {
        let existed = token == again;
        match world.clients[publisher].operated.get(&token) {
            Some(OperationResult::Created { existed: said }) => assert_eq!(*said, existed),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn without_a_store_nothing_can_be_made_persistent() {
    let mut world = world(1);
    let client = world.connect(0, "ann");
    let token = ask(&mut world, client, create("p/a", SPECS[0], None));
    world.quiesce();
    let refused = (Some(token), CloseCode::BadSpecification);
    assert!(world.clients[client].refused.contains(&refused));
}

#[test]
fn publishers_wait_while_the_store_is_behind() {
    for_seeds(0..6, |seed| {
        let mut keeping = Keeping::default();
        let Life { mut world, publisher, .. } = begin(seed, &mut keeping);
        ask(&mut world, publisher, create("p/a", SPECS[1], None));
        let body = "x".repeat(64 << 10);
        let mut sent = 0;
        while !world.clients[publisher].paused {
            world.publish(publisher, "topic:p/a", &body);
            world.deliver_envelopes();
            sent += 1;
            assert!(sent < 100, "what waits for the store is bounded");
        }
        for shard in 0..world.brokers.len() {
            keeping.take(&mut world, shard);
        }
        world.deliver_envelopes();
        assert!(!world.clients[publisher].paused, "the store has taken it");
    });
}

#[test]
fn a_store_that_has_failed_refuses_until_the_end() {
    let mut keeping = Keeping::default();
    let Life { mut world, publisher, .. } = begin(3, &mut keeping);
    let created = ask(&mut world, publisher, create("p/a", SPECS[1], None));
    world.quiesce();
    world.fail_store();
    let published = world.publish(publisher, "topic:p/a", "1");
    world.advance(Span::from_secs(100));
    let late = ask(&mut world, publisher, create("p/b", SPECS[1], None));
    let other = world.publish(publisher, "topic:x", "1");
    world.quiesce();
    for token in [created, published, late] {
        let refused = (Some(token), CloseCode::StoreUnavailable);
        assert!(world.clients[publisher].refused.contains(&refused));
    }
    assert!(world.is_confirmed(publisher, other));
}

#[test]
fn age_counts_across_lives() {
    let mut keeping = Keeping::default();
    let Life { mut world, publisher, eye, .. } = begin(2, &mut keeping);
    let spec = r#"{"persistent":true,"removal":"after 1h"}"#;
    ask(&mut world, publisher, create("p/a", spec, Some("1")));
    world.deliver_envelopes();
    world.advance(Span::from_secs(3000));
    keeping.finish(&mut world);
    world.deliver_envelopes();
    assert!(look(&mut world, eye, "p/a").spec.is_some());
    let then = world.now.wall_ms;
    keeping.crash(&mut world);
    let mut world = self::world(4);
    world.now.wall_ms = then + 300_000;
    keeping.restore(&mut world);
    let eye = world.connect(0, "eye");
    world.advance(Span::from_secs(200));
    assert!(look(&mut world, eye, "p/a").spec.is_some());
    world.advance(Span::from_secs(200));
    assert!(look(&mut world, eye, "p/a").spec.is_none());
    keeping.finish(&mut world);
    assert_eq!(keeping.streams(), 0);
}

/// The fence of a lock that somebody takes and gives back, once the store has said what it has.
fn fence(world: &mut World, keeping: &mut Keeping, client: usize) -> u64 {
    let lock = Operation::Lock { name: path("lock"), timeout: Span::ZERO };
    let taken = ask(world, client, lock);
    world.quiesce();
    keeping.finish(world);
    world.quiesce();
    let Some(OperationResult::Locked { fence }) =
        world.clients[client].operated.get(&taken).cloned()
    else {
        panic!("{:?}", world.clients[client].refused)
    };
    ask(world, client, Operation::Unlock { name: path("lock") });
    world.quiesce();
    fence
}

#[test]
fn fences_rise_over_crashes_and_clocks_set_back() {
    for_seeds(0..12, |seed| {
        let mut keeping = Keeping::default();
        let (mut last, mut wall) = (0, 2_000_000_000_000);
        for life in 0..6 {
            let mut world = world(seed + life);
            world.now.wall_ms = wall;
            keeping.restore(&mut world);
            let shard = world.random.below(world.brokers.len());
            let client = world.connect(shard, "ann");
            for _ in 0..5 {
                let next = fence(&mut world, &mut keeping, client);
                assert!(next > last, "{next} after {last} in life {life}");
                assert!(next < 1 << 53, "JSON keeps no more");
                last = next;
                // Also while the server runs.
                let step = world.random.below(10_000_000) as u64;
                world.now.wall_ms = (world.now.wall_ms + step).saturating_sub(5_000_000);
            }
            // What was on its way to the store is lost, and the clock is set back by days.
            keeping.crash(&mut world);
            wall = world.now.wall_ms - 86_400_000 * (life + 1);
        }
    });
}

#[test]
fn a_lock_is_not_held_before_a_later_life_is_sure_to_begin_above_it() {
    let mut keeping = Keeping::default();
    let mut world = world(2);
    keeping.restore(&mut world);
    let client = world.connect(0, "ann");
    let lock = || Operation::Lock { name: path("lock"), timeout: Span::ZERO };
    let first = ask(&mut world, client, lock());
    let again = ask(&mut world, client, lock());
    world.quiesce();
    for token in [first, again] {
        assert!(!world.clients[client].operated.contains_key(&token), "it might come again");
    }
    keeping.finish(&mut world);
    world.quiesce();
    for token in [first, again] {
        assert!(world.clients[client].operated.contains_key(&token));
    }
    // From then on locks wait for nothing.
    ask(&mut world, client, Operation::Unlock { name: path("lock") });
    let next = ask(&mut world, client, lock());
    world.quiesce();
    assert!(world.clients[client].operated.contains_key(&next));
}
