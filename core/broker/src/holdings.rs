//! What a session gives back when it ends: locks, claims, and topics that go with it.
//!
//! Bookkeeping only. Invariants: whatever was asked for or is held stands here once by name and kind,
//! however often it was asked for; each step takes as long with ten thousand of them as with one, but
//! for the depth of a tree.

use std::collections::BTreeMap;

use tiderace_topics::Path;
use tiderace_wire::Token;

use crate::collections::Map;

/// What a session holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Held {
    /// A lock, or a place among those who wait for it.
    Lock,
    /// A topic that it has for itself.
    Claim,
    /// A topic that goes when it goes.
    Creation,
}

/// All that a session holds or has asked for.
#[derive(Debug, Default)]
pub(crate) struct Holdings {
    by_name: BTreeMap<(Held, Path), Holding>,
    /// Requests that have no answer yet, and which holding each of them is for.
    asked: Map<Token, (u64, Held, Path)>,
    /// How many are held.
    held: usize,
    /// Numbers holdings, so that an answer does not count for a later one of the same name.
    next: u64,
}

#[derive(Debug)]
struct Holding {
    number: u64,
    /// Requests that have no answer yet.
    asked: u32,
    /// The fence of a lock that is held; zero for anything else.
    fence: Option<u64>,
}

impl Holdings {
    pub(crate) fn is_empty(&self) -> bool {
        self.by_name.is_empty() && self.asked.is_empty()
    }

    /// How many things are held, and how many requests wait for an answer.
    pub(crate) fn len(&self) -> usize {
        self.held + self.asked.len()
    }

    /// Something is asked for.
    pub(crate) fn ask(&mut self, what: Held, name: &Path, token: Token) {
        let next = &mut self.next;
        let holding = self.by_name.entry((what, name.clone())).or_insert_with(|| {
            *next += 1;
            Holding { number: *next, asked: 0, fence: None }
        });
        holding.asked += 1;
        self.asked.insert(token, (holding.number, what, name.clone()));
    }

    /// A request is answered: it is held now, with that fence if it is a lock, or not.
    pub(crate) fn answered(&mut self, token: Token, granted: Option<u64>) {
        let Some((number, what, name)) = self.asked.remove(&token) else { return };
        let key = (what, name);
        let Some(holding) = self.by_name.get_mut(&key).filter(|it| it.number == number) else {
            return;
        };
        holding.asked -= 1;
        self.held += usize::from(holding.fence.is_none() && granted.is_some());
        holding.fence = granted.or(holding.fence);
        if holding.asked == 0 && holding.fence.is_none() {
            self.by_name.remove(&key);
        }
    }

    /// It is given back, and whatever was asked for of that name is given up.
    pub(crate) fn forget(&mut self, what: Held, name: &Path) {
        let forgotten = self.by_name.remove(&(what, name.clone()));
        self.held -= usize::from(forgotten.is_some_and(|holding| holding.fence.is_some()));
    }

    /// The fence of a lock that is held.
    pub(crate) fn fence(&self, name: &Path) -> Option<u64> {
        let fence = self.by_name.get(&(Held::Lock, name.clone()))?.fence;
        fence.filter(|fence| *fence > 0)
    }

    /// Everything that is to be given back, in the order of kinds and names.
    pub(crate) fn into_names(self) -> impl Iterator<Item = (Held, Path)> {
        self.by_name.into_keys()
    }
}
