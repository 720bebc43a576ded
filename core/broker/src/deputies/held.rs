//! Answers to subscriptions that wait for the upstream.
//!
//! Bookkeeping only. Invariant: an answer waits as long as a subscription that it needs is not settled, and is taken out
//! once.

use std::collections::VecDeque;

use tiderace_base::{Key, Slab, Time};
use tiderace_topics::{Path, Pattern};
use tiderace_wire::{Destination, Kind, Target};

use crate::messages::Ask;
use crate::places::Place;

/// What a shard has asked for.
#[derive(Clone, Debug)]
pub(super) enum What {
    Topic(Path),
    Pattern(Pattern),
}

impl What {
    /// The same as a subscription names it.
    pub(super) fn target(&self) -> Target {
        match self {
            What::Topic(path) => exact(path),
            What::Pattern(pattern) => Target::Pattern(Kind::Topic, pattern.clone()),
        }
    }
}

/// A topic as a subscription names it.
pub(super) fn exact(path: &Path) -> Target {
    Target::Exact(Destination { kind: Kind::Topic, path: path.clone() })
}

/// An answer that waits.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) from: Place,
    pub(super) what: What,
    pub(super) ask: Ask,
    /// How many of the upstream subscriptions that bring it are not settled.
    missing: usize,
}

impl Held {
    /// An answer that is to wait.
    pub(super) fn new(from: Place, what: What, ask: Ask) -> Held {
        Held { from, what, ask, missing: 0 }
    }
}

/// All of a deputy.
#[derive(Debug, Default)]
pub(super) struct HeldAnswers {
    waiting: Slab<Held>,
    /// Until when each waits while the upstream is away; rising.
    until: VecDeque<(Time, Key)>,
}

impl HeldAnswers {
    /// Holds an answer until so many subscriptions are settled.
    pub(super) fn hold(&mut self, held: Held, missing: usize, until: Time) -> Key {
        let key = self.waiting.insert(Held { missing, ..held });
        self.until.push_back((until, key));
        key
    }

    /// A subscription is settled that an answer waits for: the answer, if it waits for no other.
    pub(super) fn settle(&mut self, key: Key) -> Option<Held> {
        let held = self.waiting.get_mut(key)?;
        held.missing = held.missing.saturating_sub(1);
        if held.missing > 0 {
            return None;
        }
        self.waiting.remove(key)
    }

    /// An answer whose time is over.
    pub(super) fn overdue(&mut self, now: Time) -> Option<Held> {
        while let Some((until, key)) = self.until.front().copied() {
            let is_over = until <= now;
            if !is_over && self.waiting.get(key).is_some() {
                return None;
            }
            self.until.pop_front();
            if let Some(held) = self.waiting.remove(key).filter(|_| is_over) {
                return Some(held);
            }
        }
        None
    }

    /// The upstream is there: nothing is given up for its absence. They wait from now on until another time.
    pub(super) fn wait_until(&mut self, until: Time) {
        let waiting = &self.waiting;
        self.until.retain(|(_, key)| waiting.get(*key).is_some());
        self.until.iter_mut().for_each(|entry| entry.0 = until);
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }
}
