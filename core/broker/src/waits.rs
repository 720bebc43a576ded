//! What paused publishers wait for: destinations that are full, or have slow subscribers.
//!
//! Invariant: a publisher waits for all destinations with a grace together no longer than one of them allows.

use std::collections::BTreeSet;

use tiderace_base::{SessionId, Span, Time};
use tiderace_wire::Destination;

use crate::collections::Set;
use crate::home::graces::Allowance;

/// What a publisher waits for.
#[derive(Debug, Default)]
pub(crate) struct Waits {
    pub(crate) destinations: Set<Destination>,
    /// How many of them let it go when a grace is over.
    limited: u32,
    allowance: Allowance,
}

impl Waits {
    /// It is to wait for one more: whether it does. Once it waits, it publishes nothing that is not under
    /// way already.
    pub(crate) fn begin(&mut self, now: Time, destination: &Destination, grace: Span) -> bool {
        if !grace.is_zero() {
            if self.limited == 0 && self.allowance.begin(now, grace).is_none() {
                return false;
            }
            self.limited += 1;
        }
        self.destinations.insert(destination.clone());
        true
    }

    pub(crate) fn end(&mut self, now: Time, destination: &Destination, grace: Span) {
        if self.destinations.remove(destination) && !grace.is_zero() {
            self.limited -= 1;
            if self.limited == 0 {
                self.allowance.end(now);
            }
        }
    }

    /// Whether it waits for nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.destinations.is_empty()
    }
}

/// A destination whose publishers wait.
#[derive(Debug, Default)]
pub(crate) struct Paused {
    /// Who waits.
    pub(crate) waiting: BTreeSet<SessionId>,
    /// How long a publisher waits for such destinations in any minute; zero: without end.
    pub(crate) grace: Span,
}

impl Paused {
    pub(crate) fn of(grace: Span) -> Paused {
        Paused { waiting: BTreeSet::new(), grace }
    }
}
