//! Who has missed what this node has not kept, and what the upstream has brought of it.
//!
//! Bookkeeping only. Invariants: who lacks something of the same topics is asked for once in a tick; what is brought has
//! [`BYTES_MAX`] at most.

use tiderace_wire::{Position, Run, Target};

use super::held::What;
use super::numberings::lowest;
use crate::collections::Map;
use crate::messages::Ask;
use crate::places::Place;

/// Backfills that are under way at once; others wait.
const UNDER_WAY_MAX: usize = 1024;

/// Bytes of all that was brought and is not given yet. Who would need more is told that something is missing.
const BYTES_MAX: usize = 64 << 20;

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
    /// Bytes of what they have brought.
    bytes: usize,
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

    /// Messages have come; whether they are for clients that lack them, each of which gets so many bytes at most.
    pub(super) fn collect(&mut self, key: u32, run: &Run, most: usize) -> bool {
        let Some(backfill) = self.under_way.get_mut(&key) else { return false };
        let bytes = run.bytes();
        backfill.is_too_much |= backfill.bytes + bytes > most || self.bytes + bytes > BYTES_MAX;
        if backfill.is_too_much {
            self.bytes -= std::mem::take(&mut backfill.bytes);
            backfill.runs = Vec::new();
        } else {
            (backfill.bytes, self.bytes) = (backfill.bytes + bytes, self.bytes + bytes);
            backfill.runs.push(run.clone());
        }
        true
    }

    /// The upstream has brought everything, or nothing.
    pub(super) fn end(&mut self, key: u32) -> Option<Backfill> {
        let backfill = self.under_way.remove(&key)?;
        self.bytes -= backfill.bytes;
        Some(backfill)
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use tiderace_base::Time;
    use tiderace_topics::Path;
    use tiderace_wire::{Destination, Kind};

    #[test]
    fn what_is_brought_is_bounded_for_each_and_for_all() {
        let destination = Destination { kind: Kind::Topic, path: Path::parse("a").unwrap() };
        let run =
            Run::single(destination.clone(), Time::ZERO, b"", &[0; 1 << 20], Default::default());
        let mut backfills = Backfills::default();
        for key in 0..100 {
            let (target, since) = (Target::Exact(destination.clone()), Position::new(1));
            let (asks, runs) = (Vec::new(), Vec::new());
            let (bytes, complete, is_too_much) = (0, false, false);
            let backfill = Backfill { target, since, asks, runs, bytes, complete, is_too_much };
            backfills.under_way.insert(key, backfill);
            assert!(backfills.collect(key, &run, 2 << 20) && !backfills.collect(key + 1, &run, 1));
        }
        // The last have come too late, and one has too much for itself alone.
        assert!((0..3).all(|_| backfills.collect(7, &run, 2 << 20)));
        let ended: Vec<Backfill> = (0..100).map(|key| backfills.end(key).unwrap()).collect();
        let kept: usize = ended.iter().flat_map(|it| &it.runs).map(Run::bytes).sum();
        assert!(kept > BYTES_MAX / 2 && kept <= BYTES_MAX, "{kept}");
        let is_told = |it: &Backfill| it.is_too_much != (it.runs.len() == 1);
        assert!(ended.iter().all(is_told) && ended.iter().any(|it| it.is_too_much));
        assert!(ended.get(7).unwrap().is_too_much && backfills.bytes == 0);
    }
}
