//! Locks, and topics that one session has for itself.
//!
//! A lock lives at the home of its name and is held by one session until that gives it back or ends;
//! there is no expiry, so a holder that is told nothing still holds it. Each grant has a *fence*, a
//! number that rises for ever: an update under a lock carries it, and a topic's home refuses one
//! below the highest that it has seen, so that what a late holder sent does not come after what its
//! successor did. Invariants: at most one session holds a lock; those who wait get it in order.

use std::collections::BTreeMap;

use tiderace_base::{Close, CloseCode, MemoryUse, Now, SessionId, Span, Time};
use tiderace_topics::Path;
use tiderace_wire::{Condition, Operation, OperationResult, Token};

use crate::Action;
use crate::broker::Broker;
use crate::collections::Map;
use crate::effects::Effects;
use crate::holdings::Held;
use crate::operator::Operated;
use crate::operator::Operator;
use crate::places::key_of;
use crate::topic::Home;
use crate::waiters::Waiters;

/// Locks whose home is one shard, and sessions that wait for one of them, at most.
const LOCKS_MAX: usize = 1_000_000;
const WAITING_MAX: usize = 100_000;
/// Fences for each millisecond of the clock: more than one shard can give. Numbers stay below 2^53, so
/// that they pass through JSON unharmed, until the year 2248.
pub(crate) const FENCES_PER_MS: u64 = 1024;
/// Locks and claims of one session.
const HOLDINGS_MAX: usize = 10_000;

/// The locks whose home is one shard.
#[derive(Debug, Default)]
pub(crate) struct Locks {
    by_name: Map<Path, Lock>,
    /// Who waits for which lock, by the time at which that ends.
    ends: BTreeMap<(Time, u64), Path>,
    /// Numbers those who wait.
    next_order: u64,
    pub(crate) last_fence: u64,
}

/// One lock.
#[derive(Debug)]
struct Lock {
    holder: SessionId,
    fence: u64,
    waiters: Waiters,
}

