//! Locks, and topics that one session has for itself.
//!
//! A lock lives at the home of its name and is held by one session until that gives it back or ends;
//! there is no expiry, so a holder that is told nothing still holds it. Each grant has a *fence*, a
//! number that rises for ever: an update under a lock carries it, and a topic's home refuses one
//! below the highest that it has seen, so that what a late holder sent does not come after what its
//! successor did. Invariants: at most one session holds a lock; those who wait get it in order.

use tiderace_base::{Close, CloseCode, Now, SessionId, Span};
use tiderace_journal::AnswerKind;
use tiderace_topics::Path;
use tiderace_wire::{Condition, Operation, OperationResult, Token};

use crate::Action;
use crate::effects::Effects;
use crate::holdings::Held;
use crate::home::locks::LockAnswer;
use crate::home_side::HomeSide;
use crate::places::{Place, key_of};
use crate::requester::Operated;
use crate::requester::Requester;
use crate::session_side::SessionSide;

/// Locks and claims of one session.
const HOLDINGS_MAX: usize = 10_000;

impl HomeSide<'_> {
    /// At the home of its name.
    pub(crate) fn lock(
        &mut self,
        now: Now,
        requester: Requester,
        name: Path,
        timeout: Span,
        effects: &mut Effects,
    ) {
        if let Err(close) = self.may_operate(&requester, Action::Publish, &name) {
            return self.loopback.answer_operation(&requester, Err(close), effects);
        }
        for answer in self.home.lock(now, requester, (name, timeout), self.memory) {
            self.answer_lock(answer, effects);
        }
    }

    /// A place is lost, and the locks of its sessions.
    pub(crate) fn lose_locks(&mut self, now: Now, place: Place, effects: &mut Effects) {
        for (name, session) in self.home.locks_of(place) {
            let (answers, _) = self.home.unlock(now, session, &name, self.memory);
            for answer in answers {
                self.answer_lock(answer, effects);
            }
        }
    }

    /// A fence is told when the store knows that it may have been given.
    fn answer_lock(&mut self, answer: LockAnswer, effects: &mut Effects) {
        let LockAnswer { requester, result } = answer;
        match result {
            Ok(fence) => {
                let record = self.journal.reserve_fences(fence);
                let result = Ok(OperationResult::Locked { fence });
                self.answer_stored((record, AnswerKind::Write), &requester, result, effects);
            }
            Err(close) => self.loopback.answer_operation(&requester, Err(close), effects),
        }
    }

    /// At the home of its name.
    pub(crate) fn unlock(
        &mut self,
        now: Now,
        requester: &Requester,
        name: &Path,
        effects: &mut Effects,
    ) -> Operated {
        let (answers, released) = self.home.unlock(now, requester.session, name, self.memory);
        for answer in answers {
            self.answer_lock(answer, effects);
        }
        released.map(|()| OperationResult::Done)
    }

    /// Those who have waited long enough are told so.
    pub(crate) fn expire_locks(&mut self, now: Now, effects: &mut Effects) {
        while let Some(answer) = self.home.expire_lock(now.time) {
            self.answer_lock(answer, effects);
        }
    }

    /// At a topic's home: the session is the only one that publishes there from now on.
    pub(crate) fn claim(&mut self, now: Now, requester: &Requester, path: &Path) -> Operated {
        self.may_operate(requester, Action::Publish, path)?;
        let key = self.directory.admit(now, path)?;
        let Some(topic) = self.directory.get(key) else { return Ok(OperationResult::Done) };
        let guard = self.home.topic_or_new(topic).guard_or_new();
        guard.claim(path, requester.session)?;
        Ok(OperationResult::Done)
    }

    /// At a topic's home.
    pub(crate) fn release_claim(&mut self, requester: &Requester, path: &Path) -> Operated {
        let key = self.directory.find(path);
        let home = key.and_then(|key| self.topic_mut(key));
        let Some(home) = home else { return Err(CloseCode::LockNotHeld.into()) };
        let released = home.guard_mut().is_some_and(|guard| guard.release(requester.session));
        if !released {
            return Err(CloseCode::LockNotHeld.into());
        }
        home.tidy_guard();
        Ok(OperationResult::Done)
    }

    /// At a topic's home: whether nobody with a later hold of the lock has written here. If so, it is
    /// noted.
    pub(crate) fn fence_holds(&self, path: &Path, name: &Path, fence: u64) -> bool {
        let guard = self.topic_named(path).and_then(|topic| topic.guard());
        fence > 0 && guard.is_none_or(|guard| guard.allows_fence(name, fence))
    }

    /// At a topic's home: an update under a lock is written.
    pub(crate) fn note_fence(&mut self, path: &Path, condition: Option<&Condition>, fence: u64) {
        let Some(name) = condition.and_then(|condition| lock_named(condition, 0)) else { return };
        let key = self.directory.find(path);
        if let Some(home) = key.and_then(|key| self.topic_mut(key)) {
            home.guard_or_new().note_fence(name, fence);
        }
    }
}

impl SessionSide<'_> {
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
    pub(crate) fn held_by<'a>(&self, operation: &'a Operation) -> Option<(&'a Path, Held)> {
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

    use crate::places::Place;
    use tiderace_base::ShardId;
    use tiderace_wire::{Command, Commands, Credentials};

    use super::*;
    use crate::BrokerOptions;
    use crate::broker::Broker;
    use crate::messages::{Body, ToHome};

    #[test]
    fn one_lock_asked_for_ten_thousand_times_is_given_back_once() {
        let options = BrokerOptions { shards: 2, ..BrokerOptions::default() };
        let mut broker = Broker::new(ShardId(0), Arc::new(options));
        let (now, mut effects) = (Now::default(), Effects::default());
        let session = broker.open(now, 0);
        let mut commands = Commands::new();
        commands.push(Command::Login(Credentials::default()));
        let name = (0..).map(|number| Path::parse(&format!("lock{number}")).unwrap());
        let name = name
            .into_iter()
            .find(|name| broker.home_side().options.home_of(name) == Place::here(ShardId(1)))
            .unwrap();
        for token in 1..=9_000 {
            let operation = Operation::Lock { name: name.clone(), timeout: Span::from_secs(600) };
            commands.push(Command::Operate { token, operation: Box::new(operation) });
        }
        broker.handle(now, session, &mut commands, &mut effects);
        let asked = effects.messages.drain(..).count();
        assert_eq!(asked, 9_000);
        broker.close(now, session, &mut effects);
        let unlocks = effects
            .messages
            .iter()
            .filter(|message| matches!(message.body, Body::Home(ToHome::Operate { .. })));
        assert_eq!(unlocks.count(), 1);
    }
}
