//! The locks whose names live at one home, and the sessions that wait for them.
//!
//! Decides, and says what is to be answered. Invariants: at most one session holds a lock; those who wait
//! get it in order; fences rise.

use std::collections::BTreeMap;

use tiderace_base::{Close, CloseCode, Memory, MemoryUse, Now, SessionId, Span, Time};
use tiderace_topics::Path;

use crate::collections::Map;
use crate::places::Place;
use crate::requester::Requester;
use crate::waiters::Waiters;

/// Locks whose home is one shard, and sessions that wait for one of them, at most.
const LOCKS_MAX: usize = 1_000_000;
const WAITING_MAX: usize = 100_000;
/// Fences for each millisecond of the clock: more than one shard can give. Numbers stay below 2^53, so
/// that they pass through JSON unharmed, until the year 2248.
pub(crate) const FENCES_PER_MS: u64 = 1024;

/// The locks whose home is one shard.
#[derive(Debug, Default)]
pub(crate) struct Locks {
    by_name: Map<Path, Lock>,
    /// Who waits for which lock, by the time at which that ends.
    ends: BTreeMap<(Time, u64), Path>,
    /// Numbers those who wait.
    next_order: u64,
    last_fence: u64,
}

/// One lock.
#[derive(Debug)]
struct Lock {
    holder: SessionId,
    fence: u64,
    waiters: Waiters,
}

/// What somebody is told who has asked for a lock: its fence, or why it is not given.
#[derive(Debug)]
pub(crate) struct LockAnswer {
    pub(crate) requester: Requester,
    pub(crate) result: Result<u64, Close>,
}

impl Locks {
    /// Somebody asks for a lock. Without an answer it waits.
    pub(crate) fn request(
        &mut self,
        now: Now,
        requester: Requester,
        name: Path,
        timeout: Span,
        memory: &Memory,
    ) -> Vec<LockAnswer> {
        let room = match self.by_name.len() {
            ..LOCKS_MAX if memory.has_room(MemoryUse::Names, price_of_lock(&name)) => Ok(()),
            ..LOCKS_MAX => Err(CloseCode::MemoryFull.into()),
            _ => Err(CloseCode::TooManyTopics.into()),
        };
        match (self.by_name.get_mut(&name), room) {
            (None, Err(close)) => vec![LockAnswer { requester, result: Err(close) }],
            (None, Ok(())) => self.grant(now, name, requester, Waiters::default(), memory),
            (Some(lock), _) if lock.holder == requester.session => {
                vec![LockAnswer { requester, result: Ok(lock.fence) }]
            }
            (Some(lock), _) if !timeout.is_zero() && self.ends.len() < WAITING_MAX => {
                let until = now.time + timeout;
                self.next_order += 1;
                lock.waiters.push(self.next_order, requester, until);
                self.ends.insert((until, self.next_order), name);
                Vec::new()
            }
            (Some(_), _) => {
                let reason =
                    format!("another session holds the lock {name}; ask with a timeout, or later");
                vec![LockAnswer { requester, result: Err(Close::new(CloseCode::LockHeld, reason)) }]
            }
        }
    }

    fn grant(
        &mut self,
        now: Now,
        name: Path,
        requester: Requester,
        mut waiters: Waiters,
        memory: &Memory,
    ) -> Vec<LockAnswer> {
        let fence = self.next_fence(now);
        let holder = requester.session;
        let mut answers = vec![LockAnswer { requester, result: Ok(fence) }];
        // Whatever else the session has asked for it is answered too, as if it came now.
        while let Some((end, requester)) = waiters.pop_of(holder) {
            self.ends.remove(&end);
            answers.push(LockAnswer { requester, result: Ok(fence) });
        }
        memory.charge(MemoryUse::Names, price_of_lock(&name));
        self.by_name.insert(name, Lock { holder, fence, waiters });
        answers
    }

    /// A fence above all that were given before, in this life of the node and, as far as can be known,
    /// in earlier ones. The clock, in parts of a millisecond that are smaller than a lock takes, is above
    /// those of earlier lives as long as it is not set back; a store knows up to where they went.
    fn next_fence(&mut self, now: Now) -> u64 {
        let clock = now.wall_ms.saturating_mul(FENCES_PER_MS);
        self.last_fence = self.last_fence.saturating_add(1).max(clock);
        self.last_fence
    }

    /// The fence that was given last.
    pub(crate) fn last_fence(&self) -> u64 {
        self.last_fence
    }

    /// Earlier lives of the server may have given fences up to this one.
    pub(crate) fn begin_above(&mut self, given: u64) {
        self.last_fence = self.last_fence.max(given);
    }

    /// Somebody gives a lock back, or its place among those who wait for it: what others are told, and
    /// whether it had the lock.
    pub(crate) fn release(
        &mut self,
        now: Now,
        session: SessionId,
        name: &Path,
        memory: &Memory,
    ) -> (Vec<LockAnswer>, Result<(), Close>) {
        let not_held = || Err(CloseCode::LockNotHeld.into());
        let Some(lock) = self.by_name.get_mut(name) else { return (Vec::new(), not_held()) };
        if lock.holder != session {
            let mut answers = Vec::new();
            while let Some((end, requester)) = lock.waiters.pop_of(session) {
                self.ends.remove(&end);
                let reason = format!(
                    "this session has given up its place among those who wait for the lock {name}"
                );
                let result = Err(Close::new(CloseCode::LockNotHeld, reason));
                answers.push(LockAnswer { requester, result });
            }
            return (answers, not_held());
        }
        let lock = self.by_name.remove(name);
        memory.refund(MemoryUse::Names, price_of_lock(name));
        let mut answers = Vec::new();
        if let Some(mut lock) = lock
            && let Some((end, next)) = lock.waiters.pop()
        {
            self.ends.remove(&end);
            answers = self.grant(now, name.clone(), next, lock.waiters, memory);
        }
        (answers, Ok(()))
    }

    /// The locks that sessions of a place hold or wait for, with each of these sessions.
    pub(crate) fn of(&self, place: Place) -> Vec<(Path, SessionId)> {
        let mut found = Vec::new();
        for (name, lock) in &self.by_name {
            let waiting = lock.waiters.sessions();
            let sessions = std::iter::once(lock.holder).chain(waiting);
            let of_place = sessions.filter(|session| Place::of(*session) == place);
            found.extend(of_place.map(|session| (name.clone(), session)));
        }
        // Those who wait are taken out before the holder lets go, and not given what is lost.
        found.sort_by_key(|(name, session)| {
            self.by_name.get(name).is_some_and(|lock| lock.holder == *session)
        });
        found
    }

    /// The next one of those who have waited long enough.
    pub(crate) fn expire(&mut self, now: Time) -> Option<LockAnswer> {
        loop {
            let first = self.ends.first_entry()?;
            let (until, order) = *first.key();
            if until > now {
                return None;
            }
            let name = first.remove();
            let lock = self.by_name.get_mut(&name);
            let Some((_, requester)) = lock.and_then(|lock| lock.waiters.take(order)) else {
                continue;
            };
            let reason = format!("another session holds the lock {name}, and the timeout is over");
            return Some(LockAnswer {
                requester,
                result: Err(Close::new(CloseCode::LockHeld, reason)),
            });
        }
    }
}

/// Bytes that a lock takes, here and with the session that holds it.
fn price_of_lock(name: &Path) -> usize {
    const LOCK_BYTES: usize = 2 * (size_of::<Path>() + size_of::<Lock>()) + 64;
    LOCK_BYTES + name.as_str().len()
}
