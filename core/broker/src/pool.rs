//! The responders of one service or pattern, and which of them gets the next call.
//!
//! Few are compared one by one. Of more, those with room stand in an order, so that choosing one does not
//! depend on how many there are. Relies on being told before and after a responder changes. Invariant: an
//! order holds exactly the members with room.

use std::collections::BTreeSet;

use tiderace_base::Key;

/// Members up to which comparing all of them is as fast as keeping an order.
pub(crate) const COMPARED_MAX: usize = 32;

/// Who goes first: the one with the fewest open exchanges, and of equals the one chosen longest ago.
pub(crate) type Rank = (u32, u64, Key);

/// Responders that may get the same calls.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    members: BTreeSet<Key>,
    /// Those with room; present if there are, or were, many members.
    order: Option<BTreeSet<Rank>>,
}

impl Pool {
    pub(crate) fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Whether it keeps an order, so that it has to be told of changes.
    pub(crate) fn is_ordered(&self) -> bool {
        self.order.is_some()
    }

    /// A responder comes. `rank` gives the rank of one that has room.
    pub(crate) fn insert(&mut self, at: Key, rank: impl Fn(Key) -> Option<Rank>) {
        self.members.insert(at);
        match &mut self.order {
            Some(order) => order.extend(rank(at)),
            None if self.members.len() > COMPARED_MAX => {
                self.order = Some(self.members.iter().filter_map(|at| rank(*at)).collect());
            }
            None => {}
        }
    }

    /// A responder goes.
    pub(crate) fn remove(&mut self, at: Key, rank: Option<Rank>) {
        self.members.remove(&at);
        self.change(rank, None);
        if self.members.is_empty() {
            self.order = None;
        }
    }

    /// A member's rank has changed.
    pub(crate) fn change(&mut self, before: Option<Rank>, after: Option<Rank>) {
        if let Some(order) = &mut self.order {
            before.inspect(|before| _ = order.remove(before));
            order.extend(after);
        }
    }

    /// The first of those with room; counts the members that were looked at.
    pub(crate) fn first(
        &self,
        rank: impl Fn(Key) -> Option<Rank>,
        looked_at: &std::cell::Cell<u64>,
    ) -> Option<Rank> {
        if let Some(order) = &self.order {
            looked_at.set(looked_at.get() + 1);
            return order.first().copied();
        }
        looked_at.set(looked_at.get() + self.members.len() as u64);
        self.members.iter().filter_map(|at| rank(*at)).min()
    }
}
