//! What sessions of a shard have asked of homes elsewhere, until it is answered.
//!
//! Subscriptions, operations of several homes and exchanges know by themselves which homes have yet to answer; all other
//! requests stand here. Bookkeeping only. Invariant: a request stands here from when it is sent until its answer has
//! come, or until its home is lost.

use std::collections::BTreeSet;

use tiderace_base::SessionId;
use tiderace_wire::{Confirm, Token};

use crate::collections::Map;
use crate::places::Place;

/// What kind of answer is awaited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Awaits {
    /// That a publication or a settlement was taken, or not.
    Receipt,
    /// That what a consumer had is back in its queues.
    End,
    /// What came of an operation.
    Operation,
}

/// A request whose home is to answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PendingRequest {
    pub(crate) session: SessionId,
    /// Under which tokens it is answered.
    pub(crate) confirm: Confirm,
    pub(crate) awaits: Awaits,
}

/// Requests that other places are to answer, and sessions that other places have paused.
#[derive(Debug, Default)]
pub(crate) struct PendingRequests {
    /// By the last of their tokens, which is answered last: the first, the kind, and where the home is.
    waiting: Map<(SessionId, Token), (Token, Awaits, Place)>,
    /// Sessions of which operations are deferred there, so many that they are not read.
    deferring: BTreeSet<(SessionId, Place)>,
    /// The same of requests that wait there for an upstream.
    relaying: BTreeSet<(SessionId, Place)>,
}

impl PendingRequests {
    /// A request is sent to a home elsewhere.
    #[inline]
    pub(crate) fn note(&mut self, request: PendingRequest, home: Place) {
        let PendingRequest { session, confirm, awaits } = request;
        self.waiting.insert((session, confirm.to), (confirm.from, awaits, home));
    }

    /// A token was answered.
    #[inline]
    pub(crate) fn answered(&mut self, session: SessionId, token: Token) {
        if !self.waiting.is_empty() {
            self.waiting.remove(&(session, token));
        }
    }

    /// Forgets the requests that a place will not answer any more, in the order of sessions and tokens.
    pub(crate) fn take_lost(&mut self, place: Place) -> Vec<PendingRequest> {
        let lost = self.waiting.iter().filter(|(_, (.., home))| *home == place);
        let mut lost: Vec<PendingRequest> = lost
            .map(|((session, to), (from, awaits, _))| PendingRequest {
                session: *session,
                confirm: Confirm { from: *from, to: *to },
                awaits: *awaits,
            })
            .collect();
        lost.sort_unstable_by_key(|request| (request.session, request.confirm.to));
        for request in &lost {
            self.waiting.remove(&(request.session, request.confirm.to));
        }
        lost
    }

    /// A home has paused a session for the operations that are deferred there, or lets it go on.
    pub(crate) fn note_deferring(&mut self, session: SessionId, home: Place, on: bool) {
        match on {
            true => self.deferring.insert((session, home)),
            false => self.deferring.remove(&(session, home)),
        };
    }

    /// Who stands in for an upstream has paused a session for the requests that wait there, or lets it go on.
    pub(crate) fn note_relaying(&mut self, session: SessionId, home: Place, on: bool) {
        match on {
            true => self.relaying.insert((session, home)),
            false => self.relaying.remove(&(session, home)),
        };
    }

    /// Forgets the sessions that a place had paused, each as often as it had.
    pub(crate) fn take_deferring(&mut self, place: Place) -> Vec<SessionId> {
        let mut all = Vec::new();
        for paused in [&mut self.deferring, &mut self.relaying] {
            all.extend(paused.iter().filter(|(_, home)| *home == place).map(|(it, _)| *it));
            paused.retain(|(_, home)| *home != place);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tiderace_base::ShardId;

    fn session(slot: u32) -> SessionId {
        SessionId { shard: ShardId(0), slot, generation: 0 }
    }

    proptest! {
        #[test]
        fn what_is_answered_or_lost_stands_here_no_more(
            ops in proptest::collection::vec((0u8..4, 0u32..3, 1u16..4), 1..100),
        ) {
            let mut pending = PendingRequests::default();
            let mut model: Vec<(PendingRequest, Place)> = Vec::new();
            for ((what, slot, shard), number) in ops.into_iter().zip(1..) {
                let (session, home) = (session(slot), Place::here(ShardId(shard)));
                match what {
                    0 | 1 => {
                        let confirm = Confirm { from: 10 * number, to: 10 * number + 3 };
                        let request = PendingRequest { session, confirm, awaits: Awaits::Receipt };
                        pending.note(request, home);
                        model.push((request, home));
                    }
                    2 if !model.is_empty() => {
                        let (request, _) = model.swap_remove(slot as usize % model.len());
                        // The other tokens of a run say nothing of it as a whole.
                        pending.answered(request.session, request.confirm.from);
                        pending.answered(request.session, request.confirm.to);
                    }
                    _ => {
                        let lost = model.extract_if(.., |(_, known)| *known == home);
                        let mut lost: Vec<PendingRequest> = lost.map(|(it, _)| it).collect();
                        lost.sort_unstable_by_key(|it| (it.session, it.confirm.to));
                        prop_assert_eq!(pending.take_lost(home), lost);
                    }
                }
                prop_assert_eq!(pending.waiting.len(), model.len());
            }
        }
    }
}
