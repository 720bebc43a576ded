//! Services at their home: who serves, whose calls wait, and who gets the next one.
//!
//! Bookkeeping without messages or sessions. Relies on being told of every exchange that is over.
//! Invariants: a call waits only while each responder it could go to has no room; no responder has
//! more open exchanges than its window, and is given no more calls than its credit; a call that is
//! taken in comes out once.
//!
//! Responders of exactly the service come before those of patterns. Of them the one with the fewest
//! open exchanges is chosen, and of equals the one that has waited longest.

use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use tiderace_base::{CloseCode, Key, SessionId, Slab};
use tiderace_queues::reaches;
use tiderace_topics::{Path, Pattern, PatternIndex};
use tiderace_wire::{Destination, Kind, Run, ServiceEntry, SubscriptionKey, Target};

use crate::ServiceOptions;
use crate::collections::Map;
use crate::places::Place;
use crate::pool::{Pool, Rank};

/// One end of an exchange, anywhere on the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Address {
    /// Where its session is.
    pub place: Place,
    /// Its place there.
    pub key: Key,
}

/// A call on its way to somebody who answers.
#[derive(Debug)]
pub struct Calling {
    /// Who calls.
    pub caller: Address,
    /// Its session there.
    pub session: Key,
    /// The first message, to the service.
    pub run: Arc<Run>,
    /// Whether the caller has nothing more to say.
    pub last: bool,
    /// How many messages it wants until it asks for more; absent: no such bound.
    pub credit: Option<u64>,
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
    /// It has waited, and those it could go to have gone: it is as if it came now.
    Again(Calling),
}

/// The services of one home.
#[derive(Debug, Default)]
pub(crate) struct Services {
    responders: Slab<Responder>,
    subscriptions: Map<(SessionId, SubscriptionKey), Key>,
    /// Calls that were assigned and are not over, by caller: where who is to answer is.
    assigned: Map<Address, Place>,
    /// Services with responders of exactly that name, or with calls waiting.
    named: Map<Path, Service>,
    /// Responders by pattern, each pattern once.
    patterns: PatternIndex<Key>,
    pools: Slab<PatternPool>,
    by_pattern: Map<Pattern, Key>,
    /// How many pools keep an order.
    ordered: usize,
    /// How many responders were looked at for calls.
    looked_at: Cell<u64>,
    /// Services with calls waiting, by their turn.
    turns: BTreeMap<u64, Path>,
    /// Rises with everything that is put in an order.
    clock: u64,
    /// Services with responders of exactly that name.
    served: usize,
    waiting: usize,
    waiting_bytes: usize,
    changes: u64,
}

/// The responders of one pattern.
#[derive(Debug)]
struct PatternPool {
    pattern: Pattern,
    pool: Pool,
}

#[derive(Debug, Default)]
struct Service {
    pool: Pool,
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
    /// How many calls more it may be given, if that is bounded.
    credit: Option<u64>,
    open: u32,
    /// When it was last given a call.
    chosen: u64,
    targets: Vec<Target>,
}

impl Responder {
    fn has_room(&self) -> bool {
        self.open < self.window && self.credit != Some(0)
    }

    /// Its place among others, if it has room.
    fn rank(&self, at: Key) -> Option<Rank> {
        self.has_room().then_some((self.open, self.chosen, at))
    }
}

enum Choice {
    Nobody,
    NoRoom,
    One(Key),
}

impl Services {
    /// Somebody serves, with at most so many exchanges open, and so many calls in all until it gets more
    /// credit.
    pub(crate) fn serve(
        &mut self,
        responding: Responding,
        target: &Target,
        (window, credit): (u32, Option<u64>),
        out: &mut Vec<Step>,
    ) {
        let Responding { session, key, epoch, .. } = responding;
        let at = *self.subscriptions.entry((session, key)).or_insert_with(|| {
            let (open, chosen, targets) = (0, 0, Vec::new());
            self.responders.insert(Responder {
                session,
                key,
                epoch,
                window,
                credit,
                open,
                chosen,
                targets,
            })
        });
        let Some(responder) = self.responders.get_mut(at) else { return };
        if responder.targets.contains(target) {
            return;
        }
        responder.targets.push(target.clone());
        self.changes += 1;
        let responders = &self.responders;
        let rank = |at: Key| responders.get(at)?.rank(at);
        let pool = match target {
            Target::Exact(destination) => {
                let service = self.named.entry(destination.path.clone()).or_default();
                self.served += usize::from(service.pool.is_empty());
                Some(&mut service.pool)
            }
            Target::Pattern(_, pattern) => {
                let key = *self.by_pattern.entry(pattern.clone()).or_insert_with(|| {
                    let (pattern, pool) = (pattern.clone(), Pool::default());
                    let key = self.pools.insert(PatternPool { pattern: pattern.clone(), pool });
                    self.patterns.insert(&pattern, key);
                    key
                });
                self.pools.get_mut(key).map(|known| &mut known.pool)
            }
        };
        if let Some(pool) = pool {
            self.ordered -= usize::from(pool.is_ordered());
            pool.insert(at, rank);
            self.ordered += usize::from(pool.is_ordered());
        }
        self.look_again(target, out);
    }

