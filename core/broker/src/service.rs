//! Services at their home: who serves, whose calls wait, and who gets the next one.
//!
//! Bookkeeping without mail or sessions. Relies on being told of every exchange that is over.
//! Invariants: a call waits only while each responder it could go to has no room; no responder has
//! more open exchanges than its window; a call that is taken in comes out once.
//!
//! Responders of exactly the service come before those of patterns. Of them the one with the fewest
//! open exchanges is chosen, and of equals the one that has waited longest.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use tiderace_base::{CloseCode, Key, SessionId, ShardId, Slab};
use tiderace_queues::reaches;
use tiderace_topics::{Path, PatternIndex};
use tiderace_wire::{Run, SubscriptionKey, Target};

use crate::ServiceOptions;
use crate::broker::Map;

/// One end of an exchange, anywhere on the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// Its session's shard.
    pub shard: ShardId,
    /// Its place there.
    pub key: Key,
}

/// A call on its way to somebody who answers.
#[derive(Debug)]
pub struct Calling {
    /// Who calls.
    pub caller: Address,
    /// The first message, to the service.
    pub run: Arc<Run>,
    /// Whether the caller has nothing more to say.
    pub last: bool,
}

/// Who is to answer a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Responding {
    /// Whose subscription.
    pub session: SessionId,
    /// Which.
    pub key: SubscriptionKey,
    /// Which of those that have had that key.
    pub epoch: u32,
    /// Its place at the home.
    pub responder: Key,
}

/// What becomes of a call.
#[derive(Debug)]
pub(crate) enum Step {
    /// It goes to a responder.
    Assign(Responding, Calling),
    /// Nobody answers it.
    Refuse(Address, CloseCode),
}

/// The services of one home.
#[derive(Debug, Default)]
pub(crate) struct Services {
    responders: Slab<Responder>,
    subscriptions: Map<(SessionId, SubscriptionKey), Key>,
    /// Services with responders of exactly that name, or with calls waiting.
    named: Map<Path, Service>,
    patterns: PatternIndex<Key>,
    /// Services with calls waiting, by their turn.
    turns: BTreeMap<u64, Path>,
    /// Rises with everything that is put in an order.
    clock: u64,
    /// Services with responders of exactly that name.
    served: usize,
    waiting: usize,
    waiting_bytes: usize,
}

#[derive(Debug, Default)]
struct Service {
    responders: Vec<Key>,
    waiting: VecDeque<Calling>,
    /// Its place among those with calls waiting.
    turn: u64,
}

#[derive(Debug)]
struct Responder {
    session: SessionId,
    key: SubscriptionKey,
    epoch: u32,
    window: u32,
    open: u32,
    /// When it was last given a call.
    chosen: u64,
    targets: Vec<Target>,
}

enum Choice {
    Nobody,
    NoRoom,
    One(Key),
}

impl Services {
    /// Somebody serves, with at most `window` exchanges open.
    pub(crate) fn serve(
        &mut self,
        responding: Responding,
        target: &Target,
        window: u32,
        out: &mut Vec<Step>,
    ) {
        let Responding { session, key, epoch, .. } = responding;
        let at = *self.subscriptions.entry((session, key)).or_insert_with(|| {
            let (open, chosen, targets) = (0, 0, Vec::new());
            let responder = Responder { session, key, epoch, window, open, chosen, targets };
            self.responders.insert(responder)
        });
        let Some(responder) = self.responders.get_mut(at) else { return };
        if responder.targets.contains(target) {
            return;
        }
        responder.targets.push(target.clone());
        match target {
            Target::Exact(destination) => {
                let service = self.named.entry(destination.path.clone()).or_default();
                self.served += usize::from(service.responders.is_empty());
                service.responders.push(at);
            }
            Target::Pattern(_, pattern) => self.patterns.insert(pattern, at),
        }
        self.look_again(target, out);
    }

