//! Locks, and topics that one session has for itself.
//!
//! A lock lives at the home of its name and is held by one session until that gives it back or ends;
//! there is no expiry, so a holder that is told nothing still holds it. Each grant has a *fence*, a
//! number that rises for ever: an update under a lock carries it, and a topic's home refuses one
//! below the highest that it has seen, so that what a late holder sent does not come after what its
//! successor did. Invariants: at most one session holds a lock; those who wait get it in order.

use std::collections::VecDeque;

use tiderace_base::{Close, CloseCode, Now, SessionId, Span, Time};
use tiderace_topics::Path;
use tiderace_wire::{Condition, Operation, Outturn, Token};

use crate::Action;
use crate::broker::{Broker, key_of};
use crate::effects::Effects;
use crate::operate::{Operated, Operator};
use crate::topic::Home;

/// Locks whose home is one shard, and sessions that wait for one of them, at most.
const LOCKS_MAX: usize = 1_000_000;
const WAITING_MAX: usize = 100_000;
/// Fences for each millisecond of the clock: more than one shard can give. Numbers stay below 2^53, so
/// that they pass through JSON unharmed, until the year 2248.
pub(crate) const FENCES_PER_MS: u64 = 1024;
/// Locks and claims of one session.
const HOLDINGS_MAX: usize = 10_000;

/// One lock.
#[derive(Debug)]
pub(crate) struct Lock {
    holder: SessionId,
    fence: u64,
    waiting: VecDeque<(Operator, Time)>,
}

/// Something that a session gives back when it ends; one for each request for it, and one in the end.
#[derive(Debug)]
pub(crate) struct Holding {
    name: Path,
    what: Held,
    /// The request, as long as it has no answer.
    asked: Option<Token>,
}

/// What a session holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Held {
    /// A lock, or a place among those who wait for it.
    Lock {
        /// Zero while it is waited for.
        fence: u64,
    },
    /// A topic that it has for itself.
    Claim,
    /// A topic that goes when it goes.
    Creation,
}

impl Held {
    fn is_like(self, other: Held) -> bool {
        std::mem::discriminant(&self) == std::mem::discriminant(&other)
    }
}

/// What a home holds publishers of a topic to.
#[derive(Debug, Default)]
pub(crate) struct Guard {
    /// The only session that may publish.
    pub(crate) claimed: Option<SessionId>,
    /// The server alone publishes.
    pub(crate) read_only: bool,
    /// The lock of the last update under a lock, and its fence.
    pub(crate) fence: Option<(Path, u64)>,
}

impl Guard {
    /// Whether its topic is to be remembered for it. Not for a fence: what a late holder has sent does
    /// not come so late.
    pub(crate) fn holds_topic(&self) -> bool {
        self.claimed.is_some() || self.read_only
    }
}

impl Broker {
    /// At the home of its name.
    pub(crate) fn lock(
        &mut self,
        now: Now,
        operator: Operator,
        name: Path,
        patience: Span,
        effects: &mut Effects,
    ) {
        if let Err(close) = self.may_operate(&operator, Action::Publish, &name) {
            return self.answer_operation(&operator, Err(close), effects);
        }
        let until = now.time + patience;
        let full = self.locks.len() >= LOCKS_MAX;
        match self.locks.get_mut(&name) {
            None if full => {
                let result = Err(CloseCode::TooManyTopics.into());
                self.answer_operation(&operator, result, effects);
            }
            None => self.grant(now, name, operator, VecDeque::new(), effects),
            Some(lock) if lock.holder == operator.session => {
                let (fence, said) = (lock.fence, self.records_said());
                self.reserve_fences(fence);
                self.answer_stored(said, &operator, Ok(Outturn::Locked { fence }), effects);
            }
            Some(lock) if !patience.is_zero() && self.locks_waited < WAITING_MAX => {
                lock.waiting.push_back((operator, until));
                self.locks_waited += 1;
                self.locks_awaited.insert(name);
            }
            Some(_) => {
                let reason =
                    format!("another session holds the lock {name}; ask with patience, or later");
                let result = Err(Close::new(CloseCode::LockHeld, reason));
                self.answer_operation(&operator, result, effects);
            }
        }
    }

