//! Services against a model of them.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]
use super::*;
use crate::places::Place;
use proptest::prelude::*;
use std::collections::BTreeMap;
use tiderace_base::ShardId;
use tiderace_base::Time;
use tiderace_topics::Pattern;
use tiderace_wire::{Destination, Kind, Meta};

const PATHS: [&str; 4] = ["a/x", "a/y", "b/x", "user/ann/x"];
const TARGETS: [&str; 7] = ["a/x", "a/y", "b/x", "a/*", "**", "user/ann/x", "user/ann/*"];

fn exact(path: &str) -> Destination {
    Destination { kind: Kind::Service, path: Path::parse(path).unwrap() }
}

fn target(text: &str) -> Target {
    match text.contains('*') {
        true => Target::Pattern(Kind::Service, Pattern::parse(text).unwrap()),
        false => Target::Exact(exact(text)),
    }
}

fn responding(slot: u32) -> Responding {
    let session = SessionId { shard: ShardId(0), slot, generation: 0 };
    Responding { session, key: SubscriptionKey(0), epoch: slot, responder: Key::default() }
}

fn calling(number: u32, path: &str) -> Calling {
    let run = Run::single(exact(path), Time::ZERO, b"", b"x", Meta::default());
    let key = Key { slot: number, generation: 0 };
    let caller = Address { place: Place::here(ShardId(0)), key };
    Calling { caller, session: key, run: Arc::new(run), last: true, credit: None }
}

/// A caller whose calls nobody looks for.
fn anybody() -> Address {
    Address { place: Place::here(ShardId(0)), key: Key { slot: u32::MAX, generation: 0 } }
}

/// Somebody who serves.
struct Row {
    targets: Vec<&'static str>,
    window: u32,
    credit: Option<u64>,
    open: u32,
}

impl Row {
    fn has_room(&self) -> bool {
        self.open < self.window && self.credit != Some(0)
    }
}

/// What a service that is served like this must do, by looking at everybody.
#[derive(Default)]
struct Model {
    responders: BTreeMap<u32, Row>,
    waiting: Vec<(u32, &'static str)>,
    out: usize,
}

impl Model {
    fn eligible(&self, path: &str) -> Vec<u32> {
        let by_name: Vec<u32> = self.of(|text| text == path);
        if !by_name.is_empty() {
            return by_name;
        }
        let private = path.starts_with("user/");
        self.of(|text| {
            let names = Pattern::parse(text).unwrap().matches(&Path::parse(path).unwrap());
            text.contains('*') && names && (!private || text.starts_with("user/ann/"))
        })
    }

    fn of(&self, wanted: impl Fn(&str) -> bool) -> Vec<u32> {
        let rows = self.responders.iter();
        rows.filter(|row| row.1.targets.iter().any(|text| wanted(text))).map(|row| *row.0).collect()
    }