    /// Somebody serves no more. Its exchanges end elsewhere.
    pub(crate) fn leave(&mut self, session: SessionId, key: SubscriptionKey, out: &mut Vec<Step>) {
        let at = self.subscriptions.remove(&(session, key));
        let Some((at, responder)) = at.and_then(|at| Some((at, self.responders.remove(at)?)))
        else {
            return;
        };
        for target in &responder.targets {
            match target {
                Target::Exact(destination) => {
                    if let Some(service) = self.named.get_mut(&destination.path) {
                        service.responders.retain(|known| *known != at);
                        self.served -= usize::from(service.responders.is_empty());
                    }
                    self.forget_idle(&destination.path);
                }
                Target::Pattern(_, pattern) => {
                    self.patterns.remove(pattern, &at);
                }
            }
        }
        for target in &responder.targets {
            self.look_again(target, out);
        }
    }

    /// Somebody calls.
    pub(crate) fn call(&mut self, call: Calling, options: &ServiceOptions, out: &mut Vec<Step>) {
        let path = call.run.destination().path.clone();
        match self.choose(&path) {
            Choice::Nobody => out.push(Step::Refuse(call.caller, CloseCode::NoResponder)),
            Choice::One(at) => self.assign(at, call, out),
            Choice::NoRoom => {
                let bytes = bytes_of(&call);
                let service = self.named.entry(path.clone()).or_default();
                // A single one may be as large as messages may be.
                let full = service.waiting.len() >= options.calls_waiting_max
                    || (self.waiting > 0
                        && self.waiting_bytes + bytes > options.calls_waiting_bytes_max);
                if full {
                    self.forget_idle(&path);
                    return out.push(Step::Refuse(call.caller, CloseCode::ServiceBusy));
                }
                if service.waiting.is_empty() {
                    self.clock += 1;
                    service.turn = self.clock;
                    self.turns.insert(self.clock, path);
                }
                service.waiting.push_back(call);
                self.waiting += 1;
                self.waiting_bytes += bytes;
            }
        }
    }

    /// A caller no longer waits; whether it still did.
    pub(crate) fn cancel(&mut self, path: &Path, caller: Address) -> bool {
        let Some(service) = self.named.get_mut(path) else { return false };
        let place = service.waiting.iter().position(|call| call.caller == caller);
        let Some(call) = place.and_then(|place| service.waiting.remove(place)) else {
            return false;
        };
        self.waiting -= 1;
        self.waiting_bytes -= bytes_of(&call);
        if service.waiting.is_empty() {
            self.turns.remove(&service.turn);
        }
        self.forget_idle(path);
        true
    }

    /// One of a responder's exchanges is over.
    pub(crate) fn release(&mut self, responder: Key, out: &mut Vec<Step>) {
        let Some(known) = self.responders.get_mut(responder) else { return };
        known.open = known.open.saturating_sub(1);
        if let Some(path) = self.next_waiting(responder) {
            self.assign_next(&path, responder, out);
        }
    }

    /// Services that somebody serves by name.
    pub(crate) fn len(&self) -> usize {
        self.served
    }

    /// Subscriptions that serve.
    pub(crate) fn responders(&self) -> usize {
        self.responders.len()
    }

    /// Calls that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Of the services with calls waiting that the responder may answer, the one whose turn it is.
    fn next_waiting(&self, responder: Key) -> Option<Path> {
        if self.turns.is_empty() {
            return None;
        }
        let known = self.responders.get(responder)?;
        let mut first: Option<(u64, &Path)> = None;
        for target in &known.targets {
            let found = match target {
                Target::Exact(destination) => self
                    .named
                    .get(&destination.path)
                    .filter(|service| !service.waiting.is_empty())
                    .map(|service| (service.turn, &destination.path)),
                Target::Pattern(_, pattern) => self
                    .turns
                    .iter()
                    .find(|(_, path)| self.only_patterns(path) && reaches(pattern, path))
                    .map(|(turn, path)| (*turn, path)),
            };
            first = [first, found].into_iter().flatten().min_by_key(|(turn, _)| *turn);
        }
        first.map(|(_, path)| path.clone())
    }

