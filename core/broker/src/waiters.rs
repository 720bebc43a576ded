//! Sessions that wait for something in the order in which they asked, until a time each.
//!
//! Bookkeeping only. Invariant: finding the next one, all of one session and those whose time is over
//! takes as long as there are of these, however many others wait.

use std::collections::{BTreeMap, BTreeSet};

use tiderace_base::{SessionId, Time};

use crate::requester::Requester;

/// Who waits for one thing.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    /// By the order of asking.
    waiting: BTreeMap<u64, Waiter>,
    by_session: BTreeSet<(SessionId, u64)>,
}

#[derive(Debug)]
struct Waiter {
    requester: Requester,
    until: Time,
}

impl Waiters {
    /// Puts somebody behind all others; `order` rises with every call.
    pub(crate) fn push(&mut self, order: u64, requester: Requester, until: Time) {
        self.by_session.insert((requester.session, order));
        self.waiting.insert(order, Waiter { requester, until });
    }

    /// The sessions that wait, each once.
    pub(crate) fn sessions(&self) -> impl Iterator<Item = SessionId> + '_ {
        let mut last = None;
        self.by_session
            .iter()
            .map(|(session, _)| *session)
            .filter(move |session| last.replace(*session) != Some(*session))
    }

    /// Takes the first out, with its place.
    pub(crate) fn pop(&mut self) -> Option<((Time, u64), Requester)> {
        let order = *self.waiting.first_key_value()?.0;
        self.take(order)
    }

    /// Takes out the one with that place.
    pub(crate) fn take(&mut self, order: u64) -> Option<((Time, u64), Requester)> {
        let Waiter { requester, until } = self.waiting.remove(&order)?;
        self.by_session.remove(&(requester.session, order));
        Some(((until, order), requester))
    }

    /// Takes the first of one session out.
    pub(crate) fn pop_of(&mut self, session: SessionId) -> Option<((Time, u64), Requester)> {
        let own = (session, 0)..=(session, u64::MAX);
        let order = self.by_session.range(own).next()?.1;
        self.take(order)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Principal;
    use proptest::prelude::*;
    use tiderace_base::{ShardId, Span};

    fn session(slot: u32) -> SessionId {
        SessionId { shard: ShardId(0), slot, generation: 0 }
    }

    fn requester(slot: u32) -> Requester {
        let principal = Principal::named("ann");
        Requester { session: session(slot), token: 0, principal, fence: 0 }
    }

    proptest! {
        #[test]
        fn agree_with_a_list(ops in proptest::collection::vec((0u8..4, 0u32..5), 1..80)) {
            let mut waiters = Waiters::default();
            let mut model: Vec<(u64, u32)> = Vec::new();
            for ((what, slot), order) in ops.into_iter().zip(0u64..) {
                let until = Time::ZERO + Span::from_secs(order);
                let (taken, place) = match what {
                    0 | 1 => {
                        waiters.push(order, requester(slot), until);
                        model.push((order, slot));
                        continue;
                    }
                    2 => (waiters.pop(), Some(0).filter(|_| !model.is_empty())),
                    _ => (
                        waiters.pop_of(session(slot)),
                        model.iter().position(|(_, known)| *known == slot),
                    ),
                };
                let wanted = place.map(|place| model.remove(place));
                let taken = taken.map(|((_, order), requester)| (order, requester.session.slot));
                prop_assert_eq!(taken, wanted);
                prop_assert_eq!(waiters.by_session.len(), model.len());
            }
        }
    }
}
