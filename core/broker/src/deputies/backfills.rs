//! Who has missed what this node has not kept, and what the upstream has brought of it.
//!
//! Bookkeeping only. Invariant: who lacks something of the same topics is asked for once in a tick.

use tiderace_wire::{Position, Run, Target};

use super::held::What;
use super::numberings::lowest;
use crate::collections::Map;
use crate::messages::Ask;
use crate::places::Place;

/// Backfills that are under way at once; others wait.
const UNDER_WAY_MAX: usize = 1024;

/// Who lacks something of the same topics.
#[derive(Debug)]
pub(super) struct Backfill {
    pub(super) target: Target,
    /// Where the first of them left off.
    pub(super) since: Position,
    pub(super) asks: Vec<(Place, What, Ask)>,
    pub(super) runs: Vec<Run>,
    pub(super) bytes: usize,
    /// Whether the upstream has said that nothing is missing.
    pub(super) complete: bool,
    /// Whether it was more than may be kept.
    pub(super) is_too_much: bool,
}

/// Those of a deputy.
#[derive(Debug, Default)]
pub(super) struct Backfills {
    /// Not yet asked for, by the name of the target, in order.
    pub(super) collected: Vec<Backfill>,
    by_name: Map<Box<str>, usize>,
    pub(super) under_way: Map<u32, Backfill>,
}

impl Backfills {
    /// Somebody lacks something.
    pub(super) fn add(&mut self, target: Target, since: Position, ask: (Place, What, Ask)) {
        if let Some(known) =
            self.by_name.get(target.name()).and_then(|at| self.collected.get_mut(*at))
        {
            known.since = lowest(&known.since, &since);
            return known.asks.push(ask);
        }
        self.by_name.insert(target.name().into(), self.collected.len());
        let (asks, runs) = (vec![ask], Vec::new());
        let (bytes, complete, is_too_much) = (0, false, false);
        self.collected.push(Backfill { target, since, asks, runs, bytes, complete, is_too_much });
    }

    /// The upstream says whether something is missing; whether that was for clients.
    pub(super) fn note_recovered(&mut self, key: u32, complete: bool) -> bool {
        let Some(backfill) = self.under_way.get_mut(&key) else { return false };
        backfill.complete = complete;
        true
    }

    /// Those that may be asked for now.
    pub(super) fn take_collected(&mut self) -> Vec<Backfill> {
        let room = UNDER_WAY_MAX.saturating_sub(self.under_way.len());
        if room == 0 || self.collected.is_empty() {
            return Vec::new();
        }
        let taken = self.collected.drain(..room.min(self.collected.len())).collect();
        let left = self.collected.iter().enumerate();
        self.by_name = left.map(|(at, it)| (it.target.name().into(), at)).collect();
        taken
    }
}