/// What a home holds publishers of a topic to.
#[derive(Debug, Default)]
pub(crate) struct Guard {
    /// The only session that may publish.
    pub(crate) claimed: Option<SessionId>,
    /// The server alone publishes.
    pub(crate) read_only: bool,
    /// The lock of the last update under a lock, and its fence; by the hash of its name, which may be far
    /// longer than all else that is kept of the topic.
    pub(crate) fence: Option<(u64, u64)>,
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
        let room = match self.locks.by_name.len() {
            ..LOCKS_MAX => self.check_room(MemoryUse::Names, price_of_lock(&name)),
            _ => Err(CloseCode::TooManyTopics.into()),
        };
        let locks = &mut self.locks;
        match (locks.by_name.get_mut(&name), room) {
            (None, Err(close)) => self.answer_operation(&operator, Err(close), effects),
            (None, Ok(())) => self.grant(now, name, operator, Waiters::default(), effects),
            (Some(lock), _) if lock.holder == operator.session => {
                let fence = lock.fence;
                let record = self.reserve_fences(fence);
                self.answer_stored(
                    record,
                    &operator,
                    Ok(OperationResult::Locked { fence }),
                    effects,
                );
            }
            (Some(lock), _) if !patience.is_zero() && locks.ends.len() < WAITING_MAX => {
                let until = now.time + patience;
                locks.next_order += 1;
                lock.waiters.push(locks.next_order, operator, until);
                locks.ends.insert((until, locks.next_order), name);
            }
            (Some(_), _) => {
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
        mut waiters: Waiters,
        effects: &mut Effects,
    ) {
        let (fence, record) = self.next_fence(now);
        let holder = operator.session;
        // Whatever else the session has asked for it is answered too, as if it came now.
        let same = std::iter::from_fn(|| waiters.pop_of(holder)).collect::<Vec<_>>();
        self.memory.charge(MemoryUse::Names, price_of_lock(&name));
        self.locks.by_name.insert(name, Lock { holder, fence, waiters });
        self.answer_stored(record, &operator, Ok(OperationResult::Locked { fence }), effects);
        for (end, operator) in same {
            self.locks.ends.remove(&end);
            self.answer_stored(record, &operator, Ok(OperationResult::Locked { fence }), effects);
        }
    }

    /// A fence above all that were given before, in this life of the node and, as far as can be known,
    /// in earlier ones. The clock, in parts of a millisecond that are smaller than a lock takes, is above
    /// those of earlier lives as long as it is not set back; a store knows up to where they went.
    ///
    /// Gives also the record that the answer with it waits for.
    fn next_fence(&mut self, now: Now) -> (u64, u64) {
        let clock = now.wall_ms.saturating_mul(FENCES_PER_MS);
        self.locks.last_fence = self.locks.last_fence.saturating_add(1).max(clock);
        let record = self.reserve_fences(self.locks.last_fence);
        (self.locks.last_fence, record)
    }

    /// At the home of its name.
    pub(crate) fn unlock(
        &mut self,
        now: Now,
        operator: &Operator,
        name: &Path,
        effects: &mut Effects,
    ) -> Operated {
        let Some(lock) = self.locks.by_name.get_mut(name) else {
            return Err(CloseCode::LockNotHeld.into());
        };
        if lock.holder != operator.session {
            let own = std::iter::from_fn(|| lock.waiters.pop_of(operator.session));
            for (end, operator) in own.collect::<Vec<_>>() {
                self.locks.ends.remove(&end);
                let reason = format!(
                    "this session has given up its place among those who wait for the lock {name}"
                );
                let result = Err(Close::new(CloseCode::LockNotHeld, reason));
                self.answer_operation(&operator, result, effects);
            }
            return Err(CloseCode::LockNotHeld.into());
        }
        let lock = self.locks.by_name.remove(name);
        self.memory.refund(MemoryUse::Names, price_of_lock(name));
        if let Some(mut lock) = lock
            && let Some((end, next)) = lock.waiters.pop()
        {
            self.locks.ends.remove(&end);
            self.grant(now, name.clone(), next, lock.waiters, effects);
        }
        Ok(OperationResult::Done)
    }

    /// Those who have waited long enough are told so.
    pub(crate) fn end_waiting(&mut self, now: Now, effects: &mut Effects) {
        while let Some(first) = self.locks.ends.first_entry() {
            let (until, order) = *first.key();
            if until > now.time {
                return;
            }
            let name = first.remove();
            let lock = self.locks.by_name.get_mut(&name);
            let Some((_, operator)) = lock.and_then(|lock| lock.waiters.take(order)) else {
                continue;
            };
            let reason = format!("another session holds the lock {name}, and the patience is over");
            let result = Err(Close::new(CloseCode::LockHeld, reason));
            self.answer_operation(&operator, result, effects);
        }
    }

    /// At a topic's home: the session is the only one that publishes there from now on.
    pub(crate) fn claim(&mut self, now: Now, operator: &Operator, path: &Path) -> Operated {
        self.may_operate(operator, Action::Publish, path)?;
        let key = self.admit_topic(now, path)?;
        let Some(topic) = self.topics.get_mut(key) else { return Ok(OperationResult::Done) };
        let floor = || Home::starting(self.history.floor_of(path));
        let guard = topic.home.get_or_insert_with(floor).rare_mut().guard.get_or_insert_default();
        match guard.claimed {
            Some(session) if session != operator.session => Err(claimed_by_another(path)),
            _ => {
                guard.claimed = Some(operator.session);
                Ok(OperationResult::Done)
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
        Ok(OperationResult::Done)
    }

    /// On the session's shard: what it asks for is to be given back when it ends.
    pub(crate) fn note_holding(&mut self, session: SessionId, token: Token, operation: &Operation) {
        match operation {
            Operation::Unlock { name } => return self.forget_holding(session, name, Held::Lock),
            Operation::Release { path } => return self.forget_holding(session, path, Held::Claim),
            _ => {}
        }
        let Some((name, what)) = self.held_by(operation) else { return };
        let Some(record) = self.sessions.get_mut(key_of(session)) else { return };
        record.rare.get_or_insert_default().holdings.get_or_insert_default().ask(what, name, token);
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
            Operation::Lock { name, .. } => Some((name, Held::Lock)),
            Operation::Claim { path } => Some((path, Held::Claim)),
            Operation::Create { path, spec, .. } => creation(path, spec),
            Operation::Update(update) => creation(&update.path, update.spec.as_ref()?),
            _ => None,
        }
    }

    /// Whether a session may ask for that: it holds no more than it may.
    pub(crate) fn may_hold(&self, session: SessionId, operation: &Operation) -> bool {
        let rare = self.session(session).and_then(|record| record.rare.as_ref());
        let holdings = rare.and_then(|rare| rare.holdings.as_ref());
        holdings.is_none_or(|holdings| holdings.len() < HOLDINGS_MAX)
            || self.held_by(operation).is_none()
    }

    fn forget_holding(&mut self, session: SessionId, name: &Path, what: Held) {
        let Some(record) = self.sessions.get_mut(key_of(session)) else { return };
        let holdings = record.rare.as_mut().and_then(|rare| rare.holdings.as_mut());
        if let Some(holdings) = holdings {
            holdings.forget(what, name);
        }
    }

    /// On the session's shard: what it has asked for is its own now, or not.
    pub(crate) fn note_answer(&mut self, session: SessionId, token: Token, result: &Operated) {
        let Some(record) = self.sessions.get_mut(key_of(session)) else { return };
        let Some(rare) = &mut record.rare else { return };
        let Some(holdings) = &mut rare.holdings else { return };
        let granted = match result {
            Ok(OperationResult::Locked { fence }) => Some(*fence),
            Ok(_) => Some(0),
            // It is there, although the store does not have it.
            Err(close) if close.code == CloseCode::StoreUnavailable => Some(0),
            Err(_) => None,
        };
        holdings.answered(token, granted);
        rare.holdings.take_if(|holdings| holdings.is_empty());
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
        let holdings = rare.and_then(|rare| rare.holdings.as_ref());
        let fence = holdings.and_then(|holdings| holdings.fence(name));
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
        fence > 0
            && known.is_none_or(|(known, seen)| *known != name.stable_hash() || *seen <= fence)
    }

    /// At a topic's home: an update under a lock is written.
    pub(crate) fn note_fence(&mut self, path: &Path, condition: Option<&Condition>, fence: u64) {
        let Some(name) = condition.and_then(|condition| lock_named(condition, 0)) else { return };
        let key = self.find_topic(path);
        let topic = key.and_then(|key| self.topics.get_mut(key));
        if let Some(home) = topic.and_then(|topic| topic.home.as_mut()) {
            home.rare_mut().guard.get_or_insert_default().fence = Some((name.stable_hash(), fence));
        }
    }

    /// On its shard: a session ends and gives everything back.
    pub(crate) fn give_back(&mut self, session: SessionId, effects: &mut Effects) {
        let Some(record) = self.sessions.get_mut(key_of(session)) else { return };
        let Some(rare) = &mut record.rare else { return };
        let Some(holdings) = rare.holdings.take() else { return };
        for (what, name) in holdings.into_names() {
            let operation = match what {
                Held::Lock => Operation::Unlock { name },
                Held::Claim => Operation::Release { path: name },
                Held::Creation => Operation::Abandon { path: name },
            };
            self.operate(session, 0, operation, effects);
        }
    }
}

/// Bytes that a lock takes, here and with the session that holds it.
fn price_of_lock(name: &Path) -> usize {
    const LOCK_BYTES: usize = 2 * (size_of::<Path>() + size_of::<Lock>()) + 64;
    LOCK_BYTES + name.as_str().len()
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::Arc;

    use tiderace_base::ShardId;
    use tiderace_wire::{Command, Commands, Credentials};

    use super::*;
    use crate::BrokerOptions;
    use crate::effects::Mail;

    #[test]
    fn one_lock_asked_for_ten_thousand_times_is_given_back_once() {
        let options = BrokerOptions { shards: 2, ..BrokerOptions::default() };
        let mut broker = Broker::new(ShardId(0), Arc::new(options));
        let (now, mut effects) = (Now::default(), Effects::default());
        let session = broker.open(now, 0);
        let mut commands = Commands::new();
        commands.push(Command::Login(Credentials::default()));
        let name = (0..).map(|number| Path::parse(&format!("lock{number}")).unwrap());
        let name = name.into_iter().find(|name| broker.home(name) == ShardId(1)).unwrap();
        for token in 1..=9_000 {
            let operation = Operation::Lock { name: name.clone(), patience: Span::from_secs(600) };
            commands.push(Command::Operate { token, operation: Box::new(operation) });
        }
        broker.handle(now, session, &mut commands, &mut effects);
        let asked = effects.mail.drain(..).count();
        assert_eq!(asked, 9_000);
        broker.close(now, session, &mut effects);
        let unlocks = effects.mail.iter().filter(|(_, mail)| matches!(mail, Mail::Operate { .. }));
        assert_eq!(unlocks.count(), 1);
    }
}