    /// Responders have come or gone: calls that wait there may find one, or nobody at all.
    fn look_again(&mut self, target: &Target, out: &mut Vec<Step>) {
        if self.turns.is_empty() {
            return;
        }
        match target {
            Target::Exact(destination) => self.drain(&destination.path, out),
            Target::Pattern(_, pattern) => {
                let concerned = |path: &&Path| self.only_patterns(path) && reaches(pattern, path);
                let paths: Vec<Path> = self.turns.values().filter(concerned).cloned().collect();
                for path in paths {
                    self.drain(&path, out);
                }
            }
        }
    }

    fn drain(&mut self, path: &Path, out: &mut Vec<Step>) {
        while self.named.get(path).is_some_and(|service| !service.waiting.is_empty()) {
            match self.choose(path) {
                Choice::NoRoom => return,
                Choice::One(responder) => self.assign_next(path, responder, out),
                Choice::Nobody => {
                    if let Some(call) = self.take_waiting(path) {
                        out.push(Step::Refuse(call.caller, CloseCode::NoResponder));
                    }
                }
            }
        }
    }

    fn assign_next(&mut self, path: &Path, responder: Key, out: &mut Vec<Step>) {
        if let Some(call) = self.take_waiting(path) {
            self.assign(responder, call, out);
        }
    }

    /// The call that has waited longest there; the service's next turn is after all others.
    fn take_waiting(&mut self, path: &Path) -> Option<Calling> {
        let service = self.named.get_mut(path)?;
        let call = service.waiting.pop_front()?;
        self.waiting -= 1;
        self.waiting_bytes -= bytes_of(&call);
        self.turns.remove(&service.turn);
        if service.waiting.is_empty() {
            self.forget_idle(path);
        } else {
            self.clock += 1;
            service.turn = self.clock;
            self.turns.insert(self.clock, path.clone());
        }
        Some(call)
    }

    fn assign(&mut self, at: Key, call: Calling, out: &mut Vec<Step>) {
        let Some(known) = self.responders.get_mut(at) else { return };
        self.clock += 1;
        known.open += 1;
        known.chosen = self.clock;
        let Responder { session, key, epoch, .. } = *known;
        out.push(Step::Assign(Responding { session, key, epoch, responder: at }, call));
    }

    fn choose(&self, path: &Path) -> Choice {
        let mut anybody = false;
        let mut best: Option<(u32, u64, Key)> = None;
        let mut consider = |at: Key, known: &Responder| {
            anybody = true;
            let rank = (known.open, known.chosen, at);
            if known.open < known.window && best.is_none_or(|best| rank < best) {
                best = Some(rank);
            }
        };
        if self.only_patterns(path) {
            self.patterns.matches(path, &mut |at| {
                if let Some(known) = self.responders.get(*at).filter(|known| known.reaches(path)) {
                    consider(*at, known);
                }
            });
        } else if let Some(service) = self.named.get(path) {
            for at in &service.responders {
                if let Some(known) = self.responders.get(*at) {
                    consider(*at, known);
                }
            }
        }
        match best {
            Some((_, _, at)) => Choice::One(at),
            None if anybody => Choice::NoRoom,
            None => Choice::Nobody,
        }
    }

    /// Whether nobody serves exactly that.
    fn only_patterns(&self, path: &Path) -> bool {
        self.named.get(path).is_none_or(|service| service.responders.is_empty())
    }

    fn forget_idle(&mut self, path: &Path) {
        let idle = |service: &Service| service.responders.is_empty() && service.waiting.is_empty();
        if self.named.get(path).is_some_and(idle) {
            self.named.remove(path);
        }
    }
}

impl Responder {
    /// Whether a pattern of its names the service.
    fn reaches(&self, path: &Path) -> bool {
        self.targets.iter().any(|target| match target {
            Target::Exact(_) => false,
            Target::Pattern(_, pattern) => reaches(pattern, path),
        })
    }
}