    fn take(&mut self, steps: Vec<Step>) -> Result<Vec<(u32, Key)>, TestCaseError> {
        let mut open = Vec::new();
        for step in steps {
            let caller = match &step {
                Step::Assign(_, call) | Step::Again(call) => call.caller,
                Step::Refuse(caller, _) => *caller,
            };
            let at = self.waiting.iter().position(|row| row.0 == caller.key.slot);
            let path = at.map(|at| self.waiting.remove(at).1);
            prop_assert!(path.is_some(), "it was neither new nor waiting");
            self.out += 1;
            match step {
                Step::Assign(to, _) => {
                    let eligible = self.eligible(path.unwrap());
                    prop_assert!(eligible.contains(&to.session.slot));
                    prop_assert_eq!(to.epoch, to.session.slot);
                    let rows = eligible.iter().map(|slot| &self.responders[slot]);
                    let fewest = rows.filter(|row| row.has_room()).map(|row| row.open).min();
                    let row = self.responders.get_mut(&to.session.slot).unwrap();
                    prop_assert!(row.has_room(), "more than its window or its credit");
                    prop_assert_eq!(Some(row.open), fewest);
                    row.open += 1;
                    row.credit = row.credit.map(|credit| credit - 1);
                    open.push((to.session.slot, to.responder));
                }
                Step::Again(_) | Step::Refuse(_, CloseCode::NoResponder) => {
                    prop_assert!(self.eligible(path.unwrap()).is_empty());
                }
                Step::Refuse(_, code) => prop_assert_eq!(code, CloseCode::ServiceBusy),
            }
        }
        Ok(open)
    }
}

proptest! {
    #[test]
    fn calls_wait_only_while_nobody_has_room(
        ops in proptest::collection::vec((0u8..10, 0u32..5, 0usize..7, 1u32..4), 1..150),
    ) {
        let (mut services, mut model) = (Services::default(), Model::default());
        let options = ServiceOptions { calls_waiting_max: 3, ..ServiceOptions::default() };
        let mut open: Vec<(u32, Key)> = Vec::new();
        let mut calls = 0;
        for (op, slot, what, window) in ops {
            let mut out = Vec::new();
            match op {
                0 => {
                    let credit = (what % 2 == 0).then_some(what as u64);
                    let fresh = Row { targets: Vec::new(), window, credit, open: 0 };
                    let row = model.responders.entry(slot).or_insert(fresh);
                    let most = (row.window, credit);
                    row.targets.push(TARGETS[what]);
                    services.serve(responding(slot), &target(TARGETS[what]), most, &mut out);
                }
                8 | 9 => {
                    let credit = model.responders.get_mut(&slot).and_then(|row| row.credit.as_mut());
                    credit.into_iter().for_each(|credit| *credit += u64::from(window));
                    let session = responding(slot).session;
                    services.credit(session, SubscriptionKey(0), u64::from(window), &mut out);
                }
                1 => {
                    model.responders.remove(&slot);
                    open.retain(|row| row.0 != slot);
                    services.leave(responding(slot).session, SubscriptionKey(0), &mut out);
                }
                2 | 3 if !open.is_empty() => {
                    let (slot, key) = open.swap_remove(what % open.len());
                    model.responders.get_mut(&slot).unwrap().open -= 1;
                    services.release(key, anybody(), &mut out);
                    prop_assert!(out.len() <= 1);
                }
                4 if !model.waiting.is_empty() => {
                    let at = what % model.waiting.len();
                    let (number, path) = model.waiting.remove(at);
                    let caller = calling(number, path).caller;
                    prop_assert!(services.cancel(&Path::parse(path).unwrap(), caller));
                    prop_assert!(!services.cancel(&Path::parse(path).unwrap(), caller));
                    model.out += 1;
                }
                _ => {
                    let path = PATHS[what % PATHS.len()];
                    calls += 1;
                    model.waiting.push((calls, path));
                    services.call(calling(calls, path), &options, &mut out);
                }
            }
            open.extend(model.take(out)?);
            prop_assert_eq!(services.waiting(), model.waiting.len());
            prop_assert_eq!(services.waiting_bytes == 0, model.waiting.is_empty());
            prop_assert_eq!(services.responders(), model.responders.len());
            for (_, path) in &model.waiting {
                let eligible = model.eligible(path);
                prop_assert!(!eligible.is_empty(), "nobody will ever answer {}", path);
                let full = |slot: &u32| !model.responders[slot].has_room();
                prop_assert!(eligible.iter().all(full), "somebody has room for {}", path);
            }
            let named = services.named.values().filter(|known| !known.pool.is_empty());
            prop_assert_eq!(services.len(), named.count());
        }
        for slot in 0..5 {
            let mut out = Vec::new();
            model.responders.remove(&slot);
            services.leave(responding(slot).session, SubscriptionKey(0), &mut out);
            model.take(out)?;
        }
        prop_assert!(model.waiting.is_empty() && model.out == calls as usize);
        prop_assert!(services.named.is_empty() && services.turns.is_empty());
        prop_assert_eq!((services.patterns.len(), services.served), (0, 0));
    }
}

#[test]
fn equals_take_turns_and_so_do_services() {
    let mut services = Services::default();
    let options = ServiceOptions::default();
    let mut out = Vec::new();
    for slot in 0..3 {
        services.serve(responding(slot), &target("a/x"), (2, None), &mut out);
    }
    let chosen = |services: &mut Services, path| {
        let mut out = Vec::new();
        services.call(calling(0, path), &options, &mut out);
        out.into_iter().next().map(|step| match step {
            Step::Assign(to, _) => to,
            Step::Refuse(..) | Step::Again(_) => panic!("nobody answers"),
        })
    };
    let first: Vec<u32> =
        (0..6).map(|_| chosen(&mut services, "a/x").unwrap().session.slot).collect();
    assert_eq!(first, [0, 1, 2, 0, 1, 2]);
    assert!(chosen(&mut services, "a/x").is_none());
    // One that serves both: the calls of the two services take turns.
    let mut services = Services::default();
    services.serve(responding(0), &target("a/*"), (1, None), &mut out);
    let at = chosen(&mut services, "a/x").unwrap().responder;
    for path in ["a/x", "a/x", "a/x", "a/y", "a/y"] {
        assert!(chosen(&mut services, path).is_none());
    }
    let mut order = Vec::new();
    for _ in 0..5 {
        let mut out = Vec::new();
        services.release(at, anybody(), &mut out);
        let [Step::Assign(_, call)] = &out[..] else { panic!("one has room") };
        order.push(call.run.destination().path.to_string());
    }
    assert_eq!(order, ["a/x", "a/y", "a/x", "a/y", "a/x"]);
}

#[test]
fn a_call_does_not_look_at_every_responder() {
    for (text, path) in [("a/x", "a/x"), ("a/*", "a/x")] {
        let (mut services, mut out) = (Services::default(), Vec::new());
        for slot in 0..20_000 {
            services.serve(responding(slot), &target(text), (2, None), &mut out);
        }
        for number in 0..30_000 {
            services.call(calling(number, path), &ServiceOptions::default(), &mut out);
        }
        assert_eq!(out.len(), 30_000);
        // Each has one before any has two.
        let first = out.iter().take(20_000).map(|step| match step {
            Step::Assign(to, _) => to.session.slot,
            Step::Refuse(..) | Step::Again(_) => panic!("all have room"),
        });
        assert_eq!(first.collect::<std::collections::BTreeSet<_>>().len(), 20_000);
        assert!(services.looked_at() < 40_000, "{}", services.looked_at());
        for slot in 0..20_000 {
            services.leave(responding(slot).session, SubscriptionKey(0), &mut out);
        }
        assert!(services.pools.is_empty() && services.by_pattern.is_empty());
        assert_eq!((services.ordered, services.served, services.named.len()), (0, 0, 0));
    }
}

proptest! {
    /// The model's responders are too few for an order.
    #[test]
    fn an_order_agrees_with_looking_at_all(
        windows in proptest::collection::vec((0u32..3, proptest::option::of(0u64..3)), 40..60),
        steps in proptest::collection::vec((0u8..4, any::<proptest::sample::Index>()), 1..200),
    ) {
        let (mut services, mut out) = (Services::default(), Vec::new());
        for (slot, most) in windows.iter().enumerate() {
            services.serve(responding(slot as u32), &target("a/x"), *most, &mut out);
        }
        prop_assert_eq!(services.ordered, 1);
        let mut open: Vec<Key> = Vec::new();
        for ((what, at), number) in steps.into_iter().zip(0u32..) {
            let slot = at.index(windows.len()) as u32;
            out.clear();
            match what {
                0 => services.leave(responding(slot).session, SubscriptionKey(0), &mut out),
                1 if !open.is_empty() => {
                    let responder = open.swap_remove(at.index(open.len()));
                    services.release(responder, anybody(), &mut out);
                }
                2 => services.credit(responding(slot).session, SubscriptionKey(0), 1, &mut out),
                _ => {
                    let ranks = services.responders.iter();
                    let best = ranks.filter_map(|(at, known)| known.rank(at)).min();
                    services.call(calling(number, "a/x"), &ServiceOptions::default(), &mut out);
                    let got = out.first().and_then(|step| match step {
                        Step::Assign(to, _) => Some(to.responder),
                        Step::Refuse(..) | Step::Again(_) => None,
                    });
                    prop_assert_eq!(got, best.map(|(_, _, at)| at));
                }
            }
            open.extend(out.iter().filter_map(|step| match step {
                Step::Assign(to, _) => Some(to.responder),
                Step::Refuse(..) | Step::Again(_) => None,
            }));
        }
    }
}