    /// Places of which some have one who serves.
    pub(crate) fn slots(&self) -> u32 {
        self.responders.slots()
    }

    /// Who serves at a place, as far as what it serves may be shown.
    pub(crate) fn entry_at(
        &self,
        slot: u32,
        may_show: impl Fn(SessionId, &Target) -> bool,
    ) -> Option<ServiceEntry> {
        let Responder { session, open, window, targets, .. } = self.responders.at(slot)?;
        let shown = targets.iter().filter(|target| may_show(*session, target));
        let names: Vec<Arc<str>> = shown.map(|target| target.name().into()).collect();
        let (open, prefetch) = (u64::from(*open), u64::from(*window));
        (!names.is_empty()).then_some(ServiceEntry { names, session: *session, open, prefetch })
    }

    /// Somebody who serves with credit gets more.
    pub(crate) fn credit(
        &mut self,
        session: SessionId,
        key: SubscriptionKey,
        calls: u64,
        out: &mut Vec<Step>,
    ) {
        let at = self.subscriptions.get(&(session, key)).copied();
        let Some(at) = at else { return };
        self.change(at, |known| {
            known.credit = known.credit.map(|credit| credit.saturating_add(calls));
        });
        let Some(known) = self.responders.get(at) else { return };
        for target in known.targets.clone() {
            self.look_again(&target, out);
        }
    }

    /// Somebody serves no more. Its exchanges end elsewhere.
    pub(crate) fn leave(&mut self, session: SessionId, key: SubscriptionKey, out: &mut Vec<Step>) {
        let at = self.subscriptions.remove(&(session, key));
        let Some((at, responder)) = at.and_then(|at| Some((at, self.responders.remove(at)?)))
        else {
            return;
        };
        self.changes += 1;
        let rank = responder.rank(at);
        for target in &responder.targets {
            match target {
                Target::Exact(destination) => {
                    if let Some(service) = self.named.get_mut(&destination.path) {
                        self.ordered -= usize::from(service.pool.is_ordered());
                        service.pool.remove(at, rank);
                        self.ordered += usize::from(service.pool.is_ordered());
                        self.served -= usize::from(service.pool.is_empty());
                    }
                    self.forget_idle(&destination.path);
                }
                Target::Pattern(_, pattern) => self.leave_pattern(pattern, at, rank),
            }
        }
        for target in &responder.targets {
            self.look_again(target, out);
        }
    }

    fn leave_pattern(&mut self, pattern: &Pattern, at: Key, rank: Option<Rank>) {
        let Some(key) = self.by_pattern.get(pattern).copied() else { return };
        let Some(PatternPool { pool, .. }) = self.pools.get_mut(key) else { return };
        self.ordered -= usize::from(pool.is_ordered());
        pool.remove(at, rank);
        self.ordered += usize::from(pool.is_ordered());
        if pool.is_empty() {
            self.pools.remove(key);
            self.by_pattern.remove(pattern);
            self.patterns.remove(pattern, &key);
        }
    }

    /// Changes a responder, and its place wherever there is an order.
    fn change(&mut self, at: Key, change: impl FnOnce(&mut Responder)) {
        let Some(known) = self.responders.get_mut(at) else { return };
        let before = known.rank(at);
        change(known);
        let after = known.rank(at);
        if self.ordered == 0 || before == after {
            return;
        }
        for target in &known.targets {
            let pool = match target {
                Target::Exact(destination) => {
                    self.named.get_mut(&destination.path).map(|service| &mut service.pool)
                }
                Target::Pattern(_, pattern) => {
                    let key = self.by_pattern.get(pattern);
                    key.and_then(|key| self.pools.get_mut(*key)).map(|known| &mut known.pool)
                }
            };
            pool.into_iter().for_each(|pool| pool.change(before, after));
        }
    }