fn bytes_of(call: &Calling) -> usize {
    call.run.bytes() + size_of::<Calling>()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;
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
        Calling { caller: Address { shard: ShardId(0), key }, run: Arc::new(run), last: true }
    }

    /// What a service that is served like this must do, by looking at everybody.
    #[derive(Default)]
    struct Model {
        /// By session: targets, window, open exchanges.
        responders: BTreeMap<u32, (Vec<&'static str>, u32, u32)>,
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
            rows.filter(|row| row.1.0.iter().any(|text| wanted(text))).map(|row| *row.0).collect()
        }

        fn take(&mut self, steps: Vec<Step>) -> Result<Vec<(u32, Key)>, TestCaseError> {
            let mut open = Vec::new();
            for step in steps {
                let caller = match &step {
                    Step::Assign(_, call) => call.caller,
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
                        let fewest = rows.filter(|row| row.2 < row.1).map(|row| row.2).min();
                        let row = self.responders.get_mut(&to.session.slot).unwrap();
                        prop_assert!(row.2 < row.1, "more than its window");
                        prop_assert_eq!(Some(row.2), fewest);
                        row.2 += 1;
                        open.push((to.session.slot, to.responder));
                    }
                    Step::Refuse(_, CloseCode::NoResponder) => {
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
            ops in proptest::collection::vec((0u8..8, 0u32..5, 0usize..7, 1u32..4), 1..150),
        ) {
            let (mut services, mut model) = (Services::default(), Model::default());
            let options = ServiceOptions { calls_waiting_max: 3, ..ServiceOptions::default() };
            let mut open: Vec<(u32, Key)> = Vec::new();
            let mut calls = 0;
            for (op, slot, what, window) in ops {
                let mut out = Vec::new();
                match op {
                    0 => {
                        let row = model.responders.entry(slot).or_insert((Vec::new(), window, 0));
                        let window = row.1;
                        row.0.push(TARGETS[what]);
                        services.serve(responding(slot), &target(TARGETS[what]), window, &mut out);
                    }
                    1 => {
                        model.responders.remove(&slot);
                        open.retain(|row| row.0 != slot);
                        services.leave(responding(slot).session, SubscriptionKey(0), &mut out);
                    }
                    2 | 3 if !open.is_empty() => {
                        let (slot, key) = open.swap_remove(what % open.len());
                        model.responders.get_mut(&slot).unwrap().2 -= 1;
                        services.release(key, &mut out);
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
                    let full = |slot: &u32| model.responders[slot].2 >= model.responders[slot].1;
                    prop_assert!(eligible.iter().all(full), "somebody has room for {}", path);
                }
                let named = services.named.values().filter(|known| !known.responders.is_empty());
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
            services.serve(responding(slot), &target("a/x"), 2, &mut out);
        }
        let chosen = |services: &mut Services, path| {
            let mut out = Vec::new();
            services.call(calling(0, path), &options, &mut out);
            out.into_iter().next().map(|step| match step {
                Step::Assign(to, _) => to,
                Step::Refuse(..) => panic!("nobody answers"),
            })
        };
        let first: Vec<u32> =
            (0..6).map(|_| chosen(&mut services, "a/x").unwrap().session.slot).collect();
        assert_eq!(first, [0, 1, 2, 0, 1, 2]);
        assert!(chosen(&mut services, "a/x").is_none());
        // One that serves both: the calls of the two services take turns.
        let mut services = Services::default();
        services.serve(responding(0), &target("a/*"), 1, &mut out);
        let at = chosen(&mut services, "a/x").unwrap().responder;
        for path in ["a/x", "a/x", "a/x", "a/y", "a/y"] {
            assert!(chosen(&mut services, path).is_none());
        }
        let mut order = Vec::new();
        for _ in 0..5 {
            let mut out = Vec::new();
            services.release(at, &mut out);
            let [Step::Assign(_, call)] = &out[..] else { panic!("one has room") };
            order.push(call.run.destination().path.to_string());
        }
        assert_eq!(order, ["a/x", "a/y", "a/x", "a/y", "a/x"]);
    }
}