    fn grant(
        &mut self,
        now: Now,
        name: Path,
        operator: Operator,
        waiting: VecDeque<(Operator, Time)>,
        effects: &mut Effects,
    ) {
        let said = self.records_said();
        let fence = self.next_fence(now);
        let is_same = |(waits, _): &(Operator, Time)| waits.session == operator.session;
        // Whatever else the session has asked for it is answered too, as if it came now.
        let (same, waiting): (VecDeque<_>, VecDeque<_>) = waiting.into_iter().partition(is_same);
        self.locks_waited -= same.len();
        self.locks.insert(name, Lock { holder: operator.session, fence, waiting });
        for operator in std::iter::once(operator).chain(same.into_iter().map(|(same, _)| same)) {
            self.answer_stored(said, &operator, Ok(Outturn::Locked { fence }), effects);
        }
    }

    /// A fence above all that were given before, in this life of the node and, as far as can be known,
    /// in earlier ones. The clock, in parts of a millisecond that are smaller than a lock takes, is above
    /// those of earlier lives as long as it is not set back; a store knows up to where they went.
    fn next_fence(&mut self, now: Now) -> u64 {
        let clock = now.wall_ms.saturating_mul(FENCES_PER_MS);
        self.last_fence = self.last_fence.saturating_add(1).max(clock);
        self.reserve_fences(self.last_fence);
        self.last_fence
    }

    /// At the home of its name.
    pub(crate) fn unlock(
        &mut self,
        now: Now,
        operator: &Operator,
        name: &Path,
        effects: &mut Effects,
    ) -> Operated {
        let Some(lock) = self.locks.get_mut(name) else {
            return Err(CloseCode::LockNotHeld.into());
        };
        if lock.holder != operator.session {
            let is_own = |(waits, _): &(Operator, Time)| waits.session == operator.session;
            let waiting = std::mem::take(&mut lock.waiting);
            let (own, others): (VecDeque<_>, VecDeque<_>) = waiting.into_iter().partition(is_own);
            lock.waiting = others;
            self.locks_waited -= own.len();
            for (operator, _) in own {
                let reason = format!(
                    "this session has given up its place among those who wait for the lock {name}"
                );
                let result = Err(Close::new(CloseCode::LockNotHeld, reason));
                self.answer_operation(&operator, result, effects);
            }
            return Err(CloseCode::LockNotHeld.into());
        }
        if let Some(mut lock) = self.locks.remove(name)
            && let Some((next, _)) = lock.waiting.pop_front()
        {
            self.locks_waited -= 1;
            self.grant(now, name.clone(), next, lock.waiting, effects);
        }
        Ok(Outturn::Done)
    }

    /// Those who have waited long enough are told so.
    pub(crate) fn end_waiting(&mut self, now: Now, effects: &mut Effects) {
        if self.locks_awaited.is_empty() {
            return;
        }
        let (mut over, locks) = (Vec::new(), &mut self.locks);
        self.locks_awaited.retain(|name| {
            let Some(lock) = locks.get_mut(name) else { return false };
            lock.waiting.retain(|(operator, until)| {
                let kept = *until > now.time;
                if !kept {
                    over.push((operator.clone(), name.clone()));
                }
                kept
            });
            !lock.waiting.is_empty()
        });
        self.locks_waited -= over.len();
        for (operator, name) in over {
            let reason = format!("another session holds the lock {name}, and the patience is over");
            let result = Err(Close::new(CloseCode::LockHeld, reason));
            self.answer_operation(&operator, result, effects);
        }
    }