    /// Somebody calls.
    pub(crate) fn call(&mut self, call: Calling, options: &ServiceOptions, out: &mut Vec<Step>) {
        // It may have come back from somebody who had gone.
        self.assigned.remove(&call.caller);
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

    /// One of a responder's exchanges is over, that of a caller.
    pub(crate) fn release(&mut self, responder: Key, caller: Address, out: &mut Vec<Step>) {
        self.assigned.remove(&caller);
        self.change(responder, |known| known.open = known.open.saturating_sub(1));
        if let Some(path) = self.next_waiting(responder) {
            self.assign_next(&path, responder, out);
        }
    }

    /// A place is lost: its calls wait no longer, its sessions serve no more, and who called them is told.
    pub(crate) fn lose(&mut self, place: Place, out: &mut Vec<Step>) {
        let waiting = self.named.iter().flat_map(|(path, service)| {
            let calls = service.waiting.iter().filter(|call| call.caller.place == place);
            calls.map(|call| (path.clone(), call.caller))
        });
        for (path, caller) in waiting.collect::<Vec<_>>() {
            self.cancel(&path, caller);
        }
        let ended = self.assigned.iter().filter(|(_, responder)| **responder == place);
        let mut ended: Vec<Address> = ended.map(|(caller, _)| *caller).collect();
        ended.sort_unstable();
        for caller in ended {
            self.assigned.remove(&caller);
            if caller.place != place {
                out.push(Step::Refuse(caller, CloseCode::ResponderGone));
            }
        }
        let of = self.subscriptions.keys().filter(|(session, _)| Place::of(*session) == place);
        let mut of: Vec<(SessionId, SubscriptionKey)> = of.copied().collect();
        of.sort_unstable();
        for (session, key) in of {
            self.leave(session, key, out);
        }
    }

    /// Rises whenever somebody begins or ends to serve.
    pub(crate) fn changes(&self) -> u64 {
        self.changes
    }

    /// What is served: by name, and by pattern.
    pub(crate) fn targets(&self) -> impl Iterator<Item = Target> + '_ {
        let named = self.named.iter().filter(|(_, service)| !service.pool.is_empty());
        let exact = |path: &Path| Destination { kind: Kind::Service, path: path.clone() };
        let named = named.map(move |(path, _)| Target::Exact(exact(path)));
        let pattern = |known: &PatternPool| Target::Pattern(Kind::Service, known.pattern.clone());
        named.chain(self.pools.iter().map(move |(_, known)| pattern(known)))
    }

    /// Whether somebody serves it, by name or by pattern.
    pub(crate) fn is_served(&self, path: &Path) -> bool {
        !matches!(self.choose(path), Choice::Nobody)
    }

    /// Services that somebody serves by name.
    pub(crate) fn len(&self) -> usize {
        self.served
    }

    /// Subscriptions that serve.
    pub(crate) fn responders(&self) -> usize {
        self.responders.len()
    }

    /// How many responders were looked at for calls, since the start.
    #[cfg(test)]
    pub(crate) fn looked_at(&self) -> u64 {
        self.looked_at.get()
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
        let known = self.responders.get(responder).filter(|known| known.has_room())?;
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
                        out.push(Step::Again(call));
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
        self.clock += 1;
        let clock = self.clock;
        self.change(at, |known| {
            known.open += 1;
            known.chosen = clock;
            known.credit = known.credit.map(|credit| credit.saturating_sub(1));
        });
        let Some(Responder { session, key, epoch, .. }) = self.responders.get(at) else { return };
        let (session, key, epoch) = (*session, *key, *epoch);
        self.assigned.insert(call.caller, Place::of(session));
        out.push(Step::Assign(Responding { session, key, epoch, responder: at }, call));
    }

    fn choose(&self, path: &Path) -> Choice {
        let mut anybody = false;
        let mut best: Option<Rank> = None;
        let rank = |at: Key| self.responders.get(at)?.rank(at);
        let mut consider = |pool: &Pool| {
            anybody |= !pool.is_empty();
            let first = pool.first(rank, &self.looked_at);
            best = [best, first].into_iter().flatten().min();
        };
        if self.only_patterns(path) {
            self.patterns.matches(path, &mut |key| {
                if let Some(known) = self.pools.get(*key).filter(|it| reaches(&it.pattern, path)) {
                    consider(&known.pool);
                }
            });
        } else if let Some(service) = self.named.get(path) {
            consider(&service.pool);
        }
        match best {
            Some((_, _, at)) => Choice::One(at),
            None if anybody => Choice::NoRoom,
            None => Choice::Nobody,
        }
    }

    /// Whether nobody serves exactly that.
    fn only_patterns(&self, path: &Path) -> bool {
        self.named.get(path).is_none_or(|service| service.pool.is_empty())
    }

    fn forget_idle(&mut self, path: &Path) {
        let idle = |service: &Service| service.pool.is_empty() && service.waiting.is_empty();
        if self.named.get(path).is_some_and(idle) {
            self.named.remove(path);
        }
    }
}

fn bytes_of(call: &Calling) -> usize {
    call.run.bytes() + size_of::<Calling>()
}

#[cfg(test)]
mod tests;