    /// At a topic's home: the session is the only one that publishes there from now on.
    pub(crate) fn claim(&mut self, now: Now, operator: &Operator, path: &Path) -> Operated {
        self.may_operate(operator, Action::Publish, path)?;
        let key = self.ensure_topic(now, path);
        let Some(topic) = self.topics.get_mut(key) else { return Ok(Outturn::Done) };
        let floor = || Home::starting(self.history.floor_of(path));
        let guard = topic.home.get_or_insert_with(floor).rare_mut().guard.get_or_insert_default();
        match guard.claimed {
            Some(session) if session != operator.session => Err(claimed_by_another(path)),
            _ => {
                guard.claimed = Some(operator.session);
                Ok(Outturn::Done)
            }
        }
    }

    /// At a topic's home.
    pub(crate) fn release_claim(&mut self, operator: &Operator, path: &Path) -> Operated {
        let key = self.find_topic(path);
        let home = key.and_then(|key| self.topics.get_mut(key)?.home.as_mut());
        let own = |guard: &Guard| guard.claimed == Some(operator.session);
        let Some(home) = home else { return Err(CloseCode::LockNotHeld.into()) };
        let Some(guard) = home.rare_mut().guard.as_mut().filter(|guard| own(guard)) else {
            home.tidy();
            return Err(CloseCode::LockNotHeld.into());
        };
        guard.claimed = None;
        home.rare_mut().guard.take_if(|guard| !guard.holds_topic() && guard.fence.is_none());
        home.tidy();
        Ok(Outturn::Done)
    }

    /// On the session's shard: what it asks for is to be given back when it ends.
    pub(crate) fn note_holding(&mut self, session: SessionId, token: Token, operation: &Operation) {
        match operation {
            Operation::Unlock { name } => {
                return self.forget_holding(session, name, Held::Lock { fence: 0 });
            }
            Operation::Release { path } => return self.forget_holding(session, path, Held::Claim),
            _ => {}
        }
        let Some((name, what)) = self.held_by(operation) else { return };
        let Some(record) = self.sessions.get_mut(key_of(session)) else { return };
        let holding = Holding { name: name.clone(), what, asked: Some(token) };
        record.rare.get_or_insert_default().holdings.push(holding);
    }

    /// What a session has by an operation until it ends, if that is anything.
    fn held_by<'a>(&self, operation: &'a Operation) -> Option<(&'a Path, Held)> {
        let creation = |path: &'a Path, spec: &[u8]| {
            let policy = self.options.topic(path).removal.as_ref();
            let heeds =
                heeds_session(spec) || policy.is_some_and(|removal| removal.heeds_session());
            heeds.then_some((path, Held::Creation))
        };
        match operation {
            Operation::Lock { name, .. } => Some((name, Held::Lock { fence: 0 })),
            Operation::Claim { path } => Some((path, Held::Claim)),
            Operation::Create { path, spec, .. } => creation(path, spec),
            Operation::Update(update) => creation(&update.path, update.spec.as_ref()?),
            _ => None,
        }
    }

    /// Whether a session may ask for that: it holds no more than it may.
    pub(crate) fn may_hold(&self, session: SessionId, operation: &Operation) -> bool {
        let rare = self.session(session).and_then(|record| record.rare.as_ref());
        rare.is_none_or(|rare| rare.holdings.len() < HOLDINGS_MAX)
            || self.held_by(operation).is_none()
    }

    fn forget_holding(&mut self, session: SessionId, name: &Path, what: Held) {
        let Some(record) = self.sessions.get_mut(key_of(session)) else { return };
        if let Some(rare) = &mut record.rare {
            rare.holdings.retain(|held| held.name != *name || !held.what.is_like(what));
        }
    }

    /// On the session's shard: what it has asked for is its own now, or not.
    pub(crate) fn note_answer(&mut self, session: SessionId, token: Token, result: &Operated) {
        let Some(record) = self.sessions.get_mut(key_of(session)) else { return };
        let Some(rare) = &mut record.rare else { return };
        let asked = rare.holdings.iter().position(|held| held.asked == Some(token));
        let Some(place) = asked else { return };
        let mut held = rare.holdings.swap_remove(place);
        match result {
            Ok(Outturn::Locked { fence }) => held.what = Held::Lock { fence: *fence },
            Ok(_) => {}
            // It is there, although the store does not have it.
            Err(close) if close.code == CloseCode::StoreUnavailable => {}
            Err(_) => return,
        }
        held.asked = None;
        let same = |known: &Holding| {
            known.asked.is_none() && known.name == held.name && known.what.is_like(held.what)
        };
        rare.holdings.retain(|known| !same(known));
        rare.holdings.push(held);
    }

    /// On the session's shard: the fence of the lock that a condition names.
    pub(crate) fn fence_for(
        &self,
        session: SessionId,
        condition: Option<&Condition>,
    ) -> Result<u64, Close> {
        let Some(name) = condition.and_then(|condition| lock_named(condition, 0)) else {
            return Ok(0);
        };
        let rare = self.session(session).and_then(|record| record.rare.as_ref());
        let held = rare.into_iter().flat_map(|rare| &rare.holdings);
        let fence = held.filter(|held| held.name == *name).find_map(|held| match held.what {
            Held::Lock { fence } if fence > 0 => Some(fence),
            _ => None,
        });
        fence.ok_or_else(|| {
            let reason = format!("this session does not hold the lock {name}; nothing was changed");
            Close::new(CloseCode::LockNotHeld, reason)
        })
    }

    /// At a topic's home: whether nobody with a later hold of the lock has written here. If so, it is
    /// noted.
    pub(crate) fn fence_holds(&self, path: &Path, name: &Path, fence: u64) -> bool {
        let topic = self.find_topic(path).and_then(|key| self.topics.get(key));
        let guard = topic.and_then(|topic| topic.home.as_ref()?.guard());
        let known = guard.and_then(|guard| guard.fence.as_ref());
        fence > 0 && known.is_none_or(|(known, seen)| known != name || *seen <= fence)
    }

    /// At a topic's home: an update under a lock is written.
    pub(crate) fn note_fence(&mut self, path: &Path, condition: Option<&Condition>, fence: u64) {
        let Some(name) = condition.and_then(|condition| lock_named(condition, 0)) else { return };
        let key = self.find_topic(path);
        let topic = key.and_then(|key| self.topics.get_mut(key));
        if let Some(home) = topic.and_then(|topic| topic.home.as_mut()) {
            home.rare_mut().guard.get_or_insert_default().fence = Some((name.clone(), fence));
        }
    }

    /// On its shard: a session ends and gives everything back.
    pub(crate) fn give_back(&mut self, now: Now, session: SessionId, effects: &mut Effects) {
        let Some(record) = self.sessions.get_mut(key_of(session)) else { return };
        let Some(rare) = &mut record.rare else { return };
        let holdings = std::mem::take(&mut rare.holdings);
        for Holding { name, what, .. } in holdings {
            let operation = match what {
                Held::Lock { .. } => Operation::Unlock { name },
                Held::Claim => Operation::Release { path: name },
                Held::Creation => Operation::Abandon { path: name },
            };
            self.operate(now, session, 0, operation, effects);
        }
    }
}

pub(crate) fn claimed_by_another(path: &Path) -> Close {
    let reason = format!("another session has claimed {path} and is its only publisher");
    Close::new(CloseCode::TopicClaimed, reason)
}

/// Whether a specification's text may say that the topic goes with its session.
fn heeds_session(spec: &[u8]) -> bool {
    const WORD: &[u8] = b"session";
    spec.windows(WORD.len()).any(|window| window == WORD)
}

/// The first lock that a condition names.
fn lock_named(condition: &Condition, depth: usize) -> Option<&Path> {
    match condition {
        Condition::Locked(name) => Some(name),
        Condition::All(all) | Condition::Any(all) if depth < 16 => {
            all.iter().find_map(|condition| lock_named(condition, depth + 1))
        }
        _ => None,
    }
}
